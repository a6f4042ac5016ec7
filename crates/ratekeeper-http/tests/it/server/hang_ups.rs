//! Places come back whatever clients do, over real sockets.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Uri;
use axum::routing::get;
use futures_util::StreamExt;
use hyper::body::Bytes;
use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
use ratekeeper_http::{HoldPolicy, Limit, Spent};
use test_support::cases::share;
use test_support::wait::PATIENCE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::server::support::serve;

const KEY: &str = "__global__";
/// How many requests a thorough run sends in all, and how many clients send them.
const REQUESTS: u32 = 4_000;
const CLIENTS: u64 = 200;

fn keeper(rules: &str) -> Keeper {
    let plan = Plan::parse("llm", rules).unwrap().assume("tokens", 10).unwrap();
    Keeper::new(MemoryStore::default(), Registry::new([plan]))
}

/// What is left of tokens, and of places.
async fn left(keeper: &Keeper) -> (u64, u64) {
    let ruling = keeper.peek(KEY, "llm", &[("tokens", 0), ("concurrent", 0)]).await.unwrap();
    let each: Vec<u64> = ruling.each().map(|(_, _, decision)| decision.remaining).collect();
    (each[0], each[1])
}

/// Waits until all places are back; the server hears of a hang-up when it writes, or reads the end.
async fn all_are_back(keeper: &Keeper, places: u64) {
    let all = [("tokens", 0), ("concurrent", places)];
    let hold = keeper.hold(KEY, "llm", &all).within(PATIENCE).await.unwrap();
    assert!(hold.allowed, "{:?} are left", left(keeper).await);
    hold.cancel().await.unwrap();
}

#[tokio::test]
async fn a_client_that_closes_in_the_middle_of_a_stream_is_settled_with_what_was_said() {
    let keeper = keeper("1000 tokens per 30days; 2 concurrent");
    let handler = || async {
        let spent = Spent::default();
        let said = spent.clone();
        let chunks = futures_util::stream::repeat_with(move || {
            said.set("tokens", 3);
            Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 1024]))
        });
        (spent, Body::from_stream(chunks))
    };
    let limit = Limit::over(keeper.clone(), "llm".parse().unwrap()).hold(HoldPolicy::default());
    let address = serve(Router::new().route("/", get(handler)).layer(limit)).await;
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    socket.read_exact(&mut [0; 4096]).await.unwrap();
    assert_eq!(left(&keeper).await.1, 1);
    drop(socket);
    all_are_back(&keeper, 2).await;
    assert_eq!(left(&keeper).await.0, 997);
}

/// An app that answers as its path says.
async fn app(uri: Uri) -> axum::response::Response {
    use axum::response::IntoResponse;
    match uri.path() {
        "/stream" => {
            let spent = Spent::default();
            let said = spent.clone();
            let chunks = futures_util::stream::iter(0..20).then(move |_| {
                said.add("tokens", 1);
                async {
                    tokio::task::yield_now().await;
                    Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 512]))
                }
            });
            (spent, Body::from_stream(chunks)).into_response()
        }
        "/panic" => panic!("as the test has asked for"),
        "/slow" => {
            for _ in 0..500 {
                tokio::task::yield_now().await;
            }
            (Spent::tokens(1), "slow").into_response()
        }
        _ => (Spent::tokens(1), "quick").into_response(),
    }
}

/// Sends one request, and closes the connection sooner or later.
async fn visit(address: SocketAddr, number: u64) {
    // Not random, but no two neighbours are alike.
    let noise = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    let path = ["/stream", "/slow", "/quick", "/panic"][(noise % 4) as usize];
    let Ok(mut socket) = TcpStream::connect(address).await else { return };
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let sent = (noise / 4 % 3) as usize;
    let cut = if sent == 0 { head.len() / 2 } else { head.len() };
    let _ = socket.write_all(&head.as_bytes()[..cut]).await;
    let mut buffer = vec![0; 1 + (noise / 16 % 2_000) as usize];
    match sent {
        // Hangs up before the head is whole, at once, or after some bytes.
        0 => {}
        1 if (noise / 12).is_multiple_of(2) => {}
        1 => drop(socket.read(&mut buffer).await),
        _ => while socket.read(&mut buffer).await.is_ok_and(|read| read > 0) {},
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_many_requests_with_hang_ups_all_places_are_back() {
    // Panics of handlers are part of the test.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let is_meant = info.payload().downcast_ref::<&str>().is_some_and(|text| text.contains("as the test"));
        if !is_meant {
            hook(info);
        }
    }));
    let places = 64;
    let keeper = keeper(&format!("1000000 tokens/day burst 1000000; {places} concurrent"));
    let policy = HoldPolicy::default().lease(Duration::from_secs(3_600)).unwrap();
    let limit = Limit::over(keeper.clone(), "llm".parse().unwrap()).hold(policy);
    let address = serve(Router::new().fallback(app).layer(limit)).await;
    let (next, requests) = (Arc::new(AtomicU64::new(0)), u64::from(share(REQUESTS)));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let next = Arc::clone(&next);
        clients.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= requests {
                    return;
                }
                visit(address, number).await;
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    all_are_back(&keeper, places).await;
    let spent = 1_000_000 - left(&keeper).await.0;
    assert!(spent <= requests * 20, "no request took more than the most it said: {spent}");
}
