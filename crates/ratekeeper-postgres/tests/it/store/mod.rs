//! The store on a real PostgreSQL.

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
fn patient(server: &test_support::postgres::Server) -> PostgresStoreBuilder {
    patient_at(&server.url())
}

/// Like [`patient`], at this address.
fn patient_at(url: &str) -> PostgresStoreBuilder {
    let patience = Duration::from_secs(30);
    PostgresStore::builder(url).timeout(patience).connect_timeout(patience)
}
