//! What is wrong with a line of a trace.

use std::fmt;

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineError {
    /// The first word of a plain line is not a time.
    Time,
    /// The third word of a plain line is not a cost.
    Cost,
    /// What follows the cost of a plain line is not a unit and its amount.
    Unit,
    /// A plain line names requests by a word, which its cost does.
    RequestsNamed,
    /// A plain line names a unit twice.
    UnitTwice,
    /// A plain line names more than [4](ratekeeper::Unit::MOST_NAMED) units.
    TooManyUnits,
    /// The amount of a unit is more than 2^63 − 1.
    Amount,
    /// There is no `[10/Oct/2000:13:55:36 -0700]` where it should be.
    Date,
    /// There are no client, identity and user before the date.
    Client,
    /// There is no `"GET / HTTP/1.1" 200 512` after the date.
    Request,
    /// There is no `"referer" "user agent"` at the end.
    Combined,
    /// There are no plans and no `allowed` or `denied` after the cost of a recorded line.
    Recorded,
    /// The line is in no format that is known.
    Unknown,
    /// The time is before 1677 or after 2262.
    Range,
    /// The key is longer than [`Key::MAX_LEN`](ratekeeper::Key::MAX_LEN).
    KeyTooLong,
    /// The line is longer than a mebibyte.
    LineTooLong,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LineError::Time => "no time in seconds at the start; write `time_seconds [key [cost]]`",
            LineError::Cost => "the cost is not a whole number; write `time_seconds [key [cost]]`",
            LineError::Unit => "after the cost come units such as tokens=58; write `time_seconds [key [cost] [unit=amount…]]`",
            LineError::RequestsNamed => "requests are named by a word; the cost says how many",
            LineError::UnitTwice => "a unit is named twice; say each once",
            LineError::TooManyUnits => "more than four units; a request names at most 4",
            LineError::Amount => "an amount is more than 9223372036854775807",
            LineError::Date => "no date such as [10/Oct/2000:13:55:36 -0700]",
            LineError::Client => "no client, identity and user before the date",
            LineError::Request => "no \"request\", status and size after the date",
            LineError::Combined => "no \"referer\" and \"user agent\" at the end",
            LineError::Recorded => "no plans and no `allowed` or `denied` after the cost; it was not written by `serve --record`",
            LineError::Unknown => "no time in seconds at the start, no line of an access log and none of `serve --record`; write `time_seconds [key [cost]]`",
            LineError::Range => "the time is not between the years 1677 and 2262",
            LineError::KeyTooLong => "the key has more than 1024 bytes",
            LineError::LineTooLong => "the line has more than 1 MiB",
        })
    }
}

impl std::error::Error for LineError {}
