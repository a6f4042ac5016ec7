//! Who waits for a supply, as data: every method takes the instant, and names who is to be woken. Locks, tasks, threads
//! and timers are the business of the floors above.
//!
//! ```text
//! wake_list        who is to be woken once the lock is released
//! charges          which charges may still be given back
//! waiters          who waits, in order
//! forecast         when a waiter will be granted, given those ahead
//! timekeeper       who sleeps until the next thing is due
//! permit_outcome   how what a permit was for has ended
//! adaptive         limits that learn from it
//! wait_request     a request that is willing to wait, and what becomes of it
//! wait_queue       a capacity, the waiters in front of it, and the rules between them
//! ```

#[cfg(feature = "adaptive")]
mod adaptive;
mod charges;
mod forecast;
mod permit_outcome;
mod timekeeper;
mod wait_queue;
mod wait_request;
mod waiters;
mod wake_list;

#[cfg(feature = "adaptive")]
pub use adaptive::Adaptive;
pub(crate) use charges::PendingCharge;
pub use permit_outcome::PermitOutcome;
pub(crate) use timekeeper::NextTurn;
pub(crate) use wait_queue::WaitQueue;
pub(crate) use wait_request::{Admission, WaitOutcome, WaitRequest, ticket};
pub(crate) use waiters::{WaiterId, WaiterKind};
pub(crate) use wake_list::{QueueMoment, WakeList};
