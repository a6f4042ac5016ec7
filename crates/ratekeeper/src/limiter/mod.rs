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
mod acquire_all;
#[cfg(feature = "adaptive")]
pub mod adaptive;
mod all;
mod clock;
mod concurrency;
mod core;
mod desk;
mod direct;
mod error;
mod keeper;
mod keyed;
mod leaky_queue;
mod line;
mod park;
mod permit;
mod projection;
mod queue;
mod repository;
mod reservation;
mod statistics;
mod sync;
mod table;
mod tank;
mod ticks;
mod timer;
#[cfg(all(feature = "tokio", not(loom)))]
mod tokio_clock;
mod wakes;

pub use acquire::Acquire;
pub use acquire_all::AcquireAll;
pub use all::{All, Granted, Part, Refusal};
pub use concurrency::{AcquirePermit, Concurrency, ConcurrencyBuilder};
pub use direct::{Inherit, Limiter, LimiterBuilder};
pub use error::{AcquireError, AcquireErrorKind};
pub use keyed::{Flood, Keyed, KeyedBuilder, SetQuotaError};
pub use leaky_queue::LeakyQueue;
pub use permit::{Outcome, OwnedPermit, Permit};
pub use repository::{Close, Repository};
pub use reservation::{Ready, Reservation};
pub use statistics::Statistics;
pub use ticks::Ticks;
#[cfg(all(feature = "tokio", not(loom)))]
pub use tokio_clock::TokioClock;
