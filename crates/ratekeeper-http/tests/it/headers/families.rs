//! Beyond the table: each family's corners, and several families in one response.

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderValue};
use ratekeeper_http::headers::{MAX_ENTRIES, MAX_NAME, ParseMode, parse, parse_lines, parse_with};

use super::{DATE, notation, understood, understood_by_all, understood_unless_strict, wrong_clock};

#[test]
fn case_does_not_matter() {
    for name in ["RATELIMIT", "ratelimit", "rAtElImIt"] {
        understood_by_all(&format!("{name}: \"a\";r=1"), "L(a - 1 -)");
    }
    understood_by_all("X-RATELIMIT-LIMIT-TOKENS: 5", "L(tokens 5 - -)");
    understood_by_all("RETRY-AFTER: 5", "RA(5s)");
    understood_by_all("AGE: 5", "cached");
}

#[test]
fn a_malformed_field_spoils_no_other() {
    understood_by_all("RateLimit: ((\nRateLimit-Policy: \"a\";q=1\nRetry-After: 3", "P(a 1 -) RA(3s)");
    understood_by_all("RateLimit: \"a\";r=1\nRateLimit-Policy: \"", "L(a - 1 -)");
    understood_by_all("X-RateLimit-Limit: many\nX-RateLimit-Remaining: 3", "L(- - 3 -)");
    understood_by_all("X-RateLimit-Remaining: -1\nX-RateLimit-Limit: 5", "L(- 5 - -)");
    understood_by_all("X-RateLimit-Resource: core", "");
    understood_by_all("X-RateLimit-Remaining-Tokens: none\nX-RateLimit-Foo-Tokens: 5", "");
}

#[test]
fn one_line_of_several_is_malformed() {
    understood_unless_strict("RateLimit: \"a\";r=1\nRateLimit: !", "L(a - 1 -)", "");
    understood_unless_strict("RateLimit-Policy: \"a\";q=1\nRateLimit-Policy: !", "P(a 1 -)", "");
    understood_by_all("RateLimit: \"a\";r=1, !", "");
    understood_by_all("RateLimit:\nRateLimit: \"a\";r=1", "L(a - 1 -)");
}

