//! Clients that ask and never read, send a byte a second, or stop in the middle of a request.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{interval, timeout};

use crate::soak::book::Book;
use crate::soak::judged::DEAF;
use crate::soak::schedule::Fault;
use test_support::server::command;

/// How many there are of them on each transport.
const EACH: usize = 8;

/// The most bytes of requests that one of them sends: more than all buffers between it and the server hold.
const MOST_BYTES: usize = 1 << 20;

/// How many requests are in one write.
const AT_ONCE: usize = 32;

/// What a deaf client has for what is sent to it, and for what it sends: so little that the server has to wait soon.
const SMALL_BUFFER: u32 = 4096;

/// The server reads no more if a write does not get on for so long.
const STUCK: Duration = Duration::from_millis(700);

/// What each transport is sent: one request, over and over, or as much of it as there is time for.
fn request(transport: &str) -> Vec<u8> {
    match transport {
        "resp" => command(&[b"THROTTLE", b"bad", b"3", b"1", b"1"]),
        "http" => {
            let body = r#"{"key":"bad","max_burst":3,"count_per_period":1,"period":1}"#;
            let head = "POST /throttle HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n";
            format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
        }
        // The preface and an empty SETTINGS: the connection stands, and no call follows.
        "grpc" => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec(),
        _ => {
            let body = rmp_serde::to_vec(&(1, "bad", 3, 1, 1, 1)).unwrap();
            [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
        }
    }
}

/// One bad client of a server.
#[derive(Clone)]
struct BadClient {
    book: Arc<Book>,
    instance: usize,
    transport: &'static str,
    address: SocketAddr,
    length: Duration,
}

/// Has some on each transport of a server, for a while. Who calls waits until they are gone.
pub(crate) async fn bother(
    fault: Fault,
    book: &Arc<Book>,
    instance: usize,
    addresses: &[(&'static str, SocketAddr)],
    length: Duration,
) {
    let mut clients = tokio::task::JoinSet::new();
    for (transport, address) in addresses {
        for _ in 0..EACH {
            let (book, transport, address) = (Arc::clone(book), *transport, *address);
            let client = BadClient { book, instance, transport, address, length };
            clients.spawn(async move {
                let book = Arc::clone(&client.book);
                book.pages().instances[instance].clients += 1;
                // However it ends: the server may be killed meanwhile.
                let _ = timeout(client.length, client.clone().run(fault)).await;
                book.pages().instances[instance].clients -= 1;
            });
        }
    }
    clients.join_all().await;
}

impl BadClient {
    /// Goes on until its time is over.
    async fn run(self, fault: Fault) {
        let request = request(self.transport);
        let Ok(mut socket) = self.connect(fault).await else { return };
        match fault {
            Fault::DeafClients if self.transport != "grpc" => {
                let requests = request.repeat(AT_ONCE);
                for _ in 0..MOST_BYTES / requests.len() {
                    // Requests that may be answered are counted before they are sent.
                    self.asked(AT_ONCE);
                    match timeout(STUCK, socket.write_all(&requests)).await {
                        Ok(Ok(())) => {}
                        // It was killed, or cut the connection.
                        Ok(Err(_)) => return,
                        Err(_) => {
                            self.book.pages().judged.add(DEAF, true);
                            return std::future::pending().await;
                        }
                    }
                }
                self.book.pages().judged.add(DEAF, false);
            }
            Fault::SlowClients => {
                self.asked(1);
                let mut ticks = interval(Duration::from_secs(1));
                for byte in &request {
                    ticks.tick().await;
                    if socket.write_all(&[*byte]).await.is_err() {
                        return;
                    }
                }
            }
            Fault::DeafClients => {
                self.asked(1);
                if socket.write_all(&request).await.is_err() {
                    return;
                }
            }
            _ => {
                self.asked(1);
                if socket.write_all(&request[..request.len() / 2]).await.is_err() {
                    return;
                }
            }
        }
        // Neither reads nor closes.
        std::future::pending::<()>().await;
    }

    async fn connect(&self, fault: Fault) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        if fault == Fault::DeafClients {
            socket.set_recv_buffer_size(SMALL_BUFFER)?;
            socket.set_send_buffer_size(SMALL_BUFFER)?;
        }
        socket.connect(self.address).await
    }

    /// The server may count so many more: whichever start of it, for nobody reads the answers.
    fn asked(&self, count: usize) {
        self.book.pages().instances[self.instance].counts.asked += count as u64;
    }
}
