//! The store on real Redis and Valkey servers, alone, in a cluster and behind Sentinel.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on fails"
)]

mod guard;
mod hostile;
mod leases;
mod store;
