//! Leases: what is promised of all instances together, what answers mean, what fails, and what it saves.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod exact;
mod failures;
mod far_store;
mod many_instances;
mod model;
mod scale;
mod spans;
mod threads;
