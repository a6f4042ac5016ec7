//! Limiters that live in the process and can wait: first come, first served.
//!
//! | type | limits |
//! |---|---|
//! | [`Limiter`] | one rate, by any algorithm, or by [`Ticks`] |
//! | [`Keyed`] | one rate for each key, bounded |
//! | [`Concurrency`] | how many at once; behind the feature `adaptive` also how many are good for the far side |
//! | [`LeakyQueue`] | a constant rate out |
//! | [`All`], [`all!`](crate::all) | several of them, all or none |
//! | [`Reservation`] | an estimate, settled later |
//! | [`Repository`] | any of them by key, with their lives |
//!
//! [`AnyLimiter`] is what they have in common, for code that does not care which one it is given.
//!
//! They share one machine. A desk (`desk.rs`) is a tank and the queue before it, as data that knows nothing of locks,
//! tasks or threads; a core (`core.rs`) puts a lock around it, and an atomic word past it for as long as nobody waits; a
//! keeper (`keeper.rs`, `timer.rs`) sleeps until the next thing is due, one for each limiter that somebody waits for.
//! No future owns a timer: one that its task does not poll holds up nobody. Threads that wait keep the time themselves
//! for as long as only threads do.
//!
//! One thread of the process keeps the time of all limiters that somebody waits for: no runtime that is shut down, or
//! not driven, holds up those who wait in another. Where a test has paused tokio's time, a task of that runtime does.
//!
//! Who waits for several limiters ([`All`]) decides by itself what to do once its turn has come. A future that is kept
//! but not polled (it sits in a `select!` whose other branch runs) then holds up everybody behind it at that limiter:
//! poll it, or drop it.

mod acquire;
mod acquire_all;
#[cfg(feature = "adaptive")]
pub mod adaptive;
mod all;
mod any;
mod concurrency;
mod core;
mod debt;
mod desk;
mod direct;
mod error;
mod group;
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
mod table;
mod tank;
mod ticks;
mod timer;
mod wakes;

pub use acquire::Acquire;
pub use acquire_all::AcquireAll;
pub use all::{All, Granted, Part, Refusal};
pub use any::{AcquireAny, AnyLimiter};
pub use concurrency::{AcquirePermit, Concurrency, ConcurrencyBuilder};
pub use direct::{Inherit, Limiter, LimiterBuilder};
pub use error::{AcquireError, AcquireErrorKind, LimiterKind};
pub use keyed::{Flood, Keyed, KeyedBuilder, SetQuotaError};
pub use leaky_queue::LeakyQueue;
pub use permit::{Outcome, OwnedPermit, Permit};
pub use repository::{Close, Repository};
pub use reservation::{Ready, Reservation};
pub use statistics::Statistics;
pub use ticks::Ticks;

/// The guide's examples are tests too.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/limiters.md")]
struct Guide;
