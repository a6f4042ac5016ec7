//! The engine, as a program that depends on it sees it.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on fails"
)]

mod allocations;
mod batches;
mod cas_store;
mod charges;
mod corpus;
mod crowds;
mod denials;
mod grants;
mod guarded;
mod holds;
mod hostile;
mod hostile_limiter;
mod keeper;
mod keeper_holds;
mod keeper_units;
mod keeper_waiting;
mod laws;
mod leases;
mod limiter;
mod limiter_memory;
mod loaded_keys;
mod memory_store;
mod paused_time;
mod quota_text;
mod simulated;
mod state_codec;
mod state_named;
mod state_rules;
mod state_text;
mod stores;
