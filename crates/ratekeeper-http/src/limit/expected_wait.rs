//! How long somebody has to wait when others wait already.

use ratekeeper::{Cost, Nanos, Ruling};

/// Returns how long until `cost` passes behind others who want `ahead` together; `None`: never.
///
/// Exact for buckets and GCRA as long as nobody leaves the queue. Of windows, which hand out all they have at once, it
/// is the first instant at which it can be.
pub(super) fn expected_wait(ruling: &Ruling, ahead: u64, cost: Cost) -> Option<Nanos> {
    let alone = ruling.retry_after?;
    let Some(quota) = ruling.rule().map(|rule| rule.quota()) else { return Some(alone) };
    if ahead == 0 {
        return Some(alone);
    }
    // What has to come in before it is its turn, and the wait after which it begins to come in.
    let (missing, first) = if ruling.allowed {
        let missing = ahead.saturating_add(cost.get()).saturating_sub(ruling.remaining);
        (missing, ruling.reset_after.min(quota.period()))
    } else {
        (ahead, alone)
    };
    if missing == 0 {
        return Some(Nanos::ZERO);
    }
    let times = |span: Nanos, count: u64| Nanos::from_nanos(span.as_nanos().saturating_mul(count));
    if !quota.algorithm().counts_in_windows() {
        return Some(alone.saturating_add(times(quota.emission_interval(), missing)));
    }
    let wanted = if ruling.allowed { missing } else { ahead.saturating_add(cost.get()) };
    let whole_windows = wanted.saturating_sub(1) / quota.burst().max(1);
    Some(first.saturating_add(times(quota.period(), whole_windows)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratekeeper::testkit::FakeClock;
    use ratekeeper::{Keeper, Key, MemoryStore, Plan, Registry, Timestamp};

    /// The wait behind `ahead` others, in milliseconds, when `used` was taken just now.
    fn behind(quota: &str, used: u64, ahead: u64, cost: u64) -> Option<u64> {
        let store = MemoryStore::builder().clock(FakeClock::at(Timestamp::EPOCH)).build();
        let keeper = Keeper::new(store, Registry::new([Plan::parse("p", quota).unwrap()]));
        let key = Key::new("k").unwrap();
        keeper.acquire(key, "p", Cost::new(used)).now().unwrap().unwrap();
        let ruling = keeper.peek(key, "p", Cost::new(cost)).now().unwrap().unwrap();
        expected_wait(&ruling, ahead, Cost::new(cost)).map(|wait| wait.ceil_millis())
    }

    #[test]
    fn buckets_hand_out_one_after_another() {
        for algorithm in ["gcra", "bucket", "leaky"] {
            let quota = format!("10/s burst 5 {algorithm}");
            assert_eq!(behind(&quota, 5, 0, 1), Some(100), "{quota}");
            assert_eq!(behind(&quota, 5, 4, 1), Some(500), "{quota}");
            assert_eq!(behind(&quota, 3, 1, 1), Some(0), "{quota}: there is enough for all");
            assert_eq!(behind(&quota, 3, 4, 1), Some(300), "{quota}: five wanted, two there");
            assert_eq!(behind(&quota, 0, 1, 6), None, "{quota}: more than there ever is");
        }
    }

    #[test]
    fn windows_hand_out_all_at_once() {
        assert_eq!(behind("10/s fixed", 10, 9, 1), Some(1000));
        assert_eq!(behind("10/s fixed", 10, 10, 1), Some(2000));
        assert_eq!(behind("10/s fixed", 4, 5, 1), Some(0));
        assert_eq!(behind("10/s fixed", 4, 6, 1), Some(1000));
        assert_eq!(behind("10/s fixed", 4, 16, 1), Some(2000));
    }
}
