//! The store on real servers.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "../support/mod.rs"]
mod support;

mod batches;
mod charges;
mod conformance;
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

/// A store for a machine that does much else: what is tested is not how soon it answers.
fn patient(url: &str) -> RedisStoreBuilder {
    RedisStore::builder(url).command_timeout(Duration::from_secs(10)).connect_timeout(Duration::from_secs(10))
}

/// Asks every few milliseconds until the answer is yes.
async fn eventually(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut tick = tokio::time::interval(Duration::from_millis(2));
    while !ask().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tick.tick().await;
    }
}
