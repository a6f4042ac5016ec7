//! What happens to the server, and to the bounds when many ask at once.

mod clients;
mod crowd;
mod faults;

use std::time::Duration;

use ratekeeper_postgres::{PostgresStore, PostgresStoreBuilder};

/// A store with time enough for a busy machine.
fn patient(server: &test_support::postgres::Server) -> PostgresStoreBuilder {
    let patience = Duration::from_secs(30);
    PostgresStore::builder(&server.url()).timeout(patience).connect_timeout(patience)
}
