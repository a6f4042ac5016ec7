//! What may decide a quota, by name: how each does it is in [`crate::algorithm`].

use super::calendar::Calendar;

/// What decides a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// The generic cell rate algorithm: a token bucket that needs one instant of state and no floating point.
    #[default]
    Gcra,
    /// Tokens that refill continuously.
    TokenBucket,
    /// A level that drains continuously (the leaky bucket as a meter).
    LeakyBucket,
    /// A count that starts again with every window.
    FixedWindow(Anchor),
    /// Two counts, weighted by how much of the previous window still overlaps.
    SlidingWindow,
    /// Every request remembered: exact.
    SlidingLog,
    /// How many are in flight. Held by permits, not by stored state.
    Concurrency,
}

impl Algorithm {
    /// A fixed window that begins with the key's first request.
    pub const FIXED: Algorithm = Algorithm::FixedWindow(Anchor::FirstRequest);

    /// True if what a state means depends on the length of the quota's window: one of another length cannot read it.
    #[inline]
    pub const fn counts_in_windows(self) -> bool {
        matches!(self, Algorithm::FixedWindow(_) | Algorithm::SlidingWindow | Algorithm::SlidingLog)
    }

    /// True if the states of the other algorithm are of the same kind as this one's: it is the same, wherever its windows
    /// begin. That is the quota's business, and no state tells.
    #[inline]
    pub fn has_states_of(self, other: Algorithm) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// The word for it in the text form of a quota.
    pub const fn word(self) -> &'static str {
        match self {
            Algorithm::Gcra => "gcra",
            Algorithm::TokenBucket => "bucket",
            Algorithm::LeakyBucket => "leaky",
            Algorithm::FixedWindow(_) => "fixed",
            Algorithm::SlidingWindow => "sliding",
            Algorithm::SlidingLog => "log",
            Algorithm::Concurrency => "concurrent",
        }
    }
}

/// Where fixed windows begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Anchor {
    /// At the key's first request, and again at the first one after the window's end.
    #[default]
    FirstRequest,
    /// At whole multiples of the period since the Unix epoch.
    Grid,
    /// With the calendar's minute, hour, day, week, month or year.
    Calendar(Calendar),
}
