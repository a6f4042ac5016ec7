//! Hits of one rule.

use std::sync::atomic::{AtomicU64, Ordering};

/// The hits of one rule. Aligned to a cache line: rules that are hit on different event loops do not share one.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(in crate::rls) struct RuleCounts {
    total: AtomicU64,
    over: AtomicU64,
    near: AtomicU64,
    within: AtomicU64,
    shadow: AtomicU64,
    over_shadow: AtomicU64,
    negative: AtomicU64,
}

/// What was counted of one rule: hits, not requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleReading {
    /// All that were asked for.
    pub total_hits: u64,
    /// Those over the limit.
    pub over_limit: u64,
    /// Those near to it.
    pub near_limit: u64,
    /// Those of requests that were within it.
    pub within_limit: u64,
    /// Those over the limit that passed because the rule is in shadow.
    pub shadow_mode: u64,
    /// Those over a limit in shadow that stands beside the rule's own.
    pub over_shadow: u64,
    /// Those that were given back.
    pub total_negative_hits: u64,
}

impl RuleCounts {
    /// Counts hits that were judged.
    #[inline]
    pub(in crate::rls) fn judged(&self, hits: u64, split: HitSplit) {
        add(&self.total, hits);
        add(&self.over, split.over);
        add(&self.near, split.near);
        add(&self.within, split.within);
    }

    /// Counts hits over the limit that passed because the rule is in shadow.
    pub(in crate::rls) fn passed_in_shadow(&self, hits: u64) {
        add(&self.shadow, hits);
    }

    /// Counts hits over a limit in shadow beside the rule's own.
    pub(in crate::rls) fn over_shadow(&self, hits: u64) {
        add(&self.over_shadow, hits);
    }

    /// Counts hits that were given back.
    pub(in crate::rls) fn given_back(&self, hits: u64) {
        add(&self.negative, hits);
    }

    pub(super) fn read(&self) -> RuleReading {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RuleReading {
            total_hits: read(&self.total),
            over_limit: read(&self.over),
            near_limit: read(&self.near),
            within_limit: read(&self.within),
            shadow_mode: read(&self.shadow),
            over_shadow: read(&self.over_shadow),
            total_negative_hits: read(&self.negative),
        }
    }
}

#[inline]
fn add(counter: &AtomicU64, hits: u64) {
    // A read costs a fraction of a write that others see: most requests are in one range only.
    if hits > 0 {
        counter.fetch_add(hits, Ordering::Relaxed);
    }
}

impl RuleReading {
    /// Returns both together.
    #[must_use]
    pub fn plus(self, other: RuleReading) -> Self {
        RuleReading {
            total_hits: self.total_hits.wrapping_add(other.total_hits),
            over_limit: self.over_limit.wrapping_add(other.over_limit),
            near_limit: self.near_limit.wrapping_add(other.near_limit),
            within_limit: self.within_limit.wrapping_add(other.within_limit),
            shadow_mode: self.shadow_mode.wrapping_add(other.shadow_mode),
            over_shadow: self.over_shadow.wrapping_add(other.over_shadow),
            total_negative_hits: self.total_negative_hits.wrapping_add(other.total_negative_hits),
        }
    }

    /// Returns true if nothing was counted.
    pub fn is_empty(&self) -> bool {
        *self == RuleReading::default()
    }
}

/// How the hits of one request lie around a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::rls) struct HitSplit {
    /// Over it.
    pub(in crate::rls) over: u64,
    /// In the last part before it.
    pub(in crate::rls) near: u64,
    /// All of them, if the request is within.
    pub(in crate::rls) within: u64,
}

impl HitSplit {
    /// Splits hits of which so many were left under a limit before they came.
    pub(in crate::rls) fn new(
        hits: u64,
        limit: u64,
        left_before: u64,
        is_over: bool,
        near_ratio: f32,
    ) -> Self {
        let near = near_limit(limit, near_ratio);
        // Of a count beyond the limit it is only known that nothing is left, which is all that is asked here.
        let before = limit.saturating_sub(left_before);
        let after = before.saturating_add(hits);
        match (is_over, before >= limit) {
            (true, true) => HitSplit { over: hits, ..HitSplit::default() },
            (true, false) => HitSplit {
                over: after.saturating_sub(limit),
                near: limit.saturating_sub(near.max(before)),
                within: 0,
            },
            (false, _) => {
                let beyond = if before >= near { hits } else { after.saturating_sub(near) };
                HitSplit { over: 0, near: if after > near { beyond } else { 0 }, within: hits }
            }
        }
    }

    /// Returns the hits of a request that was judged without knowing the state.
    pub(in crate::rls) fn unknown(hits: u64, is_over: bool) -> Self {
        match is_over {
            true => HitSplit { over: hits, ..HitSplit::default() },
            false => HitSplit { within: hits, ..HitSplit::default() },
        }
    }
}

/// Returns from which count on a hit is near to the limit, in the precision that the Go service has.
#[expect(clippy::cast_precision_loss, reason = "as the Go service computes it")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn near_limit(limit: u64, ratio: f32) -> u64 {
    (limit as f32 * ratio).floor() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case 22 of the Go service's own tests, and case 23.
    #[test]
    fn hits_are_split_over_the_thresholds_that_they_cross() {
        for (limit, before, hits, expected) in [
            (20, 2, 3, (0, 0, 3)),
            (20, 16, 3, (0, 3, 3)),
            (20, 19, 3, (2, 1, 0)),
            (20, 15, 7, (2, 4, 0)),
            (8, 5, 2, (0, 1, 2)),
            (10, 27, 3, (3, 0, 0)),
            (15, 10, 1, (0, 0, 1)),
            (15, 12, 1, (0, 1, 1)),
            (15, 15, 1, (1, 0, 0)),
            (10, 11, 0, (0, 0, 0)),
            (10, 12, 1, (1, 0, 0)),
            (10, 0, u64::MAX, (u64::MAX - 10, 2, 0)),
        ] {
            let left = u64::saturating_sub(limit, before);
            let is_over = u64::saturating_add(before, hits) > limit;
            let HitSplit { over, near, within } = HitSplit::new(hits, limit, left, is_over, 0.8);
            assert_eq!((over, near, within), expected, "{before} of {limit}, {hits} more");
        }
        assert_eq!(near_limit(u64::from(u32::MAX), 0.8), 3_435_973_888, "a float of 32 bits");
        assert_eq!(near_limit(10, 7.0), 70);
    }

    #[test]
    fn what_is_counted_adds_up() {
        let counts = RuleCounts::default();
        counts.judged(3, HitSplit { over: 2, near: 1, within: 0 });
        counts.judged(2, HitSplit { over: 0, near: 0, within: 2 });
        counts.passed_in_shadow(2);
        counts.over_shadow(1);
        counts.given_back(7);
        let expected = RuleReading {
            total_hits: 5,
            over_limit: 2,
            near_limit: 1,
            within_limit: 2,
            shadow_mode: 2,
            over_shadow: 1,
            total_negative_hits: 7,
        };
        assert_eq!(counts.read(), expected);
        assert_eq!(expected.plus(expected).total_negative_hits, 14);
        assert!(RuleReading::default().is_empty() && !expected.is_empty());
    }
}
