//! What all clients of the transport share, on one event loop.

use std::sync::Arc;

use crate::engine::Engine;
use crate::responder::Responder;
use crate::secret::Tokens;

/// The transport's name.
pub(crate) const NAME: &str = "http";

/// The HTTP transport on one event loop.
#[derive(Debug)]
pub(crate) struct HttpTransport {
    pub(super) responder: Responder,
}

impl HttpTransport {
    /// Returns the transport.
    pub(crate) fn new(engine: Arc<Engine>, tokens: Tokens) -> Self {
        HttpTransport { responder: Responder::new(NAME, engine, tokens) }
    }
}
