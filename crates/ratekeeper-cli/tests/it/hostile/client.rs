//! Clients that send many requests in one write, and count those that were allowed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use test_support::server::{PATIENCE, command};

/// What is requested, over and over: a quota in three numbers, or a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask<'a> {
    Throttle { key: &'a str, burst: u32, count: u32, period: u32 },
    Plan { key: &'a str, plan: &'a str },
}

/// Sends many requests at once, and returns how many of them were allowed.
pub(crate) trait Client {
    fn ask(&mut self, times: u64) -> u64;
}

/// A connection, and one request as bytes.
pub(crate) struct Pipeline {
    socket: BufReader<TcpStream>,
    request: Vec<u8>,
    answer: fn(&mut BufReader<TcpStream>) -> bool,
}

impl Pipeline {
    fn new(address: SocketAddr, request: Vec<u8>, answer: fn(&mut BufReader<TcpStream>) -> bool) -> Self {
        let socket = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Pipeline { socket: BufReader::new(socket), request, answer }
    }

    pub(crate) fn resp(address: SocketAddr, ask: Ask<'_>) -> Self {
        let request = match ask {
            Ask::Throttle { key, burst, count, period } => {
                let numbers = [burst, count, period].map(|number| number.to_string());
                let [burst, count, period] = numbers.each_ref().map(|number| number.as_bytes());
                command(&[b"THROTTLE", key.as_bytes(), burst, count, period])
            }
            Ask::Plan { key, plan } => command(&[b"ACQUIRE", key.as_bytes(), plan.as_bytes()]),
        };
        Self::new(address, request, |socket| {
            // The first element of an array tells; the rest, numbers and at most one string, is skipped.
            let count: usize = line(socket).strip_prefix('*').unwrap().parse().unwrap();
            let allowed = line(socket) == ":1";
            for _ in 1..count {
                let element = line(socket);
                assert!(element.starts_with([':', '$']), "{element}");
                if element.starts_with('$') {
                    line(socket);
                }
            }
            allowed
        })
    }

    pub(crate) fn http(address: SocketAddr, ask: Ask<'_>) -> Self {
        let (path, body) = match ask {
            Ask::Throttle { key, burst, count, period } => (
                "/throttle",
                format!(
                    r#"{{"key":"{key}","max_burst":{burst},"count_per_period":{count},"period":{period}}}"#
                ),
            ),
            Ask::Plan { key, plan } => ("/v1/acquire", format!(r#"{{"key":"{key}","plan":"{plan}"}}"#)),
        };
        let len = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {len}\r\n\r\n{body}"
        );
        Self::new(address, request.into_bytes(), |socket| {
            let status = line(socket);
            assert!(status.contains(" 200 ") || status.contains(" 429 "), "{status}");
            let mut len = 0;
            loop {
                let header = line(socket).to_ascii_lowercase();
                if header.is_empty() {
                    break;
                }
                if let Some(value) = header.strip_prefix("content-length:") {
                    len = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; len];
            socket.read_exact(&mut body).unwrap();
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            body["allowed"].as_bool().unwrap()
        })
    }

    pub(crate) fn msgpack(address: SocketAddr, ask: Ask<'_>) -> Self {
        let Ask::Throttle { key, burst, count, period } = ask else { panic!("there are no plans here") };
        let body = rmp_serde::to_vec(&(1, key, burst, count, period, 1)).unwrap();
        let len = u32::try_from(body.len()).unwrap().to_be_bytes();
        Self::new(address, [&len[..], &body].concat(), |socket| {
            let mut len = [0; 4];
            socket.read_exact(&mut len).unwrap();
            let mut body = vec![0; u32::from_be_bytes(len) as usize];
            socket.read_exact(&mut body).unwrap();
            let (ok, allowed, ..): (bool, u8, i64, i64, i64, i64) = rmp_serde::from_slice(&body).unwrap();
            assert!(ok);
            allowed == 1
        })
    }
}

impl Client for Pipeline {
    fn ask(&mut self, times: u64) -> u64 {
        let requests = self.request.repeat(usize::try_from(times).unwrap());
        self.socket.get_mut().write_all(&requests).unwrap();
        (0..times).map(|_| u64::from((self.answer)(&mut self.socket))).sum()
    }
}

/// Reads a line, without its end.
fn line(socket: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    socket.read_line(&mut line).unwrap();
    assert!(line.ends_with("\r\n"), "the server hung up after {line:?}");
    line.truncate(line.len() - 2);
    line
}
