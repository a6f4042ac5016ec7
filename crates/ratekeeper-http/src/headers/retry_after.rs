//! `Retry-After`, RFC 9110 §10.2.3, and the fields that tell the same wait in milliseconds.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;

use super::mode::ParseMode;
use super::number::{decimal, integer, trim};
use super::response_time::ResponseTime;

/// Fields that tell the wait in milliseconds, beside a `Retry-After` in whole seconds: OpenAI's and Azure's.
pub(crate) const RETRY_AFTER_MS: [&str; 2] = ["retry-after-ms", "x-ms-retry-after-ms"];

/// The wait that is asked for; of several lines of one field, the longest. Milliseconds win over seconds: a server that
/// sends both has rounded the latter. They have no standard, so both modes read them.
pub(crate) fn read(headers: &HeaderMap, time: ResponseTime) -> Option<Duration> {
    let millis = RETRY_AFTER_MS.iter().flat_map(|field| headers.get_all(*field));
    let exact = millis.filter_map(|value| decimal(trim(value.as_bytes()))).max();
    // Divided, not scaled by a float: 1500 is 1.5 s to the nanosecond.
    exact.map(|millis| millis / 1000).or_else(|| {
        headers.get_all(RETRY_AFTER).iter().filter_map(|value| one(trim(value.as_bytes()), time)).max()
    })
}

fn one(text: &[u8], time: ResponseTime) -> Option<Duration> {
    let seconds = match time.mode {
        ParseMode::Lenient => decimal(text),
        ParseMode::Strict => integer(text).map(Duration::from_secs),
    };
    seconds.or_else(|| time.until_http_date(text))
}
