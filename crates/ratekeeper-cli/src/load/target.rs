//! What a load is put on.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// What a load is put on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadTarget {
    /// The engine in this process.
    InProcess,
    /// A server.
    Server {
        /// The protocol that it speaks.
        protocol: Protocol,
        /// The address as it was written.
        text: String,
        /// The address.
        address: SocketAddr,
    },
}

/// The protocol that a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The Redis protocol: `THROTTLE`.
    Resp,
    /// HTTP: `POST /throttle`.
    Http,
    /// gRPC: `throttlecrab.RateLimiter/Throttle`.
    Grpc,
    /// MessagePack: `throttle`.
    MsgPack,
    /// gRPC, as Envoy does: `ShouldRateLimit`.
    Rls,
}

impl Protocol {
    const ALL: [Protocol; 5] =
        [Protocol::Resp, Protocol::Http, Protocol::Grpc, Protocol::MsgPack, Protocol::Rls];

    /// Returns the scheme of its URLs.
    pub const fn scheme(self) -> &'static str {
        match self {
            Protocol::Resp => "resp",
            Protocol::Http => "http",
            Protocol::Grpc => "grpc",
            Protocol::MsgPack => "msgpack",
            Protocol::Rls => "rls",
        }
    }

    const fn default_port(self) -> u16 {
        match self {
            Protocol::Resp => 6380,
            Protocol::Http => 8080,
            Protocol::Grpc => 8070,
            Protocol::MsgPack => 9090,
            Protocol::Rls => 8081,
        }
    }
}

impl LoadTarget {
    /// Returns another target of the same protocol, from an address with or without the scheme.
    ///
    /// # Errors
    ///
    /// This target is not a server, or the other one is not an address of the same protocol.
    pub fn like(&self, text: &str) -> Result<Self, LoadTargetError> {
        let LoadTarget::Server { protocol, .. } = self else { return Err(LoadTargetError::InProcess) };
        let other: LoadTarget = match text.contains("://") {
            true => text.parse()?,
            false => format!("{}://{text}", protocol.scheme()).parse()?,
        };
        match &other {
            LoadTarget::Server { protocol: found, .. } if found == protocol => Ok(other),
            _ => Err(LoadTargetError::Other { wanted: *protocol, text: text.to_owned() }),
        }
    }
}

impl FromStr for LoadTarget {
    type Err = LoadTargetError;

    fn from_str(text: &str) -> Result<Self, LoadTargetError> {
        if text == "inproc" {
            return Ok(LoadTarget::InProcess);
        }
        let unknown = || LoadTargetError::Unknown(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(unknown)?;
        let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.scheme() == scheme);
        let protocol = protocol.ok_or_else(unknown)?;
        let rest = rest.trim_end_matches('/');
        // A port at the end, unless the colon belongs to an IPv6 address.
        let has_port =
            rest.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let place = if has_port { rest.to_owned() } else { format!("{rest}:{}", protocol.default_port()) };
        let found = place.to_socket_addrs().ok().and_then(|mut found| found.next());
        let address = found.ok_or_else(|| LoadTargetError::NoAddress(text.to_owned()))?;
        Ok(LoadTarget::Server { protocol, text: text.to_owned(), address })
    }
}

impl fmt::Display for LoadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadTarget::InProcess => f.write_str("inproc"),
            LoadTarget::Server { text, .. } => f.write_str(text),
        }
    }
}

/// Why a text is not a target.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadTargetError {
    /// It is neither `inproc` nor a URL with a known scheme.
    Unknown(String),
    /// The host is not known, or the port is not a number.
    NoAddress(String),
    /// The engine in this process is not compared with anything.
    InProcess,
    /// It has another protocol than the target that it is compared with.
    Other {
        /// The protocol that it must have.
        wanted: Protocol,
        /// The text.
        text: String,
    },
}

impl fmt::Display for LoadTargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadTargetError::Unknown(text) => {
                write!(
                    f,
                    "{text:?}: not a target; write inproc, resp://HOST:PORT, http://, grpc://, msgpack:// or rls://"
                )
            }
            LoadTargetError::NoAddress(text) => {
                write!(f, "{text:?}: no such host or port; write resp://127.0.0.1:6380")
            }
            LoadTargetError::InProcess => f.write_str("--compare needs a --target that is a server"),
            LoadTargetError::Other { wanted, text } => {
                write!(f, "--compare {text}: both must speak {}, as --target does", wanted.scheme())
            }
        }
    }
}

impl std::error::Error for LoadTargetError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let address = |text: &str| match text.parse::<LoadTarget>() {
            Ok(LoadTarget::Server { protocol, address, .. }) => format!("{} {address}", protocol.scheme()),
            other => format!("{other:?}"),
        };
        assert_eq!(address("resp://127.0.0.1:1"), "resp 127.0.0.1:1");
        assert_eq!(address("http://127.0.0.1/"), "http 127.0.0.1:8080");
        assert_eq!(address("msgpack://[::1]"), "msgpack [::1]:9090");
        assert_eq!("inproc".parse(), Ok(LoadTarget::InProcess));
        for wrong in ["", "localhost", "tape://x", "resp://127.0.0.1:99999"] {
            assert!(wrong.parse::<LoadTarget>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_what_speaks_the_same_is_compared() {
        let resp: LoadTarget = "resp://127.0.0.1:1".parse().unwrap();
        assert_eq!(resp.like("127.0.0.1:2").unwrap().to_string(), "resp://127.0.0.1:2");
        assert!(resp.like("http://127.0.0.1:2").unwrap_err().to_string().contains("both must speak resp"));
        assert!(LoadTarget::InProcess.like("127.0.0.1:2").is_err());
    }
}
