//! Limiters that wait, under paused time: what they promise, each promise alone and all of them at random.

#[cfg(feature = "adaptive")]
mod adaptive;
mod all;
mod any;
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
