//! gRPC: unary calls over HTTP/2, decided where their bytes were read.
//!
//! ```text
//! mod       the transport                       session      one connection: calls in, replies out
//! wire      a socket that reports progress      framing      where frames begin and end
//! message   messages in, out of and on streams  status       what went wrong
//! call      paths to methods                    generated    the Rust side of proto/
//! conduct   floods of control frames
//! throttle, plans, health, reflection           the methods
//! ```
//!
//! The crate `h2` speaks HTTP/2; the few lines of gRPC that are on top of it are ours. A framework would give every
//! call a task of its own, and this way all calls of a read are answered by one write.

mod call;
mod conduct;
mod framing;
mod generated;
mod health;
mod message;
mod plans;
mod reflection;
mod session;
mod status;
mod throttle;
mod wire;

pub(crate) use generated::throttlecrab::{ThrottleRequest, ThrottleResponse};

use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::meter::Meter;
use crate::secret::Tokens;
use crate::server::{Connection, Serving, Socket, Transport};

/// The transport's name.
pub const NAME: &str = "grpc";

/// The most bytes of one message.
const MAX_MESSAGE: usize = 64 * 1024;

/// The transport, on one event loop.
#[derive(Debug)]
pub(crate) struct Grpc {
    engine: Arc<Engine>,
    meter: Arc<Meter>,
    tokens: Tokens,
    /// How long a client may take to finish a call's request, while its connection is busy with others.
    patience: Duration,
}

impl Grpc {
    pub(crate) fn new(engine: Arc<Engine>, tokens: Tokens, patience: Duration) -> Self {
        let meter = engine.metrics().meter(NAME);
        Grpc { engine, meter, tokens, patience }
    }
}

impl Transport for Grpc {
    fn name(&self) -> &'static str {
        NAME
    }

    /// No settings to speak of, and a goodbye: stream 0 was the last, ENHANCE_YOUR_CALM. Clients call it UNAVAILABLE.
    fn refusal(&self) -> &'static [u8] {
        b"\0\0\0\x04\0\0\0\0\0\0\0\x13\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0bserver full"
    }

    fn protocols(&self) -> &'static [&'static [u8]] {
        &[b"h2"]
    }

    fn serve(self: Arc<Self>, socket: Socket, connection: Arc<Connection>) -> Serving {
        Box::pin(session::serve(self, socket, connection))
    }
}
