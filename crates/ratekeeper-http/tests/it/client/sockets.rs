//! The reqwest middleware, against a server on a real socket.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use ratekeeper_http::client::Pace;
use ratekeeper_http::headers::ServerLimits;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};

use crate::client::support::{Dialect, OnWire, Server};

fn client(pace: Pace) -> ClientWithMiddleware {
    ClientBuilder::new(reqwest::Client::new()).with(pace).with(OnWire).build()
}

async fn serve(server: Server) -> SocketAddr {
    let app = Router::new().route("/", any(move || async move { server.answer() }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

#[tokio::test(start_paused = true)]
async fn reqwest_is_polite() {
    for dialect in [Dialect::GitHub, Dialect::OpenAi, Dialect::Ietf] {
        let server = Server::new(dialect, 5, Duration::from_secs(60), 5);
        let address = serve(server.clone()).await;
        let client = client(Pace::default());
        for _ in 0..12 {
            let response = client.get(format!("http://{address}/")).send().await.unwrap();
            assert_eq!(response.status(), 200, "{dialect:?}");
            assert!(response.extensions().get::<ServerLimits>().is_some());
        }
        assert_eq!(server.counts(), (12, 1), "{dialect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn reqwest_sends_a_post_once() {
    let server = Server::new(Dialect::Ietf, 5, Duration::from_secs(60), 5);
    let address = serve(server.clone()).await;
    let client = client(Pace::default());
    let response = client.post(format!("http://{address}/")).body("x").send().await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(server.counts(), (0, 1));
}

/// The refusal was thrown away, and the caller got an error instead.
#[tokio::test(start_paused = true)]
async fn reqwest_answers_with_a_refusal_that_it_cannot_try_again_in_time() {
    let server = Server::new(Dialect::Ietf, 5, Duration::from_secs(60), 5);
    let address = serve(server.clone()).await;
    let pace = Pace::default().timeout(Duration::from_secs(10));
    let client = client(pace);
    let response = client.get(format!("http://{address}/")).send().await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(server.counts(), (0, 1));
    assert!(client.get(format!("http://{address}/")).send().await.is_err(), "the next one is not sent");
}
