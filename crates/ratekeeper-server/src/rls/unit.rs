//! The units of the Envoy protocol.

use ratekeeper::Nanos;

/// The unit of a limit, as the Envoy protocol knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitUnit {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// Thirty days.
    Month,
    /// 365 days.
    Year,
    /// Seven days, from Thursday to Wednesday unless a calendar says otherwise.
    Week,
}

impl LimitUnit {
    /// All units, in the order of their numbers.
    pub const ALL: [LimitUnit; 7] = [
        LimitUnit::Second,
        LimitUnit::Minute,
        LimitUnit::Hour,
        LimitUnit::Day,
        LimitUnit::Month,
        LimitUnit::Year,
        LimitUnit::Week,
    ];

    /// Returns the unit of this number on the wire; none of 0, which is no unit, and of undefined ones.
    pub fn of_number(number: i32) -> Option<Self> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        Self::ALL.get(index).copied()
    }

    /// Returns the number on the wire.
    pub const fn number(self) -> i32 {
        match self {
            LimitUnit::Second => 1,
            LimitUnit::Minute => 2,
            LimitUnit::Hour => 3,
            LimitUnit::Day => 4,
            LimitUnit::Month => 5,
            LimitUnit::Year => 6,
            LimitUnit::Week => 7,
        }
    }

    /// Returns the unit of this word, in any case: `minute`, `MINUTE`.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.word().eq_ignore_ascii_case(word))
    }

    /// Returns the word in a file: `minute`.
    pub const fn word(self) -> &'static str {
        match self {
            LimitUnit::Second => "second",
            LimitUnit::Minute => "minute",
            LimitUnit::Hour => "hour",
            LimitUnit::Day => "day",
            LimitUnit::Month => "month",
            LimitUnit::Year => "year",
            LimitUnit::Week => "week",
        }
    }

    /// Returns the name on the wire: `MINUTE`.
    pub const fn name(self) -> &'static str {
        match self {
            LimitUnit::Second => "SECOND",
            LimitUnit::Minute => "MINUTE",
            LimitUnit::Hour => "HOUR",
            LimitUnit::Day => "DAY",
            LimitUnit::Month => "MONTH",
            LimitUnit::Year => "YEAR",
            LimitUnit::Week => "WEEK",
        }
    }

    /// Returns how long it is.
    pub const fn length(self) -> Nanos {
        let seconds = match self {
            LimitUnit::Second => 1,
            LimitUnit::Minute => 60,
            LimitUnit::Hour => 3_600,
            LimitUnit::Day => 86_400,
            LimitUnit::Month => 30 * 86_400,
            LimitUnit::Year => 365 * 86_400,
            LimitUnit::Week => 7 * 86_400,
        };
        Nanos::from_secs(seconds)
    }

    /// Returns the unit of exactly this length.
    pub fn of_length(length: Nanos) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.length() == length)
    }
}
