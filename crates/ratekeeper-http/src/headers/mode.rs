//! How much a parser forgives.

/// How much the parser forgives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ParseMode {
    /// Reads whatever servers are known to send.
    #[default]
    Lenient,
    /// Reads only what a standard allows, for the fields that have one:
    ///
    /// - `Retry-After`: no fractions of a second;
    /// - HTTP-dates: no `UTC` for `GMT`, exact case, and the weekday must be right;
    /// - `RateLimit`, `RateLimit-Policy`: names and units are strings, not tokens; one malformed line spoils the
    ///   field, one malformed parameter its item;
    /// - `RateLimit-Limit`, `-Remaining`, `-Reset`: whole numbers, resets in seconds from now.
    ///
    /// The `X-` families and the vendors' fields have no standard, so both modes read them alike.
    Strict,
}
