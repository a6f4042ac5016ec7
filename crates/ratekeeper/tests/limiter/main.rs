//! Limiters that wait, under paused time: what they promise, each promise alone and all of them at random.
#![allow(clippy::unwrap_used, missing_docs)]

#[cfg(feature = "adaptive")]
mod adaptive;
mod all;
mod any;
mod concurrency;
mod keyed;
mod laws;
mod leaky_queue;
mod many;
#[path = "../hostile/random.rs"]
#[allow(dead_code, reason = "shared with the tests under fire, which use more of it")]
mod random;
mod regressions;
mod reservation;
mod support;
mod threads;
mod timers;
mod waiting;
