//! Clients that attack the server, or are broken: it stays up, its memory is bounded, and it answers the other clients.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use test_support::cases;
use test_support::server::{Raw, Server, command, ratekeeper, until};

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
    // Each has declared 60 KB. An idle connection needs a fraction of that.
    let grown = server.memory().saturating_sub(before);
    assert!(grown < held.len() * 8 * 1024, "{grown} bytes for {} connections", held.len());
}

/// Returns a valid request of each transport. Random changes of it get far into the parser.
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

/// What an HTTP/2 client sends first: the preface, and empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Returns the frames of a gRPC call of Throttle on this stream: header fields without a table, then one message.
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

/// Counts the answers in what a server sent.
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

/// Counts the whole pieces that count. `measure` returns the length of the first piece, and whether it counts.
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

/// Reads until the server closes the connection, possibly by a reset.
pub(crate) fn said_until_closed(mut raw: Raw) -> Vec<u8> {
    let mut said = Vec::new();
    match raw.0.read_to_end(&mut said) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            panic!("the connection stays open")
        }
        _ => said,
    }
}

/// Sends bytes, closes its side, and returns what comes back.
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
    let mut runner = TestRunner::new(cases::config(512));
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
    const BYTES: [u8; 4] = [0, b'\n', b'9', 0xff];
    let server = Server::start();
    for transport in TRANSPORTS {
        let request = sensible(transport);
        for position in 0..request.len() {
            // One of them for each position, or all.
            let of_position = [BYTES[position % BYTES.len()]];
            for byte in if cases::is_thorough() { &BYTES[..] } else { &of_position } {
                let mut changed = request.clone();
                changed[position] = *byte;
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
            // HTTP answers that it has not understood; the others close the connection.
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
fn a_request_that_is_not_finished_in_time_ends_its_connection() {
    let server = Server::with(&["--request-timeout", "1"]);
    let unfinished = TRANSPORTS.map(|transport| {
        let mut raw = Raw::connect(server.address(transport));
        let request = sensible(transport);
        raw.send(&request[..request.len() - 1]);
        (transport, raw)
    });
    for (transport, raw) in unfinished {
        let said = said_until_closed(raw);
        // A call of gRPC is answered that its time is over.
        assert!(transport == "grpc" || said.is_empty(), "{transport}: {}", said.escape_ascii());
    }
    assert_eq!(server.ask("THROTTLE k 10 1 3600 0"), "1 10 10 0 0", "nothing was taken");
    // Single bytes do not prolong the time.
    let mut trickle = Raw::connect(server.address("http"));
    trickle.send("GET /health HTTP/1.1\r\nx: ");
    trickle.0.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    until("the connection is closed", || {
        let _ = trickle.0.write_all(b"x");
        let mut byte = [0];
        match trickle.0.read(&mut byte) {
            Ok(len) => len == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    });
    let mut patient = server.connect();
    assert_eq!(patient.ask("PING"), "+PONG", "a connection without an open request may be silent");
}

/// How many clients never read.
const DEAF: usize = 16;

/// Sends until nothing more is taken, and reads nothing.
fn deaf(address: SocketAddr, transport: &str) -> Raw {
    let mut raw = Raw::connect(address);
    // A server that is only slow takes some bytes in this time.
    raw.0.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    if transport == "grpc" {
        raw.send(PREFACE);
    }
    // Streams have odd numbers that rise.
    let mut streams = (1..).step_by(2);
    let mut sent = 0;
    loop {
        let request = match transport {
            // Most of the answers are far longer than the requests, and cheap: the buffers are full soon.
            "resp" => [sensible(transport).repeat(10), b"COMMAND DOCS\r\n".repeat(90)].concat(),
            "http" => b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(100),
            "grpc" => streams.by_ref().take(100).flat_map(grpc_call).collect(),
            _ => [sensible(transport).repeat(10), b"\0\0\0\x01\xc1".repeat(90)].concat(),
        };
        if raw.0.write_all(&request).is_err() {
            return raw;
        }
        sent += request.len();
        assert!(sent < 200_000_000, "{transport}: the server reads on, though the client does not");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_client_that_never_reads_takes_bounded_memory_on_every_transport() {
    let ports = ["--resp", "--http", "--grpc", "--msgpack"].map(|flag| [flag, "127.0.0.1:0"]);
    for transport in TRANSPORTS {
        // A server for each, so that what one flood leaves behind is not counted for the next.
        let server = Server::spawn(ratekeeper(&["serve", "--loops", "1"]).args(ports.as_flattened()));
        let address = server.address(transport);
        let crowd = || -> Vec<Raw> {
            std::thread::scope(|scope| {
                let clients: Vec<_> = (0..DEAF).map(|_| scope.spawn(|| deaf(address, transport))).collect();
                clients.into_iter().map(|client| client.join().unwrap()).collect()
            })
        };
        // With the first crowd, the allocator fetches memory that it keeps.
        let first = crowd();
        let before = server.memory();
        let second = crowd();
        is_well(&server);
        let grown = server.memory().saturating_sub(before);
        // Each client has sent megabytes, or asked for megabytes of answers, before nothing more was taken. The bound is far
        // above the pieces in which an allocator fetches memory.
        assert!(grown < DEAF * 1024 * 1024, "{transport}: {grown} bytes for {DEAF} clients");
        drop((first, second));
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
    until("a place becomes free", || {
        let mut raw = server.connect();
        raw.0.write_all(b"PING\r\n").is_ok() && {
            let mut first = [0];
            raw.0.read_exact(&mut first).is_ok() && first == *b"+"
        }
    });
    assert_eq!(held[0].ask("PING"), "+PONG");
}

/// The server has fewer descriptors than there are clients: it goes on, and accepts again when a client leaves.
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
    assert_eq!(first.ask("PING"), "+PONG", "accepted clients are served");
    let mut last = held.pop().unwrap();
    held.clear();
    assert_eq!(last.ask("PING"), "+PONG", "a client that waited is accepted");
}

#[test]
fn a_silent_connection_is_closed_if_so_configured() {
    let server = Server::with(&["--idle-timeout", "1"]);
    let silent = TRANSPORTS.map(|transport| (transport, Raw::connect(server.address(transport))));
    for (transport, raw) in silent {
        assert_eq!(answers(transport, &said_until_closed(raw)), 0, "{transport}");
    }
}
