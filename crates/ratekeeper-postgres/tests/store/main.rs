//! The store on a real PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "shared with other tests, which use more of it")]
mod support;

mod conformance;
mod gathering;
mod hosts;
mod locks;
mod rows;
mod tables;
mod time;

use std::time::Duration;

use ratekeeper_postgres::{PostgresStore, PostgresStoreBuilder};

/// A store with time enough for a busy machine.
fn patient(server: &support::server::Server) -> PostgresStoreBuilder {
    patient_at(&server.url())
}

/// Like [`patient`], at this address.
fn patient_at(url: &str) -> PostgresStoreBuilder {
    let patience = Duration::from_secs(10);
    PostgresStore::builder(url).timeout(patience).connect_timeout(patience)
}
