//! Clients that send floods: what they cost the store, the log, and the other clients of the server.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::thread;
use std::time::Instant;

use bytes::Bytes;
use h2::client::SendRequest;

use crate::wire::grpc::{PREFACE, block, call, connect, request, throttled};
use crate::wire::http::send;
use crate::wire::msgpack::refusal;
use test_support::redis::server::Server as Redis;
use test_support::server::{Raw, Server};
use test_support::wait::until_stopped;

const READY: &[u8] = b"GET /ready HTTP/1.1\r\nhost: localhost\r\n\r\n";
const METRICS: &[u8] = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n";
/// No service in particular: the whole server.
const HEALTH: &[u8] = b"\0\0\0\0\0";

/// Sends requests while it reads replies, until these contain `mark` so many times. Returns the replies.
fn flood(address: SocketAddr, requests: Vec<u8>, mark: &str, count: usize) -> String {
    let mut raw = Raw::connect(address);
    let mut writer = raw.0.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || writer.write_all(&requests).unwrap());
        let mut said = Vec::new();
        let mut piece = vec![0; 256 * 1024];
        let mut seen = 0;
        while seen < count {
            let len = raw.0.read(&mut piece).unwrap();
            assert!(len > 0, "the server hung up after {seen} replies");
            // A mark may lie across two pieces.
            let from = said.len().saturating_sub(mark.len() - 1);
            said.extend_from_slice(&piece[..len]);
            seen += String::from_utf8_lossy(&said[from..]).matches(mark).count();
        }
        String::from_utf8(said).unwrap()
    })
}

/// Returns how many commands a Redis was ever sent, this one included.
fn commands(redis: &Redis) -> u64 {
    let stats: String = redis::cmd("INFO").arg("stats").query(&mut redis.connection()).unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.unwrap().trim().parse().unwrap()
}

/// Starts a watch, which stays open, and reads its first answer.
async fn watch(client: &mut SendRequest<Bytes>) -> h2::RecvStream {
    let (response, mut stream) =
        client.send_request(request("/grpc.health.v1.Health/Watch", "application/grpc"), false).unwrap();
    stream.send_data(Bytes::from_static(HEALTH), true).unwrap();
    let mut body = response.await.unwrap().into_body();
    assert_eq!(body.data().await.unwrap().unwrap(), b"\0\0\0\0\x02\x08\x01"[..], "serving");
    body
}

/// Every `GET /ready`, every health check and every second of every watch used to be a command to Redis.
#[test]
fn a_flood_of_readiness_does_not_reach_the_store() {
    let redis = Redis::redis();
    let server = Server::with(&["--store", &redis.url()]);
    flood(server.address("http"), READY.to_vec(), "HTTP/1.1 200 OK", 1);
    let (before, began) = (commands(&redis), Instant::now());
    let http = server.address("http");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || flood(http, READY.repeat(250), "HTTP/1.1 200 OK", 250));
        }
        block(async {
            let mut client = connect(&server).await;
            let mut watches = Vec::new();
            for _ in 0..100 {
                watches.push(watch(&mut client).await);
            }
            for _ in 0..100 {
                assert_eq!(call(&mut client, "/grpc.health.v1.Health/Check", HEALTH).await.1, "0");
            }
        });
    });
    let asked = commands(&redis) - before;
    // The quota of the probe: one a second, and each takes a few commands.
    let most = 10 * (began.elapsed().as_secs() + 2);
    assert!(asked <= most, "{asked} commands for 1200 requests, at most {most} are due");
}

fn metric(server: &Server, name: &str) -> Vec<String> {
    let page = send(server, "GET", "/metrics", &[("authorization", "Bearer sesame")], None).body;
    page.lines().filter(|line| line.starts_with(&format!("{name}{{"))).map(str::to_owned).collect()
}

