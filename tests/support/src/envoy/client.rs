//! An HTTP/1.1 client for Envoy: one connection, one request at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::wait::PATIENCE;

/// A connection to Envoy.
pub struct Client(BufReader<TcpStream>);

/// A response of Envoy.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client(BufReader::new(stream))
    }

    /// Sends a GET request with these header fields.
    pub fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Response {
        let bytes: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        self.get_with_bytes(path, &bytes)
    }

    /// Sends a GET request with header fields of any bytes.
    pub fn get_with_bytes(&mut self, path: &str, headers: &[(&str, &[u8])]) -> Response {
        let mut request = format!("GET {path} HTTP/1.1\r\nhost: edge\r\n").into_bytes();
        for (name, value) in headers {
            request.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        request.extend(b"\r\n");
        self.0.get_mut().write_all(&request).unwrap();
        self.read()
    }

    fn read(&mut self) -> Response {
        let status = self.line();
        let status = status.split(' ').nth(1).unwrap_or_else(|| panic!("no status: {status:?}"));
        let mut seen = Response { status: status.parse().unwrap(), headers: Vec::new(), body: String::new() };
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else {
                assert!(line.is_empty(), "no header: {line:?}");
                break;
            };
            seen.headers.push((name.to_owned(), value.to_owned()));
        }
        seen.body = match (seen.header("content-length"), seen.header("transfer-encoding")) {
            (Some(length), _) => self.bytes(length.parse().unwrap()),
            (None, Some("chunked")) => self.chunks(),
            (None, other) => panic!("a body without a length: {other:?}"),
        };
        seen
    }

    /// Reads a chunked body.
    fn chunks(&mut self) -> String {
        let mut body = String::new();
        loop {
            let length = usize::from_str_radix(&self.line(), 16).unwrap();
            body.push_str(&self.bytes(length));
            assert_eq!(self.line(), "");
            if length == 0 {
                return body;
            }
        }
    }

    fn bytes(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        assert!(line.ends_with("\r\n"), "cut off: {line:?}");
        line.truncate(line.len() - 2);
        line
    }
}

impl Response {
    /// Returns the value of a header field. Envoy writes names in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Returns how many header fields have this name.
    pub fn count(&self, name: &str) -> usize {
        self.headers.iter().filter(|(found, _)| found == name).count()
    }

    /// Returns the value of a header field that is a number.
    pub fn number(&self, name: &str) -> u64 {
        let value = self.header(name).unwrap_or_else(|| panic!("no {name}: {self:?}"));
        value.parse().unwrap_or_else(|_| panic!("{name}: {value}"))
    }
}
