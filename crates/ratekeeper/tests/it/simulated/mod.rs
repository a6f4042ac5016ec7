//! Keepers that wait, behind a timeout and a breaker, over a store that many share and that is slow, deaf or gone at times:
//! many schedules in simulated time, each decided by a seed. The runtime has `start_paused = true`.

mod far;
mod waiting;