/// One connection made half a million guesses a second, and no log or metric told.
#[test]
fn guesses_are_counted_and_slowed_and_lock_nobody_out() {
    let server = Server::with(&["--auth-token", "sesame"]);
    let mut friend = server.connect();
    assert_eq!(friend.ask("AUTH sesame"), "+OK");
    let began = Instant::now();
    let mut guesser = server.connect();
    for _ in 0..29 {
        assert_eq!(
            guesser.ask("AUTH guess"),
            "-WRONGPASS invalid username-password pair or user is disabled."
        );
    }
    assert!(guesser.ask("HELLO 3 AUTH default guess").starts_with("-WRONGPASS"));
    // The quota of guesses: twenty at once, and then ten a second.
    let most = 20 + began.elapsed().as_millis() / 100 + 1;
    assert!(most >= 30, "30 guesses, where {most} are due");
    assert!(friend.ask("THROTTLE k 1 1 60").starts_with("1 1 0 "));

    let status = |field: &str| send(&server, "GET", "/v1/plans", &[("authorization", field)], None).status;
    assert_eq!(status("Bearer guess"), 401);
    assert_eq!(status("Basic guess"), 401, "which is no guess");
    assert_eq!(status("Bearer sesame"), 200);
    let mut packed = Raw::connect(server.address("msgpack"));
    packed.send(b"\0\0\0\x08\x92\x02\xa5guess");
    assert_eq!(refusal(&mut packed), "wrong token");
    packed.send(b"\0\0\0\x09\x92\x02\xa6sesame").expect(b"\0\0\0\x07\x96\xc3\0\0\0\0\0");
    block(async {
        let mut client = connect(&server).await;
        for (token, expected) in [("guess", "16"), ("sesame", "12")] {
            let mut ask = request("/no/Method", "application/grpc");
            ask.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
            let (response, _) = client.send_request(ask, true).unwrap();
            let headers = response.await.unwrap().headers().clone();
            assert_eq!(headers["grpc-status"], expected, "{token}");
        }
    });
    assert_eq!(server.ask("AUTH sesame"), "+OK");
    let line =
        |(transport, count)| format!("ratekeeper_auth_failures_total{{transport=\"{transport}\"}} {count}");
    let expected = [("http", 1), ("resp", 30), ("grpc", 1), ("msgpack", 1)].map(line);
    assert_eq!(metric(&server, "ratekeeper_auth_failures_total"), expected);
    assert!(server.await_log("auth: wrong token").contains("peer=127.0.0.1"));
}

/// Sends a call with this token. Returns a future of its status.
fn forget(client: &mut SendRequest<Bytes>, token: &str) -> impl Future<Output = String> + use<> {
    let mut ask = request("/ratekeeper.v1.RateLimiter/Forget", "application/grpc");
    ask.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let (response, mut stream) = client.send_request(ask, false).unwrap();
    // The prefix `zz`.
    stream.send_data(Bytes::from_static(b"\0\0\0\0\x04\x0a\x02zz"), true).unwrap();
    async move {
        let (head, mut body) = response.await.unwrap().into_parts();
        while body.data().await.is_some() {}
        let trailers = body.trailers().await.unwrap().unwrap_or(head.headers);
        trailers["grpc-status"].to_str().unwrap().to_owned()
    }
}

/// A connection that had shown the clients' token could guess the administrator's as fast as it could ask, and all of its
/// streams waited at the same time.
#[test]
fn a_client_cannot_guess_what_makes_it_an_administrator() {
    let server = Server::with(&["--auth-token", "sesame", "--admin-token", "master"]);
    block(async {
        let mut client = connect(&server).await;
        assert_eq!(forget(&mut client, "sesame").await, "7");
        let began = Instant::now();
        let guesses: Vec<_> = (0..40).map(|_| forget(&mut client, "guess")).collect();
        let mut right = pin!(forget(&mut client, "master"));
        let known = forget(&mut client, "sesame");
        // If both are there by now, the first counts.
        tokio::select! {
            biased;
            known = known => assert_eq!(known, "7"),
            _ = &mut right => panic!("a token that was shown before is slowed"),
        }
        assert_eq!(right.await, "0", "a right token is never locked out");
        // The quota of guesses: twenty at once, and then ten a second. The right token was the last.
        let most = 20 + began.elapsed().as_millis() / 100 + 1;
        assert!(most >= 41, "41 guesses, where {most} are due");
        for guess in guesses {
            assert_eq!(guess.await, "16");
        }
        assert_eq!(forget(&mut client, "master").await, "0");
    });
}

