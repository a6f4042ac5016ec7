//! What a client of Envoy is told.

use crate::envoy::rules::{self, RULES};
use test_support::envoy::{self, ERRORS, Envoy, PATIENT, Response};
use test_support::folder::Folder;
use test_support::server::Server;

const YEAR: u64 = 31_536_000;
const MONTH: u64 = 2_592_000;

/// Until a window of this length ends, give or take what the answer took.
fn until_its_end(window: u64) -> std::ops::RangeInclusive<u64> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let left = window - now % window;
    left.saturating_sub(1)..=left + 60
}

fn is_refused(seen: &Response) {
    assert_eq!(seen.status, 429, "{seen:?}");
    assert_eq!(seen.header("x-envoy-ratelimited"), Some("true"), "{seen:?}");
    assert_eq!(seen.number("x-ratelimit-remaining"), 0, "{seen:?}");
    assert_eq!(seen.header("retry-after"), seen.header("x-ratelimit-reset"), "{seen:?}");
}

#[test]
fn statuses_and_headers_within_and_over() {
    if envoy::binary().is_none() {
        return;
    }
    let (server, _folder) = rules::server(&[]);
    let envoy = Envoy::start(&rules::asked(&server), PATIENT).unwrap();
    for remaining in [1, 0] {
        let seen = envoy.get("/", &[("x-user", "alice")]);
        assert_eq!((seen.status, seen.body.as_str()), (200, "ok"), "{seen:?}");
        assert_eq!(seen.header("x-ratelimit-limit"), Some("2, 2;w=31536000;name=\"per-user\""), "{seen:?}");
        assert_eq!(seen.number("x-ratelimit-remaining"), remaining);
        assert!(until_its_end(YEAR).contains(&seen.number("x-ratelimit-reset")), "{seen:?}");
        assert_eq!(seen.header("retry-after"), None);
        assert_eq!(seen.header("x-envoy-ratelimited"), None);
    }
    for _ in 0..2 {
        let seen = envoy.get("/", &[("x-user", "alice")]);
        is_refused(&seen);
        assert_eq!(seen.header("x-ratelimit-limit"), Some("2, 2;w=31536000;name=\"per-user\""), "{seen:?}");
        assert!(until_its_end(YEAR).contains(&seen.number("retry-after")), "{seen:?}");
        assert_eq!(seen.body, "");
    }
    assert_eq!(
        envoy.get("/", &[("x-user", "bob")]).number("x-ratelimit-remaining"),
        1,
        "a counter of his own"
    );
    assert_eq!(envoy.stat("cluster.upstream.ratelimit.ok"), 3);
    assert_eq!(envoy.stat("cluster.upstream.ratelimit.over_limit"), 2);
    assert_eq!(envoy.stat(ERRORS), 0);
}

#[test]
fn what_finds_no_rule_passes_without_headers() {
    if envoy::binary().is_none() {
        return;
    }
    let (server, _folder) = rules::server(&[]);
    let envoy = Envoy::start(&rules::asked(&server), PATIENT).unwrap();
    let seen = envoy.get("/free", &[("x-user", "alice")]);
    assert_eq!(seen.status, 200);
    for name in ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "retry-after"] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    assert_eq!(envoy.stat("cluster.upstream.ratelimit.ok"), 1, "it was asked");
}

#[test]
fn a_limit_that_envoy_brings() {
    if envoy::binary().is_none() {
        return;
    }
    let (server, _folder) = rules::server(&[]);
    let envoy = Envoy::start(&rules::asked(&server), PATIENT).unwrap();
    // The file has no rule for `plan`: five a month is what Envoy says.
    for remaining in (0..5).rev() {
        let seen = envoy.get("/", &[("x-plan", "gold")]);
        assert_eq!((seen.status, seen.number("x-ratelimit-remaining")), (200, remaining), "{seen:?}");
        assert_eq!(seen.header("x-ratelimit-limit"), Some("5, 5;w=2592000"), "no name");
        assert!(until_its_end(MONTH).contains(&seen.number("x-ratelimit-reset")), "{seen:?}");
    }
    is_refused(&envoy.get("/", &[("x-plan", "gold")]));
    // Both at once: the policies of all, the numbers of the one with least left.
    let seen = envoy.get("/", &[("x-user", "alice"), ("x-plan", "silver")]);
    let policies = "2, 2;w=31536000;name=\"per-user\", 5;w=2592000";
    assert_eq!(seen.header("x-ratelimit-limit"), Some(policies), "{seen:?}");
    assert_eq!((seen.status, seen.number("x-ratelimit-remaining")), (200, 1));
    // One of two is over: refused, until that one lets it pass.
    let seen = envoy.get("/", &[("x-user", "bob"), ("x-plan", "gold")]);
    is_refused(&seen);
    let policies = "5, 2;w=31536000;name=\"per-user\", 5;w=2592000";
    assert_eq!(seen.header("x-ratelimit-limit"), Some(policies), "{seen:?}");
    assert_eq!(envoy.stat(ERRORS), 0);
}

/// Standard headers and a body that says why, where the operator wants them: Envoy hands both on.
#[test]
fn ietf_headers_and_a_problem_pass_through() {
    if envoy::binary().is_none() {
        return;
    }
    let folder = Folder::new("envoy-ietf");
    folder.write("edge.yaml", RULES);
    let config = folder.write("a.toml", "[rls]\nheaders = \"ietf\"\nbody = \"problem\"\n");
    let server = Server::with(&["--config", &config, "--rls", &folder.path("edge.yaml")]);
    let envoy = Envoy::start(&rules::asked(&server), PATIENT).unwrap();
    let seen = envoy.get("/", &[("x-user", "alice")]);
    assert_eq!((seen.status, seen.body.as_str()), (200, "ok"));
    let limit = seen.header("ratelimit").unwrap_or_else(|| panic!("no RateLimit: {seen:?}"));
    assert!(limit.contains(";r=1;t="), "{limit}");
    let policy = seen.header("ratelimit-policy").unwrap_or_else(|| panic!("no RateLimit-Policy: {seen:?}"));
    assert!(policy.contains(";q=2;w=31536000"), "{policy}");
    assert_eq!(seen.header("retry-after"), None);
    envoy.get("/", &[("x-user", "alice")]);
    let seen = envoy.get("/", &[("x-user", "alice")]);
    is_refused(&seen);
    assert!(seen.header("ratelimit").is_some_and(|limit| limit.contains(";r=0;t=")), "{seen:?}");
    assert_eq!(seen.count("retry-after"), 1, "one, and not Envoy's beside ours: {seen:?}");
    assert_eq!(seen.header("content-type"), Some("application/problem+json"), "{seen:?}");
    let problem: serde_json::Value = serde_json::from_str(&seen.body).unwrap();
    assert_eq!(problem["status"], 429, "{problem}");
    assert!(problem["type"].is_string() && problem["title"].is_string(), "{problem}");
}
