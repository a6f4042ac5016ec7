//! The clocks of the process. Stores and limiters read the same one, through the same type.
//!
//! ```text
//! monotonic     MonotonicClock: never steps back, and follows the wall clock slowly
//! tokio_clock   TokioClock: tokio's time, which a test can pause
//! time_source   TimeSource: which of these, or which clock of the caller's, one store or limiter reads
//! ```
//!
//! A store or limiter that is built inside a runtime whose time is paused follows that time, unless it is given a clock.
//! Which clock it reads is decided when it is built: reading the default one costs some nanoseconds and no branch on
//! the state of a runtime.

mod monotonic;
mod time_source;
#[cfg(all(feature = "tokio", not(loom)))]
mod tokio_clock;

pub use monotonic::MonotonicClock;
pub(crate) use time_source::{TimeSource, is_in_runtime};
#[cfg(all(feature = "tokio", not(loom)))]
pub use tokio_clock::TokioClock;
