//! Limiters that live in the process and can wait.
//!
//! | type | limits |
//! |---|---|
//! | [`Limiter`] | one rate, by any algorithm |
//!
//! They share one machine. A [`desk`] is a tank and the queue before it, as data; a [`core`] puts a lock around it and
//! an atomic fast path past it; a [`keeper`] sleeps until the next thing is due, one for each limiter that somebody
//! waits for.

mod acquire;
#[cfg(feature = "adaptive")]
pub mod adaptive;
mod clock;
mod concurrency;
mod core;
mod desk;
mod direct;
mod error;
mod keeper;
mod leaky_queue;
mod line;
mod park;
mod permit;
mod projection;
mod queue;
mod reservation;
mod statistics;
mod sync;
mod tank;
mod ticks;
mod timer;
#[cfg(feature = "tokio")]
mod tokio_clock;
mod wakes;

pub use acquire::Acquire;
pub use concurrency::{AcquirePermit, Concurrency, ConcurrencyBuilder};
pub use direct::{Inherit, Limiter, LimiterBuilder};
pub use error::{AcquireError, AcquireErrorKind};
pub use leaky_queue::LeakyQueue;
pub use permit::{Outcome, OwnedPermit, Permit};
pub use reservation::{Ready, Reservation};
pub use statistics::Statistics;
pub use ticks::Ticks;
#[cfg(feature = "tokio")]
pub use tokio_clock::TokioClock;
