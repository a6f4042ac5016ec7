//! Clients that mean harm, or are merely broken: the server stays up, bounded, and answers the others.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::support::{Raw, Server, command, eventually, ratekeeper};

fn is_well(server: &Server) {
    assert_eq!(server.ask("PING"), "+PONG");
}

#[test]
fn protocol_errors_are_answered_and_the_connection_closed() {
    let server = Server::start();
    for (sent, expected) in [
        ("*1048576\r\n*1048576\r\n*1048576\r\n", "more than 32 arguments"),
        ("*1\r\n$999999999999\r\n", "a command of more than 65536 bytes"),
        ("*1\r\n$65530\r\n", "a command of more than 65536 bytes"),
        ("*2\r\n*1\r\n$1\r\na\r\n", "expected '$', got '*'"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "this port speaks the Redis protocol, not HTTP"),
    ] {
        let mut raw = server.connect();
        // What came before the mistake is answered, what comes after it is not.
        raw.send("PING\r\n").send(sent).send("PING\r\n");
        assert_eq!(raw.rest(), format!("+PONG\r\n-ERR Protocol error: {expected}\r\n"));
    }
    let mut raw = server.connect();
    raw.send(vec![b'x'; 70_000]);
    assert_eq!(raw.rest(), "-ERR Protocol error: a command of more than 65536 bytes\r\n");
    is_well(&server);
}

#[test]
fn declared_lengths_allocate_nothing() {
    let server = Server::start();
    is_well(&server);
    let before = server.memory();
    let held: Vec<Raw> = (0..1_000)
        .map(|_| {
            let mut raw = server.connect();
            raw.send("*16\r\n$60000\r\nabc");
            raw
        })
        .collect();
    is_well(&server);
    // Sixty kilobytes were promised by each. What an idle connection needs is a fraction of that.
    let grown = server.memory().saturating_sub(before);
    assert!(grown < held.len() * 8 * 1024, "{grown} bytes for {} connections", held.len());
}

/// What a client of each transport would send, so that random changes of it get far.
fn sensible(transport: &str) -> Vec<u8> {
    match transport {
        "grpc" => [PREFACE, &grpc_call(1)].concat(),
        "resp" => command(&[b"THROTTLE", b"k", b"10", b"1", b"3600"]),
        "http" => {
            let body = r#"{"key":"k","max_burst":10,"count_per_period":1,"period":3600}"#;
            format!(
                "POST /throttle HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes()
        }
        _ => b"\x00\x00\x00\x09\x95\x01\xa1k\x0a\x01\xcd\x0e\x10".to_vec(),
    }
}

const TRANSPORTS: [&str; 4] = ["resp", "http", "grpc", "msgpack"];

/// What an HTTP/2 client says first: a preface, and no settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A throttle as gRPC sends it on this stream: header fields without a table, then one message.
fn grpc_call(stream: u32) -> Vec<u8> {
    let fields = b"\x83\x86\x04\x22/throttlecrab.RateLimiter/Throttle\x01\x01x\
        \x0f\x10\x10application/grpc\x00\x02te\x08trailers";
    let message = b"\0\0\0\0\x0a\x0a\x01k\x10\x0a\x18\x01\x20\x90\x1c";
    let frame = |kind: u8, flags: u8, content: &[u8]| {
        let len = u8::try_from(content.len()).unwrap();
        [&[0, 0, len, kind, flags][..], &stream.to_be_bytes(), content].concat()
    };
    [frame(1, 4, fields), frame(0, 1, message)].concat()
}

/// How many answers there are in what a server said.
fn answers(transport: &str, said: &[u8]) -> usize {
    match transport {
        "resp" => said.windows(2).filter(|pair| pair == b"*5").count(),
        "http" => said.windows(8).filter(|word| word == b"HTTP/1.1").count(),
        "grpc" => pieces(said, |bytes| {
            let (&[high, middle, low, kind, flags, ..], _) = bytes.split_first_chunk::<9>()?;
            // A call ends with header fields that end their stream.
            let ends = kind == 1 && flags & 1 == 1;
            Some((9 + u32::from_be_bytes([0, high, middle, low]) as usize, ends))
        }),
        _ => pieces(said, |bytes| Some((4 + u32::from_be_bytes(*bytes.first_chunk()?) as usize, true))),
    }
}

/// How many of the whole pieces count, of whose first `measure` tells the length.
fn pieces(mut bytes: &[u8], measure: impl Fn(&[u8]) -> Option<(usize, bool)>) -> usize {
    let mut count = 0;
    while let Some((len, counts)) = measure(bytes)
        && let Some(rest) = bytes.get(len..)
    {
        count += usize::from(counts);
        bytes = rest;
    }
    count
}

/// Reads until there are so many answers.
fn await_answers(raw: &mut Raw, transport: &str, count: usize) {
    let mut said = Vec::new();
    while answers(transport, &said) < count {
        let mut some = [0; 1024];
        let len = raw.0.read(&mut some).unwrap();
        assert_ne!(len, 0, "{transport} hangs up after {}", said.escape_ascii());
        said.extend_from_slice(&some[..len]);
    }
}

/// Reads until the server closes the connection, by whatever means.
fn said_until_closed(mut raw: Raw) -> Vec<u8> {
    let mut said = Vec::new();
    match raw.0.read_to_end(&mut said) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            panic!("the connection stays open")
        }
        _ => said,
    }
}

