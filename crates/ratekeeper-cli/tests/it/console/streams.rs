//! The stream of messages: one a second, to so many and no more, and nobody is waited for.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::time::SystemTime;

use serde_json::Value;

use crate::console::web::{get, send, stats};
use test_support::server::{Folder, Raw, Server, until};

/// A client of the stream.
struct Watcher {
    lines: BufReader<TcpStream>,
    status: u16,
}

impl Watcher {
    fn open(server: &Server) -> Self {
        Self::with(server, "")
    }

    fn with(server: &Server, fields: &str) -> Self {
        let address = server.address("http");
        let mut raw = Raw::connect(address);
        raw.send(format!("GET /v1/stats/stream HTTP/1.1\r\nhost: {address}\r\n{fields}\r\n"));
        let mut watcher = Watcher { lines: BufReader::new(raw.0), status: 0 };
        watcher.status = watcher.line().split(' ').nth(1).unwrap().parse().unwrap();
        watcher
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    /// Waits for the next message.
    fn message(&mut self) -> Value {
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "the stream has ended");
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data).unwrap();
            }
        }
    }
}

/// When a message was made, in milliseconds since 1970.
fn time_of(message: &Value) -> u64 {
    message["time"].as_u64().unwrap()
}

fn open_streams(server: &Server) -> u64 {
    stats(server)["streams"]["open"].as_u64().unwrap()
}

/// Returns the time of day in milliseconds, as messages tell theirs.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

#[test]
fn there_is_no_more_than_one_message_a_second_and_a_denial_is_in_the_second_at_the_latest() {
    let folder = Folder::new("stream");
    let config = folder.write("a.toml", "[plans.free]\nlimits = [\"1/h\"]\n");
    let started = now();
    let server = Server::with(&["--config", &config]);
    let mut watcher = Watcher::open(&server);
    assert_eq!(watcher.status, 200);
    // Made for this watcher. The next ones are due a second apart, counted from the start of the server.
    assert_eq!(watcher.message()["streams"]["most"], 64);
    for second in 1..=5 {
        let made = time_of(&watcher.message());
        assert!(made >= started + second * 1_000, "message {second} after {} ms", made - started);
    }
    server.ask("ACQUIRE k free");
    server.ask("ACQUIRE k free");
    let asked = now();
    let mut later = 0;
    loop {
        let told = watcher.message();
        if told["plans"][0]["total"]["denied"] == 1 {
            break;
        }
        later += u32::from(time_of(&told) > asked);
        assert!(later < 2, "{later} messages were made after the denial without it");
    }
}

#[test]
fn there_are_64_and_the_next_is_told_so() {
    let server = Server::start();
    let mut watchers: Vec<_> = (0..64).map(|_| Watcher::open(&server)).collect();
    assert!(watchers.iter().all(|watcher| watcher.status == 200));
    for watcher in &mut watchers {
        watcher.message();
    }
    let refused = get(&server, "/v1/stats/stream");
    assert_eq!(
        (refused.problem(), refused.field("retry-after")),
        ((503, "too_many_streams".to_owned()), Some("5"))
    );
    assert!(refused.body.contains("64 streams are open (limit 64)"), "{}", refused.body);
    // All of them see the same second, in the very same message, and requests are answered meanwhile.
    let mut messages: Vec<_> = watchers.iter_mut().map(Watcher::message).collect();
    until("all of them see the same second", || {
        let latest = messages.iter().map(time_of).max().unwrap();
        // A watcher that is late gets the next message, and may pass the others by.
        for (watcher, message) in watchers.iter_mut().zip(&mut messages) {
            while time_of(message) < latest {
                *message = watcher.message();
            }
        }
        messages.iter().all(|message| time_of(message) == latest)
    });
    assert!(messages.iter().all(|message| *message == messages[0]), "not the same message");
    assert_eq!(server.ask("PING"), "+PONG");
    assert_eq!(open_streams(&server), 64);
    watchers.truncate(3);
    until("places are free again", || open_streams(&server) == 3);
    assert_eq!(Watcher::open(&server).status, 200);
}

/// Messages tell 64 plans, and to an administrator ten keys of 1,000 bytes: the buffers to a client that does not read are full after a
/// few of them.
#[test]
fn clients_that_do_not_read_are_cut_off() {
    let folder = Folder::new("slow");
    let plans: String = (0..64).map(|plan| format!("[plans.{plan:0>64}]\nlimits = [\"1000/h\"]\n")).collect();
    let config = folder.write("a.toml", plans);
    let server = Server::with(&[
        "--config",
        &config,
        "--top-denied",
        "10",
        "--admin-token",
        "root",
        "--request-timeout",
        "5",
    ]);
    let mut raw = server.connect();
    for key in 0..10 {
        for _ in 0..2 {
            raw.ask(&format!("THROTTLE {key:0>1000} 1 1 3600"));
        }
    }
    let mut quick = Watcher::open(&server);
    let address = server.address("http");
    let slow: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut raw = Raw::connect(address);
            raw.send(format!(
                "GET /v1/stats/stream HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer root\r\n\r\n"
            ));
            raw.0
        })
        .collect();
    until("all are served", || open_streams(&server) == 9);
    until("those that do not read are cut off", || quick.message()["streams"]["open"] == 1);
    drop(slow);
}

#[test]
fn a_stream_ends_when_the_server_stops_and_holds_up_nothing() {
    let server = Server::start();
    let mut watcher = Watcher::open(&server);
    watcher.message();
    server.signal("TERM");
    while !watcher.line().is_empty() {}
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn only_an_administrator_sees_keys_in_it() {
    let server = Server::with(&["--top-denied", "3", "--auth-token", "client", "--admin-token", "root"]);
    let mut raw = server.connect();
    assert_eq!(raw.ask("AUTH client"), "+OK");
    for _ in 0..3 {
        raw.ask("THROTTLE secret-user 1 1 3600");
    }
    let with = |token: &str| {
        let bearer = format!("Bearer {token}");
        send(server.address("http"), "GET", "/v1/stats", &[("authorization", &bearer)], None)
    };
    until("an administrator sees it", || with("root").body.contains("secret-user"));
    let client = with("client");
    assert!(
        client.status == 200 && client.json()["top_denied"].is_null() && !client.body.contains("secret-user")
    );
    let address = server.address("http");
    for (token, sees) in [("root", true), ("client", false)] {
        let mut raw = Raw::connect(address);
        raw.send(format!(
            "GET /v1/stats/stream HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n"
        ));
        let mut watcher = Watcher { lines: BufReader::new(raw.0), status: 0 };
        // The first was made for it, and the next is made for all.
        for _ in 0..2 {
            assert_eq!(watcher.message().to_string().contains("secret-user"), sees, "{token}");
        }
    }
}

#[test]
fn a_stream_ends_when_the_token_is_exchanged_that_opened_it() {
    let folder = Folder::new("stream-token");
    let admin = folder.write("admin", "root-1\n");
    let server = Server::with(&["--top-denied", "3", "--admin-token-file", &admin]);
    let mut watcher = Watcher::with(&server, "authorization: Bearer root-1\r\n");
    assert_eq!(watcher.message()["rights"]["admin"], true);
    folder.write("admin", "root-2\n");
    server.await_log("tokens: read again and exchanged");
    // The last chunk of the answer: the connection may ask something else.
    until("the stream ends", || watcher.line() == "0\r\n");
    let again = Watcher::with(&server, "authorization: Bearer root-1\r\n");
    assert_eq!(again.status, 401);
}
