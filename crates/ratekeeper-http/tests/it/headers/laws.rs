//! What holds for every input.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use ratekeeper_http::headers::{
    HeaderDialect, LimitName, LimitStatus, MAX_ENTRIES, ParseMode, PolicyField, QuotaPolicy, QuotaUnit,
    RATELIMIT, RATELIMIT_POLICY, emit, parse, parse_lines, parse_lines_with, parse_with,
};
use sfv::{BareItem, List, ListEntry};
use test_support::cases::config;

use super::wrong_clock;

/// Every name the codec looks at, and a few of each open-ended kind.
const FIELDS: [&str; 23] = [
    "date",
    "age",
    "retry-after",
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-ratelimit-reset-after",
    "x-ratelimit-resource",
    "x-ratelimit-bucket",
    "x-ratelimit-limit-minute",
    "x-ratelimit-reset-tokens",
    "x-rate-limit-limit",
    "x-rate-limit-remaining",
    "x-rate-limit-reset",
    "anthropic-ratelimit-requests-limit",
    "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-requests-remaining",
    "x-shopify-shop-api-call-limit",
];

fn field() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(FIELDS.to_vec())
}

/// Values that come close to making sense.
fn nearly_a_value() -> impl Strategy<Value = Vec<u8>> {
    let pieces = proptest::sample::select(vec![
        "\"a\"",
        ";r=5",
        ";t=30",
        ";q=9",
        ";w=",
        "limit=",
        ", ",
        "-",
        ".",
        "/",
        "1",
        "999999999999999",
        "e",
        "s",
        "m",
        "h",
        "ms",
        "Tue, 01 Jul 2025 12:00:00 GMT",
        "2025-07-01T12:00:00",
        "Z",
        "+02:00",
        "99999999999999999999",
        " ",
        ":",
        "\u{b5}s",
        ";pk=:eA==:",
    ]);
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        proptest::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat().into_bytes()),
    ]
}

/// A name that can be sent.
fn name() -> impl Strategy<Value = String> {
    "[ -~]{1,12}"
}

prop_compose! {
    fn policy()(
        name in name(),
        quota in 0u64..=999_999_999_999_999,
        window in proptest::option::of(1u64..=999_999_999_999_999),
        unit in prop_oneof![
            Just(QuotaUnit::Requests), Just(QuotaUnit::ContentBytes), Just(QuotaUnit::ConcurrentRequests),
            Just(QuotaUnit::Other("a\\\"b".to_owned())),
        ],
        partition_key in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..9)),
    ) -> QuotaPolicy {
        let window = window.map(Duration::from_secs);
        QuotaPolicy { name: Some(name), quota, window, unit, partition_key }
    }
}

fn distinct<T: PartialEq>(all: Vec<T>) -> Vec<T> {
    all.into_iter().fold(Vec::new(), |mut kept, new| {
        if !kept.contains(&new) {
            kept.push(new);
        }
        kept
    })
}

