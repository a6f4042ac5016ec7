//! The algorithms: pure functions of quota, state, cost and time. Nothing here reads a clock, takes a lock or allocates,
//! except for a log that grows.
//!
//! Each algorithm is a [`View`]: its state as seen at one instant under one quota, with the questions that
//! every algorithm must answer. What differs lives in its file; what is the same for all (a denial writes nothing,
//! a peek uses the predicate of an acquire, partial grants) lives in `view` and `single`, once.
//!
//! | file | state |
//! |---|---|
//! | [`gcra`] | one instant |
//! | [`token_bucket`] | tokens, last instant |
//! | [`leaky_bucket`] | level, last instant |
//! | [`fixed_window`] | count, start |
//! | [`sliding_window`] | previous and current count, start of the slot |
//! | [`sliding_log`] | instants and costs |
//! | [`composite`] | all or nothing over any of them |

mod any_view;
pub mod composite;
pub mod fixed_window;
mod flow;
pub mod gcra;
mod in_flight;
mod in_place;
pub mod leaky_bucket;
mod single;
pub mod sliding_log;
pub mod sliding_window;
mod solve;
mod state;
mod tenancy;
pub mod token_bucket;
mod view;
mod wait;

pub use any_view::{AnyView, Mismatch};
pub(crate) use flow::{exact, floor};
pub use in_flight::{HeldView, InFlight};
pub(crate) use in_place::take_in_place;
pub use single::{peek, refund, try_acquire, try_acquire_up_to};
pub use state::State;
pub use tenancy::{SLACK, Tenancy};
pub(crate) use view::{MOST_COUNTED, describe, partial_grant, take_ready};
pub use view::{View, look, take};
pub use wait::Wait;
