//! The server, on a runtime of its own with more threads than cores.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::get;
use ratekeeper_http::Limit;
use ratekeeper_http::key::ClientIp;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

/// Threads of the server.
const WORKERS: usize = 4;

/// A limited app; it ends with this value.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// How many slow requests have been let in.
    pub(crate) held: Arc<AtomicUsize>,
    released: Arc<Semaphore>,
    runtime: Option<Runtime>,
}

impl Server {
    pub(crate) fn start(limit: &Limit) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().unwrap();
        let (held, released) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let (counted, gate) = (Arc::clone(&held), Arc::clone(&released));
        let slow = move || {
            async move {
                let mut turn = pin!(gate.acquire());
                // In line before it is counted, so that requests are released in the order in which they were counted.
                let early = poll_fn(|context| Poll::Ready(turn.as_mut().poll(context))).await;
                counted.fetch_add(1, Ordering::SeqCst);
                let permit = match early {
                    Poll::Ready(permit) => permit,
                    Poll::Pending => turn.await,
                };
                permit.unwrap().forget();
            }
        };
        let app = Router::new()
            .route("/", get(|| async { "hello" }))
            .route("/chunks", get(|| async { Body::from_stream(chunks()) }))
            .route("/wrong", get(|| async { StatusCode::UNAUTHORIZED }))
            .route("/slow", get(slow))
            .layer(limit.clone().by(ClientIp::default()).layer());
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        runtime.spawn(async move { axum::serve(listener, service).await.unwrap() });
        Server { address, held, released, runtime: Some(runtime) }
    }

    /// Lets one slow request succeed.
    pub(crate) fn release(&self) {
        self.released.add_permits(1);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}

/// A body of several pieces, whose length nobody knows.
fn chunks() -> impl futures_util::Stream<Item = Result<&'static str, std::convert::Infallible>> {
    futures_util::stream::iter(["one", "two", "three"].map(Ok))
}
