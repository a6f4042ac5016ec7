//! One question to a server, and its answer.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ratekeeper_server::{Bind, Secret};

use super::target::ServerTarget;
use super::tls;
use super::trust::TrustFlags;

/// How long a server may take. A healthy one takes a fraction of a millisecond.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most bytes of an answer: far more than any has.
const MOST: u64 = 64 * 1024 * 1024;

/// Whom to ask, and how.
#[derive(Debug)]
pub(in crate::cli) struct HttpAsk<'a> {
    /// The flag that names the server, for messages.
    pub(in crate::cli) flag: &'static str,
    /// The server.
    pub(in crate::cli) target: &'a ServerTarget,
    /// Whom to trust.
    pub(in crate::cli) trust: &'a TrustFlags,
    /// What to show.
    pub(in crate::cli) token: Option<&'a Secret>,
}

/// What a server answered.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) struct HttpAnswer {
    /// The status.
    pub(in crate::cli) status: u16,
    /// The body.
    pub(in crate::cli) body: Vec<u8>,
}

impl HttpAsk<'_> {
    /// Returns where the server can be reached: one that listens everywhere, on loopback.
    pub(in crate::cli) fn address(&self) -> Result<SocketAddr> {
        match self.target.address {
            Bind::At(address) => Ok(reachable(address)),
            Bind::Off => bail!("{} off: no server to ask; give the address of one", self.flag),
        }
    }

    /// Asks, on a connection of its own.
    pub(in crate::cli) fn ask(&self, method: &str, path: &str) -> Result<HttpAnswer> {
        let address = self.address()?;
        let asked = || -> Result<HttpAnswer> {
            let socket = TcpStream::connect_timeout(&address, PATIENCE)
                .context("cannot connect; is the server running?")?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.set_write_timeout(Some(PATIENCE))?;
            match self.trust.trust(self.target) {
                None => self.exchange(socket, address, method, path).context(
                    "is it the right port? A server that was given --tls-cert must be asked with --tls-ca",
                ),
                Some(trust) => {
                    self.exchange(tls::connect(socket, &self.target.host, &trust)?, address, method, path)
                }
            }
        };
        asked().with_context(|| address.to_string())
    }

    fn exchange(
        &self,
        mut stream: impl Read + Write,
        address: SocketAddr,
        method: &str,
        path: &str,
    ) -> Result<HttpAnswer> {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n").into_bytes();
        if let Some(token) = self.token {
            request.extend_from_slice(b"authorization: Bearer ");
            request.extend_from_slice(token.expose());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        stream.write_all(&request)?;
        stream.flush()?;
        let mut said = Vec::new();
        let read = stream.take(MOST).read_to_end(&mut said);
        // A connection that ends badly after the whole answer has served its purpose.
        match (HttpAnswer::parse(&said), read) {
            (Some(answer), _) => Ok(answer),
            (None, Err(error)) => Err(error.into()),
            (None, Ok(_)) => bail!("the answer is not HTTP"),
        }
    }
}

impl HttpAnswer {
    fn parse(said: &[u8]) -> Option<Self> {
        let end = said.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&said[..end]).ok()?;
        let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let length = head.lines().filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let rest = &said[end + 4..];
        let body = match length {
            Some(length) => rest.get(..length)?,
            None => rest,
        };
        Some(HttpAnswer { status, body: body.to_owned() })
    }
}

/// Returns where a server that listens on this address can be reached: one that listens everywhere, on loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everywhere_is_here() {
        for (given, expected) in
            [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("10.0.0.1:1", "10.0.0.1:1")]
        {
            assert_eq!(reachable(given.parse().unwrap()).to_string(), expected);
        }
    }

    #[test]
    fn an_answer_is_whole_or_none() {
        let parse = |text: &str| HttpAnswer::parse(text.as_bytes());
        let answer = HttpAnswer { status: 200, body: b"ok".to_vec() };
        assert_eq!(parse("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap(), answer);
        assert_eq!(parse("HTTP/1.1 200 OK\r\n\r\nok").unwrap(), answer);
        for wrong in
            ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok", "+PONG\r\n\r\n"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
