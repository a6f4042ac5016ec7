//! What rivals get wrong with time in it, over real sockets, with a clock that stands still until it is told to move.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{MemoryStore, Nanos, Registry};
use ratekeeper_server::{Engine, RequestLimits, Server, Settings, TransportEndpoint};
use test_support::throttlecrab::{ThrottleRequest, ThrottleResponse};
use test_support::wait::PATIENCE;

/// A server in this process, whose store tells the time by `clock`.
struct Fixture {
    clock: FakeClock,
    engine: Arc<Engine>,
    server: Option<Server>,
}

impl Fixture {
    fn new(max_keys: usize) -> Self {
        let clock = FakeClock::default();
        let store = MemoryStore::builder().max_keys(max_keys).clock(clock.clone()).build();
        let engine = Arc::new(Engine::in_memory(store, Registry::default(), RequestLimits::default()));
        let any = TransportEndpoint::at(SocketAddr::from(([127, 0, 0, 1], 0)));
        let settings = Settings {
            resp: Some(any),
            http: Some(any),
            grpc: Some(any),
            msgpack: Some(any),
            ..Settings::default()
        };
        let server = Some(Server::start(&settings, &engine).unwrap());
        Fixture { clock, engine, server }
    }

    fn connect(&self, transport: &str) -> TcpStream {
        let addresses = self.server.as_ref().unwrap().addresses();
        let (_, address) = addresses.iter().find(|(name, _)| *name == transport).unwrap();
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// Allowed, limit, remaining, reset and retry, whoever carries them.
    fn throttle(&self, transport: &str, key: &str, quota: [i64; 3]) -> [i64; 5] {
        let [burst, count, period] = quota;
        let mut socket = self.connect(transport);
        match transport {
            "resp" => {
                write!(socket, "THROTTLE {key} {burst} {count} {period}\r\nQUIT\r\n").unwrap();
                let said = rest(&mut socket);
                let numbers: Vec<i64> =
                    said.lines().filter_map(|line| line.strip_prefix(':')?.parse().ok()).collect();
                numbers.try_into().unwrap()
            }
            "http" => {
                let body = format!(
                    r#"{{"key":"{key}","max_burst":{burst},"count_per_period":{count},"period":{period}}}"#
                );
                let len = body.len();
                write!(
                    socket,
                    "POST /throttle HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}"
                )
                .unwrap();
                let said = rest(&mut socket);
                let body: serde_json::Value =
                    serde_json::from_str(said.rsplit("\r\n\r\n").next().unwrap()).unwrap();
                let number = |name: &str| body[name].as_i64().unwrap();
                let allowed = body["allowed"].as_bool().unwrap().into();
                [allowed, number("limit"), number("remaining"), number("reset_after"), number("retry_after")]
            }
            "grpc" => grpc(socket, key, quota),
            _ => {
                let body = rmp_serde::to_vec(&(1, key, burst, count, period)).unwrap();
                socket.write_all(&u32::try_from(body.len()).unwrap().to_be_bytes()).unwrap();
                socket.write_all(&body).unwrap();
                let mut len = [0; 4];
                socket.read_exact(&mut len).unwrap();
                let mut body = vec![0; u32::from_be_bytes(len) as usize];
                socket.read_exact(&mut body).unwrap();
                let (ok, allowed, limit, remaining, retry, reset): (bool, i64, i64, i64, i64, i64) =
                    rmp_serde::from_slice(&body).unwrap();
                assert!(ok);
                [allowed, limit, remaining, reset, retry]
            }
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }
}

/// The same, by a call on a connection of HTTP/2.
fn grpc(socket: TcpStream, key: &str, quota: [i64; 3]) -> [i64; 5] {
    let [max_burst, count_per_period, period] = quota.map(|number| i32::try_from(number).unwrap());
    let ask = ThrottleRequest { key: key.to_owned(), max_burst, count_per_period, period, quantity: None };
    let ask = ask.encode_to_vec();
    let frame = [&[0], &u32::try_from(ask.len()).unwrap().to_be_bytes()[..], &ask].concat();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let exchange = async {
        socket.set_nonblocking(true).unwrap();
        let socket = tokio::net::TcpStream::from_std(socket).unwrap();
        let (mut client, connection) = h2::client::handshake(socket).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::post("http://x/throttlecrab.RateLimiter/Throttle");
        let request = request.header("content-type", "application/grpc").body(()).unwrap();
        let (response, mut stream) = client.send_request(request, false).unwrap();
        stream.send_data(Bytes::from(frame), true).unwrap();
        let mut body = response.await.unwrap().into_body();
        body.data().await.unwrap().unwrap()
    };
    let bounded = async { tokio::time::timeout(PATIENCE, exchange).await };
    let answer = ThrottleResponse::decode(runtime.block_on(bounded).unwrap().slice(5..)).unwrap();
    let ThrottleResponse { allowed, limit, remaining, retry_after, reset_after } = answer;
    [i64::from(allowed), limit.into(), remaining.into(), reset_after.into(), retry_after.into()]
}

fn rest(socket: &mut TcpStream) -> String {
    let mut said = String::new();
    socket.read_to_string(&mut said).unwrap();
    said
}

/// throttlecrab 0.4.40 allows 17 at once, and tells of 16 remaining of 10.
#[test]
fn a_bucket_that_refilled_for_8_6_seconds_holds_no_more_than_it_can() {
    for transport in ["resp", "http", "grpc", "msgpack"] {
        let fixture = Fixture::new(1_000);
        assert_eq!(fixture.throttle(transport, "b", [10, 60, 60]), [1, 10, 9, 1, 0], "{transport}");
        fixture.clock.advance(Nanos::from_millis(8_600));
        for remaining in (0..10).rev() {
            let answer = fixture.throttle(transport, "b", [10, 60, 60]);
            assert_eq!(answer, [1, 10, remaining, 10 - remaining, 0], "{transport}");
        }
        assert_eq!(fixture.throttle(transport, "b", [10, 60, 60]), [0, 10, 0, 10, 1], "{transport}");
    }
}

/// throttlecrab's adaptive store sweeps the whole table on every write once three quarters of it live.
#[test]
fn a_table_full_of_live_keys_is_not_swept_and_changes_nothing_for_them() {
    let keys = 4_000;
    let fixture = Fixture::new(keys);
    let mut socket = fixture.connect("resp");
    let ask = |socket: &mut TcpStream, from: usize, to: usize| {
        let lines: String = (from..to).map(|key| format!("THROTTLE k{key} 2 1 3600\r\n")).collect();
        let mut writer = socket.try_clone().unwrap();
        let sending = std::thread::spawn(move || writer.write_all(lines.as_bytes()).unwrap());
        let mut first = Vec::new();
        for _ in from..to {
            let mut answer = [0; 4];
            socket.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"*5\r\n");
            let numbers: Vec<String> = (0..5).map(|_| line(socket)).collect();
            first.push(numbers.join(" "));
        }
        sending.join().unwrap();
        first
    };
    let all = ask(&mut socket, 0, keys);
    assert!(all.iter().all(|answer| answer == ":1 :2 :1 :3600 :0"), "every key has a place");
    let full = fixture.engine.memory().unwrap().statistics();
    assert_eq!((full.keys, full.expired), (keys, 0));
    // New keys find no place, and nothing that lives is taken away for them.
    let new = ask(&mut socket, keys, keys + 100);
    assert!(new.iter().all(|answer| answer.starts_with(":0 :2 :0 ")), "{new:?}");
    let old = ask(&mut socket, 0, keys);
    assert!(old.iter().all(|answer| answer == ":1 :2 :0 :7200 :0"), "as if nobody else had asked");
    let after = fixture.engine.memory().unwrap().statistics();
    assert_eq!((after.keys, after.expired, after.refused), (keys, 0, 100));
    // Time makes room.
    fixture.clock.advance(Nanos::from_secs(7_200));
    assert_eq!(ask(&mut socket, keys, keys + 1), [":1 :2 :1 :3600 :0"]);
}

fn line(socket: &mut TcpStream) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap().trim_end().to_owned()
}
