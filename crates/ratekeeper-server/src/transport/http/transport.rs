//! The transport, on hyper.

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
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::body::MAX_BODY;
use super::context::HttpTransport;
use super::route;
use super::socket::{HttpSocket, SharedBudget};
use crate::net::{Connection, Serving, Socket, StopWatch, Transport};

/// How long an idle client is listened to after a stop: a request that it sent before may be on its way.
const IN_FLIGHT: Duration = Duration::from_millis(100);
/// Bytes of the budget that a request is worth, besides its reply: sixteen of them spend it.
const REQUEST_WORTH: usize = 2 * 1024;

impl Transport for HttpTransport {
    fn name(&self) -> &'static str {
        self.name
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

/// Returns how a connection is served.
pub(super) fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Slow heads are timed by the event loop, as everything slow is.
    // Replies are not gathered (`pipeline_flush`): hyper then reads on for a client that does not read.
    builder.half_close(true).header_read_timeout(None).max_buf_size(MAX_BODY);
    builder
}

async fn serve(http: Arc<HttpTransport>, socket: Socket, connection: Arc<Connection>) {
    let budget = SharedBudget::default();
    let socket = HttpSocket::new(socket, Arc::clone(&connection), Arc::clone(&budget));
    let service = service_fn(|request| {
        let (http, connection, budget) = (Arc::clone(&http), Arc::clone(&connection), Arc::clone(&budget));
        async move {
            let mut reply = route::answer(&http, &connection, request).await;
            connection.settled();
            if connection.stop().is_raised() {
                // Tells the client to connect elsewhere for its next request.
                reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            let len = reply.body().size_hint().exact().and_then(|len| usize::try_from(len).ok());
            let is_spent = {
                let mut budget = budget.lock().unwrap_or_else(PoisonError::into_inner);
                budget.spend(REQUEST_WORTH + len.unwrap_or(0));
                budget.is_spent()
            };
            // Only for requests that were there already when the one before was answered: hyper goes on with those, and
            // looks at no other socket.
            if is_spent {
                tokio::task::yield_now().await;
            }
            Ok::<_, Infallible>(reply)
        }
    });
    let mut serving = pin!(builder().serve_connection(TokioIo::new(socket), service));
    let stop = connection.stop();
    let bell = pin!(stop.bell());
    let mut watch = StopWatch::new(stop, bell);
    let ended = watch.poll(|context, is_stopping| match serving.as_mut().poll(context) {
        Poll::Pending if is_stopping => Poll::Ready(false),
        polled => polled.map(|_| true),
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