/// Sends bytes and no more, and reads whatever comes back.
fn throw(server: &Server, transport: &str, bytes: &[u8]) -> Vec<u8> {
    let mut raw = Raw::connect(server.address(transport));
    // The server may close before all is written, or reset the connection because of what it did not read.
    let _ = raw.0.write_all(bytes);
    let _ = raw.0.shutdown(Shutdown::Write);
    let mut said = Vec::new();
    let _ = raw.0.read_to_end(&mut said);
    said
}

fn noise() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..2_000);
    prop_oneof![
        bytes(),
        bytes().prop_map(|rest| [b"*", &rest[..]].concat()),
        bytes().prop_map(|rest| [b"*3\r\n$", &rest[..]].concat()),
        bytes().prop_map(|rest| [b"POST /throttle HTTP/1.1\r\n", &rest[..]].concat()),
        bytes().prop_map(|rest| [b"\0\0\x01\0", &rest[..]].concat()),
        bytes().prop_map(|rest| [PREFACE, &rest[..]].concat()),
        bytes().prop_map(|rest| [PREFACE, &grpc_call(1), b"\0\0\x40", &rest[..]].concat()),
        prop::collection::vec(prop::sample::select(&b"*$\r\n0123456789-:;{}\"k"[..]), 0..200),
    ]
}

