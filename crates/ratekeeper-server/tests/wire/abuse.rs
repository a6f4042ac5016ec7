//! Clients that mean harm, or are merely broken: the server stays up, bounded, and answers the others.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
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
        ("*1048576\r\n*1048576\r\n*1048576\r\n", "more than 16 arguments"),
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
        "resp" => command(&[b"THROTTLE", b"k", b"10", b"1", b"3600"]),
        "http" => {
            let body = r#"{"key":"k","max_burst":10,"count_per_period":1,"period":3600}"#;
            format!(
                "POST /throttle HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes()
        }
        _ => b"\x00\x00\x00\x09\x95\x01\xa1k\x0a\x01\xcd\x0e\x10".to_vec(),
    }
}

const TRANSPORTS: [&str; 3] = ["resp", "http", "msgpack"];

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
        let said = throw(&server, transport, &request);
        assert!(!said.is_empty(), "{transport} answers as before");
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
            assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 4"), "{transport}, {len} bytes");
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
        raw.0.shutdown(Shutdown::Write).unwrap();
        assert!(!raw.rest().is_empty(), "{transport}");
        let left = server.ask("THROTTLE k 10 1 3600 0");
        assert!(left.starts_with(&format!("1 10 {} ", 10 - taken)), "{transport}: {left}");
    }
}

/// How many whole frames of MessagePack there are, and nothing else.
fn frames(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while let Some((len, rest)) = bytes.split_first_chunk() {
        bytes = &rest[u32::from_be_bytes(*len) as usize..];
        count += 1;
    }
    assert!(bytes.is_empty());
    count
}

#[test]
fn half_closed_sockets_get_their_answers_on_every_transport() {
    let server = Server::start();
    for transport in TRANSPORTS {
        let said = throw(&server, transport, &sensible(transport).repeat(3));
        let answers = match transport {
            "resp" => said.windows(2).filter(|pair| pair == b"*5").count(),
            "http" => said.windows(8).filter(|word| word == b"HTTP/1.1").count(),
            _ => frames(&said),
        };
        assert_eq!(answers, 3, "{transport}: {}", said.escape_ascii());
    }
}

#[test]
fn whoever_does_not_finish_is_not_waited_for() {
    let server = Server::with(&["--request-timeout", "1"]);
    for transport in TRANSPORTS {
        let mut raw = Raw::connect(server.address(transport));
        let request = sensible(transport);
        raw.send(&request[..request.len() - 1]);
        assert_eq!(raw.rest(), "", "{transport}");
    }
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

/// Sends until nothing more is taken, and reads nothing.
fn deaf(server: &Server, transport: &str) -> Raw {
    let mut raw = Raw::connect(server.address(transport));
    raw.0.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let request = match transport {
        // Each of these is answered by far more than it costs to ask.
        "http" => b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(100),
        _ => sensible(transport).repeat(100),
    };
    let mut sent = 0;
    while raw.0.write_all(&request).is_ok() {
        sent += request.len();
        assert!(sent < 200_000_000, "{transport} reads on, for a client that does not");
    }
    raw
}

#[cfg(target_os = "linux")]
#[test]
fn whoever_never_reads_is_bounded_on_every_transport() {
    const MORE: usize = 4;
    let ports =
        ["--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--grpc", "off", "--msgpack", "127.0.0.1:0"];
    let server = Server::spawn(ratekeeper(&["serve", "--loops", "1"]).args(ports));
    for transport in TRANSPORTS {
        // The first of them has the allocator fetch what it then keeps.
        let first = deaf(&server, transport);
        let before = server.memory();
        let more: Vec<Raw> = (0..MORE).map(|_| deaf(&server, transport)).collect();
        is_well(&server);
        let grown = server.memory().saturating_sub(before);
        assert!(grown < MORE * 256 * 1024, "{transport}: {grown} bytes for {MORE} clients");
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
        assert_eq!(Raw::connect(server.address(transport)).rest(), "", "{transport}");
    }
}
