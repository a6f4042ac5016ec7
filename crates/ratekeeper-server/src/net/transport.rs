//! The seam between the server and what it speaks.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use super::connection::Connection;
use super::socket::Socket;

/// A protocol. It translates bytes to requests and decisions to bytes; whatever all protocols have in common
/// (accepting, bounds on connections, time-outs, stopping, counting connections) is the server's.
pub(crate) trait Transport: Send + Sync + Debug {
    /// Its name in flags, logs and metrics.
    fn name(&self) -> &'static str;

    /// What a client is told that finds the server full. Sent if it can be sent at once.
    fn refusal(&self) -> &'static [u8];

    /// The names by which TLS clients ask for it, if they do.
    fn protocols(&self) -> &'static [&'static [u8]] {
        &[]
    }

    /// Serves one connection to its end, on the event loop that accepted it.
    fn serve(self: Arc<Self>, socket: Socket, connection: Arc<Connection>) -> Serving;
}

/// One box for each connection, none for each request.
pub(crate) type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;
