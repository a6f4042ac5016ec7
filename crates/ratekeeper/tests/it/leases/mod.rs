//! Leases: what is promised of all instances together, what answers mean, what fails, and what it saves.

mod answers;
mod exact;
mod failures;
mod far_store;
mod many_instances;
mod model;
mod threads;
