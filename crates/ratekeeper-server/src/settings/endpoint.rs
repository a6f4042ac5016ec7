//! Where a transport listens.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// Where a transport listens, and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportEndpoint {
    /// The address; port 0 binds a free port.
    pub address: SocketAddr,
    /// The most connections at once.
    pub max_connections: usize,
    /// Seconds after which a silent connection is closed; 0: never.
    pub idle_timeout: u32,
    /// Seconds that a client may take to finish a request, or to read a reply.
    pub request_timeout: u32,
}

impl TransportEndpoint {
    /// The `max_connections` of [`at`](TransportEndpoint::at).
    pub const DEFAULT_MAX_CONNECTIONS: usize = 20_000;
    /// The `request_timeout` of [`at`](TransportEndpoint::at), in seconds.
    pub const DEFAULT_REQUEST_TIMEOUT: u32 = 30;

    /// Returns an endpoint with the default bounds.
    pub fn at(address: SocketAddr) -> Self {
        TransportEndpoint {
            address,
            max_connections: Self::DEFAULT_MAX_CONNECTIONS,
            idle_timeout: 0,
            request_timeout: Self::DEFAULT_REQUEST_TIMEOUT,
        }
    }
}

/// Where Prometheus reads the metrics, and nothing else is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrometheusEndpoint {
    /// The address and its bounds.
    pub endpoint: TransportEndpoint,
    /// The path of the metrics, such as `/metrics`.
    pub path: String,
}

/// An address to listen on, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bind {
    /// Do not listen on any address.
    Off,
    /// Listen on this address.
    At(SocketAddr),
}

impl FromStr for Bind {
    type Err = BindError;

    fn from_str(text: &str) -> Result<Self, BindError> {
        if text.eq_ignore_ascii_case("off") {
            return Ok(Bind::Off);
        }
        // A name is looked up once, now: what it means later is not what was asked for.
        let mut found = text.to_socket_addrs().map_err(|_| BindError)?;
        found.next().map(Bind::At).ok_or(BindError)
    }
}

/// A text that is neither an address nor `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindError;

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no address; write `127.0.0.1:6380`, `[::1]:6380`, port 0 for a free one, or `off`")
    }
}

impl std::error::Error for BindError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!("off".parse(), Ok(Bind::Off));
        assert_eq!("127.0.0.1:0".parse(), Ok(Bind::At(SocketAddr::from(([127, 0, 0, 1], 0)))));
        assert_eq!("[::1]:6380".parse(), Ok(Bind::At("[::1]:6380".parse().unwrap())));
        for wrong in ["", "6380", "127.0.0.1", "127.0.0.1:99999", "no host:1"] {
            assert_eq!(wrong.parse::<Bind>(), Err(BindError), "{wrong}");
        }
    }
}
