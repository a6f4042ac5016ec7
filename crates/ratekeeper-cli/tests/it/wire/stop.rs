//! How a server stops: every request that it has read is answered, and no client can delay the end.
//!
//! A stop waits two seconds for clients that have not finished, and then cuts them and says so in its log. On a machine that gives
//! a test no processor for so long, clients may be cut that were to be answered: then the log tells, and the test holds the server
//! to what is true in that case as well.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::wire::grpc::{PREFACE, THROTTLE, block, connect_to, request};
use crate::wire::http::get;
use test_support::server::{Folder, Raw, Server, command, until};
use test_support::wait::until_stopped;

/// The log line of an event loop that has cut clients.
const CUT: &str = "closed connections that did not end in time";
/// The log line of a stop that does not wait for an event loop any longer, which had no processor for half a second.
const HUNG: &str = "an event loop hangs, its connections are cut";
/// For so long the server takes a second signal for a repetition of the first.
const REPEATS: Duration = Duration::from_secs(1);
/// A quota that no flood uses up, and that refills nothing while a test runs.
const BURST: u64 = 100_000_000;
const QUOTA: [&str; 3] = ["100000000", "1", "60"];
/// Requests in one write.
const PIPELINE: usize = 200;
/// Writes that may be unanswered at once: few enough that the sockets hold all answers, however slowly the client reads.
const UNANSWERED: usize = 8;
/// Answers that each client must have before the server is told to stop.
const ENOUGH: u64 = 400;

/// One client that asks until the server closes the connection.
#[derive(Default)]
struct Flood {
    sent: AtomicU64,
    answered: AtomicU64,
    /// Closed in the middle of an answer, or with a reset, which destroys answers.
    is_cut: AtomicBool,
}

impl Flood {
    /// Returns what was read or written, or none if the connection was cut.
    fn uncut<T>(&self, result: io::Result<T>) -> Option<T> {
        result.inspect_err(|_| self.is_cut.store(true, Ordering::Relaxed)).ok()
    }

    /// Counts one answer, which must be the next one: none is missing, and none comes twice.
    fn answer(&self, remaining: u64) {
        let answered = self.answered.fetch_add(1, Ordering::Relaxed) + 1;
        assert_eq!(remaining, BURST - answered, "out of order, missing or twice");
    }

    fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Sends copies of a request until the server closes the connection. `read` returns the number in one answer, or none at the end.
    fn pipelined(
        &self,
        stream: &TcpStream,
        request: &[u8],
        mut read: impl FnMut(&mut BufReader<&TcpStream>) -> Option<u64>,
    ) {
        thread::scope(|scope| {
            // One write for each that was answered, and some at first.
            let (answered, is_answered) = sync_channel(UNANSWERED);
            (0..UNANSWERED).for_each(|_| answered.send(()).unwrap());
            scope.spawn(move || {
                let (many, mut stream) = (request.repeat(PIPELINE), stream);
                while is_answered.recv().is_ok() {
                    self.sent.fetch_add(PIPELINE as u64, Ordering::Relaxed);
                    if stream.write_all(&many).is_err() {
                        break;
                    }
                }
            });
            let mut reader = BufReader::new(stream);
            while let Some(remaining) = read(&mut reader) {
                self.answer(remaining);
                if self.answered().is_multiple_of(PIPELINE as u64) {
                    let _ = answered.send(());
                }
            }
        });
    }

    fn resp(&self, address: SocketAddr) {
        let raw = Raw::connect(address);
        let words = ["THROTTLE", "resp", QUOTA[0], QUOTA[1], QUOTA[2]];
        self.pipelined(&raw.0, &command(&words.map(str::as_bytes)), |reader| {
            let mut lines = [const { String::new() }; 6];
            for (index, line) in lines.iter_mut().enumerate() {
                if self.uncut(reader.read_line(line))? == 0 {
                    let is_whole = index == 0;
                    self.is_cut.fetch_or(!is_whole, Ordering::Relaxed);
                    return None;
                }
            }
            assert_eq!((lines[0].as_str(), lines[1].as_str()), ("*5\r\n", ":1\r\n"));
            Some(lines[3].trim_end()[1..].parse().unwrap())
        });
    }

