//! A collector of OpenTelemetry, and one request to it. The thread that sends has nothing else to do, so it waits.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::error::ServerError;

/// How long is waited for a collector, at each step.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes of its answer that are read: its first line says it all.
const MOST_ANSWER: usize = 4_096;
/// The port of OTLP over HTTP.
const PORT: u16 = 4_318;
/// Where spans go, if the URL has no path.
const PATH: &str = "/v1/traces";

/// Where spans are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Collector {
    host: String,
    port: u16,
    path: String,
}

impl Collector {
    /// Reads `http://host:4318`, with or without a path.
    pub(super) fn parse(url: &str) -> Result<Self, ServerError> {
        let wrong = |problem: &str| ServerError::new(format!("--otlp: {problem}; write http://host:{PORT}"));
        let Some(rest) = url.strip_prefix("http://") else {
            return Err(wrong(match url.starts_with("https://") {
                true => "https:// is not spoken, let a collector beside this server do that",
                false => "not a URL of a collector",
            }));
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if is_port(port) => {
                (host, port.parse().map_err(|_| wrong("no port has this number"))?)
            }
            _ => (authority, PORT),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_wrong = |byte: u8| byte <= b' ' || byte == 0x7f || b"@\"".contains(&byte);
        if host.is_empty() || url.bytes().any(is_wrong) {
            return Err(wrong("no host, or a character that is in no URL"));
        }
        let path = if path.is_empty() || path == "/" { PATH } else { path };
        Ok(Collector { host: host.to_owned(), port, path: path.to_owned() })
    }

    /// Returns its name for the log.
    pub(super) fn name(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Sends a message. It is taken if the answer says so.
    pub(super) fn send(&self, message: &[u8]) -> io::Result<()> {
        let mut stream = self.connect()?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let (path, host, port, length) = (&self.path, &self.host, self.port, message.len());
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/x-protobuf\r\n\
             content-length: {length}\r\nuser-agent: ratekeeper/{}\r\nconnection: close\r\n\r\n",
            env!("CARGO_PKG_VERSION")
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(message)?;
        let mut answer = Vec::new();
        let mut block = [0; 512];
        while !answer.contains(&b'\n') && answer.len() < MOST_ANSWER {
            match stream.read(&mut block)? {
                0 => break,
                read => answer.extend_from_slice(&block[..read]),
            }
        }
        match status(&answer) {
            Some(200..=299) => Ok(()),
            Some(status) => Err(io::Error::other(format!("the collector has answered {status}"))),
            None => Err(io::Error::other("the collector has not answered as one of HTTP does")),
        }
    }

    /// Connects to the first of its addresses that can be connected to.
    fn connect(&self) -> io::Result<TcpStream> {
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

/// Returns the status of `HTTP/1.1 200 OK`.
fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_collectors() {
        for (url, host, port, path) in [
            ("http://localhost", "localhost", 4_318, "/v1/traces"),
            ("http://collector:80/", "collector", 80, "/v1/traces"),
            ("http://[::1]:9/otlp/v1/traces", "::1", 9, "/otlp/v1/traces"),
            ("http://[::1]", "::1", 4_318, "/v1/traces"),
        ] {
            let expected = Collector { host: host.to_owned(), port, path: path.to_owned() };
            assert_eq!(Collector::parse(url).unwrap(), expected, "{url}");
        }
        for wrong in [
            "",
            "localhost:4318",
            "https://x",
            "http://",
            "http://:1",
            "http://a b",
            "http://u:p@h",
            "http://h:99999",
        ] {
            let said = Collector::parse(wrong).unwrap_err().to_string();
            assert!(said.starts_with("--otlp: ") && said.ends_with("write http://host:4318"), "{said}");
        }
    }

    #[test]
    fn the_first_line_has_the_status() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r\ncontent-length: 0"), Some(200));
        assert_eq!(status(b"HTTP/1.0 503\r\n"), Some(503));
        assert_eq!([status(b""), status(b"SSH-2.0\r\n"), status(b"HTTP/1.1 x\n")], [None; 3]);
    }
}
