//! The Redis protocol: bytes to requests, decisions to bytes.
//!
//! ```text
//! conversation   commands to replies                  frame, inline, number   bytes to commands
//! throttle       THROTTLE and CL.THROTTLE             reply                   replies to bytes
//! plans          ACQUIRE, PEEK, REFUND, RESET         catalogue               the commands there are
//! transaction    MULTI, EXEC, DISCARD                 session, info           what stock clients ask first
//! forget         FORGET, for the administrator
//! ```

mod catalogue;
mod conversation;
mod forget;
pub mod frame;
mod info;
mod inline;
mod number;
mod plans;
pub mod reply;
mod session;
mod throttle;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::engine::Engine;
use crate::meter::Meter;
use crate::secret::Tokens;
use crate::server::{Connection, Places, Serving, Socket, Transport};
use crate::stream;
use conversation::Conversation;

/// The transport's name.
pub const NAME: &str = "resp";

/// The transport, on one event loop.
#[derive(Debug)]
pub(crate) struct Resp {
    engine: Arc<Engine>,
    meter: Arc<Meter>,
    places: Arc<Places>,
    tokens: Tokens,
    /// Bytes that the transactions of this loop hold.
    queued: Arc<AtomicUsize>,
}

impl Resp {
    pub(crate) fn new(engine: Arc<Engine>, places: Arc<Places>, tokens: Tokens) -> Self {
        let meter = engine.metrics().meter(NAME);
        Resp { engine, meter, places, tokens, queued: Arc::default() }
    }
}

impl Transport for Resp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn refusal(&self) -> &'static [u8] {
        b"-ERR max number of clients reached\r\n"
    }

    fn serve(self: Arc<Self>, socket: Socket, connection: Arc<Connection>) -> Serving {
        let conversation = Conversation::new(self, Arc::clone(&connection));
        Box::pin(stream::serve(conversation, socket, connection))
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
        let bytes = size_of_output(stream::serve::<Conversation>);
        assert!(bytes <= 1152, "{bytes} bytes");
    }
}
