//! Connections that leave HTTP are in flight until they end: stock websockets of axum, and whatever hyper upgrades.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use axum::routing::{any, get};
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
use ratekeeper_http::{HoldPolicy, Limit, Spent};
use test_support::wait::PATIENCE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceBuilder;

use crate::server::support::{self, serve};

/// Says everything again, and falls over if it is told to.
async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        match message {
            Message::Text(text) if text.as_str() == "panic" => panic!("on purpose"),
            Message::Text(text) if text.as_str() == "bye" => return,
            Message::Text(text) => socket.send(Message::Text(text)).await.unwrap(),
            _ => {}
        }
    }
}

async fn websocket(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(echo)
}

fn two() -> Limit {
    Limit::new("sockets", "2 concurrent".parse().unwrap())
}

fn app(limit: &Limit) -> Router {
    Router::new().route("/", any(websocket)).route("/plain", get(|| async { "no" })).layer(limit.layer())
}

async fn in_flight(limit: &Limit) -> u64 {
    limit.gate().statistics(b"__global__").await.unwrap().in_flight
}

/// Waits until so many are in flight.
async fn until_in_flight(limit: &Limit, expected: u64) {
    let wait = async {
        while in_flight(limit).await != expected {
            tokio::task::yield_now().await;
        }
    };
    if tokio::time::timeout(PATIENCE, wait).await.is_err() {
        panic!("{} in flight and not {expected}", in_flight(limit).await);
    }
}

/// Asks for a websocket; the status, and the connection.
async fn open(address: SocketAddr, path: &str) -> (u16, TcpStream) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: test\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    (read_status(&mut stream).await, stream)
}

async fn read_status(stream: &mut TcpStream) -> u16 {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    std::str::from_utf8(&head[9..12]).unwrap().parse().unwrap()
}

/// Sends a text of a websocket, masked with zeros.
async fn say(stream: &mut TcpStream, text: &str) {
    let mut frame = vec![0x81, 0x80 | u8::try_from(text.len()).unwrap(), 0, 0, 0, 0];
    frame.extend_from_slice(text.as_bytes());
    stream.write_all(&frame).await.unwrap();
}

async fn hear(stream: &mut TcpStream) -> String {
    assert_eq!(stream.read_u8().await.unwrap(), 0x81);
    let mut text = vec![0; stream.read_u8().await.unwrap().into()];
    stream.read_exact(&mut text).await.unwrap();
    String::from_utf8(text).unwrap()
}

/// Of ten, all were open under `2 concurrent`.
#[tokio::test]
async fn of_ten_websockets_two_are_open() {
    let limit = two();
    let address = serve(app(&limit)).await;
    let mut open_now = Vec::new();
    let mut statuses = Vec::new();
    for _ in 0..10 {
        let (status, stream) = open(address, "/").await;
        statuses.push(status);
        if status == 101 {
            open_now.push(stream);
        }
    }
    assert_eq!(statuses, [101, 101, 429, 429, 429, 429, 429, 429, 429, 429]);
    for (index, stream) in open_now.iter_mut().enumerate() {
        say(stream, &format!("hello {index}")).await;
        assert_eq!(hear(stream).await, format!("hello {index}"));
    }
    assert_eq!(in_flight(&limit).await, 2);
    assert_eq!(support::get(address, "/plain", &[]).await.status, 429, "they count like any other");
    // However one ends, another is let in: its client is gone, its handler is done, its handler has panicked.
    for last_words in [None, Some("bye"), Some("panic")] {
        let mut stream = open_now.remove(0);
        match last_words {
            None => drop(stream),
            Some(words) => {
                say(&mut stream, words).await;
                while stream.read_u8().await.is_ok() {}
            }
        }
        until_in_flight(&limit, 1).await;
        let (status, stream) = open(address, "/").await;
        assert_eq!(status, 101, "after {last_words:?}");
        assert_eq!(open(address, "/").await.0, 429, "after {last_words:?}");
        open_now.push(stream);
    }
    drop(open_now);
    until_in_flight(&limit, 0).await;
}

/// Who asks for an upgrade and does not get it is served like everybody else.
#[tokio::test]
async fn an_upgrade_that_is_not_granted_holds_nothing() {
    let limit = two();
    let address = serve(app(&limit)).await;
    for _ in 0..5 {
        let (status, mut stream) = open(address, "/plain").await;
        assert_eq!(status, 200);
        let mut body = [0; 2];
        stream.read_exact(&mut body).await.unwrap();
        assert_eq!(&body, b"no");
        // The connection is still one of HTTP.
        stream.write_all(b"GET /plain HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
        assert_eq!(read_status(&mut stream).await, 200);
    }
    until_in_flight(&limit, 0).await;
}

/// The handler says yes and drops the upgrade: hyper closes the connection, and the place comes back.
#[tokio::test]
async fn an_upgrade_that_nobody_takes_gives_its_place_back() {
    let limit = two();
    let yes = || async { (StatusCode::SWITCHING_PROTOCOLS, [("upgrade", "websocket")]) };
    let address = serve(Router::new().route("/", any(yes)).layer(limit.layer())).await;
    for _ in 0..5 {
        let (status, mut stream) = open(address, "/").await;
        assert_eq!(status, 101);
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "closed");
        until_in_flight(&limit, 0).await;
    }
}

