//! Clients that mean harm, or are merely broken: the server stays up, bounded, and answers the others.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use crate::support::{Raw, Server, command, eventually};

/// A small generator, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next().to_le_bytes()[3]).collect()
    }
}

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

#[test]
fn random_bytes() {
    let server = Server::start();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..300 {
        let mut raw = server.connect();
        let len = 1 + usize::from(u16::from_le_bytes([random.bytes(1)[0], random.bytes(1)[0]])) % 4_000;
        let mut bytes = random.bytes(len);
        if round % 3 == 0 {
            bytes[0] = b'*';
        }
        // The server may close before all is written.
        let _ = raw.0.write_all(&bytes);
        let _ = raw.0.shutdown(Shutdown::Write);
        let _ = raw.0.read_to_end(&mut Vec::new());
    }
    is_well(&server);
}

#[test]
fn frames_that_end_too_early() {
    let server = Server::start();
    let frame = command(&[b"THROTTLE", b"k", b"10", b"100", b"60"]);
    for len in 0..frame.len() {
        let mut raw = server.connect();
        raw.send(&frame[..len]).0.shutdown(Shutdown::Write).unwrap();
        assert_eq!(raw.rest(), "", "{len} bytes");
    }
    is_well(&server);
}

#[test]
fn a_slow_writer_is_understood_and_delays_nobody() {
    let server = Server::start();
    let mut slow = server.connect();
    for byte in command(&[b"THROTTLE", b"slow", b"10", b"100", b"60"]) {
        slow.send([byte]);
        is_well(&server);
    }
    assert_eq!(slow.reply(), "1 10 9 1 0");
}

#[test]
fn a_half_closed_socket_gets_its_answers() {
    let server = Server::start();
    let mut raw = server.connect();
    raw.send("PING\r\nPING\r\n").0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(raw.rest(), "+PONG\r\n+PONG\r\n");
}

#[test]
fn a_client_that_never_reads_is_not_read_either() {
    let server = Server::start();
    is_well(&server);
    let before = server.memory();
    let mut deaf = server.connect();
    deaf.0.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let info = "INFO\r\n".repeat(1_000);
    // Each of these would be answered by more than it costs to ask. At some point nothing more is taken.
    let mut sent = 0;
    while deaf.0.write_all(info.as_bytes()).is_ok() {
        sent += info.len();
        assert!(sent < 100_000_000, "the server reads on, for a client that does not");
    }
    is_well(&server);
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 4 * 1024 * 1024, "{grown} bytes");
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
    use crate::support::ratekeeper;
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
    let mut raw = server.connect();
    assert_eq!(raw.ask("PING"), "+PONG");
    assert_eq!(raw.rest(), "");
}
