//! Writes the fields of a response, in the dialect that its clients understand.
//!
//! Whatever can go wrong goes wrong when a [`PolicyField`] or a [`LimitName`] is built. Per response nothing
//! fails, and only the header values are allocated.

use std::time::Duration;

use http::header::{Entry, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};

use super::dialect::HeaderDialect;
use super::fields::{
    RATELIMIT, RATELIMIT_POLICY, RETRY_AFTER_MS, X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING, X_RATELIMIT_RESET,
};
use super::name::LimitName;
use super::number::{number_value, seconds_up, whole};
use super::policy_field::PolicyField;

/// What is left of one limit, to be reported to the caller.
#[derive(Clone, Copy, Debug)]
pub struct LimitStatus<'a> {
    /// The name of the limit.
    pub name: &'a LimitName,
    /// The quota of the limit.
    pub limit: u64,
    /// How much of the quota is left.
    pub remaining: u64,
    /// How long until there is more, if that is known.
    pub reset: Option<Duration>,
}

/// Adds the IETF and the legacy fields of `dialect` to a response; those of a unit are [`UnitFields`](super::UnitFields).
///
/// Layers may be nested. The IETF fields are lists, so an outer layer's entries join the inner one's. The legacy
/// fields hold one limit, the one with the least remaining (among equals, the longest reset); an inner layer's
/// stay if they are no looser.
pub fn write(
    headers: &mut HeaderMap,
    dialect: HeaderDialect,
    policies: &PolicyField,
    statuses: &[LimitStatus<'_>],
) {
    // A header map refuses an entry only when it holds tens of thousands: then the response goes without.
    if dialect.ietf() {
        let _ = headers.try_append(RATELIMIT_POLICY, policies.value().clone());
        if let Some(value) = rate_limit(statuses) {
            let _ = headers.try_append(RATELIMIT, value);
        }
    }
    if dialect.legacy()
        && let Some(tightest) = tightest(statuses)
    {
        write_legacy(headers, policies, tightest);
    }
}

/// Sets the legacy fields, unless those that are there already report a limit that is no looser.
fn write_legacy(headers: &mut HeaderMap, policies: &PolicyField, status: &LimitStatus<'_>) {
    // Looked up and set in one: a look-up costs as much as a value.
    match headers.try_entry(X_RATELIMIT_REMAINING) {
        Err(_) => return,
        Ok(Entry::Vacant(free)) => {
            let _ = free.try_insert(number_value(status.remaining));
        }
        Ok(Entry::Occupied(mut theirs)) => {
            let remaining = theirs.get().to_str().ok().and_then(|value| value.parse::<u64>().ok());
            if remaining.is_some_and(|remaining| remaining <= status.remaining) {
                return;
            }
            theirs.insert(number_value(status.remaining));
        }
    }
    let _ = headers.try_insert(X_RATELIMIT_LIMIT, policies.quota(status.limit));
    match status.reset {
        Some(reset) => {
            let _ = headers.try_insert(X_RATELIMIT_RESET, number_value(seconds_up(reset)));
        }
        None => {
            headers.remove(X_RATELIMIT_RESET);
        }
    }
}

/// Sets `Retry-After`, which every refusal must have. Replaces one that is there.
pub fn write_retry_after(headers: &mut HeaderMap, wait: Duration) {
    let _ = headers.try_insert(RETRY_AFTER, retry_after(wait));
}

/// Sets `Retry-After-Ms`, the same wait in milliseconds, rounded up, at least 1. Replaces one that is there.
pub fn write_retry_after_ms(headers: &mut HeaderMap, wait: Duration) {
    let millis = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let _ = headers.try_insert(RETRY_AFTER_MS, number_value(millis.max(1)));
}

/// Returns the value of `RateLimit`, in one allocation; `None` if there is no status to report.
pub fn rate_limit(statuses: &[LimitStatus<'_>]) -> Option<HeaderValue> {
    if statuses.is_empty() {
        return None;
    }
    // Written by hand and of exact length: this runs for every response, and a vector without spare room becomes the
    // header value without being copied.
    let length = statuses.iter().map(rendered_length).sum::<usize>() + 2 * (statuses.len() - 1);
    let mut field = Vec::with_capacity(length);
    for status in statuses {
        if !field.is_empty() {
            field.extend_from_slice(b", ");
        }
        field.extend_from_slice(status.name.as_field().as_bytes());
        field.extend_from_slice(b";r=");
        push_number(status.remaining, &mut field);
        if let Some(reset) = status.reset {
            field.extend_from_slice(b";t=");
            push_number(seconds_up(reset), &mut field);
        }
    }
    debug_assert_eq!(field.len(), length);
    // Names are printable ASCII by construction, so this is always a value.
    HeaderValue::try_from(field).ok()
}

/// Returns the value of `Retry-After`: whole seconds, rounded up so that nobody comes too early, at least 1.
pub fn retry_after(wait: Duration) -> HeaderValue {
    number_value(seconds_up(wait).max(1))
}

fn push_number(number: u64, field: &mut Vec<u8>) {
    field.extend_from_slice(itoa::Buffer::new().format(whole(number)).as_bytes());
}

fn rendered_length(status: &LimitStatus<'_>) -> usize {
    let reset = status.reset.map_or(0, |reset| ";t=".len() + digits(seconds_up(reset)));
    status.name.as_field().len() + ";r=".len() + digits(status.remaining) + reset
}

fn digits(number: u64) -> usize {
    whole(number).checked_ilog10().map_or(1, |exponent| exponent as usize + 1)
}

/// Returns the limit that will be hit first, as far as one can tell.
fn tightest<'a, 'n>(statuses: &'a [LimitStatus<'n>]) -> Option<&'a LimitStatus<'n>> {
    statuses.iter().min_by_key(|status| (status.remaining, std::cmp::Reverse(status.reset)))
}

#[cfg(test)]
mod tests {
    use super::super::quota_policy::QuotaPolicy;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn field() -> PolicyField {
        PolicyField::new(&[QuotaPolicy::new("a", 10).window(SECOND), QuotaPolicy::new("b", 99)]).unwrap()
    }

    fn statuses(field: &PolicyField, left: [u64; 2]) -> [LimitStatus<'_>; 2] {
        let [a, b] = field.names() else { panic!("two names") };
        [
            LimitStatus { name: a, limit: 10, remaining: left[0], reset: Some(Duration::from_millis(1200)) },
            LimitStatus { name: b, limit: 99, remaining: left[1], reset: None },
        ]
    }

    fn written(dialect: HeaderDialect, left: [u64; 2]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        write(&mut headers, dialect, &field(), &statuses(&field(), left));
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    #[test]
    fn dialects() {
        let ietf = [r#"ratelimit-policy: "a";q=10;w=1, "b";q=99"#, r#"ratelimit: "a";r=3;t=2, "b";r=7"#];
        let legacy = ["x-ratelimit-remaining: 3", "x-ratelimit-limit: 10", "x-ratelimit-reset: 2"];
        assert_eq!(written(HeaderDialect::Ietf, [3, 7]), ietf);
        assert_eq!(written(HeaderDialect::Legacy, [3, 7]), legacy);
        assert_eq!(written(HeaderDialect::Both, [3, 7]), [&ietf[..], &legacy].concat());
        assert!(written(HeaderDialect::None, [3, 7]).is_empty());
        assert_eq!(HeaderDialect::default(), HeaderDialect::Ietf);
    }

    #[test]
    fn legacy_tells_of_the_tightest() {
        assert_eq!(
            written(HeaderDialect::Legacy, [7, 3]),
            ["x-ratelimit-remaining: 3", "x-ratelimit-limit: 99"]
        );
        assert_eq!(
            written(HeaderDialect::Legacy, [3, 3])[1],
            "x-ratelimit-limit: 10",
            "a known reset is longer"
        );
    }

    #[test]
    fn nested_layers() {
        let field = field();
        let nest = |inner, outer| {
            let mut headers = HeaderMap::new();
            write(&mut headers, HeaderDialect::Both, &field, &statuses(&field, inner)[..1]);
            write(&mut headers, HeaderDialect::Both, &field, &statuses(&field, outer)[1..]);
            assert_eq!(headers.get_all(RATELIMIT).iter().count(), 2);
            let legacy = |name| headers.get(name).map(|v: &HeaderValue| v.to_str().unwrap().to_owned());
            (legacy(X_RATELIMIT_REMAINING), legacy(X_RATELIMIT_RESET))
        };
        assert_eq!(nest([3, 0], [0, 7]), (Some("3".to_owned()), Some("2".to_owned())));
        assert_eq!(nest([7, 0], [0, 3]), (Some("3".to_owned()), None), "no reset of the other limit");
    }

    #[test]
    fn numbers_are_written_whole() {
        for number in [0, 1, 9, 10, 99, 100, 999, 1_000, 999_999_999_999_999, 1_000_000_000_000_000, u64::MAX]
        {
            assert_eq!(number_value(number), number.to_string().as_str());
            assert_eq!(digits(number), whole(number).to_string().len());
        }
    }

    #[test]
    fn nothing_to_tell() {
        assert_eq!(rate_limit(&[]), None);
        let mut headers = HeaderMap::new();
        write(&mut headers, HeaderDialect::Both, &field(), &[]);
        assert_eq!(headers.keys().collect::<Vec<_>>(), [&RATELIMIT_POLICY]);
    }

    #[test]
    fn retry_after_is_rounded_up_and_at_least_one() {
        for (wait, expected) in [
            (Duration::ZERO, "1"),
            (Duration::from_nanos(1), "1"),
            (SECOND, "1"),
            (Duration::new(1, 1), "2"),
            (Duration::from_millis(59_001), "60"),
            (Duration::MAX, "18446744073709551615"),
        ] {
            let mut headers = HeaderMap::new();
            write_retry_after(&mut headers, Duration::from_secs(5));
            write_retry_after(&mut headers, wait);
            assert_eq!(headers.get_all(RETRY_AFTER).iter().collect::<Vec<_>>(), [expected], "{wait:?}");
        }
    }
}
