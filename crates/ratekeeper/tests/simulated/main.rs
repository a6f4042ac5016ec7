//! Keepers that wait, behind a timeout and a breaker, over a store that many share and that is slow, deaf or gone at times:
//! thousands of schedules in simulated time, each decided by a seed. The runtime has `start_paused = true`.
//!
//! A schedule that fails tells its seed: `RATEKEEPER_SEED=42 cargo test -p engine-tests --test simulated` runs that one alone.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod far;
#[path = "../hostile/random.rs"]
mod random;
mod waiting;
