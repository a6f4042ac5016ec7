//! What is charged when: before, afterwards, given back, or not at all.

use crate::envoy::rules;
use test_support::envoy::{self, ERRORS, Envoy, PATIENT};
use test_support::wait::until;

/// Waits until a look tells that so much is left: what is charged when a stream ends is answered to nobody.
fn await_left(envoy: &Envoy, path: &str, user: (&str, &str), left: u64) {
    let mut seen = 0;
    until(&format!("{path} {user:?}: {left} left"), || {
        seen = envoy.get(path, &[user]).number("x-ratelimit-remaining");
        seen == left
    });
}

/// What a request costs is known when it is over: look before, charge afterwards.
#[test]
fn tokens_are_charged_when_the_stream_is_over() {
    if envoy::binary().is_none() {
        return;
    }
    let (server, _folder) = rules::server(&[]);
    let envoy = Envoy::start(&rules::asked(&server), PATIENT).unwrap();
    let user = ("x-user", "alice");
    for (before, after) in [(10, 5), (5, 0)] {
        let seen = envoy.get("/tokens", &[user, ("x-cost", "5")]);
        assert_eq!((seen.status, seen.number("x-ratelimit-remaining")), (200, before), "{seen:?}");
        await_left(&envoy, "/look-tokens", user, after);
    }
    // Ten of ten are used, and a look is over only when it is more: so a third request passes, and a fourth does not.
    let seen = envoy.get("/tokens", &[user, ("x-cost", "5")]);
    assert_eq!((seen.status, seen.number("x-ratelimit-remaining")), (200, 0), "{seen:?}");
    until("the third is charged", || envoy.get("/look-tokens", &[user]).status == 429);
    let seen = envoy.get("/tokens", &[user, ("x-cost", "5")]);
    assert_eq!((seen.status, seen.header("x-envoy-ratelimited")), (429, Some("true")), "{seen:?}");
    assert_eq!(envoy.get("/tokens", &[("x-user", "bob")]).status, 200);
    assert_eq!(envoy.stat(ERRORS), 0);
}

#[test]
fn negative_hits_are_given_back_when_the_stream_is_over() {
    if envoy::binary().is_none() {
        return;
    }
    let (server, _folder) = rules::server(&[]);
    let envoy = Envoy::start(&rules::asked(&server), PATIENT).unwrap();
    let user = ("x-user", "alice");
    // Far more than the three that there are.
    for _ in 0..8 {
        let seen = envoy.get("/lend", &[user]);
        assert_eq!((seen.status, seen.number("x-ratelimit-remaining")), (200, 2), "{seen:?}");
        await_left(&envoy, "/look-lent", user, 3);
    }
    assert_eq!(envoy.stat(ERRORS), 0);
}

/// By GCRA, a refused request charges none of its descriptors, and the wait that it is told is exact.
#[test]
fn a_refused_request_burns_no_other_quota() {
    if envoy::binary().is_none() {
        return;
    }
    let (server, _folder) = rules::server(&[]);
    let envoy = Envoy::start(&rules::asked(&server), PATIENT).unwrap();
    let both = [("x-tenant", "acme"), ("x-user", "alice")];
    for left in [2, 1, 0] {
        let seen = envoy.get("/account", &both);
        assert_eq!((seen.status, seen.number("x-ratelimit-remaining")), (200, left), "{seen:?}");
    }
    // Three a year, one after the other: the next is there a third of a year after the first.
    let third = 31_536_000 / 3;
    for _ in 0..4 {
        let seen = envoy.get("/account", &both);
        assert_eq!(seen.status, 429, "{seen:?}");
        assert!((third - 60..=third).contains(&seen.number("retry-after")), "{seen:?}");
        assert_eq!(
            seen.header("x-ratelimit-limit"),
            Some("3, 10;w=31536000, 3;w=31536000"),
            "as written, whatever the algorithm: {seen:?}"
        );
    }
    let seen = envoy.get("/look-tenant", &both);
    assert_eq!((seen.status, seen.number("x-ratelimit-remaining")), (200, 7), "{seen:?}");
    let seen = envoy.get("/account", &[("x-tenant", "acme"), ("x-user", "bob")]);
    assert_eq!((seen.status, seen.number("x-ratelimit-remaining")), (200, 2), "{seen:?}");
    assert_eq!(envoy.stat(ERRORS), 0);
}
