//! A permit lives until the response's body ends, over real sockets.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::body::Bytes;
use ratekeeper_http::Limit;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tower::ServiceExt;

use crate::server::support::{self, serve};

/// A body that goes on until its sender is dropped.
struct Streaming(Receiver<Bytes>);

impl http_body::Body for Streaming {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}

/// An app whose bodies end when the test says so.
fn app(limit: &Limit) -> (Router, Arc<Mutex<Vec<Sender<Bytes>>>>) {
    let senders = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&senders);
    let handler = move || {
        let (sender, receiver) = channel(1);
        sender.try_send(Bytes::from_static(b"begun")).unwrap();
        kept.lock().unwrap().push(sender);
        async move { Body::new(Streaming(receiver)) }
    };
    (Router::new().route("/", get(handler)).layer(limit.layer()), senders)
}

#[tokio::test]
async fn a_body_that_streams_holds_its_permit_over_a_socket() {
    let limit = Limit::new("streams", "1 concurrent".parse().unwrap());
    let (app, senders) = app(&limit);
    let address = serve(app).await;
    let client = support::client();
    let url: http::Uri = format!("http://{address}/").parse().unwrap();
    let first = client.get(url.clone()).await.unwrap();
    assert_eq!(first.status(), 200);
    assert_eq!(first.headers()["ratelimit-policy"], r#""streams";q=1;qu="concurrent-requests""#);
    assert_eq!(first.headers()["ratelimit"], r#""streams";r=0"#);
    let refused = support::get(address, "/", &[]).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "1"));
    senders.lock().unwrap().clear();
    assert_eq!(&*first.into_body().collect().await.unwrap().to_bytes(), b"begun");
    let second = client.get(url).await.unwrap();
    assert_eq!(second.status(), 200, "the body has ended");
    // The client hangs up in the middle of the body: the server finds out when it writes, and frees the permit.
    drop(second);
    drop(client);
    let sender = senders.lock().unwrap().pop().unwrap();
    sender.closed().await;
    assert_eq!(limit.gate().statistics(b"__global__").await.unwrap().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_streams_for_a_second_holds_its_permit_for_that_second() {
    let limit = Limit::new("streams", "1 concurrent".parse().unwrap()).queue(1, Duration::from_secs(60));
    let (app, senders) = app(&limit);
    let request = || http::Request::new(Body::from(""));
    let first = app.clone().oneshot(request()).await.unwrap();
    let start = tokio::time::Instant::now();
    tokio::spawn(async move {
        let mut body = first.into_body();
        while body.frame().await.is_some() {}
    });
    let sender = senders.lock().unwrap().pop().unwrap();
    tokio::spawn(async move {
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(sender);
    });
    assert_eq!(app.oneshot(request()).await.unwrap().status(), 200);
    assert_eq!(start.elapsed().as_secs(), 1);
}

#[tokio::test]
async fn a_dropped_request_frees_its_permit() {
    let limit = Limit::new("slow", "1 concurrent".parse().unwrap());
    let app = Router::new().route("/", get(std::future::pending::<()>)).layer(limit.layer());
    let request = || http::Request::new(Body::from(""));
    let abandoned = tokio::spawn(app.clone().oneshot(request()));
    tokio::task::yield_now().await;
    assert_eq!(app.clone().oneshot(request()).await.unwrap().status(), 429);
    abandoned.abort();
    assert!(abandoned.await.unwrap_err().is_cancelled());
    assert_eq!(limit.gate().statistics(b"__global__").await.unwrap().in_flight, 0);
}
