//! What all clients of the transport share, on one event loop.

use std::sync::Arc;
use std::time::Duration;

use super::unfinished::MessagePool;
use crate::engine::Engine;
use crate::responder::Responder;
use crate::secret::LiveTokens;
use crate::settings::ConnectionAge;

/// The transport's name.
pub(crate) const NAME: &str = "grpc";

/// The gRPC transport on one event loop.
#[derive(Debug)]
pub(crate) struct GrpcTransport {
    pub(super) responder: Responder,
    /// How long a client may take to finish the request of one call, while its connection is busy with others.
    pub(super) patience: Duration,
    /// What unfinished messages of all connections take beyond what each has for itself.
    pub(super) pool: Arc<MessagePool>,
    /// How old connections become; `None`: as old as they like.
    pub(super) age: Option<ConnectionAge>,
}

impl GrpcTransport {
    /// Returns the transport.
    pub(crate) fn new(engine: Arc<Engine>, tokens: LiveTokens, patience: Duration) -> Self {
        let responder = Responder::new(NAME, engine, tokens);
        GrpcTransport { responder, patience, pool: Arc::default(), age: None }
    }

    /// Sets how old connections become.
    pub(crate) fn aging(self, age: Option<ConnectionAge>) -> Self {
        GrpcTransport { age, ..self }
    }
}
