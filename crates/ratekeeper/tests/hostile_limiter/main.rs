//! Limiters under fire: real threads, real clocks and several runtimes at once, with a watchdog. Nothing hangs,
//! everything adds up, and nobody gets more than one caller would.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../hostile/bound.rs"]
mod bound;
mod bounds;
mod changes;
#[path = "../hostile/crowd.rs"]
mod crowd;
mod deadlines;
mod debts;
mod handover;
mod keys;
#[path = "../hostile/random.rs"]
#[allow(dead_code, reason = "shared with the tests of the store, which use more of it")]
mod random;
mod refunds;
mod schedules;
mod support;
mod time;
mod waiters;
