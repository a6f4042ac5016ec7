//! MessagePack, with rmp-serde for a client.

use std::io::Read;
use std::net::Shutdown;

use serde::{Deserialize, Serialize};

use test_support::server::{Raw, Server};

#[derive(Serialize)]
struct Request<'a> {
    cmd: u8,
    key: &'a str,
    burst: i64,
    rate: i64,
    period: i64,
    quantity: i64,
}

/// As existing clients have it.
#[derive(Debug, PartialEq, Deserialize)]
struct Response {
    ok: bool,
    allowed: u8,
    limit: i64,
    remaining: i64,
    retry_after: i64,
    reset_after: i64,
}

fn throttle(key: &str, burst: i64) -> Request<'_> {
    Request { cmd: 1, key, burst, rate: 30, period: 60, quantity: 1 }
}

pub(crate) fn framed(body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&len[..], body].concat()
}

fn receive(raw: &mut Raw) -> Vec<u8> {
    let mut len = [0; 4];
    raw.0.read_exact(&mut len).unwrap();
    let mut body = vec![0; u32::from_be_bytes(len) as usize];
    raw.0.read_exact(&mut body).unwrap();
    body
}

pub(crate) fn refusal(raw: &mut Raw) -> String {
    let (ok, .., why): (bool, u8, i64, i64, i64, i64, String) = rmp_serde::from_slice(&receive(raw)).unwrap();
    assert!(!ok);
    why
}

fn connect(server: &Server) -> Raw {
    Raw::connect(server.address("msgpack"))
}

#[test]
fn arrays_and_maps_are_answered_in_order() {
    let server = Server::start();
    let mut raw = connect(&server);
    let array = framed(&rmp_serde::to_vec(&throttle("user:123", 15)).unwrap());
    let map = framed(&rmp_serde::to_vec_named(&throttle("user:123", 15)).unwrap());
    raw.send([&array[..], &map].concat().repeat(10));
    for remaining in (0..15).rev() {
        let response: Response = rmp_serde::from_slice(&receive(&mut raw)).unwrap();
        let reset_after = (15 - remaining) * 2;
        let expected = Response { ok: true, allowed: 1, limit: 15, remaining, retry_after: 0, reset_after };
        assert_eq!(response, expected);
    }
    for _ in 0..5 {
        let response: Response = rmp_serde::from_slice(&receive(&mut raw)).unwrap();
        assert_eq!((response.ok, response.allowed, response.retry_after), (true, 0, 2));
    }
}

fn decision(raw: &mut Raw) -> (u8, i64, i64) {
    let Response { ok, allowed, limit, remaining, .. } = rmp_serde::from_slice(&receive(raw)).unwrap();
    assert!(ok);
    (allowed, limit, remaining)
}

/// A request that differs from the one before only in its key is not parsed again. The answers must be the same all the same.
#[test]
fn a_request_like_the_last_one_is_held_to_its_own_key() {
    let long = "l".repeat(300);
    let keys = ["a", "b", "ten bytes.", &long[..31], &long[..32], &long[..255], &long[..256], &long, "c"];
    for is_named in [false, true] {
        let server = Server::start();
        let mut raw = connect(&server);
        let slow = |key, burst| {
            let request = Request { rate: 2, period: 3600, ..throttle(key, burst) };
            let body = if is_named { rmp_serde::to_vec_named(&request) } else { rmp_serde::to_vec(&request) };
            framed(&body.unwrap())
        };
        raw.send(
            keys.iter()
                .flat_map(|key| [2, 2, 2, 3].map(|burst| slow(key, burst)).concat())
                .collect::<Vec<_>>(),
        );
        for key in keys {
            let answers = [(); 4].map(|()| decision(&mut raw));
            assert_eq!(answers, [(1, 2, 1), (1, 2, 0), (0, 2, 0), (1, 3, 0)], "{key}");
        }
        // Cut at every place where a request could be mistaken for a whole one.
        let whole = slow("cut", 200);
        for cut in 0..whole.len() {
            raw.send(&whole[..cut]).send(&whole[cut..]);
            let remaining = 199 - i64::try_from(cut).unwrap();
            assert_eq!(decision(&mut raw), (1, 200, remaining), "cut at {cut}");
        }
        raw.send(slow("", 200));
        assert_eq!(refusal(&mut raw), "key: 0 bytes; a key has 1 to 1024 bytes");
    }
}

