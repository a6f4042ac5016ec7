//! What a protocol must implement.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use super::connection::Connection;
use super::socket::Socket;

/// A protocol: translates bytes to requests and answers to bytes. Whatever all protocols have in common (accepting,
/// bounds on connections, timeouts, stopping, counting connections) is done by the event loop.
pub(crate) trait Transport: Send + Sync + Debug {
    /// Returns the name of the protocol in flags, logs and metrics.
    fn name(&self) -> &'static str;

    /// Returns what a client is sent when all connection slots are in use. Sent only if that needs no waiting.
    fn refusal(&self) -> &'static [u8];

    /// Returns the ALPN names of the protocol, preferred first; none if clients do not negotiate it.
    fn protocols(&self) -> &'static [&'static [u8]] {
        &[]
    }

    /// Serves one connection to its end, on the event loop that accepted it.
    fn serve(self: Arc<Self>, socket: Socket, connection: Arc<Connection>) -> Serving;
}

/// The task of one connection: one box per connection, none per request.
pub(crate) type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;