proptest! {
    #![proptest_config(config(2_000))]

    #[test]
    fn no_bytes_panic_and_nothing_outgrows_its_bound(
        headers in proptest::collection::vec((field(), nearly_a_value()), 0..12),
        noise in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut map = HeaderMap::new();
        let mut text = Vec::new();
        for (name, value) in &headers {
            text.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
            if let Ok(value) = HeaderValue::from_bytes(value) {
                map.append(HeaderName::from_static(name), value);
            }
        }
        text.extend_from_slice(&noise);
        for mode in [ParseMode::Lenient, ParseMode::Strict] {
            for limits in [
                parse_with(&map, wrong_clock(), mode),
                parse_lines_with(&text, wrong_clock(), mode),
                parse_lines_with(&noise, wrong_clock(), mode),
            ] {
                prop_assert!(limits.limits.len() <= MAX_ENTRIES && limits.policies.len() <= MAX_ENTRIES);
                for limit in limits.limits {
                    let known = limit.limit.is_some() || limit.remaining.is_some() || limit.reset.is_some();
                    prop_assert!(known);
                }
            }
        }
    }

    /// Strictness only ever takes away from `Retry-After`.
    #[test]
    fn strict_is_never_looser(value in nearly_a_value()) {
        let text = [b"Retry-After: ", &value[..]].concat();
        if let Some(strict) = parse_lines_with(&text, wrong_clock(), ParseMode::Strict).retry_after {
            prop_assert_eq!(parse_lines(&text, wrong_clock()).retry_after, Some(strict));
        }
    }

    /// However a list is split over lines, it reads the same.
    #[test]
    fn splits_do_not_matter(
        members in proptest::collection::vec(("[ab]", 0u64..4, proptest::option::of(0u64..4)), 1..8),
        policies in proptest::collection::vec(("[ab]", 0u64..4, proptest::option::of(1u64..4)), 1..8),
        cuts in proptest::collection::vec(any::<bool>(), 16),
    ) {
        let render = |all: &[(String, u64, Option<u64>)], count: &str, time: &str| -> Vec<String> {
            all.iter().map(|(name, n, t)| {
                let time = t.map(|t| format!(";{time}={t}")).unwrap_or_default();
                format!("\"{name}, \\\"{name}\";{count}={n}{time}")
            }).collect()
        };
        let fields = [("RateLimit", render(&members, "r", "t")), ("RateLimit-Policy", render(&policies, "q", "w"))];
        let (mut joined, mut split) = (String::new(), String::new());
        let mut cuts = cuts.into_iter();
        for (field, members) in fields {
            joined += &format!("{field}: {}\n", members.join(", "));
            split += &format!("{field}: ");
            for (index, member) in members.iter().enumerate() {
                let cut = cuts.next().unwrap_or(false);
                split += match (index, cut) { (0, _) => "", (_, true) => "\n", (_, false) => " ,\t" };
                if index > 0 && cut {
                    split += &format!("{}:", field.to_lowercase());
                }
                split += member;
            }
            split += "\n";
        }
        for mode in [ParseMode::Lenient, ParseMode::Strict] {
            let whole = parse_lines_with(joined.as_bytes(), wrong_clock(), mode);
            prop_assert!(!whole.limits.is_empty() && !whole.policies.is_empty());
            prop_assert_eq!(whole, parse_lines_with(split.as_bytes(), wrong_clock(), mode));
        }
    }

    #[test]
    fn policies_survive_the_journey(policies in proptest::collection::vec(policy(), 1..6)) {
        let field = PolicyField::new(&policies).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(RATELIMIT_POLICY, field.value().clone());
        let read = parse_with(&headers, wrong_clock(), ParseMode::Strict);
        prop_assert_eq!(read.policies, distinct(policies));
    }

    #[test]
    fn standings_survive_the_journey(
        all in proptest::collection::vec(
            (name(), any::<u64>(), proptest::option::of((any::<u64>(), 0u32..1_000_000_000))), 1..6),
    ) {
        const MOST: u64 = 999_999_999_999_999;
        let names: Vec<_> = all.iter().map(|(name, ..)| LimitName::new(name).unwrap()).collect();
        let standings: Vec<_> = all.iter().zip(&names).map(|((_, remaining, reset), name)| LimitStatus {
            name,
            limit: 5,
            remaining: *remaining,
            reset: reset.map(|(seconds, nanos)| Duration::new(seconds, nanos)),
        }).collect();
        let mut headers = HeaderMap::new();
        headers.insert(RATELIMIT, emit::rate_limit(&standings).unwrap());
        let read: Vec<_> = parse_with(&headers, wrong_clock(), ParseMode::Strict).limits
            .into_iter().map(|limit| (limit.name.unwrap(), limit.remaining.unwrap(), limit.reset)).collect();
        let sent = all.iter().map(|(name, remaining, reset)| {
            let up = |(seconds, nanos): (u64, u32)| seconds.saturating_add(u64::from(nanos > 0)).min(MOST);
            (name.clone(), (*remaining).min(MOST), reset.map(|reset| Duration::from_secs(up(reset))))
        }).collect();
        prop_assert_eq!(read, distinct(sent));
    }

    /// Whatever the dialect, a client reads one limit with the same numbers.
    #[test]
    fn dialects_say_the_same(name in name(), limit in 0u64..1_000_000, left in 0u64..1_000_000, reset in 0u64..100_000) {
        let field = PolicyField::new(&[QuotaPolicy::new(name, limit)]).unwrap();
        let reset = Duration::from_secs(reset);
        let standing = LimitStatus { name: &field.names()[0], limit, remaining: left, reset: Some(reset) };
        for dialect in [HeaderDialect::Ietf, HeaderDialect::Legacy, HeaderDialect::Both] {
            let mut headers = HeaderMap::new();
            emit::write(&mut headers, dialect, &field, &[standing]);
            let read = parse(&headers, wrong_clock()).limits;
            prop_assert_eq!(read.len(), 1, "{:?}: {:?}", dialect, read);
            prop_assert_eq!((read[0].limit, read[0].remaining, read[0].reset), (Some(limit), Some(left), Some(reset)));
        }
    }

    /// An implementation that is not ours reads what we write.
    #[test]
    fn others_read_it_too(policies in proptest::collection::vec(policy(), 1..6), left in any::<u64>()) {
        let field = PolicyField::new(&policies).unwrap();
        let read: List = sfv::Parser::new(field.value().as_bytes()).parse().unwrap();
        prop_assert_eq!(read.len(), policies.len());
        for (entry, policy) in read.iter().zip(&policies) {
            let ListEntry::Item(item) = entry else { panic!("{entry:?}") };
            prop_assert_eq!(item.bare_item.as_string().map(|s| s.as_str()), policy.name.as_deref());
            let parameter = |key: &str| item.params.get(key);
            let integer = |key| parameter(key).and_then(BareItem::as_integer).map(i64::from);
            prop_assert_eq!(integer("q"), i64::try_from(policy.quota).ok());
            prop_assert_eq!(integer("w"), policy.window.and_then(|w| i64::try_from(w.as_secs()).ok()));
            let unit = parameter("qu").and_then(BareItem::as_string).map_or("requests", |unit| unit.as_str());
            prop_assert_eq!(unit, policy.unit.as_str());
            let key = parameter("pk").and_then(BareItem::as_byte_sequence);
            prop_assert_eq!(key, policy.partition_key.as_deref());
        }
        let standings: Vec<_> = field.names().iter()
            .map(|name| LimitStatus { name, limit: 1, remaining: left, reset: Some(Duration::from_secs(left)) })
            .collect();
        let value = emit::rate_limit(&standings).unwrap();
        let read: List = sfv::Parser::new(value.as_bytes()).parse().unwrap();
        for (entry, policy) in read.iter().zip(&policies) {
            let ListEntry::Item(item) = entry else { panic!("{entry:?}") };
            prop_assert_eq!(item.bare_item.as_string().map(|s| s.as_str()), policy.name.as_deref());
            for key in ["r", "t"] {
                let number = item.params.get(key).and_then(BareItem::as_integer).map(i64::from);
                prop_assert_eq!(number, i64::try_from(left.min(999_999_999_999_999)).ok());
            }
        }
    }
}
