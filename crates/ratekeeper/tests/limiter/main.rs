//! Limiters that wait, under paused time: what they promise, each promise alone and all of them at random.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, missing_docs)]

mod all;
mod concurrency;
mod keyed;
mod laws;
mod leaky_queue;
mod many;
mod regressions;
mod reservation;
mod support;
mod threads;
mod timers;
mod waiting;
