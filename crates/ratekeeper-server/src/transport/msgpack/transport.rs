//! The transport, on one event loop.

use std::sync::Arc;

use super::protocol::MsgPackProtocol;
use crate::engine::Engine;
use crate::net::{Connection, Serving, Socket, Transport};
use crate::responder::Responder;
use crate::secret::LiveTokens;
use crate::stream::serve_stream;

/// The transport's name.
pub(crate) const NAME: &str = "msgpack";

/// The MessagePack transport on one event loop.
#[derive(Debug)]
pub(crate) struct MsgPackTransport(Arc<Responder>);

impl MsgPackTransport {
    /// Returns the transport.
    pub(crate) fn new(engine: Arc<Engine>, tokens: LiveTokens) -> Self {
        MsgPackTransport(Arc::new(Responder::new(NAME, engine, tokens)))
    }
}

impl Transport for MsgPackTransport {
    fn name(&self) -> &'static str {
        NAME
    }

    fn refusal(&self) -> &'static [u8] {
        b"\x00\x00\x00\x12\x97\xc2\x00\x00\x00\x00\x00\xaaserver full"
    }

    fn serve(self: Arc<Self>, socket: Socket, connection: Arc<Connection>) -> Serving {
        let protocol = MsgPackProtocol::new(Arc::clone(&self.0), Arc::clone(&connection));
        Box::pin(serve_stream(protocol, socket, connection))
    }
}
