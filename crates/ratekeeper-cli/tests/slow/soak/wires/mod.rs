//! Good clients of every wire: what is asked, and what was answered, in the same words.

mod grpc;
mod http;
mod msgpack;
mod resp;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

pub(crate) use grpc::Grpc;
pub(crate) use http::Http;
pub(crate) use msgpack::Msgpack;
pub(crate) use resp::Resp;

/// What a client asks.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Acquire {
        key: String,
        plan: &'static str,
    },
    Peek {
        key: String,
        plan: &'static str,
    },
    /// One of the quota of a request: 3 at once, 1 a second.
    Throttle {
        key: String,
    },
    Refund {
        key: String,
        plan: &'static str,
        age_ms: u64,
    },
    Hold {
        key: String,
        plan: &'static str,
        tokens: u64,
        lease_ms: u64,
    },
    Settle {
        key: String,
        id: String,
        tokens: u64,
    },
    Cancel {
        key: String,
        id: String,
    },
    /// As Envoy asks, over HTTP alone.
    Envoy {
        user: String,
    },
}

/// The quota that requests bring along: burst, count, period in seconds.
const OWN_QUOTA: [u32; 3] = [3, 1, 1];

/// What the server says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    /// The failure mode answered, as far as the wire tells.
    pub(crate) is_failure: bool,
    pub(crate) retry_after_ms: Option<u64>,
    /// Of a hold that was allowed.
    pub(crate) id: Option<String>,
    /// What became of a hold; empty for other questions.
    pub(crate) state: String,
}

/// An answer, or why the server would give none.
pub(crate) type Told = Result<Answer, String>;

/// A stream of bytes, encrypted or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects, by TLS if the server wants that.
pub(crate) async fn connect(
    address: SocketAddr,
    tls: Option<&Arc<ClientConfig>>,
) -> io::Result<Box<dyn Stream>> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let Some(tls) = tls else { return Ok(Box::new(socket)) };
    let name = ServerName::IpAddress(address.ip().into());
    Ok(Box::new(TlsConnector::from(Arc::clone(tls)).connect(name, socket).await?))
}

/// A connection of a good client.
pub(crate) enum Connection {
    Resp(Resp),
    Http(Http),
    Grpc(Grpc),
    Msgpack(Msgpack),
}

impl Connection {
    /// Asks once.
    ///
    /// # Errors
    ///
    /// The connection cannot be used any more; whether the server has heard the question is not known.
    pub(crate) async fn ask(&mut self, ask: &Ask) -> io::Result<Told> {
        match self {
            Connection::Resp(resp) => {
                let mut told = resp.ask(std::slice::from_ref(ask), |_| {}).await?;
                Ok(told.pop().unwrap())
            }
            Connection::Http(http) => http.ask(ask).await,
            Connection::Grpc(grpc) => grpc.ask(ask).await,
            Connection::Msgpack(msgpack) => msgpack.ask(ask).await,
        }
    }
}

/// An error of somebody's that ends a connection.
pub(crate) fn broken(why: impl std::fmt::Display) -> io::Error {
    io::Error::other(why.to_string())
}
