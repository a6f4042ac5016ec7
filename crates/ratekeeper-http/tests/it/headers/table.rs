//! The table of docs/headers.md §2, row by row, in its order.

use super::{understood_by_all, understood_unless_strict};

#[test]
fn ratelimit() {
    understood_by_all(r#"RateLimit: "default";r=50;t=30"#, "L(default - 50 30s)");
    let two = "L(a - 1 2s) L(b - 3 4s)";
    understood_by_all(r#"RateLimit: "a";r=1;t=2, "b";r=3;t=4"#, two);
    understood_by_all("RateLimit: \"a\";r=1;t=2\nRateLimit: \"b\";r=3;t=4", two);
    for ignored in [r#""a";t=5"#, r#""a";r=-1"#, r#""a";r=5.5"#] {
        understood_by_all(&format!("RateLimit: {ignored}"), "");
        understood_by_all(&format!("RateLimit: {ignored}, \"b\";r=1"), "L(b - 1 -)");
    }
    understood_by_all(r#"RateLimit: "a";r=5;t=5;acme=7"#, "L(a - 5 5s)");
    understood_by_all(r#"RateLimit: "a\"b";r=5"#, r#"L(a"b - 5 -)"#);
    understood_by_all(r#"RateLimit: "burst";a=80;w=45"#, "L(burst - 80 45s)");
    understood_by_all(r#"RateLimit: "burst";a=80;w=45;c=3"#, "L(burst - 80 45s)");
}

#[test]
fn ratelimit_policy() {
    let policies = r#"RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400"#;
    let read = "P(burst 100 60s) P(daily 1000 86400s)";
    understood_by_all(policies, read);
    understood_by_all(
        &format!("{policies}\nRateLimit: \"daily\";r=10;t=36000"),
        &format!("{read} L(daily 1000 10 36000s)"),
    );
}

#[test]
fn older_drafts() {
    understood_by_all("RateLimit: limit=100, remaining=50, reset=5", "L(- 100 50 5s)");
    understood_by_all("RateLimit-Limit: 100\nRateLimit-Remaining: 50\nRateLimit-Reset: 5", "L(- 100 50 5s)");
}

#[test]
fn github() {
    understood_by_all(
        "x-ratelimit-limit: 5000\nx-ratelimit-remaining: 4987\nx-ratelimit-reset: 1751374800\n\
         x-ratelimit-resource: core",
        "L(core 5000 4987 3600s)",
    );
}

#[test]
fn x() {
    understood_by_all(
        "x-rate-limit-limit: 900\nx-rate-limit-remaining: 0\nx-rate-limit-reset: 1751372460",
        "L(- 900 0 1260s)",
    );
}

#[test]
fn numeric_resets() {
    for (reset, expected) in
        [("60", "60s"), ("1751371260000", "60s"), ("1751371100", "0s"), ("1751371260.5", "60.5s")]
    {
        understood_by_all(&format!("X-RateLimit-Reset: {reset}"), &format!("L(- - - {expected})"));
    }
    understood_by_all("X-RateLimit-Reset: -5", "");
    let old = |reset: &str| format!("RateLimit-Reset: {reset}");
    understood_unless_strict(&old("1751371260"), "L(- - - 60s)", "");
    understood_unless_strict(&old("1751371260000"), "L(- - - 60s)", "");
    understood_unless_strict(&old("1.5"), "L(- - - 1.5s)", "");
    understood_by_all(&old("-1"), "");
}

#[test]
fn discord() {
    understood_by_all(
        "X-RateLimit-Limit: 5\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1751371300.123\n\
         X-RateLimit-Reset-After: 1.482\nX-RateLimit-Bucket: abcd",
        "L(abcd 5 0 1.482s)",
    );
}

#[test]
fn openai() {
    understood_by_all(
        "x-ratelimit-limit-requests: 60\nx-ratelimit-limit-tokens: 150000\nx-ratelimit-remaining-requests: 59\n\
         x-ratelimit-remaining-tokens: 149984\nx-ratelimit-reset-requests: 1s\nx-ratelimit-reset-tokens: 6m0s",
        "L(requests 60 59 1s) L(tokens 150000 149984 360s)",
    );
}

#[test]
fn anthropic() {
    understood_by_all(
        "anthropic-ratelimit-requests-limit: 50\nanthropic-ratelimit-requests-remaining: 0\n\
         anthropic-ratelimit-requests-reset: 2025-07-01T12:00:30Z",
        "L(requests 50 0 30s)",
    );
}

#[test]
fn kong() {
    understood_by_all(
        "X-RateLimit-Limit-Minute: 20\nX-RateLimit-Remaining-Minute: 7",
        "P(minute 20 60s) L(minute 20 7 -)",
    );
}

#[test]
fn shopify() {
    understood_by_all("X-Shopify-Shop-Api-Call-Limit: 32/40", "L(- 40 8 -)");
}

#[test]
fn retry_after() {
    for (value, expected) in [
        ("120", "RA(120s)"),
        ("Tue, 01 Jul 2025 12:01:30 GMT", "RA(90s)"),
        ("Tuesday, 01-Jul-25 12:01:30 GMT", "RA(90s)"),
        ("Tue Jul  1 12:01:30 2025", "RA(90s)"),
        ("Tue, 01 Jul 2025 11:00:00 GMT", "RA(0s)"),
        ("-5", ""),
        ("soon", ""),
    ] {
        understood_by_all(&format!("Retry-After: {value}"), expected);
    }
    understood_unless_strict("Retry-After: 2.0", "RA(2s)", "");
    understood_unless_strict("Retry-After: Tue, 01 Jul 2025 12:01:30 UTC", "RA(90s)", "");
    understood_by_all(
        "Retry-After: 5\nRetry-After: Tue, 01 Jul 2025 12:01:30 GMT\nRetry-After: 60",
        "RA(90s)",
    );
    understood_by_all("Retry-After: 5\nRetry-After: soon", "RA(5s)");
}
