//! What a script does with a quota.

use ratekeeper::{Algorithm, Anchor, Nanos, Quota};

/// The longest grid that a script divides time into by itself: a step of the division must stay below 2^53.
const LONGEST_GRID: Nanos = Nanos::from_secs(9_000);

/// The algorithm of a rule as a script knows it: a letter, and the part that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleKind {
    Gcra,
    TokenBucket,
    LeakyBucket,
    /// Windows that begin with the first request.
    Window,
    /// Windows on a grid that the script computes.
    Grid,
    /// Windows whose edges are sent along.
    Edges,
    SlidingWindow,
    SlidingLog,
}

impl RuleKind {
    /// Returns the kind of a quota; none for concurrency, which no stored state decides.
    pub(crate) fn of(quota: &Quota) -> Option<Self> {
        Some(match quota.algorithm() {
            Algorithm::Gcra => RuleKind::Gcra,
            Algorithm::TokenBucket => RuleKind::TokenBucket,
            Algorithm::LeakyBucket => RuleKind::LeakyBucket,
            Algorithm::FixedWindow(Anchor::FirstRequest) => RuleKind::Window,
            Algorithm::FixedWindow(Anchor::Grid) if quota.period() <= LONGEST_GRID => RuleKind::Grid,
            Algorithm::FixedWindow(_) => RuleKind::Edges,
            Algorithm::SlidingWindow => RuleKind::SlidingWindow,
            Algorithm::SlidingLog => RuleKind::SlidingLog,
            _ => return None,
        })
    }

    /// Returns the letter that stands for it in a call.
    pub(crate) fn letter(self) -> u8 {
        match self {
            RuleKind::Gcra => b'g',
            RuleKind::TokenBucket => b't',
            RuleKind::LeakyBucket => b'l',
            RuleKind::Window => b'f',
            RuleKind::Grid => b'm',
            RuleKind::Edges => b'w',
            RuleKind::SlidingWindow => b's',
            RuleKind::SlidingLog => b'o',
        }
    }

    /// Returns the bit that stands for the part of a script which decides it.
    pub(super) const fn bit(self) -> u16 {
        match self {
            RuleKind::Gcra => 1,
            RuleKind::TokenBucket => 2,
            RuleKind::LeakyBucket => 4,
            RuleKind::Window | RuleKind::Grid | RuleKind::Edges => 8,
            RuleKind::SlidingWindow => 16,
            RuleKind::SlidingLog => 32,
        }
    }
}
