//! What all clients of the transport share, on one event loop.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::responder::Responder;
use crate::secret::Tokens;

/// The transport's name.
pub(crate) const NAME: &str = "grpc";

/// The most bytes of one message.
pub(super) const MAX_MESSAGE: usize = 64 * 1024;

/// The gRPC transport on one event loop.
#[derive(Debug)]
pub(crate) struct GrpcTransport {
    pub(super) responder: Responder,
    /// How long a client may take to finish the request of one call, while its connection is busy with others.
    pub(super) patience: Duration,
}

impl GrpcTransport {
    /// Returns the transport.
    pub(crate) fn new(engine: Arc<Engine>, tokens: Tokens, patience: Duration) -> Self {
        GrpcTransport { responder: Responder::new(NAME, engine, tokens), patience }
    }
}
