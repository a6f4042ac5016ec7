//! What a response costs in memory.

use std::hint::black_box;
use std::time::Duration;

use allocation_counter::measure;
use http::HeaderMap;
use ratekeeper_http::headers::{HeaderDialect, LimitStatus, PolicyField, QuotaPolicy, emit};

#[test]
fn one_allocation_per_ratelimit_value() {
    let policies: Vec<_> =
        ["burst", "daily", "a \"quoted\" name"].map(|name| QuotaPolicy::new(name, 100)).into();
    let field = PolicyField::new(&policies).unwrap();
    for reset in [None, Some(Duration::from_secs(30)), Some(Duration::MAX)] {
        for remaining in [0, 7, 50, u64::MAX] {
            let standing = |name| LimitStatus { name, limit: 100, remaining, reset };
            let standings: Vec<_> = field.names().iter().map(standing).collect();
            for count in 1..=standings.len() {
                let info = measure(|| {
                    black_box(emit::rate_limit(&standings[..count]));
                });
                assert_eq!(info.count_total, 1, "{standings:?}");
            }
        }
    }
}

#[test]
fn the_policy_field_is_shared() {
    let field = PolicyField::new(&[QuotaPolicy::new("burst", 100)]).unwrap();
    // The first clone makes the bytes shareable; it may allocate.
    drop(field.value().clone());
    let info = measure(|| {
        black_box(field.value().clone());
    });
    assert_eq!(info.count_total, 0);
    let mut headers = HeaderMap::with_capacity(8);
    let standing = LimitStatus { name: &field.names()[0], limit: 100, remaining: 50, reset: None };
    let info = measure(|| emit::write(&mut headers, HeaderDialect::Ietf, &field, &[standing]));
    assert_eq!(info.count_total, 1, "the value of RateLimit");
}
