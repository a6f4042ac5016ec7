//! One connection, on a blocking socket.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use test_support::wait::PATIENCE;

use crate::hostile::server::Server;

pub(crate) struct Connection {
    stream: TcpStream,
    /// Bytes of the answer so far.
    answer: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Connection { stream, answer: Vec::new() }
    }

    /// Sends without waiting for an answer.
    pub(crate) fn send(&mut self, method: &str, path: &str) {
        let request = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        self.stream.write_all(request.as_bytes()).unwrap();
    }

    /// The status and the headers of the answer; the body stays where it is.
    pub(crate) fn head(&mut self) -> (u16, String) {
        loop {
            if let Some(end) = find(&self.answer, b"\r\n\r\n") {
                let head = String::from_utf8(self.answer.drain(..end + 4).collect()).unwrap();
                return (head[9..12].parse().unwrap(), head.to_ascii_lowercase());
            }
            self.read();
        }
    }

    /// The status of an answer, read to its end.
    pub(crate) fn status(&mut self, method: &str) -> u16 {
        let (status, head) = self.head();
        if method == "HEAD" {
            return status;
        }
        let end = if head.contains("transfer-encoding: chunked") {
            loop {
                match find(&self.answer, b"0\r\n\r\n") {
                    Some(end) => break end + 5,
                    None => self.read(),
                }
            }
        } else {
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            length.map_or(0, |length| length.trim().parse().unwrap())
        };
        while self.answer.len() < end {
            self.read();
        }
        self.answer.drain(..end);
        status
    }

    /// Asks, and reads the answer to its end.
    pub(crate) fn ask(&mut self, method: &str, path: &str) -> u16 {
        self.send(method, path);
        self.status(method)
    }

    /// Whether a slow request is let in: it is as soon as the server holds one more, and is not if there is an answer.
    pub(crate) fn begin_slow(&mut self, server: &Server) -> bool {
        let is_held = || server.held.load(std::sync::atomic::Ordering::SeqCst);
        let before = is_held();
        self.send("GET", "/slow");
        self.stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let start = Instant::now();
        let mut bytes = [0; 4096];
        let let_in = loop {
            assert!(start.elapsed() < PATIENCE, "neither let in nor refused");
            match self.stream.read(&mut bytes) {
                Ok(count) => {
                    self.answer.extend_from_slice(&bytes[..count]);
                    break false;
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if is_held() > before {
                        break true;
                    }
                }
                Err(error) => panic!("{error}"),
            }
        };
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        if !let_in {
            assert_eq!(self.status("GET"), 429);
        }
        let_in
    }

    fn read(&mut self) {
        let mut bytes = [0; 4096];
        let count = self.stream.read(&mut bytes).unwrap();
        assert!(count > 0, "the server hung up after {:?}", String::from_utf8_lossy(&self.answer));
        self.answer.extend_from_slice(&bytes[..count]);
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// So many connections, each for a thread of its own: opened before any of them keeps the server busy.
pub(crate) fn connect(server: &Server, count: usize) -> Vec<Mutex<Connection>> {
    (0..count).map(|_| Mutex::new(Connection::open(server.address))).collect()
}

/// 1 if this status says that a request was served: a refusal is the only other answer.
pub(crate) fn is_served(status: u16) -> u64 {
    assert!(matches!(status, 200 | 429), "{status}");
    u64::from(status == 200)
}
