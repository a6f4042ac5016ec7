//! The algorithms by name; their code is in [`crate::algorithm`].

use super::calendar::Calendar;

/// The algorithm that decides a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// The generic cell rate algorithm: a token bucket that needs one instant of state and no floating point.
    #[default]
    Gcra,
    /// Tokens that refill continuously and are taken by requests.
    TokenBucket,
    /// A level that drains continuously (the leaky bucket as a meter).
    LeakyBucket,
    /// A count that starts again with every window.
    FixedWindow(Anchor),
    /// Two counts, weighted by how much of the previous window still overlaps.
    SlidingWindow,
    /// Every request within the window is remembered: exact, at 16 bytes for each.
    SlidingLog,
    /// How many are in flight. Held by permits, not by stored state.
    Concurrency,
}

impl Algorithm {
    /// A fixed window that begins with the key's first request.
    pub const FIXED: Algorithm = Algorithm::FixedWindow(Anchor::FirstRequest);

    /// Returns true if a state is meaningful only to quotas with a window of the same length.
    #[inline]
    pub const fn counts_in_windows(self) -> bool {
        matches!(self, Algorithm::FixedWindow(_) | Algorithm::SlidingWindow | Algorithm::SlidingLog)
    }

    /// Returns true if both algorithms have the same type of state: they are the same, or fixed windows of different
    /// anchors.
    #[inline]
    pub fn has_states_of(self, other: Algorithm) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// Returns the word for it in the text form of a quota.
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

/// Where the windows of [`Algorithm::FixedWindow`] begin.
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