/// Clients of all protocols share the buffers of an event loop, and what these remember.
#[test]
fn a_request_of_another_protocol_is_not_recognised() {
    let server = Server::with(&["--loops", "1"]);
    let redis = "*5\r\n$8\r\nTHROTTLE\r\n$1\r\nk\r\n$1\r\n9\r\n$1\r\n9\r\n$1\r\n9\r\n";
    let ours = framed(&rmp_serde::to_vec(&throttle("k", 9)).unwrap());
    for _ in 0..3 {
        let mut first = server.connect();
        first.send(redis.repeat(2));
        assert!([first.reply(), first.reply()].iter().all(|reply| reply.contains(" 9 ")));
        let mut second = connect(&server);
        second.send(ours.repeat(2));
        assert_eq!([(); 2].map(|()| decision(&mut second).1), [9, 9]);
        second.send(redis);
        assert_eq!(refusal(&mut second), "a request of 708119818 bytes; at most 65536 are read");
        assert_eq!(second.rest(), "");
        first.send(&ours).send("\r\n");
        assert!(first.reply().starts_with("-ERR unknown command"));
    }
}

#[test]
fn mistakes_are_told_and_the_next_request_is_answered() {
    let server = Server::start();
    let mut raw = connect(&server);
    raw.send(framed(b"\xc1")).send(framed(&rmp_serde::to_vec(&throttle("k", 0)).unwrap()));
    raw.send(framed(&rmp_serde::to_vec(&throttle("k", 1)).unwrap()));
    assert_eq!(refusal(&mut raw), "malformed MessagePack");
    assert_eq!(refusal(&mut raw), "burst: 0; must be at least 1");
    assert_eq!(rmp_serde::from_slice::<Response>(&receive(&mut raw)).unwrap().allowed, 1);
    raw.send([0xff; 8]);
    assert_eq!(refusal(&mut raw), "a request of 4294967295 bytes; at most 65536 are read");
    assert_eq!(raw.rest(), "");
}

#[test]
fn frames_that_end_too_early_delay_nobody() {
    let server = Server::start();
    let frame = framed(&rmp_serde::to_vec(&throttle("k", 9)).unwrap());
    for len in 0..frame.len() {
        let mut raw = connect(&server);
        raw.send(&frame[..len]).0.shutdown(Shutdown::Write).unwrap();
        assert_eq!(raw.rest(), "");
    }
    let mut slow = connect(&server);
    for byte in &frame {
        slow.send([*byte]);
        assert_eq!(server.ask("PING"), "+PONG");
    }
    assert_eq!(rmp_serde::from_slice::<Response>(&receive(&mut slow)).unwrap().remaining, 8);
}

#[test]
fn a_token_comes_first_if_there_is_one() {
    let server = Server::with(&["--auth-token", "sesame"]);
    let mut raw = connect(&server);
    let ask = framed(&rmp_serde::to_vec(&throttle("k", 1)).unwrap());
    raw.send(&ask);
    assert!(refusal(&mut raw).starts_with("authentication required"));
    raw.send(framed(&rmp_serde::to_vec(&(2, "guess")).unwrap()));
    assert_eq!(refusal(&mut raw), "wrong token");
    raw.send(framed(&rmp_serde::to_vec(&(2, "sesame")).unwrap())).send(&ask);
    for _ in 0..2 {
        assert!(rmp_serde::from_slice::<Response>(&receive(&mut raw)).unwrap().ok);
    }
}
