//! A quota that changes on live state: what is there is kept, cut to the new capacity, and never refilled.
//!
//! What is kept is what the state holds. For all algorithms but one that is what has been used, so a larger capacity
//! has room for the difference; the token bucket holds what is left, so there a larger capacity is filled by time alone.
//! GCRA holds a time, the one until it is whole again: at another *rate* that same time is worth another number of
//! requests, and it is the time that is kept.
//!
//! What is more than the new capacity is owed: a count stays as it is, and is gone with its window; GCRA and both buckets owe
//! at most one capacity, as of now.

use proptest::prelude::*;
use ratekeeper::algorithm::SLACK;
use ratekeeper::{Algorithm, Nanos, Quota};

use super::support::draw::{quota_of, stumbled};
use super::support::float::on_the_edge;

/// The same rate (and window) with another capacity. For a window that is its count.
fn with_capacity(quota: &Quota, capacity: u64) -> Option<Quota> {
    let algorithm = quota.algorithm();
    let counts =
        matches!(algorithm, Algorithm::FixedWindow(_) | Algorithm::SlidingWindow | Algorithm::SlidingLog);
    let count = if counts { capacity } else { quota.count() };
    Quota::per(count, quota.period().as_duration()).burst(capacity).algorithm(algorithm).build().ok()
}

proptest! {
    #![proptest_config(test_support::cases::config(3_000))]

    /// Another capacity: what was used stays used, and is owed if it is more. The token bucket: what was left stays left.
    #[test]
    fn another_capacity_keeps_what_was_used(walk in stumbled(), capacity in 1_u64..=20) {
        prop_assume!(!on_the_edge(&walk));
        let (mut key, now) = (walk.key, walk.now);
        // What lies too far ahead is cut off under the quota that it was written under.
        key.take(u64::MAX, now);
        let Some(quota) = with_capacity(&key.quota, capacity) else { return Ok(()) };
        let old = key.peek(0, now);
        let fresh = old.reset_after.is_zero();
        key.quota = quota;
        let new = key.peek(0, now);
        prop_assert_eq!(new.limit, capacity);
        prop_assert!(new.remaining <= capacity);
        let used = old.limit - old.remaining;
        if fresh {
            // As good as forgotten: whether a store still holds the state may not be relied on.
            prop_assert!(key.state.is_some() || new.remaining == capacity);
        } else {
            match quota.algorithm() {
                Algorithm::TokenBucket => prop_assert_eq!(new.remaining, old.remaining.min(capacity)),
                // More may be used than the limit could tell.
                _ if old.remaining == 0 => {
                    prop_assert!(new.remaining <= capacity.saturating_sub(used), "refilled");
                }
                _ => prop_assert_eq!(new.remaining, capacity.saturating_sub(used)),
            }
        }
    }

    /// A lower capacity never leaves more, whatever the algorithm.
    #[test]
    fn a_lower_capacity_never_leaves_more(walk in stumbled(), capacity in 1_u64..=12) {
        prop_assume!(!on_the_edge(&walk));
        let (mut key, now) = (walk.key, walk.now);
        let capacity = capacity.min(key.quota.burst());
        key.take(u64::MAX, now);
        let Some(quota) = with_capacity(&key.quota, capacity) else { return Ok(()) };
        let old = key.peek(0, now).remaining;
        key.quota = quota;
        prop_assert!(key.peek(0, now).remaining <= old.min(capacity));
    }

    /// Any other quota of the algorithm: the answer is within the new one's bounds, the state is kept (the old quota
    /// finds what it left), and the promised wait under the new one is kept.
    #[test]
    fn another_quota_reads_what_is_there(
        (walk, quota) in stumbled().prop_flat_map(|walk| {
            let algorithm = walk.key.quota.algorithm();
            (Just(walk), quota_of(algorithm))
        }),
        cost in 1_u64..=12,
    ) {
        let (mut key, now) = (walk.key, walk.now);
        let (old_quota, old) = (key.quota, key.peek(1, now));
        key.quota = quota;
        let cost = cost.min(quota.burst());
        let decision = key.peek(cost, now);
        prop_assert!(decision.limit == quota.burst() && decision.remaining <= decision.limit);
        key.quota = old_quota;
        prop_assert_eq!(key.peek(1, now), old, "looking under another quota changed the state");
        key.quota = quota;
        let decision = key.take(cost, now);
        let wait = decision.retry_after.unwrap();
        prop_assert!(decision.allowed || key.take(cost, now + wait).allowed, "{wait} is not enough");
        let longest = key.longest().saturating_add(SLACK);
        prop_assert!(wait <= Nanos::from_nanos(longest.as_nanos() + (longest.as_nanos() >> 50) + 1));
    }

    /// GCRA keeps the time until it is whole; what is more than two refills of the new quota and a second is cut off to one
    /// refill.
    #[test]
    fn gcra_keeps_the_time_until_it_is_whole(
        walk in (quota_of(Algorithm::Gcra), 1_u64..=12),
        other in quota_of(Algorithm::Gcra),
    ) {
        let (quota, cost) = walk;
        let mut key = super::support::Key::fresh(quota);
        let now = super::support::NOON;
        let reset = key.take(cost.min(quota.burst()), now).reset_after;
        key.quota = other;
        let refill = other.refill_time();
        let reach = refill.saturating_add(refill).saturating_add(SLACK);
        let kept = if reset > reach { refill } else { reset };
        prop_assert_eq!(key.peek(0, now).reset_after, kept);
    }
}
