//! Rate limits as header fields: [`parse`] reads whatever a server sends, [`emit`] writes what ours sends.
//!
//! A server tells where a caller stands, and a client understands it:
//!
//! ```
//! use ratekeeper_http::headers::{self, Dialect, Policy, PolicyField, Standing, emit};
//! use std::time::{Duration, SystemTime};
//!
//! // Once, at start-up:
//! let policies = PolicyField::new(&[Policy::new("burst", 100).window(Duration::from_secs(60))])?;
//!
//! // Per response:
//! let mut response = http::HeaderMap::new();
//! let standing = Standing {
//!     name: &policies.names()[0],
//!     limit: 100,
//!     remaining: 50,
//!     reset: Some(Duration::from_secs(30)),
//! };
//! emit::write(&mut response, Dialect::Ietf, &policies, &[standing]);
//! assert_eq!(response["ratelimit"], r#""burst";r=50;t=30"#);
//!
//! // On the other side:
//! let understood = headers::parse(&response, SystemTime::now());
//! assert_eq!(understood.limits[0].name.as_deref(), Some("burst"));
//! assert_eq!(understood.limits[0].limit, Some(100));
//! assert_eq!(understood.limits[0].remaining, Some(50));
//! assert_eq!(understood.limits[0].reset, Some(Duration::from_secs(30)));
//! # Ok::<(), headers::FieldError>(())
//! ```
//!
//! # What is understood
//!
//! | family, in order of rank | fields |
//! |---|---|
//! | IETF structured | `RateLimit`, `RateLimit-Policy`: draft 11, its later dialect (`a`, `w`), draft 07 |
//! | IETF older | `RateLimit-Limit`, `-Remaining`, `-Reset` |
//! | `X-` | `X-RateLimit-*`, then `X-Rate-Limit-*`: the plain three, `-Reset-After`, a name in `-Resource` or `-Bucket`, rules in `-Policy` (written as in `RateLimit-Policy`, of any draft), and three per name (`-Limit-Tokens`; Kong's `-Limit-Minute` is a policy too) |
//! | vendors | `Anthropic-RateLimit-<name>-*`, `X-Shopify-Shop-Api-Call-Limit` |
//!
//! Besides these `Retry-After`, `Age`, and `Date`, which absolute times are taken against. `Retry-After-Ms` (and
//! Azure's `X-Ms-Retry-After-Ms`) is the same wait in milliseconds, and wins over whole seconds.
//!
//! A policy over a window of no time is none, and a quota of `-1` is how some servers write that there is no limit.
//!
//! # When a response speaks several dialects
//!
//! 1. Limits with different names are different limits: all are kept, those of higher rank first.
//! 2. About one name, the higher rank is right. A lower one may fill its gaps (a missing quota, say), unless
//!    the two contradict each other in a number.
//! 3. A limit without a name that contradicts a limit of another family in no number is that limit, told twice:
//!    they become one, with the name if either has one. Resets may differ by two seconds of rounding.
//! 4. A limit without a name that does contradict them all is a limit of its own.
//!
//! Within a family, what is said twice in the same words counts once; names that repeat with different numbers
//! are kept; and of several lines of a field that holds one number, the most cautious counts: the least quota,
//! the least remaining, the longest wait.
//!
//! # What cannot happen
//!
//! No bytes make this panic. A field that makes no sense is ignored and the others are kept. Numbers saturate
//! instead of wrapping, negative ones are unknown. No more than [`MAX_ENTRIES`] limits and policies are kept, nor
//! names longer than [`MAX_NAME`].

pub mod emit;

mod base64;
mod clock;
mod date;
mod family;
mod ietf;
mod limits;
mod lines;
mod moment;
mod name;
mod number;
mod policy_field;
mod retry_after;
mod structured;
mod trio;

use std::time::SystemTime;

use http::header::AGE;
use http::{HeaderMap, HeaderName};

pub use emit::{Dialect, Standing};
pub use limits::{Limit, Limits, Policy, Unit};
pub use name::{FieldError, LimitName};
pub use policy_field::PolicyField;

/// How many limits, and how many policies, are kept of one response or put into one field.
pub const MAX_ENTRIES: usize = 64;

/// Length in bytes of the longest name that is kept or sent, before escaping.
pub const MAX_NAME: usize = 256;

/// `RateLimit`.
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// `RateLimit-Policy`.
pub const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// `X-RateLimit-Limit`.
pub const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// `X-RateLimit-Remaining`.
pub const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// `X-RateLimit-Reset`.
pub const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// How much a parser forgives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Whatever servers are known to send.
    #[default]
    Lenient,
    /// Only what a standard allows, for the fields that have one:
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

/// What a response's headers say about rate limits, leniently.
///
/// `now` is the local clock; it matters only when the response has no `Date`.
pub fn parse(headers: &HeaderMap, now: SystemTime) -> Limits {
    parse_with(headers, now, Mode::Lenient)
}

/// [`parse`], in this mode.
pub fn parse_with(headers: &HeaderMap, now: SystemTime, mode: Mode) -> Limits {
    let clock = clock::Clock::of(headers, now, mode);
    let mut all = family::Family::default();
    all.absorb(ietf::read(headers, clock));
    all.absorb(trio::drafts(headers, clock));
    all.absorb(trio::x(headers, "x-ratelimit-", clock));
    all.absorb(trio::x(headers, "x-rate-limit-", clock));
    all.absorb(trio::anthropic(headers, clock));
    all.absorb(trio::shopify(headers));
    Limits {
        limits: all.limits,
        policies: all.policies,
        retry_after: retry_after::read(headers, clock),
        cached: is_cached(headers),
    }
}

/// What `Name: value` lines say about rate limits, leniently: text as `curl -sI` prints it.
///
/// Status lines are skipped, lines end in LF or CRLF, and of several header blocks (redirects) the last counts.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// let text = b"HTTP/2 429\r\nretry-after: 7\r\n\r\n";
/// let limits = ratekeeper_http::headers::parse_lines(text, SystemTime::now());
/// assert_eq!(limits.retry_after, Some(Duration::from_secs(7)));
/// ```
pub fn parse_lines(text: &[u8], now: SystemTime) -> Limits {
    parse_lines_with(text, now, Mode::Lenient)
}

/// [`parse_lines`], in this mode.
pub fn parse_lines_with(text: &[u8], now: SystemTime, mode: Mode) -> Limits {
    parse_with(&lines::last_block(text), now, mode)
}

/// `Age` above zero on any line.
fn is_cached(headers: &HeaderMap) -> bool {
    let mut ages = headers.get_all(AGE).iter().flat_map(|value| value.as_bytes().split(|&b| b == b','));
    ages.any(|age| number::integer(number::trim(age)).is_some_and(|seconds| seconds > 0))
}
