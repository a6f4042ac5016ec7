//! Leases in front of a store that is far away: what a busy key will ask for in a moment is taken in one call, and handed out
//! here.
//!
//! ```text
//! leased          the store in front of the store
//! asking          a request: paid for, refused in the pause, or asked for
//! in_the_air      a call that has not come back
//! returns         what is left at the end is given back
//! instance        what one instance has leased
//! set             the leased keys that share a lock, and those that may become leased
//! holding         one key's leases, demand and pause: pure
//! batch           what is left of one call's grant
//! owned_request   what a call asks, when nobody waits for it
//! ```

mod asking;
mod batch;
mod holding;
mod in_the_air;
mod instance;
mod leased;
mod owned_request;
mod returns;
mod set;
mod statistics;

pub use leased::Leased;
pub use statistics::LeaseStatistics;
