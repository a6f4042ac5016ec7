//! The transport, as the event loop sees it.

use std::sync::Arc;

use super::connection;
use super::context::{GrpcTransport, NAME};
use crate::net::{Connection, Serving, Socket, Transport};

impl Transport for GrpcTransport {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Empty settings, and a GOAWAY: stream 0 was the last, ENHANCE_YOUR_CALM. Clients report it as UNAVAILABLE.
    fn refusal(&self) -> &'static [u8] {
        b"\0\0\0\x04\0\0\0\0\0\0\0\x13\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0bserver full"
    }

    fn protocols(&self) -> &'static [&'static [u8]] {
        &[b"h2"]
    }

    fn serve(self: Arc<Self>, socket: Socket, connection: Arc<Connection>) -> Serving {
        Box::pin(connection::serve(self, socket, connection))
    }
}