/// A client whose store is slow gives up all of its calls, and then all of the next.
#[test]
fn a_client_whose_deadlines_pass_together_is_not_cut_off() {
    let server = Server::start();
    let mut raw = Raw::connect(server.address("grpc"));
    raw.send(PREFACE);
    let mut next = 1_u32;
    for round in 0..4_u64 {
        let streams: Vec<[u8; 4]> = (0..128).map(|index| (next + index * 2).to_be_bytes()).collect();
        next += 256;
        // The body is never finished, so no call is answered before it is given up.
        let opened =
            streams.iter().flat_map(|stream| [b"\0\0\x03\x01\x04", &stream[..], b"\x83\x86\x84"].concat());
        let reset =
            streams.iter().flat_map(|stream| [b"\0\0\x04\x03\0", &stream[..], b"\0\0\0\x08"].concat());
        let mut sent: Vec<u8> = opened.collect();
        sent.extend(reset);
        raw.send(sent);
        raw.send([b"\0\0\x08\x06\0\0\0\0\0", &round.to_be_bytes()[..]].concat());
        let (mut said, answer) =
            (Vec::new(), [b"\0\0\x08\x06\x01\0\0\0\0", &round.to_be_bytes()[..]].concat());
        while !said.ends_with(&answer) {
            let mut byte = [0];
            raw.0.read_exact(&mut byte).unwrap();
            said.push(byte[0]);
        }
    }
}

/// Sends an opening and then frames, until the server closes the connection.
fn flooded(server: &Server, opening: &[u8], frame: impl Fn(u32) -> Vec<u8> + Send) {
    let mut raw = Raw::connect(server.address("grpc"));
    let mut writer = raw.0.try_clone().unwrap();
    raw.send(PREFACE).send(opening);
    thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..1_000 {
                let frames: Vec<u8> = (number * 100..number * 100 + 100).flat_map(&frame).collect();
                // The server has closed the connection, as it should.
                if writer.write_all(&frames).is_err() {
                    return;
                }
            }
        });
        let mut piece = [0; 64 * 1024];
        loop {
            match raw.0.read(&mut piece) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!("a hundred thousand frames, and the server still listens: {error}"),
            }
        }
    });
}

/// Returns how many connections of gRPC were cut.
fn floods(server: &Server) -> u32 {
    let all = metric(server, "ratekeeper_floods_total");
    let grpc = all.iter().find_map(|line| line.strip_prefix("ratekeeper_floods_total{transport=\"grpc\"} "));
    grpc.unwrap().parse().unwrap()
}

#[test]
fn a_client_that_floods_with_control_frames_is_cut_off() {
    let server = Server::start();
    let ping = |_: u32| b"\0\0\x08\x06\0\0\0\0\0pingpong".to_vec();
    let settings = |_: u32| b"\0\0\0\x04\0\0\0\0\0".to_vec();
    let priority = |_: u32| b"\0\0\x05\x02\0\0\0\0\x01\0\0\0\0\x0f".to_vec();
    let window = |_: u32| b"\0\0\x04\x08\0\0\0\0\0\0\0\0\x01".to_vec();
    // POST, http, and the path of nothing; its body is never finished.
    let open = b"\0\0\x03\x01\x04\0\0\0\x01\x83\x86\x84";
    let empty = |_: u32| b"\0\0\0\0\0\0\0\0\x01".to_vec();
    flooded(&server, b"", ping);
    flooded(&server, b"", settings);
    flooded(&server, b"", priority);
    flooded(&server, b"", window);
    flooded(&server, open, empty);
    // A message of 64,000 bytes, of which one comes with every two pings.
    let path_and_kind = b"\x83\x86\x04\x22/throttlecrab.RateLimiter/Throttle\x0f\x10\x10application/grpc";
    let call = [b"\0\0\x39\x01\x04\0\0\0\x01", &path_and_kind[..], b"\0\0\x05\0\0\0\0\0\x01\0\0\0\xfa\0"];
    let crumb = b"\0\0\x01\0\0\0\0\0\x01x";
    let before = floods(&server);
    flooded(&server, &call.concat(), |number| [&crumb[..], &ping(number), &ping(number)].concat());
    assert_eq!(floods(&server), before + 1);
    // Begun and given up, one stream after the other.
    flooded(&server, b"", |number| {
        let stream = (number * 2 + 1).to_be_bytes();
        [b"\0\0\x03\x01\x04", &stream[..], b"\x83\x86\x84\0\0\x04\x03\0", &stream, b"\0\0\0\x08"].concat()
    });
    assert_eq!(throttled(&server, "k"), Ok(true));
    // Of those with streams, the library may have had enough before.
    assert!(floods(&server) >= 5);
    server.await_log("cut: more control frames than requests explain");
}

