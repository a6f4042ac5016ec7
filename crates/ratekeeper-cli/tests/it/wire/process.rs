//! How the process starts and ends.

use std::io::Read;
use std::process::Stdio;

use crate::wire::stop::is_cut_off;
use test_support::server::{Server, ratekeeper};

/// Runs to the end and returns the exit code and what was said.
fn fails(args: &[&str]) -> (Option<i32>, String) {
    let output = ratekeeper(args).stdin(Stdio::null()).output().unwrap();
    assert!(output.stdout.is_empty());
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_would_be_right() {
    for (args, expected) in [
        (&["serve", "--no-such-flag"][..], "--no-such-flag"),
        (&["serve", "--resp", "nonsense"], "write `127.0.0.1:6380`"),
        (&["serve", "--store", "tape"], "memory"),
        (&["serve", "--max-keys", "0"], "--max-keys"),
        (&["no-such-command"], "no-such-command"),
        (&[], "Usage"),
    ] {
        let (code, said) = fails(args);
        assert_eq!(code, Some(2), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn an_address_in_use_is_refused_by_its_flag() {
    let server = Server::start();
    let address = server.address("resp").to_string();
    let (code, said) =
        fails(&["serve", "--http", "off", "--grpc", "off", "--msgpack", "off", "--resp", &address]);
    assert_eq!(code, Some(75), "it may be free later");
    assert!(said.contains(&format!("--resp {address}")), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn signals_end_it_with_0_and_what_was_sent_is_answered() {
    for signal in ["TERM", "INT"] {
        let server = Server::start();
        let mut raw = server.connect();
        assert_eq!(raw.ask("PING"), "+PONG");
        raw.send("PING\r\n".repeat(100));
        server.signal(signal);
        let mut rest = Vec::new();
        let read = raw.0.read_to_end(&mut rest);
        let (status, log) = server.end();
        assert_eq!(status.code(), Some(0));
        let is_answered = read.is_ok() && rest == b"+PONG\r\n".repeat(100);
        assert!(is_answered || is_cut_off(&log), "{read:?} {} bytes, {log:?}", rest.len());
    }
}

#[test]
fn the_environment_sets_what_no_flag_does() {
    let mut command = ratekeeper(&["serve", "--loops", "1"]);
    let server = Server::spawn(
        command
            .env("RATEKEEPER_RESP", "127.0.0.1:0")
            .env("RATEKEEPER_HTTP", "off")
            .env("RATEKEEPER_GRPC", "off")
            .env("RATEKEEPER_MSGPACK", "off")
            .env("RATEKEEPER_LOOPS", "nonsense is not looked at"),
    );
    assert_eq!(server.ask("PING"), "+PONG");
}
