//! HTTP and JSON: the transport for whoever has `curl`.
//!
//! ```text
//! mod      the transport, on hyper            ask       bodies to requests
//! route    paths to answers                   reply     decisions to bodies and header fields
//! wire     a socket that reports progress     problem   mistakes, as problem+json
//! metrics  what Prometheus reads
//! ```

mod ask;
mod metrics;
mod problem;
mod reply;
mod route;
mod wire;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::task::Poll;
use std::time::Duration;

use ::http::HeaderValue;
use ::http::header::CONNECTION;
use hyper::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokio::time::timeout;

use crate::engine::Engine;
use crate::meter::Meter;
use crate::secret::Tokens;
use crate::server::{Connection, Serving, Socket, Transport};
use wire::{SharedTurn, Wire};

/// The transport's name.
pub const NAME: &str = "http";

/// How long after a stop an idle client is still listened to: a request that it sent before may be on its way.
const IN_FLIGHT: Duration = Duration::from_millis(100);
/// The most bytes of a body.
const MAX_BODY: usize = 64 * 1024;

/// Bytes of a turn that a request is worth, besides its reply: sixteen of them are a turn.
const REQUEST_WORTH: usize = 2 * 1024;

/// The transport, on one event loop.
#[derive(Debug)]
pub(crate) struct Http {
    engine: Arc<Engine>,
    meter: Arc<Meter>,
    tokens: Tokens,
}

impl Http {
    pub(crate) fn new(engine: Arc<Engine>, tokens: Tokens) -> Self {
        let meter = engine.metrics().meter(NAME);
        Http { engine, meter, tokens }
    }
}

impl Transport for Http {
    fn name(&self) -> &'static str {
        NAME
    }

    fn refusal(&self) -> &'static [u8] {
        b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"
    }

    fn protocols(&self) -> &'static [&'static [u8]] {
        &[b"http/1.1"]
    }

    fn serve(self: Arc<Self>, socket: Socket, connection: Arc<Connection>) -> Serving {
        Box::pin(serve(self, socket, connection))
    }
}

async fn serve(http: Arc<Http>, socket: Socket, connection: Arc<Connection>) {
    let turn = SharedTurn::default();
    let wire = Wire::new(socket, Arc::clone(&connection), Arc::clone(&turn));
    let service = service_fn(|request| {
        let (http, connection, turn) = (Arc::clone(&http), Arc::clone(&connection), Arc::clone(&turn));
        async move {
            let mut reply = route::answer(&http, &connection, request).await;
            connection.settled();
            if connection.stop().is_raised() {
                // The client learns with its answer that it must connect elsewhere for the next request.
                reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            let len = reply.body().size_hint().exact().and_then(|len| usize::try_from(len).ok());
            let is_over = {
                let mut turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
                turn.spend(REQUEST_WORTH + len.unwrap_or(0));
                turn.is_over()
            };
            // Only for requests that were there already when the one before was answered: hyper goes on with those, and
            // looks at no other socket.
            if is_over {
                tokio::task::yield_now().await;
            }
            Ok::<_, Infallible>(reply)
        }
    });
    let mut builder = http1::Builder::new();
    // Slow heads are the server's concern, as slow anything is.
    // Replies are not gathered (`pipeline_flush`): hyper then reads on for a client that does not read.
    builder.half_close(true).header_read_timeout(None).max_buf_size(MAX_BODY);
    let mut serving = pin!(builder.serve_connection(wire, service));
    let stop = connection.stop();
    let mut bell = pin!(stop.bell());
    let mut is_armed = false;
    let ended = std::future::poll_fn(|context| {
        // Once is enough: the task that must be woken stays the same.
        if !is_armed {
            is_armed = true;
            let _ = bell.as_mut().poll(context);
        }
        match serving.as_mut().poll(context) {
            Poll::Pending if stop.is_raised() => Poll::Ready(false),
            polled => polled.map(|_| true),
        }
    });
    if ended.await {
        return;
    }
    // Requests that were sent before the stop are still answered.
    if timeout(IN_FLIGHT, serving.as_mut()).await.is_err() {
        serving.as_mut().graceful_shutdown();
        // Whatever goes wrong now, the client has gone.
        let _ = serving.await;
    }
}