    fn msgpack(&self, address: SocketAddr) {
        let raw = Raw::connect(address);
        let body = rmp_serde::to_vec(&(1u8, "msgpack", BURST, 1, 60, 1)).unwrap();
        let request = [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat();
        self.pipelined(&raw.0, &request, |reader| {
            if self.uncut(reader.fill_buf())?.is_empty() {
                return None;
            }
            let mut len = [0; 4];
            self.uncut(reader.read_exact(&mut len))?;
            let mut body = vec![0; u32::from_be_bytes(len) as usize];
            self.uncut(reader.read_exact(&mut body))?;
            let answer: (bool, u8, u64, u64, i64, i64) = rmp_serde::from_slice(&body).unwrap();
            assert_eq!((answer.0, answer.1), (true, 1));
            Some(answer.3)
        });
    }

    /// One request after the other, as HTTP clients do; the last answer says that it is the last.
    fn http(&self, address: SocketAddr) {
        let raw = Raw::connect(address);
        let [burst, count, period] = QUOTA;
        let body =
            format!(r#"{{"key":"http","max_burst":{burst},"count_per_period":{count},"period":{period}}}"#);
        let request = format!(
            "POST /throttle HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut reader = BufReader::new(raw.0.try_clone().unwrap());
        loop {
            self.sent.fetch_add(1, Ordering::Relaxed);
            if self.uncut((&raw.0).write_all(request.as_bytes())).is_none() {
                return;
            }
            let (mut len, mut is_last) = (0, false);
            loop {
                let mut line = String::new();
                let Some(read) = self.uncut(reader.read_line(&mut line)) else { return };
                if read == 0 {
                    // Closed between requests: this one was not read.
                    assert_eq!(len, 0);
                    return;
                }
                if let Some(value) = line.strip_prefix("content-length: ") {
                    len = value.trim_end().parse().unwrap();
                }
                is_last |= line == "connection: close\r\n";
                if line == "\r\n" {
                    break;
                }
            }
            let mut body = vec![0; len];
            if self.uncut(reader.read_exact(&mut body)).is_none() {
                return;
            }
            let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
            self.answer(answer["remaining"].as_u64().unwrap());
            if is_last {
                assert_eq!(reader.read(&mut [0]).unwrap(), 0);
                return;
            }
        }
    }

    /// One call after the other on one connection, until the server says goodbye.
    fn grpc(&self, address: SocketAddr) {
        // key "grpc", burst 100000000, one in 60 seconds.
        let message = b"\0\0\0\0\x0f\x0a\x04grpc\x10\x80\xc2\xd7\x2f\x18\x01\x20\x3c";
        block(async {
            let mut client = connect_to(address).await;
            loop {
                client = match client.ready().await {
                    Ok(client) => client,
                    Err(error) => return assert!(error.is_go_away() || error.is_io(), "{error}"),
                };
                self.sent.fetch_add(1, Ordering::Relaxed);
                let Ok((response, mut stream)) =
                    client.send_request(request(THROTTLE, "application/grpc"), false)
                else {
                    return;
                };
                let _ = stream.send_data(Bytes::from_static(message), true);
                let Ok(response) = response.await else { return };
                let answer = response.into_body().data().await.unwrap().unwrap();
                // allowed, limit, remaining
                assert!(answer[5..].starts_with(b"\x08\x01\x10\x80\xc2\xd7\x2f\x18"), "{answer:?}");
                let digits = answer[13..].iter().scan(true, |goes_on, byte| {
                    let digit = goes_on.then_some(u64::from(byte & 0x7f));
                    *goes_on = byte & 0x80 != 0;
                    digit
                });
                self.answer(digits.zip((0..).step_by(7)).map(|(digit, shift)| digit << shift).sum());
            }
        });
    }
}

/// Tells a server to stop, waits until it has, and returns its log.
#[track_caller]
fn stop(server: Server) -> Vec<String> {
    server.signal("TERM");
    let (status, log) = server.end();
    assert_eq!(status.code(), Some(0), "{log:?}");
    log
}

/// Returns true if a log has one of these lines.
fn has(log: &[String], lines: &[&str]) -> bool {
    log.iter().any(|line| lines.iter().any(|text| line.contains(text)))
}

/// Returns true if the log says that the server did not wait for all of its clients, which a busy machine may make too slow.
pub(crate) fn is_cut_off(log: &[String]) -> bool {
    has(log, &[CUT, HUNG])
}

/// Sends signals that the server receives together, as if a process and its group were signalled.
fn signal_together(server: &Server, names: &[&str]) {
    server.signal("STOP");
    until_stopped(server.pid());
    names.iter().for_each(|name| server.signal(name));
    server.signal("CONT");
}

/// Waits until the next signal counts as a new one. `stopping` is when the server had received the first.
fn await_new_signal(stopping: Instant) {
    until("a signal is no repetition", || stopping.elapsed() > REPEATS);
}

/// Asks at this address until it is closed.
type ClientLoop = fn(&Flood, SocketAddr);

#[test]
fn what_was_read_is_answered_and_what_was_answered_is_counted() {
    let folder = Folder::new("stop-flood");
    let state = folder.path("state.bin");
    let flags = ["--snapshot", &state, "--max-period", "73000d"];
    let server = Server::with(&flags);
    let floods: [(&str, ClientLoop); 4] =
        [("resp", Flood::resp), ("msgpack", Flood::msgpack), ("http", Flood::http), ("grpc", Flood::grpc)];
    let clients: [Flood; 4] = std::array::from_fn(|_| Flood::default());
    let log = thread::scope(|scope| {
        for ((name, flood), client) in floods.iter().zip(&clients) {
            let address = server.address(name);
            scope.spawn(move || flood(client, address));
        }
        until("all are being served", || clients.iter().all(|client| client.answered() >= ENOUGH));
        stop(server)
    });
    let is_cut = clients.iter().any(|client| client.is_cut.load(Ordering::Relaxed));
    assert!(!is_cut || is_cut_off(&log), "a connection was cut, and the log does not tell: {log:?}");
    // The state that was written knows exactly those requests that were answered: a request that was decided and not
    // answered would be missing here, and so would an answer that was never charged.
    let server = Server::with(&flags);
    for ((name, _), client) in floods.iter().zip(&clients) {
        let left = server.ask(&format!("THROTTLE {name} {} 0", QUOTA.join(" ")));
        let charged = BURST - left.split(' ').nth(2).unwrap().parse::<u64>().unwrap();
        let answered = client.answered();
        // The answers to a client that was cut may be lost. A loop that is not waited for may answer after the state was written.
        let is_exact = charged == answered || charged > answered && has(&log, &[CUT]);
        assert!(is_exact || has(&log, &[HUNG]), "{name}: {left}, {answered} answers, {log:?}");
        assert!(client.sent.load(Ordering::Relaxed) >= charged, "{name}");
    }
}

#[test]
fn no_client_can_hold_up_a_stop() {
    let server = Server::start();
    let mut held = Vec::new();
    let half = "POST /throttle HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 60\r\n\r\n{";
    let call = [PREFACE, b"\0\0\0\x01\x04\0\0\0\x01"].concat();
    let requests: [(&str, &[u8], &[u8]); 4] = [
        ("resp", b"PING\r\n", b"*2\r\n$4\r\nPI"),
        ("msgpack", b"\0\0\0\x01\xc0", b"\0\0\0\x20\x96"),
        ("http", b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n", half.as_bytes()),
        ("grpc", PREFACE, &call),
    ];
    for (transport, whole, part) in requests {
        let address = server.address(transport);
        // Silent from the start; with something answered; in the middle of a request.
        held.push(Raw::connect(address));
        for bytes in [whole, part] {
            let mut raw = Raw::connect(address);
            raw.send(bytes);
            held.push(raw);
        }
        // Asks for ever, and reads nothing.
        let raw = Raw::connect(address);
        raw.0.set_nonblocking(true).unwrap();
        let many = if transport == "grpc" { PREFACE.to_vec() } else { whole.repeat(1000) };
        let mut sent = 0;
        let refused = loop {
            match (&raw.0).write(&many) {
                Ok(len) => sent += len,
                Err(error) => break error,
            }
            if transport == "grpc" || sent > 64 * 1024 * 1024 {
                break ErrorKind::WouldBlock.into();
            }
        };
        assert!(
            matches!(
                refused.kind(),
                ErrorKind::WouldBlock | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            ),
            "{refused}"
        );
        held.push(raw);
    }
    block(async {
        let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address("grpc")));
        let mut health = HealthClient::new(endpoint.unwrap().connect().await.unwrap());
        let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    });
    let log = stop(server);
    assert!(is_cut_off(&log), "clients that do not finish are cut, and the log tells: {log:?}");
    drop(held);
}

#[test]
fn a_request_that_is_finished_after_the_stop_is_the_last_of_its_connection() {
    let server = Server::start();
    let raw = Raw::connect(server.address("http"));
    let mut stream = &raw.0;
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n").unwrap();
    // Answered by the same loop or another: either way the server runs, and has read what was sent before.
    assert_eq!(get(&server, "/health").status, 200);
    server.signal("TERM");
    let address = server.address("http");
    until("it accepts no more clients", || TcpStream::connect(address).is_err());
    let mut said = String::new();
    let read = stream.write_all(b"\r\n").and_then(|()| stream.read_to_string(&mut said));
    let (status, log) = server.end();
    assert_eq!(status.code(), Some(0));
    let is_answered = said.starts_with("HTTP/1.1 200 OK\r\n") && said.contains("connection: close\r\n");
    assert!(read.is_ok() && is_answered || is_cut_off(&log), "{read:?} {said:?} {log:?}");
}

#[test]
fn while_it_drains_it_is_not_ready_and_serves_everybody() {
    let server = Server::with(&["--drain", "1h"]);
    let mut old = server.connect();
    assert_eq!(old.ask("PING"), "+PONG");
    assert_eq!(get(&server, "/ready").status, 200);
    block(async {
        let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address("grpc")));
        let mut health = HealthClient::new(endpoint.unwrap().connect().await.unwrap());
        let whole = HealthCheckRequest::default();
        let mut watch = health.watch(whole.clone()).await.unwrap().into_inner();
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
        // Both count as one signal.
        signal_together(&server, &["TERM", "INT"]);
        server.await_log("stopping");
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
        let told = health.check(whole).await.unwrap().into_inner();
        assert_eq!(told.status(), ServingStatus::NotServing);
    });
    let stopping = Instant::now();
    let ready = get(&server, "/ready");
    assert_eq!(ready.problem(), (503, "draining".to_owned(), serde_json::Value::Null));
    assert_eq!(get(&server, "/health").status, 200, "it is well, and must not be killed");
    assert_eq!(old.ask("PING"), "+PONG");
    assert_eq!(server.ask("THROTTLE k 10 100 60"), "1 10 9 1 0", "a new connection");
    await_new_signal(stopping);
    assert_eq!(old.ask("PING"), "+PONG", "a repetition cuts no client");
    // After another signal, it does not wait for the rest of the hour.
    server.signal("TERM");
    assert_eq!(old.rest(), "");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_drain_comes_to_its_end() {
    let server = Server::with(&["--drain", "1s"]);
    let mut raw = server.connect();
    assert_eq!(raw.ask("PING"), "+PONG");
    server.signal("INT");
    server.await_log("stopping");
    assert_eq!(raw.rest(), "", "it is closed without another word");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_second_signal_ends_a_stop_and_state_is_still_written() {
    let folder = Folder::new("stop-twice");
    let state = folder.path("state.bin");
    let server = Server::with(&["--snapshot", &state, "--drain", "1h"]);
    let mut raw = server.connect();
    assert_eq!(raw.ask("THROTTLE k 1 1 3600"), "1 1 0 3600 0");
    server.signal("TERM");
    server.await_log("stopping");
    await_new_signal(Instant::now());
    assert_eq!(raw.ask("PING"), "+PONG");
    server.signal("INT");
    server.await_log("told to stop again");
    assert_eq!(server.wait().code(), Some(0));
    let server = Server::with(&["--snapshot", &state]);
    assert!(server.ask("THROTTLE k 1 1 3600").starts_with("0 1 0 "));
}

#[test]
fn while_it_drains_plans_are_reloaded_as_before() {
    let folder = Folder::new("stop-reload");
    let config = folder.write("a.toml", "[plans.gold]\nlimits = [\"5/h\"]\n");
    let server = Server::with(&["--config", &config, "--drain", "1h"]);
    server.signal("TERM");
    server.await_log("stopping");
    folder.write("a.toml", "[plans.lead]\nlimits = [\"5/h\"]\n");
    server.await_log("plans reloaded");
    folder.write("a.toml", "[plans.gold]\nlimits = [\"5/h\"]\n");
    server.signal("HUP");
    server.await_log("plans reloaded");
    assert!(server.ask("PEEK k gold").starts_with("1 5 5 "));
}
