//! What all clients of the transport share, on one event loop.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::engine::Engine;
use crate::net::ConnectionSlots;
use crate::responder::Responder;
use crate::secret::LiveTokens;

/// The transport's name.
pub(crate) const NAME: &str = "resp";

/// The RESP transport on one event loop.
#[derive(Debug)]
pub(crate) struct RespTransport {
    pub(super) responder: Responder,
    /// The connections of this transport, for `INFO`.
    pub(super) slots: Arc<ConnectionSlots>,
    /// Bytes that the transactions of this loop hold.
    pub(super) queued_bytes: Arc<AtomicUsize>,
}

impl RespTransport {
    /// Returns the transport.
    pub(crate) fn new(engine: Arc<Engine>, slots: Arc<ConnectionSlots>, tokens: LiveTokens) -> Self {
        RespTransport { responder: Responder::new(NAME, engine, tokens), slots, queued_bytes: Arc::default() }
    }
}
