//! Any dialect in, [`ServerLimits`] out.

use std::time::SystemTime;

use http::HeaderMap;
use http::header::AGE;

use super::family::Family;
use super::lines::last_block;
use super::mode::ParseMode;
use super::number::{integer, trim};
use super::response_time::ResponseTime;
use super::server_limits::ServerLimits;
use super::{ietf, retry_after, trio};

/// Reads what a response's headers say about rate limits, leniently.
///
/// `now` is the local clock; it matters only if the response has no `Date`. A field that makes no sense is ignored.
pub fn parse(headers: &HeaderMap, now: SystemTime) -> ServerLimits {
    parse_with(headers, now, ParseMode::Lenient)
}

/// Like [`parse`], in this mode.
pub fn parse_with(headers: &HeaderMap, now: SystemTime, mode: ParseMode) -> ServerLimits {
    let time = ResponseTime::of(headers, now, mode);
    let mut all = Family::default();
    all.absorb(ietf::read(headers, time));
    all.absorb(trio::drafts(headers, time));
    all.absorb(trio::x(headers, "x-ratelimit-", time));
    all.absorb(trio::x(headers, "x-rate-limit-", time));
    all.absorb(trio::anthropic(headers, time));
    all.absorb(trio::shopify(headers));
    ServerLimits {
        limits: all.limits,
        policies: all.policies,
        retry_after: retry_after::read(headers, time),
        cached: is_cached(headers),
    }
}

/// Reads what `Name: value` lines say about rate limits, leniently: text as `curl -sI` prints it.
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
pub fn parse_lines(text: &[u8], now: SystemTime) -> ServerLimits {
    parse_lines_with(text, now, ParseMode::Lenient)
}

/// Like [`parse_lines`], in this mode.
pub fn parse_lines_with(text: &[u8], now: SystemTime, mode: ParseMode) -> ServerLimits {
    parse_with(&last_block(text), now, mode)
}

/// Returns true if a cache answered: `Age` is above zero on any line.
fn is_cached(headers: &HeaderMap) -> bool {
    let mut ages = headers.get_all(AGE).iter().flat_map(|value| value.as_bytes().split(|&b| b == b','));
    ages.any(|age| integer(trim(age)).is_some_and(|seconds| seconds > 0))
}