/// The HTTP/2 library logs a line for each wrong frame.
#[test]
fn a_client_cannot_fill_the_log() {
    let server = Server::start();
    let mut raw = Raw::connect(server.address("grpc"));
    // Answers to pings that were never sent, and a ping to know that they were read.
    raw.send(PREFACE).send(b"\0\0\x08\x06\x01\0\0\0\0pingpong".repeat(500));
    raw.send(b"\0\0\x08\x06\0\0\0\0\0the end.");
    let mut said = Vec::new();
    while !said.ends_with(b"the end.") {
        let mut byte = [0];
        raw.0.read_exact(&mut byte).unwrap();
        said.push(byte[0]);
    }
    server.signal("TERM");
    let log = server.log_to_the_end();
    assert!(log.len() < 10, "{} lines: {:?}", log.len(), &log[..10]);
}

/// Sends many requests at once while the server is frozen, and then, on another connection, one that is decided. Returns how many
/// replies of the flood were written before that decision, by what they tell of it.
fn replies_before_another(server: &Server, address: SocketAddr, ask: &[u8], mark: &str, done: &str) -> usize {
    let mut friend = server.connect();
    assert_eq!(friend.ask("PING"), "+PONG");
    // Accepted and served once, so that both connections are alike.
    let mut raw = Raw::connect(address);
    raw.send(ask);
    raw.0.read_exact(&mut [0; 64]).unwrap();
    server.signal("STOP");
    until_stopped(server.pid());
    // As much as the sockets take while nobody reads: this is what comes first when the server goes on.
    raw.send(ask.repeat(100_000 / ask.len()));
    friend.send("THROTTLE friend 9 1 3600\r\n");
    server.signal("CONT");
    let (mut said, mut piece) = (Vec::new(), vec![0; 256 * 1024]);
    loop {
        let len = raw.0.read(&mut piece).unwrap();
        assert!(len > 0, "the server hung up");
        let from = said.len().saturating_sub(done.len());
        said.extend_from_slice(&piece[..len]);
        if let Some(at) = said[from..].windows(done.len()).position(|at| at == done.as_bytes()) {
            return String::from_utf8_lossy(&said[..from + at]).matches(mark).count();
        }
    }
}

/// A client that always had more requests was served for megabytes on end, and the other clients of its loop waited.
#[test]
fn a_flood_of_costly_commands_leaves_others_their_turn() {
    let server = Server::with(&["--loops", "1"]);
    let count = replies_before_another(
        &server,
        server.address("resp"),
        b"INFO stats\r\n",
        "# Stats",
        "resp_allowed:1",
    );
    assert!(count < 200, "{count} replies before that of another client");
}

#[test]
fn a_flood_of_pipelined_requests_leaves_others_their_turn() {
    let server = Server::with(&["--loops", "1"]);
    let done = "ratekeeper_requests_total{transport=\"resp\",result=\"allowed\"} 1\n";
    let count = replies_before_another(&server, server.address("http"), METRICS, "HTTP/1.1 200 OK", done);
    // As many as a turn is worth: hyper by itself goes on for sixteen, however long they take.
    assert!(count < 12, "{count} replies before that of another client");
}