#[test]
fn parameters_of_the_wrong_type() {
    understood_unless_strict(r#"RateLimit: "a";r=1;t=-5"#, "L(a - 1 -)", "");
    understood_unless_strict(r#"RateLimit: "a";r=1;t="5""#, "L(a - 1 -)", "");
    understood_unless_strict(r#"RateLimit-Policy: "a";q=1;w=x"#, "P(a 1 -)", "");
    understood_by_all(r#"RateLimit-Policy: "a";q=-1, "b";w=1, "c";q=1;qu=5, "d";q="1""#, "");
    understood_by_all(r#"RateLimit: ("a");r=1, 5;r=1, ?1;r=1, :YQ==:;r=1"#, "");
    understood_by_all(r#"RateLimit: "a";r=-1;a=5"#, "");
}

/// What RFC 9651 allows is read, even where no rate-limit field uses it; a line that breaks it says nothing.
#[test]
fn structured_fields_by_the_letter() {
    for (line, expected) in [
        (r#""a\"b\\c";r=5"#, r#"L(a"b\c - 5 -)"#),
        (r#""b" ; r=2"#, ""),
        (r#""b"; r=2;r=3"#, "L(b - 3 -)"),
        ("\"a\";r=1\t,\t\"b\";r=2", "L(a - 1 -) L(b - 2 -)"),
        (r#"("a" b;x=1 2);r=3, "c";r=1, ()"#, "L(c - 1 -)"),
        (r#""a";r=1;w=@1751371200;x=?0;y=%"f%c3%bc";z=-1.5;flag"#, "L(a - 1 -)"),
        (r#""a";r=1;pk=:c2VjcmV0Cg:"#, "L(a - 1 -)"),
        (r#""a";r=999999999999999"#, "L(a - 999999999999999 -)"),
        (r#""a";r=-0"#, "L(a - 0 -)"),
        (r#""a";r=0001"#, "L(a - 1 -)"),
        (r#""a";r=1,"#, ""),
        (r#","a";r=1"#, ""),
        (r#""a";r=1,,"b";r=1"#, ""),
        (r#""a";r=1 "b";r=1"#, ""),
        (r#""a";r=1000000000000000"#, ""),
        (r#""a";r=1;pk=:!!:"#, ""),
        (r#""a";r=1;x=@1.5"#, ""),
        (r#""a";r=1;x=%"f%C3%BC""#, ""),
        (r#""a";r=1;x=?2"#, ""),
        (r#""a";r=1;x=1.2345"#, ""),
        (r#""a";r=1;R=1"#, ""),
        ("\"tab\there\";r=1", ""),
        (r#""open;r=1"#, ""),
    ] {
        understood_by_all(&format!("RateLimit: {line}"), expected);
    }
    understood_by_all("RateLimit: limit=100;w=5, flag;x, limit=7", "L(- 7 - -)");
}

#[test]
fn tokens_as_names_and_units() {
    understood_unless_strict("RateLimit: default;r=5;t=1", "L(default - 5 1s)", "");
    understood_unless_strict(
        "RateLimit-Policy: default;q=5;qu=content-bytes",
        "P(default 5 - content-bytes)",
        "",
    );
}

#[test]
fn units_and_partition_keys() {
    understood_by_all(
        r#"RateLimit-Policy: "a";q=1;w=2;qu="concurrent-requests";pk=:c2VjcmV0:, "b";q=1;qu="requests", "c";q=1;qu="acme""#,
        "P(a 1 2s concurrent-requests secret) P(b 1 -) P(c 1 - acme)",
    );
}

#[test]
fn joined_by_name_when_names_repeat() {
    let two = r#"RateLimit-Policy: "a";q=10;w=1, "a";q=100;w=60"#;
    let read = "P(a 10 1s) P(a 100 60s)";
    // In order, also when split over lines or doubled by a proxy.
    understood(
        &format!("{two}\nRateLimit: \"a\";r=1, \"a\";r=2"),
        &format!("{read} L(a 10 1 -) L(a 100 2 -)"),
    );
    understood(
        &format!("{two}\n{two}\nRateLimit: \"a\";r=1\nRateLimit: \"a\";r=1\nRateLimit: \"a\";r=2"),
        &format!("{read} L(a 10 1 -) L(a 100 2 -)"),
    );
    // More standings than policies: the surplus is about something that was not told.
    understood(
        &format!("{two}\nRateLimit: \"a\";r=1, \"a\";r=2, \"a\";r=3"),
        &format!("{read} L(a 10 1 -) L(a 100 2 -) L(a - 3 -)"),
    );
    // A sole policy serves all.
    understood(
        "RateLimit-Policy: \"a\";q=10\nRateLimit: \"a\";r=1, \"b\";r=1, \"a\";r=2",
        "P(a 10 -) L(a 10 1 -) L(b - 1 -) L(a 10 2 -)",
    );
}

#[test]
fn joined_by_partition_key() {
    let policies = r#"RateLimit-Policy: "a";q=10;pk=:eA==:, "a";q=20;pk=:eQ==:"#;
    let read = "P(a 10 - x) P(a 20 - y)";
    understood(
        &format!("{policies}\nRateLimit: \"a\";r=3;pk=:eg==:, \"a\";r=1;pk=:eQ==:, \"a\";r=2;pk=:eA==:"),
        &format!("{read} L(a - 3 -) L(a 20 1 -) L(a 10 2 -)"),
    );
}

#[test]
fn draft_07() {
    let split = "RateLimit: limit=100\nRateLimit: remaining=50, reset=5";
    understood_by_all(split, "L(- 100 50 5s)");
    understood_by_all("RateLimit: limit=100, remaining=-1, reset=5, limit=7", "L(- 7 - 5s)");
    understood_by_all("RateLimit: foo=1", "");
    understood_by_all("RateLimit-Policy: 100;w=60, 1000;w=3600", "P(- 100 60s) P(- 1000 3600s)");
}

#[test]
fn drafts_before_07() {
    understood_by_all(
        "RateLimit-Limit: 100, 10;w=1, 100;w=60;comment=\"x\"\nRateLimit-Remaining: 9",
        "P(- 10 1s) P(- 100 60s) L(- 100 9 -)",
    );
    // Docker Hub.
    understood_by_all(
        "ratelimit-limit: 100;w=21600\nratelimit-remaining: 76;w=21600",
        "P(- 100 21600s) L(- 100 76 -)",
    );
    understood_unless_strict("RateLimit-Remaining: 9.9", "L(- - 9 -)", "");
}

#[test]
fn doubled_lines_of_one_number() {
    understood_by_all("X-RateLimit-Limit: 60\nX-RateLimit-Limit: 60", "L(- 60 - -)");
    // Of different ones, the cautious.
    understood_by_all(
        "X-RateLimit-Limit: 60\nX-RateLimit-Limit: 50\nX-RateLimit-Remaining: 3, 7\n\
         X-RateLimit-Reset: 9\nX-RateLimit-Reset: 1751371210\nX-RateLimit-Reset: soon",
        "L(- 50 3 10s)",
    );
}

#[test]
fn resets_in_every_spelling() {
    for (reset, expected) in [
        ("6m0s", "360s"),
        ("1h2m3.5s", "3723.5s"),
        ("250ms", "0.25s"),
        ("12", "12s"),
        ("2025-07-01T12:00:30Z", "30s"),
        ("2025-07-01T14:00:30.25+02:00", "30.25s"),
        ("2025-07-01T07:00:30-05:00", "30s"),
        ("2025-07-01T11:59:59Z", "0s"),
        ("Tue, 01 Jul 2025 12:01:00 GMT", "60s"),
    ] {
        let expected_of = |name: &str| format!("L({name} - - {expected})");
        understood_by_all(&format!("x-ratelimit-reset-tokens: {reset}"), &expected_of("tokens"));
        understood_by_all(
            &format!("anthropic-ratelimit-input-tokens-reset: {reset}"),
            &expected_of("input-tokens"),
        );
        understood_by_all(&format!("x-ratelimit-reset: {reset}"), &expected_of("-"));
        understood(&format!("ratelimit-reset: {reset}"), &expected_of("-"));
    }
}

#[test]
fn every_window_of_kong() {
    for (window, seconds) in [
        ("Second", 1),
        ("Minute", 60),
        ("Hour", 3_600),
        ("Day", 86_400),
        ("Month", 2_592_000),
        ("Year", 31_536_000),
    ] {
        let name = window.to_lowercase();
        understood_by_all(
            &format!("X-RateLimit-Limit-{window}: 20\nX-RateLimit-Remaining-{window}: 7"),
            &format!("P({name} 20 {seconds}s) L({name} 20 7 -)"),
        );
    }
    understood_by_all("X-RateLimit-Remaining-Minute: 7", "L(minute - 7 -)");
    understood_by_all("X-RateLimit-Limit-Videos-Minute: 7", "P(videos-minute 7 60s) L(videos-minute 7 - -)");
}

#[test]
fn kong_with_the_older_draft_beside_it() {
    understood_by_all(
        "RateLimit-Limit: 20\nRateLimit-Remaining: 7\nRateLimit-Reset: 13\n\
         X-RateLimit-Limit-Minute: 20\nX-RateLimit-Remaining-Minute: 7\n\
         X-RateLimit-Limit-Hour: 500\nX-RateLimit-Remaining-Hour: 400",
        "P(minute 20 60s) P(hour 500 3600s) L(minute 20 7 13s) L(hour 500 400 -)",
    );
}

#[test]
fn shopify_overdrawn_or_odd() {
    understood_by_all("X-Shopify-Shop-Api-Call-Limit: 50/40", "L(- 40 0 -)");
    for odd in ["32", "32/", "/40", "1/2/3", "a/b", "-1/40"] {
        understood_by_all(&format!("X-Shopify-Shop-Api-Call-Limit: {odd}"), "");
    }
}

#[test]
fn several_families() {
    let x = "X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 1751371231\n";
    // The same limit in two dialects, rounded differently.
    understood_by_all(&format!("{x}RateLimit: \"a\";r=50;t=30"), "L(a 100 50 30s)");
    understood_by_all(&format!("{x}RateLimit: limit=100, remaining=50, reset=30"), "L(- 100 50 30s)");
    // A different one.
    understood_by_all(&format!("{x}RateLimit: \"a\";r=7;t=30"), "L(a - 7 30s) L(- 100 50 31s)");
    // Names from everywhere; about one name the higher rank is right.
    understood_by_all(
        "anthropic-ratelimit-requests-remaining: 1\nanthropic-ratelimit-tokens-remaining: 2\n\
         x-ratelimit-remaining-requests: 3\nx-ratelimit-limit-requests: 9\nRateLimit: \"requests\";r=4",
        "L(requests - 4 -) L(tokens - 2 -)",
    );
}

#[test]
fn names_that_cannot_be_shown() {
    let mut headers = HeaderMap::new();
    headers.insert("x-ratelimit-limit", HeaderValue::from_static("5"));
    headers.insert("x-ratelimit-bucket", HeaderValue::from_static("b"));
    headers.insert("x-ratelimit-resource", HeaderValue::from_bytes(b"\xff\xfe").unwrap());
    assert_eq!(notation(&parse(&headers, wrong_clock())), "L(b 5 - -)");
    headers.insert("x-ratelimit-resource", HeaderValue::from_static("r"));
    assert_eq!(notation(&parse(&headers, wrong_clock())), "L(r 5 - -)");
    let long = "x".repeat(MAX_NAME + 1);
    understood_by_all(&format!("RateLimit: \"{long}\";r=1, \"b\";r=1"), "L(b - 1 -)");
    understood_by_all(&format!("x-ratelimit-limit-{long}: 1"), "");
    understood_by_all(&format!("x-ratelimit-limit: 1\nx-ratelimit-resource: {long}"), "L(- 1 - -)");
    let fits = "x".repeat(MAX_NAME);
    understood_by_all(&format!("RateLimit: \"{fits}\";r=1"), &format!("L({fits} - 1 -)"));
}

#[test]
fn no_more_entries_than_the_bound() {
    let many = MAX_ENTRIES * 3;
    let lists = |field: &str, key: &str| -> String {
        (0..many).map(|n| format!("{field}: \"{n}\";{key}=1, \"b{n}\";{key}=2\n")).collect()
    };
    let fields = |name: &dyn Fn(usize) -> String| -> String {
        (0..many).map(|n| format!("{}: {n}\n", name(n))).collect()
    };
    for text in [
        lists("RateLimit", "r"),
        fields(&|n| format!("x-ratelimit-limit-n{n}")),
        fields(&|n| format!("x-rate-limit-limit-n{n}")),
        fields(&|n| format!("anthropic-ratelimit-n{n}-limit")),
        (0..many).map(|n| format!("x-shopify-shop-api-call-limit: 0/{n}\n")).collect(),
        // Each family within the bound, their sum not.
        format!(
            "{}RateLimit: {}",
            fields(&|n| format!("x-ratelimit-limit-n{}", n % MAX_ENTRIES)),
            (0..MAX_ENTRIES).map(|n| format!("\"{n}\";r=1")).collect::<Vec<_>>().join(",")
        ),
    ] {
        assert_eq!(parse_lines(text.as_bytes(), wrong_clock()).limits.len(), MAX_ENTRIES);
    }
    let windows: Vec<_> = (0..many).map(|n| format!("{n};w={n}")).collect();
    for text in [lists("RateLimit-Policy", "q"), format!("RateLimit-Limit: {}", windows.join(","))] {
        assert_eq!(parse_lines(text.as_bytes(), wrong_clock()).policies.len(), MAX_ENTRIES);
    }
}

#[test]
fn huge_numbers_saturate_or_are_ignored() {
    let huge = "9".repeat(40);
    let max = u64::MAX;
    understood_by_all(&format!("Retry-After: {huge}"), &format!("RA({max}s)"));
    understood_by_all(&format!("X-RateLimit-Limit: {huge}"), &format!("L(- {max} - -)"));
    understood_by_all(&format!("X-RateLimit-Remaining-Tokens: {huge}"), &format!("L(tokens - {max} -)"));
    understood_by_all(&format!("X-Shopify-Shop-Api-Call-Limit: {huge}/{huge}"), &format!("L(- {max} 0 -)"));
    understood_by_all(&format!("X-RateLimit-Reset-After: {huge}"), &format!("L(- - - {max}s)"));
    understood_by_all("RateLimit: \"a\";r=999999999999999", "L(a - 999999999999999 -)");
    understood_by_all("RateLimit: \"a\";r=1000000000000000", "");
    understood_by_all(&format!("Age: {huge}"), "cached");
    let reset = parse_lines(format!("X-RateLimit-Reset: {huge}").as_bytes(), UNIX_EPOCH).limits[0].reset;
    assert_eq!(reset, Some(Duration::from_millis(max)));
}

#[test]
fn cached() {
    for (age, expected) in
        [("0", ""), ("1", "cached"), ("0\nAge: 7", "cached"), ("0, 3", "cached"), ("x", ""), ("-1", "")]
    {
        understood_by_all(&format!("Age: {age}"), expected);
    }
}

#[test]
fn the_local_clock_when_the_response_has_no_date() {
    let now = UNIX_EPOCH + Duration::from_secs(1_751_371_200);
    let wait = |headers: &str| parse_lines(headers.as_bytes(), now).retry_after.unwrap().as_secs();
    assert_eq!(wait("Retry-After: Tue, 01 Jul 2025 12:01:30 GMT"), 90);
    assert_eq!(wait("Date: whenever\nRetry-After: Tue, 01 Jul 2025 12:01:30 GMT"), 90);
    assert_eq!(wait("Date: Tue, 01 Jul 2025 12:01:00 GMT\nRetry-After: Tue, 01 Jul 2025 12:01:30 GMT"), 30);
}

#[test]
fn text_as_curl_prints_it() {
    let text = "HTTP/1.1 301 Moved Permanently\r\nRetry-After: 99\r\nRateLimit: \"old\";r=1\r\n\r\n\
                HTTP/2 200 \r\ndate: Tue, 01 Jul 2025 12:00:00 GMT\r\nratelimit: \"new\";r=2;t=3\r\n\
                x-other: RateLimit: \"no\";r=1\r\n\r\n";
    assert_eq!(notation(&parse_lines(text.as_bytes(), wrong_clock())), "L(new - 2 3s)");
    assert!(parse_lines(b"", wrong_clock()).is_empty());
    assert!(!parse_lines(b"Retry-After: 0", wrong_clock()).is_empty());
}

#[test]
fn a_header_map_reads_like_its_text() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("Date", DATE.trim_start_matches("Date: ").trim_end()),
        ("RateLimit", "default;r=1"),
        ("Retry-After", "2.5"),
        ("X-RateLimit-Reset-Tokens", "1s"),
    ] {
        headers.append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    assert_eq!(notation(&parse(&headers, wrong_clock())), "L(default - 1 -) L(tokens - - 1s) RA(2.5s)");
    assert_eq!(notation(&parse_with(&headers, wrong_clock(), ParseMode::Strict)), "L(tokens - - 1s)");
}

/// So much in no time at all was read as a policy.
#[test]
fn a_window_of_no_time_is_no_policy() {
    understood_by_all(r#"RateLimit-Policy: "a";q=10;w=0"#, "");
    understood_by_all(r#"RateLimit-Policy: "a";q=10;w=0, "b";q=5;w=1"#, "P(b 5 1s)");
    understood_by_all("RateLimit-Policy: \"a\";q=10;w=0\nRateLimit: \"a\";r=3", "L(a - 3 -)");
    understood_by_all("RateLimit-Policy: 10;w=0", "");
    understood_by_all("RateLimit-Limit: 100, 10;w=0", "L(- 100 - -)");
    understood_by_all("X-RateLimit-Policy: 10;w=0", "");
    // In the later dialect `w` is the reset, and none is fine.
    understood_by_all(r#"RateLimit: "a";a=5;w=0"#, "L(a - 5 0s)");
}

/// `-1` and `-1` is how some servers write that there is no limit: what is left of it, a reset, was read as one.
#[test]
fn a_negative_quota_is_no_limit_at_all() {
    let unlimited = |name: &str| {
        format!("x-ratelimit-limit{name}: -1\nx-ratelimit-remaining{name}: -1\nx-ratelimit-reset{name}: 0s")
    };
    understood_by_all(&unlimited("-tokens"), "");
    understood_by_all(&unlimited(""), "");
    understood_by_all("x-ratelimit-limit-tokens: -1\nx-ratelimit-reset-tokens: 6m0s", "");
    understood_by_all("x-ratelimit-limit-tokens: -1.0\nx-ratelimit-reset-tokens: 6m0s", "");
    understood_by_all("ratelimit-limit: -1\nratelimit-remaining: -1\nratelimit-reset: 5", "");
    understood_by_all("anthropic-ratelimit-tokens-limit: -1\nanthropic-ratelimit-tokens-reset: 5", "");
    // The others of the response stay.
    understood_by_all(
        &format!(
            "{}\nx-ratelimit-limit-requests: 60\nx-ratelimit-remaining-requests: 59",
            unlimited("-tokens")
        ),
        "L(requests 60 59 -)",
    );
    // Only one of them is negative: that one is unknown, and the others are not.
    understood_by_all("x-ratelimit-limit: -1\nx-ratelimit-remaining: 5", "L(- - 5 -)");
    understood_by_all("x-ratelimit-remaining: -1\nx-ratelimit-reset: 5", "L(- - - 5s)");
}

/// A date without seconds was no date.
#[test]
fn a_date_needs_no_seconds() {
    understood_by_all("X-RateLimit-Reset: 2025-07-01T12:01Z", "L(- - - 60s)");
    understood_by_all("X-RateLimit-Reset: 2025-07-01 14:01+02:00", "L(- - - 60s)");
    understood_by_all("X-RateLimit-Reset: 2025-07-01T12:01", "");
}

/// Whole seconds won over the milliseconds that they were rounded from.
#[test]
fn a_wait_in_milliseconds() {
    understood_by_all("Retry-After: 2\nretry-after-ms: 1500", "RA(1.5s)");
    understood_by_all("retry-after-ms: 1500\nRetry-After: 2", "RA(1.5s)");
    understood_by_all("Retry-After-Ms: 250", "RA(0.25s)");
    understood_by_all("x-ms-retry-after-ms: 250.5\nRetry-After: 1", "RA(0.2505s)");
    understood_by_all("retry-after-ms: 1500\nretry-after-ms: 1700", "RA(1.7s)");
    for nonsense in ["-5", "soon", "", "1.5s"] {
        understood_by_all(&format!("retry-after-ms: {nonsense}\nRetry-After: 2"), "RA(2s)");
        understood_by_all(&format!("retry-after-ms: {nonsense}"), "");
    }
}

#[test]
fn policies_of_the_x_family() {
    understood_by_all(
        "X-RateLimit-Policy: \"burst\";q=100;w=60, \"daily\";q=1000;w=86400",
        "P(burst 100 60s) P(daily 1000 86400s)",
    );
    understood_by_all("X-RateLimit-Policy: 100;w=60, 1000;w=3600", "P(- 100 60s) P(- 1000 3600s)");
    understood_by_all("X-Rate-Limit-Policy: 100;w=60", "P(- 100 60s)");
    understood_by_all(
        "X-RateLimit-Policy: burst;q=100;w=60;qu=content-bytes",
        "P(burst 100 60s content-bytes)",
    );
    understood_by_all(
        "X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 3\nX-RateLimit-Policy: 100;w=60",
        "P(- 100 60s) L(- 100 3 -)",
    );
    // The same rule in two dialects is one; a name alone tells no numbers.
    understood_by_all("RateLimit-Policy: \"a\";q=5;w=1\nX-RateLimit-Policy: 5;w=1", "P(a 5 1s)");
    understood_by_all("X-RateLimit-Policy: gold", "");
    understood_by_all("X-RateLimit-Policy: 100 per minute\nX-RateLimit-Limit: 100", "L(- 100 - -)");
}
