//! Waiting exactly as long as it was told.

use super::bench::Bench;
use crate::port::Request;
use crate::{Cost, Key, Nanos, Quota, Rules, StoreErrorKind};

/// Waiting exactly `retry_after` and asking again succeeds; one unit of the clock earlier it fails. In debt, too.
pub(super) async fn waiting_is_exact(bench: &Bench<'_>, quota: &Quota, name: &str) {
    let key = Key::new(name).expect("a key of the suite");
    let request = |cost| Request::new(key, Rules::Quota(quota), Cost::new(cost));
    let burst = quota.burst();
    for (cost, owed) in [(1, 0), (burst, 0), (burst / 2 + 1, 0), (1, burst), (burst, burst / 2 + 1)] {
        let drained = bench.store.acquire_up_to(request(1), Cost::new(burst)).await.expect(name);
        assert!(drained.decision.allowed || drained.granted == Cost::ZERO, "{name}");
        if let Err(error) = bench.store.debit(request(owed)).await {
            assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{name}: {error}");
        }
        let denied = bench.store.acquire(request(cost)).await.expect(name);
        assert!(!denied.allowed, "{name}: {denied:?}");
        let wait = denied.retry_after.expect("a cost within the capacity passes some day").as_nanos();
        let unit = bench.resolution.as_nanos();
        let wait = wait.div_ceil(unit) * unit;
        (bench.advance)(Nanos::from_nanos(wait - unit));
        let early = bench.store.acquire(request(cost)).await.expect(name);
        assert!(!early.allowed, "{name}: cost {cost} passed before its time: {early:?}");
        (bench.advance)(Nanos::from_nanos(unit));
        let there = bench.store.acquire(request(cost)).await.expect(name);
        assert!(there.allowed, "{name}: cost {cost} after waiting {wait} ns: {there:?}");
    }
}
