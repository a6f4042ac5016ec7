//! The store on real servers.

mod batches;
mod charges;
pub(crate) mod conformance;
mod envoyproxy;
mod forgetting;
mod holding;
mod inspecting;
mod keys;
mod permits;
mod readable;
mod refunds;
mod requests;
mod sharing;
mod time;

use std::time::{Duration, Instant};

use ratekeeper_redis::{RedisStore, RedisStoreBuilder};
use test_support::wait::PATIENCE;

/// A store for a machine that does much else: what is tested is not how soon it answers.
fn patient(url: &str) -> RedisStoreBuilder {
    RedisStore::builder(url).command_timeout(PATIENCE).connect_timeout(PATIENCE)
}

/// Asks every few milliseconds until the answer is yes.
async fn eventually(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    let mut tick = tokio::time::interval(Duration::from_millis(2));
    while !ask().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tick.tick().await;
    }
}
