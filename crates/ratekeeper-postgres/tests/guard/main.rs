//! What happens to the server, and to the bounds when many ask at once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "shared with other tests, which use more of it")]
mod support;

#[path = "../../../ratekeeper/tests/hostile/bound.rs"]
#[allow(dead_code, reason = "shared with the tests of the store in memory, which use more of it")]
mod bound;
mod clients;
mod crowd;
mod faults;
#[path = "../../../ratekeeper-redis/tests/hostile/quotas.rs"]
mod quotas;
#[path = "../../../ratekeeper/tests/hostile/random.rs"]
#[allow(dead_code, reason = "shared with the tests of the store in memory, which use more of it")]
mod random;

use std::time::Duration;

use ratekeeper_postgres::{PostgresStore, PostgresStoreBuilder};

/// A store with time enough for a busy machine.
fn patient(server: &support::server::Server) -> PostgresStoreBuilder {
    let patience = Duration::from_secs(10);
    PostgresStore::builder(&server.url()).timeout(patience).connect_timeout(patience)
}
