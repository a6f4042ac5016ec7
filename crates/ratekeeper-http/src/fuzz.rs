//! What the targets in `fuzz/` call; nothing of it is in a program.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use ratekeeper::testkit::fuzz::check_message;

use crate::client::check_lesson;
use crate::headers::{
    HeaderDialect, LimitStatus, MAX_ENTRIES, MAX_NAME, ParseMode, PolicyField, QuotaPolicy, RATELIMIT_POLICY,
    ServerLimits, emit, parse_lines_with, parse_with,
};
use crate::key::{Cidr, ClientIp, Composite, Global, Header, KeyExtractor, RequestView, Route};

/// The largest number of a structured field.
const MOST: u64 = 999_999_999_999_999;

/// Reads any text as what a server's response says of its limits, and writes it again.
///
/// # Panics
///
/// More is kept than may be, what is written is read as something else, or being strict gives more than being lenient.
pub fn response_fields(bytes: &[u8]) {
    let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let lenient = parse_lines_with(bytes, now, ParseMode::Lenient);
    let strict = parse_lines_with(bytes, now, ParseMode::Strict);
    for limits in [&lenient, &strict] {
        check_limits(limits, now);
        for status in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE] {
            check_lesson(status, limits);
        }
    }
    assert!(strict.retry_after.is_none() || lenient.retry_after.is_some(), "strict is never looser");
    // A clock that is wrong changes nothing but what has no date.
    drop(parse_lines_with(bytes, UNIX_EPOCH - Duration::from_secs(1), ParseMode::Lenient));
    // The same fields as a map.
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n').take(64) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(line[..colon].trim_ascii());
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    check_limits(&parse_with(&headers, now, ParseMode::Lenient), now);
    // A layer adds its own to whatever an inner one has sent.
    let ours = [QuotaPolicy::new("ours", 10).window(Duration::from_secs(60))];
    if let Ok(policies) = PolicyField::new(&ours) {
        let name = &policies.names()[0];
        let status = LimitStatus { name, limit: 10, remaining: 3, reset: Some(Duration::from_secs(7)) };
        emit::write(&mut headers, HeaderDialect::Both, &policies, &[status]);
        emit::write_retry_after(&mut headers, Duration::from_secs(1));
        assert_eq!(headers.get_all(http::header::RETRY_AFTER).iter().count(), 1);
    }
}

fn check_limits(limits: &ServerLimits, now: SystemTime) {
    assert!(limits.limits.len() <= MAX_ENTRIES && limits.policies.len() <= MAX_ENTRIES);
    for limit in &limits.limits {
        assert!(limit.limit.is_some() || limit.remaining.is_some() || limit.reset.is_some(), "{limit:?}");
        assert!(limit.name.as_ref().is_none_or(|name| name.len() <= MAX_NAME));
    }
    for policy in &limits.policies {
        assert!(policy.name.as_ref().is_none_or(|name| name.len() <= MAX_NAME));
        assert!(policy.window.is_none_or(|window| !window.is_zero()), "{policy:?}");
    }
    // What can be sent is read as it was meant, as far as the format goes.
    let Ok(field) = PolicyField::new(&limits.policies) else { return };
    let mut headers = HeaderMap::new();
    headers.insert(RATELIMIT_POLICY, field.value().clone());
    let read = parse_with(&headers, now, ParseMode::Strict).policies;
    let sent: Vec<QuotaPolicy> = limits.policies.iter().map(as_sent).collect();
    assert!(!read.is_empty() && read.iter().all(|policy| sent.contains(policy)), "{read:?} of {sent:?}");
}

/// Returns a policy as the format has it: whole seconds, and numbers within its bounds.
fn as_sent(policy: &QuotaPolicy) -> QuotaPolicy {
    let seconds = |window: Duration| {
        let up = window.as_secs().saturating_add(u64::from(window.subsec_nanos() > 0));
        Duration::from_secs(up.min(MOST))
    };
    QuotaPolicy { quota: policy.quota.min(MOST), window: policy.window.map(seconds), ..policy.clone() }
}

/// Reads any lines as the fields of a request, and takes its key by every extractor. The first line is a network, the second
/// a path.
///
/// # Panics
///
/// A key is longer than it may be, somebody who is not trusted chooses his address, or an error is not one short line.
pub fn request_keys(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let network = str::from_utf8(lines.next().unwrap_or_default()).unwrap_or_default();
    let networks: Vec<Cidr> = match network.parse() {
        Ok(network) => vec![network],
        Err(error) => {
            check_message(&error.to_string());
            Vec::new()
        }
    };
    let uri = Uri::try_from(lines.next().unwrap_or_default()).unwrap_or_default();
    let mut headers = HeaderMap::new();
    for line in lines.take(64) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    let peer: IpAddr = [203, 0, 113, 7].into();
    let request = RequestView::new(&headers, &uri, Some(peer));
    assert_eq!(ClientIp::default().address(&request), Some(peer), "the peer counts, whatever it says");
    let trusting = ClientIp::trusting(networks.iter().copied());
    if !networks.iter().any(|network| network.contains(peer)) {
        assert_eq!(trusting.address(&request), Some(peer), "who is not trusted is not believed");
    }
    if !headers.contains_key("x-forwarded-for") && !headers.contains_key("x-real-ip") {
        assert_eq!(ClientIp::trusting_private_networks().address(&request), Some(peer));
    }
    let by_address = [
        ClientIp::default(),
        ClientIp::behind_proxies(1),
        ClientIp::behind_proxies(3).ipv6_prefix(128),
        ClientIp::spoofable_real_ip().ipv6_prefix(48),
        ClientIp::spoofable_first_forwarded().ipv6_prefix(0),
        trusting,
    ];
    for by in &by_address {
        let Ok(key) = by.key(&request) else { panic!("there always is a peer") };
        assert!(key.as_bytes().len() <= 48 && key.as_bytes().is_ascii(), "{key:?}");
    }
    let [first, second, ..] = by_address;
    let composite = Composite::new(first).and(Header::new("x-api-key")).and(Route).and(second).and(Global);
    let [api_key, last] = [Header::new("x-api-key"), Header::new("x-tenant").last()];
    check_key(api_key.key(&request));
    check_key(last.key(&request));
    check_key(Header::new("x-tenant").first().key(&request));
    check_key(Route.key(&request));
    check_key(composite.key(&request));
    assert!(!request.is_grpc() || headers.contains_key("content-type"));
}

/// A key that is too long is shortened where it becomes one, and is never empty.
fn check_key(key: Result<crate::key::KeyBuf, crate::key::ExtractError>) {
    match key {
        Ok(key) => assert!(key.key().is_ok() && !key.as_bytes().is_empty(), "{key:?}"),
        Err(error) => check_message(&error.to_string()),
    }
}

/// The seeds of the fuzzer, replayed without one.
#[cfg(test)]
mod tests {
    use ratekeeper::testkit::fuzz::replay;

    #[test]
    fn response_fields() {
        replay("response_fields", super::response_fields);
    }

    #[test]
    fn request_keys() {
        replay("request_keys", super::request_keys);
    }
}
