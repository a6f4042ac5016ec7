//! What Envoy's clients see when something behind it does not answer, or is asked too much.

use crate::envoy::rules;
use test_support::envoy::{self, ERRORS, Envoy, PATIENT};
use test_support::redis::server::Server as Redis;
use test_support::wait::until;
use test_support::wait::until_stopped;

/// How long Envoy waits for a server that is to be given up, as in its configuration: long enough for a server that only is slow.
const TIMEOUT: &str = "5s";

#[test]
fn a_server_that_hangs_is_an_error_after_the_timeout_and_serves_again_afterwards() {
    if envoy::binary().is_none() {
        return;
    }
    let (server, _folder) = rules::server(&[]);
    let envoy = Envoy::start(&rules::asked(&server), TIMEOUT).unwrap();
    assert_eq!(envoy.get("/free", &[("x-user", "alice")]).status, 200);
    let before = envoy.stat(ERRORS);
    server.signal("STOP");
    until_stopped(server.pid());
    assert_eq!(envoy.get("/free", &[("x-user", "alice")]).status, 503);
    assert_eq!(envoy.stat(ERRORS), before + 1);
    server.signal("CONT");
    until("it serves again", || envoy.get("/free", &[("x-user", "alice")]).status == 200);
    // And limits as before.
    for status in [200, 200, 429] {
        assert_eq!(envoy.get("/", &[("x-user", "later")]).status, status);
    }
}

/// A rule may say what holds while the store is away. Our word must come before Envoy gives up.
#[test]
fn a_store_that_hangs_is_answered_for_in_time() {
    if envoy::binary().is_none() {
        return;
    }
    let redis = Redis::redis();
    let (server, _folder) = rules::server(&["--store", &redis.url(), "--redis-timeout", "60s"]);
    // The server waits for its store for four fifths of this time, and answers by the rule after that.
    let envoy = Envoy::start(&rules::asked(&server), "15s").unwrap();
    assert_eq!(envoy.get("/fragile", &[("x-user", "alice")]).status, 200);
    redis.freeze();
    assert_eq!(envoy.get("/fragile", &[("x-user", "alice")]).status, 200, "its rule is open");
    assert_eq!(envoy.stat(ERRORS), 0, "and Envoy was answered");
    assert_eq!(envoy.get("/", &[("x-user", "alice")]).status, 503, "the other rules leave it to Envoy");
    assert_eq!(envoy.stat(ERRORS), 1);
    redis.thaw();
    until("it limits again", || {
        envoy.get("/fragile", &[("x-user", "alice")]).header("x-ratelimit-remaining").is_some()
    });
}

/// An error would let the request pass: a long value must be limited like any other.
#[test]
fn a_header_of_fifty_kilobytes_is_limited() {
    if envoy::binary().is_none() {
        return;
    }
    let (server, _folder) = rules::server(&[]);
    let envoy = Envoy::start(&rules::asked(&server), PATIENT).unwrap();
    let long = "x".repeat(50_000);
    // On the second route it is in the message twice.
    for path in ["/", "/wide"] {
        let long = format!("{long}{path}");
        for (status, remaining) in [(200, 1), (200, 0), (429, 0)] {
            let seen = envoy.get(path, &[("x-user", &long)]);
            assert_eq!((seen.status, seen.number("x-ratelimit-remaining")), (status, remaining), "{path}");
        }
        let other = envoy.get(path, &[("x-user", &format!("{long}!"))]);
        assert_eq!((other.status, other.number("x-ratelimit-remaining")), (200, 1), "only the end differs");
    }
    assert_eq!(envoy.stat(ERRORS), 0);
}

/// Nor must bytes that are no UTF-8 be an error: any client can send them.
#[test]
fn a_header_that_is_no_text_is_limited() {
    if envoy::binary().is_none() {
        return;
    }
    let (server, _folder) = rules::server(&[]);
    let envoy = Envoy::start(&rules::asked(&server), PATIENT).unwrap();
    let get = |value: &[u8]| envoy.connect().get_with_bytes("/", &[("x-user", value)]).status;
    // Whatever the byte is: those that differ in it alone share a counter.
    assert_eq!([get(b"bob\xff"), get(b"bob\xfe"), get(b"bob\xff")], [200, 200, 429]);
    assert_eq!(get(b"bob"), 200, "nobody else's");
    assert_eq!(envoy.stat(ERRORS), 0);
}
