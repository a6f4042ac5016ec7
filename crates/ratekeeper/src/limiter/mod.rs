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
//! Where nothing has to be held, `try_acquire` returns a [`Decision`](crate::Decision); where a permit has to be, it
//! returns the permit or the [`Decision`](crate::Decision) that refuses it.
//!
//! # Floors
//!
//! They share one machine, in floors; each uses those below it only.
//!
//! ```text
//! error, statistics             values
//! thread_slot, counts           what a limiter counts, by thread
//! supply/                       what is taken from, as data
//! queue/                        who waits for it, as data: a WaitQueue is a capacity and the queue in front of it
//! returned_keys, core           a wait queue that is shared: the lock, an atomic word past it, the clock
//! timer/                        who wakes up when the next thing is due
//! core_ref, blocking            what futures need
//! acquire, permit, reservation  the futures
//! direct, concurrency, leaky_queue, key_table, keyed                    the limiters
//! granted, all_state, all_parts, acquire_all, all                       several at once
//! close, any, repository                                                any of them
//! ```
//!
//! No future owns a timer: one that its task does not poll holds up nobody. One thread of the process keeps the time of
//! all limiters that somebody waits for: no runtime that is shut down, or not driven, holds up those who wait in another.
//! Where tokio's time is paused, a task of that runtime does. Threads that wait keep the time themselves for as long as
//! only threads do.
//!
//! A caller who waits for several limiters ([`All`]) decides by itself what to do once its turn has come. A future that
//! is kept but not polled (it sits in a `select!` whose other branch runs) then holds up everybody behind it at that
//! limiter: poll it, or drop it.

mod acquire;
mod acquire_all;
mod all;
mod all_parts;
mod all_state;
mod any;
mod blocking;
mod close;
mod concurrency;
mod core;
mod core_ref;
mod counts;
mod direct;
mod error;
mod granted;
mod key_table;
mod keyed;
mod leaky_queue;
mod permit;
mod queue;
mod repository;
mod reservation;
mod returned_keys;
mod statistics;
mod supply;
mod thread_slot;
mod timer;

pub use acquire::Acquire;
pub use acquire_all::AcquireAll;
pub use all::All;
pub use all_parts::Part;
pub use any::{AcquireAny, AnyLimiter};
pub use close::Close;
pub use concurrency::{Concurrency, ConcurrencyBuilder};
pub use direct::{Limiter, LimiterBuilder};
pub use error::{AcquireError, AcquireErrorKind, DuplicatePart, LimiterKind, SetQuotaError};
pub use granted::Granted;
pub use keyed::{Keyed, KeyedBuilder};
pub use leaky_queue::LeakyQueue;
pub use permit::{AcquirePermit, OwnedPermit, Permit};
#[cfg(feature = "adaptive")]
pub use queue::Adaptive;
pub use queue::PermitOutcome;
pub use repository::Repository;
pub use reservation::{Ready, Reservation};
pub use statistics::LimiterStatistics;
pub use supply::{Inherit, Ticks};
