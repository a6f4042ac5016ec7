//! How long somebody has to wait when others wait already.

use crate::{Cost, Decision, Nanos, Reason, Rules};

/// Refuses somebody whom a line has no place or no time for, behind others who want `ahead` together, by what a peek has
/// found. It is a denial even if there is room: that is for those in line.
pub(super) fn turned_away(mut peeked: Decision, rules: Rules<'_>, ahead: u64, cost: Cost) -> Decision {
    peeked.retry_after = wait_behind(&peeked, rules, ahead, cost);
    if peeked.allowed {
        (peeked.allowed, peeked.reason) = (false, Reason::Queued);
    }
    peeked
}

/// Returns how long it takes until `cost` passes behind others who want `ahead` together; `None`: never.
///
/// Exact for buckets and GCRA as long as nobody leaves the line. Of windows, which hand out all they have at once, it is
/// the first instant at which it can be.
fn wait_behind(peeked: &Decision, rules: Rules<'_>, ahead: u64, cost: Cost) -> Option<Nanos> {
    let alone = peeked.retry_after?;
    // What was answered without the store says nothing about those ahead either.
    if ahead == 0 || !peeked.reason.is_informed() {
        return Some(alone);
    }
    let Some((_, quota)) = rules.iter().nth(peeked.rule.into()) else { return Some(alone) };
    // What has to come in before it is its turn, and the wait after which it begins to come in.
    let (missing, first) = if peeked.allowed {
        let missing = ahead.saturating_add(cost.get()).saturating_sub(peeked.remaining);
        (missing, peeked.reset_after.min(quota.period()))
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
    let wanted = if peeked.allowed { missing } else { ahead.saturating_add(cost.get()) };
    let whole_windows = wanted.saturating_sub(1) / quota.burst().max(1);
    Some(first.saturating_add(times(quota.period(), whole_windows)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{Request, Store};
    use crate::testkit::FakeClock;
    use crate::{Key, MemoryStore, Quota, Timestamp};

    /// The wait behind `ahead` others, in milliseconds, when `used` was taken just now.
    fn behind(quota: &str, used: u64, ahead: u64, cost: u64) -> Option<u64> {
        let store = MemoryStore::builder().clock(FakeClock::at(Timestamp::EPOCH)).build();
        let quota: Quota = quota.parse().unwrap();
        let rules = Rules::Quota(&quota);
        let request = |cost| Request::new(Key::new("k").unwrap(), rules, Cost::new(cost));
        store.acquire(request(used)).now().unwrap().unwrap();
        let peeked = store.peek(request(cost)).now().unwrap().unwrap();
        wait_behind(&peeked, rules, ahead, Cost::new(cost)).map(|wait| wait.ceil_millis())
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
