//! One question to a server, and its answer.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use ratekeeper_server::{Bind, Secret};

use super::target::ServerTarget;
use super::tls;
use super::trust::TrustFlags;

/// How long a server may take. A healthy one takes a fraction of a millisecond.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the whole answer may take.
const LONGEST: Duration = Duration::from_secs(10);
/// The most bytes of an answer: far more than any has.
const MOST: usize = 64 * 1024 * 1024;

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
        let host = self.host(address);
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n").into_bytes();
        if let Some(token) = self.token {
            request.extend_from_slice(b"authorization: Bearer ");
            request.extend_from_slice(token.expose());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        stream.write_all(&request)?;
        stream.flush()?;
        let (said, ended) = read(&mut stream);
        // A connection that ends badly after the whole answer has served its purpose.
        match (HttpAnswer::parse(&said, ended.is_ok()), ended) {
            (Some(answer), _) => Ok(answer),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => bail!("the answer is not HTTP, or not whole"),
        }
    }

    /// Returns the name to ask by. A server on this machine is asked by its address, whatever name led there: that it knows.
    fn host(&self, address: SocketAddr) -> String {
        match address.ip().is_loopback() && !self.target.is_https {
            true => address.to_string(),
            false => self.target.authority.clone(),
        }
    }
}

/// Reads until the connection ends, it takes too long, or there is too much of it; and returns which.
fn read(stream: &mut impl Read) -> (Vec<u8>, Result<()>) {
    let (mut said, mut chunk, ends) = (Vec::new(), vec![0; 16 * 1024], Instant::now() + LONGEST);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return (said, Ok(())),
            Ok(count) => said.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (said, Err(error.into())),
        }
        if said.len() > MOST {
            return (said, Err(anyhow!("the answer has more than {MOST} bytes")));
        }
        if Instant::now() >= ends {
            return (said, Err(anyhow!("the answer is not whole after {LONGEST:?}")));
        }
    }
}

impl HttpAnswer {
    /// Reads an answer; none if it is not whole. `has_ended` says whether the connection was closed in good order, which is
    /// the end of an answer that does not say how long it is.
    fn parse(said: &[u8], has_ended: bool) -> Option<Self> {
        let end = said.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&said[..end]).ok()?;
        let version = head.strip_prefix("HTTP/1.1 ").or_else(|| head.strip_prefix("HTTP/1.0 "));
        let status = version?.get(..3)?.parse().ok()?;
        let field = |wanted: &str| {
            let mut fields = head.lines().filter_map(|line| line.split_once(':'));
            fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
        };
        let rest = &said[end + 4..];
        let body = match (field("transfer-encoding"), field("content-length")) {
            (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => dechunked(rest)?,
            (Some(_), _) => return None,
            (None, Some(length)) => rest.get(..length.parse().ok()?)?.to_owned(),
            (None, None) if has_ended => rest.to_owned(),
            (None, None) => return None,
        };
        Some(HttpAnswer { status, body })
    }
}

/// Reads bytes as an answer, whole and cut off: for tests and for fuzzing.
#[cfg(any(test, fuzzing))]
pub(crate) fn exercise_answer(said: &[u8]) {
    let Some(answer) = HttpAnswer::parse(said, false) else {
        // An answer that ends with its connection has no other end.
        return drop(HttpAnswer::parse(said, true));
    };
    assert!(answer.body.len() <= said.len() && answer.status <= 999);
    assert_eq!(
        HttpAnswer::parse(said, true).as_ref(),
        Some(&answer),
        "what is whole is whole however it ends"
    );
    let more = [said, b"more"].concat();
    assert_eq!(HttpAnswer::parse(&more, false), Some(answer), "what follows an answer is none of it");
}

/// Returns a body that came in chunks, as proxies send it; none if it is not whole.
fn dechunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let head = std::str::from_utf8(&rest[..end]).ok()?;
        let size = head.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size..)?.strip_prefix(b"\r\n")?;
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
        let parse = |text: &str| HttpAnswer::parse(text.as_bytes(), true);
        let answer = HttpAnswer { status: 200, body: b"ok".to_vec() };
        for whole in [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\n\r\nok",
            "HTTP/1.0 200 OK\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        ] {
            assert_eq!(parse(whole).as_ref(), Some(&answer), "{whole}");
        }
        for wrong in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
            "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\nok",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\nok",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "+PONG\r\n\r\n",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(
            HttpAnswer::parse(b"HTTP/1.1 200 OK\r\n\r\nok", false),
            None,
            "nobody knows whether that is all"
        );
    }

    #[test]
    fn a_proxy_is_asked_by_the_name_that_was_written() {
        let trust = TrustFlags::default();
        for (url, host) in [
            ("http://192.0.2.1", "192.0.2.1"),
            ("https://192.0.2.1:8443/", "192.0.2.1:8443"),
            ("https://localhost", "localhost"),
            ("http://localhost:1", "127.0.0.1:1"),
        ] {
            let target = ServerTarget { address: Bind::Off, ..url.parse().unwrap() };
            let ask = HttpAsk { flag: "--url", target: &target, trust: &trust, token: None };
            let ip = if url.contains("localhost") { "127.0.0.1:1" } else { "192.0.2.1:1" };
            assert_eq!(ask.host(ip.parse().unwrap()), host, "{url}");
        }
    }
}
