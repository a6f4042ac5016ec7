//! The transport, as the event loop sees it.

use std::sync::Arc;

use super::client::RespClient;
use super::context::{NAME, RespTransport};
use crate::net::{Connection, Serving, Socket, Transport};
use crate::stream::serve_stream;

impl Transport for RespTransport {
    fn name(&self) -> &'static str {
        NAME
    }

    fn refusal(&self) -> &'static [u8] {
        b"-ERR max number of clients reached\r\n"
    }

    fn serve(self: Arc<Self>, socket: Socket, connection: Arc<Connection>) -> Serving {
        let client = RespClient::new(self, Arc::clone(&connection));
        Box::pin(serve_stream(client, socket, connection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_output<A, B, C, F>(_: impl FnOnce(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    /// Ten thousand idle connections hold this much each, besides what the runtime needs for a socket and a task.
    #[test]
    fn an_idle_connection_is_small() {
        let bytes = size_of_output(serve_stream::<RespClient>);
        assert!(bytes <= 1152, "{bytes} bytes");
    }
}