#[test]
fn random_bytes_on_every_transport() {
    let server = Server::start();
    let mut runner =
        TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() });
    let case = (prop::sample::select(&TRANSPORTS[..]), noise());
    let outcome = runner.run(&case, |(transport, bytes)| {
        throw(&server, transport, &bytes);
        prop_assert_eq!(server.ask("PING"), "+PONG");
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn requests_with_one_byte_changed_on_every_transport() {
    let server = Server::start();
    for transport in TRANSPORTS {
        let request = sensible(transport);
        for position in 0..request.len() {
            for byte in [0, b'\n', b'9', 0xff] {
                let mut changed = request.clone();
                changed[position] = byte;
                throw(&server, transport, &changed);
            }
        }
        // As before.
        await_answers(Raw::connect(server.address(transport)).send(&request), transport, 1);
    }
    is_well(&server);
}

#[test]
fn requests_that_end_too_early_are_not_charged() {
    let server = Server::start();
    for transport in TRANSPORTS {
        let request = sensible(transport);
        for len in 0..request.len() {
            let said = throw(&server, transport, &request[..len]);
            // HTTP says that it has not understood; the others have nobody to say it to.
            let is_refused = said.starts_with(b"HTTP/1.1 4");
            assert!(answers(transport, &said) == 0 || is_refused, "{transport}, {len} bytes");
        }
    }
    assert_eq!(server.ask("THROTTLE k 10 1 3600 0"), "1 10 10 0 0", "nothing was taken");
}

#[test]
fn slow_writers_are_understood_on_every_transport() {
    let server = Server::start();
    for (taken, transport) in (1..).zip(TRANSPORTS) {
        let mut raw = Raw::connect(server.address(transport));
        for byte in sensible(transport) {
            raw.send([byte]);
            is_well(&server);
        }
        await_answers(&mut raw, transport, 1);
        let left = server.ask("THROTTLE k 10 1 3600 0");
        assert!(left.starts_with(&format!("1 10 {} ", 10 - taken)), "{transport}: {left}");
    }
}

/// Not on gRPC: a connection of HTTP/2 is closed as a whole.
#[test]
fn half_closed_sockets_get_their_answers() {
    let server = Server::start();
    for transport in ["resp", "http", "msgpack"] {
        let said = throw(&server, transport, &sensible(transport).repeat(3));
        assert_eq!(answers(transport, &said), 3, "{transport}: {}", said.escape_ascii());
    }
}

#[test]
fn whoever_does_not_finish_is_not_waited_for() {
    let server = Server::with(&["--request-timeout", "1"]);
    for transport in TRANSPORTS {
        let mut raw = Raw::connect(server.address(transport));
        let request = sensible(transport);
        raw.send(&request[..request.len() - 1]);
        let said = said_until_closed(raw);
        // A call of gRPC is told that its time is over.
        assert!(transport == "grpc" || said.is_empty(), "{transport}: {}", said.escape_ascii());
    }
    assert_eq!(server.ask("THROTTLE k 10 1 3600 0"), "1 10 10 0 0", "nothing was taken");
    // A trickle is no excuse: the server closes all the same, in the end.
    let mut trickle = Raw::connect(server.address("http"));
    trickle.send("GET /health HTTP/1.1\r\nx: ");
    trickle.0.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    eventually("the connection is closed", || {
        let _ = trickle.0.write_all(b"x");
        let mut byte = [0];
        match trickle.0.read(&mut byte) {
            Ok(len) => len == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    });
    let mut patient = server.connect();
    assert_eq!(patient.ask("PING"), "+PONG", "whoever owes nothing may be silent");
}

/// How many clients never read.
const DEAF: usize = 32;

/// Sends until nothing more is taken, and reads nothing.
fn deaf(address: SocketAddr, transport: &str) -> Raw {
    let mut raw = Raw::connect(address);
    raw.0.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    if transport == "grpc" {
        raw.send(PREFACE);
    }
    // Streams have odd numbers that rise.
    let mut streams = (1..).step_by(2);
    let mut sent = 0;
    loop {
        let request = match transport {
            // Each of these is answered by far more than it costs to ask.
            "http" => b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(100),
            "grpc" => streams.by_ref().take(100).flat_map(grpc_call).collect(),
            _ => sensible(transport).repeat(100),
        };
        if raw.0.write_all(&request).is_err() {
            return raw;
        }
        sent += request.len();
        assert!(sent < 200_000_000, "{transport} reads on, for a client that does not");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn whoever_never_reads_is_bounded_on_every_transport() {
    let ports = ["--resp", "--http", "--grpc", "--msgpack"].map(|flag| [flag, "127.0.0.1:0"]);
    for transport in TRANSPORTS {
        // A server for each: what is left of a flood on one transport is not counted as memory of the next.
        let server = Server::spawn(ratekeeper(&["serve", "--loops", "1"]).args(ports.as_flattened()));
        // The first of them has the allocator fetch what it then keeps.
        let address = server.address(transport);
        let first = deaf(address, transport);
        let before = server.memory();
        // So many that what they may take is more than a huge page, by which memory grows where there are such.
        let more: Vec<Raw> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..DEAF).map(|_| scope.spawn(|| deaf(address, transport))).collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        is_well(&server);
        let grown = server.memory().saturating_sub(before);
        assert!(grown < DEAF * 256 * 1024, "{transport}: {grown} bytes for {DEAF} clients");
        drop((first, more));
    }
}

#[test]
fn too_many_connections_are_told_so_and_a_place_is_free_again() {
    let server = Server::with(&["--max-connections", "3"]);
    let mut held: Vec<Raw> = (0..3).map(|_| server.connect()).collect();
    for raw in &mut held {
        assert_eq!(raw.ask("PING"), "+PONG");
    }
    assert_eq!(server.connect().rest(), "-ERR max number of clients reached\r\n");
    held.pop();
    eventually("a place becomes free", || {
        let mut raw = server.connect();
        raw.0.write_all(b"PING\r\n").is_ok() && {
            let mut first = [0];
            raw.0.read_exact(&mut first).is_ok() && first == *b"+"
        }
    });
    assert_eq!(held[0].ask("PING"), "+PONG");
}

/// The server has fewer descriptors than there are clients: it goes on, and accepts again when it can.
#[cfg(target_os = "linux")]
#[test]
fn running_out_of_descriptors_is_survived() {
    let binary = ratekeeper(&[]).get_program().to_owned();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -n 64; exec \"$@\"", "sh"]).arg(binary);
    shell.args(["serve", "--resp", "127.0.0.1:0", "--http", "off", "--grpc", "off"]);
    shell.args(["--msgpack", "off", "--loops", "2"]);
    let server = Server::spawn(&mut shell);
    let mut first = server.connect();
    assert_eq!(first.ask("PING"), "+PONG");
    let mut held: Vec<Raw> = (0..100).map(|_| server.connect()).collect();
    server.await_log("cannot accept");
    assert_eq!(first.ask("PING"), "+PONG", "whoever is in is served");
    let mut last = held.pop().unwrap();
    held.clear();
    assert_eq!(last.ask("PING"), "+PONG", "and whoever waited gets in");
}

#[test]
fn a_silent_connection_is_closed_if_so_configured() {
    let server = Server::with(&["--idle-timeout", "1"]);
    for transport in TRANSPORTS {
        let said = said_until_closed(Raw::connect(server.address(transport)));
        assert_eq!(answers(transport, &said), 0, "{transport}");
    }
}
