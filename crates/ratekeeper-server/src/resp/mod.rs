//! The Redis protocol: bytes to requests, decisions to bytes.
//!
//! ```text
//! connection     the socket: read, answer, write      frame, inline, number   bytes to commands
//! conversation   commands to replies, in batches      reply                   replies to bytes
//! throttle       THROTTLE and CL.THROTTLE             session, info           what stock clients ask first
//! plans          ACQUIRE, PEEK, REFUND, RESET
//! buffers        lent to whoever is awake             catalogue               the commands there are
//! ```

mod buffers;
mod catalogue;
mod connection;
mod conversation;
pub mod frame;
mod info;
mod inline;
mod number;
mod plans;
pub mod reply;
mod session;
mod throttle;

use std::sync::Arc;

use tokio::net::TcpStream;

use crate::engine::Engine;
use crate::meter::Meter;
use crate::secret::Secret;
use crate::server::{Connection, Places, Serving, Transport};

/// The transport's name.
pub const NAME: &str = "resp";

/// The transport, on one event loop.
#[derive(Debug)]
pub(crate) struct Resp {
    engine: Arc<Engine>,
    meter: Arc<Meter>,
    places: Arc<Places>,
    secret: Option<Secret>,
}

impl Resp {
    pub(crate) fn new(engine: Arc<Engine>, places: Arc<Places>, secret: Option<Secret>) -> Self {
        let meter = engine.metrics().meter(NAME);
        Resp { engine, meter, places, secret }
    }
}

impl Transport for Resp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn refusal(&self) -> &'static [u8] {
        b"-ERR max number of clients reached\r\n"
    }

    fn serve(self: Arc<Self>, socket: TcpStream, connection: Arc<Connection>) -> Serving {
        Box::pin(connection::serve(self, socket, connection))
    }
}