/// Each of several limits holds the connection.
#[tokio::test]
async fn limits_within_limits_all_hold_the_connection() {
    let (inner, outer) = (two(), Limit::new("all", "3 concurrent".parse().unwrap()));
    let app = Router::new().route("/", any(websocket)).layer(inner.layer()).layer(outer.layer());
    let address = serve(app).await;
    let (status, mut stream) = open(address, "/").await;
    assert_eq!((status, in_flight(&inner).await, in_flight(&outer).await), (101, 1, 1));
    say(&mut stream, "through both").await;
    assert_eq!(hear(&mut stream).await, "through both");
    drop(stream);
    until_in_flight(&inner, 0).await;
    until_in_flight(&outer, 0).await;
}

/// The server ends while connections are open: nothing of them is left.
#[test]
fn a_server_that_ends_leaves_nothing_in_flight() {
    let limit = two();
    let server = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let address = server.block_on(async { serve(app(&limit)).await });
    let client = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    client.block_on(async {
        let (status, mut stream) = open(address, "/").await;
        assert_eq!((status, in_flight(&limit).await), (101, 1));
        server.shutdown_background();
        while stream.read_u8().await.is_ok() {}
        until_in_flight(&limit, 0).await;
    });
}

/// Upgrades by hand, as hyper documents them: says everything again, whatever it is.
async fn tunnel(request: Request<Incoming>) -> Result<http::Response<Empty<Bytes>>, Infallible> {
    let status = match *request.method() {
        http::Method::CONNECT => StatusCode::OK,
        _ => StatusCode::SWITCHING_PROTOCOLS,
    };
    tokio::spawn(async move {
        let mut upgraded = TokioIo::new(hyper::upgrade::on(request).await.unwrap());
        let mut buffer = [0; 1024];
        loop {
            match upgraded.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(len) => upgraded.write_all(&buffer[..len]).await.unwrap(),
            }
        }
    });
    let response = http::Response::builder().status(status).header("upgrade", "echo");
    Ok(response.body(Empty::new()).unwrap())
}

async fn serve_hyper(limit: &Limit) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = ServiceBuilder::new().layer(limit.layer()).service_fn(tunnel);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn what_hyper_upgrades_by_hand_is_in_flight_until_it_ends() {
    let requests = [
        "GET / HTTP/1.1\r\nhost: test\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n",
        "CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n",
    ];
    for request in requests {
        let limit = two();
        let address = serve_hyper(&limit).await;
        let mut streams = Vec::new();
        let mut statuses = Vec::new();
        for _ in 0..4 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // The first bytes for the other protocol come with the request, and are not lost.
            stream.write_all(format!("{request}early").as_bytes()).await.unwrap();
            statuses.push(read_status(&mut stream).await);
            streams.push(stream);
        }
        assert_eq!(statuses[2..], [429, 429], "{request}");
        assert!(statuses[..2].iter().all(|status| [101, 200].contains(status)), "{statuses:?}");
        streams.truncate(2);
        for stream in &mut streams {
            stream.write_all(b" and late").await.unwrap();
            let mut heard = [0; 14];
            stream.read_exact(&mut heard).await.unwrap();
            assert_eq!(&heard, b"early and late");
        }
        assert_eq!(in_flight(&limit).await, 2);
        streams.pop();
        until_in_flight(&limit, 1).await;
        drop(streams);
        until_in_flight(&limit, 0).await;
    }
}

/// Over HTTP/2 a tunnel is one stream of many.
#[tokio::test]
async fn a_tunnel_over_http2_is_in_flight_until_it_ends() {
    let limit = two();
    let address = serve_hyper(&limit).await;
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let mut tunnels = Vec::new();
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let request = Request::connect("example.com:443").body(Empty::<Bytes>::new()).unwrap();
        let response = client.send_request(request).await.unwrap();
        statuses.push(response.status().as_u16());
        if response.status() == 200 {
            tunnels.push(TokioIo::new(hyper::upgrade::on(response).await.unwrap()));
        }
    }
    assert_eq!(statuses, [200, 200, 429, 429]);
    for tunnel in &mut tunnels {
        tunnel.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        tunnel.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
    }
    assert_eq!(in_flight(&limit).await, 2);
    tunnels.pop();
    until_in_flight(&limit, 1).await;
    drop(tunnels);
    until_in_flight(&limit, 0).await;
}

/// A session that tells what it spends while it lasts, and is settled when the connection is closed.
#[tokio::test]
async fn what_is_held_for_a_websocket_is_settled_when_it_is_closed() {
    let plan =
        Plan::parse("llm", "1000 tokens per 30days; 1 concurrent").unwrap().assume("tokens", 500).unwrap();
    let keeper = Keeper::new(MemoryStore::default(), Registry::new([plan]));
    let handler = async |upgrade: WebSocketUpgrade| {
        let spent = Spent::default();
        let said = spent.clone();
        let upgraded = upgrade.on_upgrade(async move |mut socket| {
            while let Some(Ok(Message::Text(text))) = socket.recv().await {
                said.add("tokens", text.len() as u64);
                socket.send(Message::Text(text)).await.unwrap();
            }
        });
        (spent, upgraded)
    };
    let limit = Limit::over(keeper.clone(), "llm".parse().unwrap()).hold(HoldPolicy::default());
    let address = serve(Router::new().route("/", any(handler)).layer(limit)).await;
    let (status, mut stream) = open(address, "/").await;
    assert_eq!(status, 101);
    assert_eq!(open(address, "/").await.0, 429);
    say(&mut stream, "seven..").await;
    assert_eq!(hear(&mut stream).await, "seven..");
    assert_eq!(open(address, "/").await.0, 429, "it is in flight until it is closed");
    drop(stream);
    let place = keeper.hold("__global__", "llm", &[("tokens", 993)]).within(PATIENCE).await.unwrap();
    assert!(place.allowed, "seven of a thousand were spent: {:?}", place.ruling());
}
