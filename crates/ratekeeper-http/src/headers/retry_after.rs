//! `Retry-After`, RFC 9110 §10.2.3.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;

use super::Mode;
use super::clock::Clock;
use super::number::{decimal, integer, trim};

/// The longest wait that any line asks for.
pub(crate) fn read(headers: &HeaderMap, clock: Clock) -> Option<Duration> {
    headers.get_all(RETRY_AFTER).iter().filter_map(|value| one(trim(value.as_bytes()), clock)).max()
}

fn one(text: &[u8], clock: Clock) -> Option<Duration> {
    let seconds = match clock.mode {
        Mode::Lenient => decimal(text),
        Mode::Strict => integer(text).map(Duration::from_secs),
    };
    seconds.or_else(|| clock.until_http_date(text))
}
