//! One connection, and the requests in flight on it. Replies come in the order of the requests.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::error::ClientError;
use crate::frame::{self, FrameReply};

/// How many requests may be in flight on one connection; more callers wait.
const IN_FLIGHT: usize = 1024;
/// How many bytes of requests are gathered into one write, at most one request more.
const BATCH_BYTES: usize = 16 * 1024;

/// A request in the queue of a connection.
struct QueuedFrame {
    frame: Vec<u8>,
    reply: oneshot::Sender<FrameReply>,
}

/// A handle to a connection; the connection itself lives on a task of its own, and ends with the last handle.
#[derive(Clone, Debug)]
pub(crate) struct ClientConnection(mpsc::Sender<QueuedFrame>);

/// The way back to a caller whose request was sent, or may have been: it gets an answer in every case. If the task that
/// drives the connection is dropped because its runtime ends, nobody knows what became of the request, and the caller is
/// told that.
struct ReplyTo(Option<oneshot::Sender<FrameReply>>);

impl ReplyTo {
    /// Sends the answer. A caller that gave up has dropped its end, which is no error.
    fn answer(mut self, reply: FrameReply) {
        if let Some(caller) = self.0.take() {
            let _ = caller.send(reply);
        }
    }
}

impl Drop for ReplyTo {
    fn drop(&mut self) {
        if let Some(caller) = self.0.take() {
            let _ = caller.send(Err(ClientError::Lost(io::ErrorKind::ConnectionAborted)));
        }
    }
}

/// A request that was certainly not sent, because its connection ended first.
pub(crate) struct Unsent(pub(crate) Vec<u8>);

impl ClientConnection {
    /// Takes over a connected socket and drives it on a task of the current runtime.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub(crate) fn start(socket: TcpStream, patience: Duration) -> Self {
        let (sender, receiver) = mpsc::channel(IN_FLIGHT);
        let driver = ConnectionDriver {
            input: BytesMut::new(),
            output: Vec::new(),
            sent: 0,
            waiting: VecDeque::new(),
            patience,
        };
        tokio::spawn(driver.run(socket, receiver));
        ClientConnection(sender)
    }

    /// Returns true once the connection is lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.is_closed()
    }

    /// Sends a request and waits for its reply. A request that was certainly not sent is handed back.
    ///
    /// # Cancel safety
    ///
    /// A request whose future is dropped while it waits in the queue is still sent; its reply is discarded.
    pub(crate) async fn ask(&self, frame: Vec<u8>) -> Result<FrameReply, Unsent> {
        let (reply, answer) = oneshot::channel();
        // A copy of some fifty bytes, so that a request that was dropped unsent is not lost with its connection.
        let call = QueuedFrame { frame: frame.clone(), reply };
        if self.0.send(call).await.is_err() {
            return Err(Unsent(frame));
        }
        // Whatever may have been sent is answered, if only with an error; what was not is dropped in the queue.
        answer.await.map_err(|_| Unsent(frame))
    }
}

/// The task of one connection: reads, writes, and hands the replies out.
struct ConnectionDriver {
    input: BytesMut,
    output: Vec<u8>,
    sent: usize,
    /// Since when each caller waits, in the order of the requests.
    waiting: VecDeque<(Instant, ReplyTo)>,
    patience: Duration,
}

impl ConnectionDriver {
    async fn run(mut self, socket: TcpStream, mut calls: mpsc::Receiver<QueuedFrame>) {
        let error = self.drive(socket, &mut calls).await;
        for (_, caller) in self.waiting {
            // Each gets an error of its own.
            caller.answer(Err(match error {
                ClientError::Timeout(after) => ClientError::Timeout(after),
                ClientError::Lost(kind) => ClientError::Lost(kind),
                _ => ClientError::Malformed,
            }));
        }
        // What is still in the queue is dropped with it, and its callers know that it was never sent.
    }

    /// Reads and writes until something goes wrong.
    async fn drive(&mut self, mut socket: TcpStream, calls: &mut mpsc::Receiver<QueuedFrame>) -> ClientError {
        let (mut read, mut write) = socket.split();
        let mut is_open = true;
        loop {
            let oldest = self.waiting.front().map(|(since, _)| *since + self.patience);
            let has_room = self.waiting.len() < IN_FLIGHT && self.output.len() < BATCH_BYTES;
            if !is_open && self.waiting.is_empty() {
                return ClientError::Lost(io::ErrorKind::NotConnected);
            }
            tokio::select! {
                call = calls.recv(), if is_open && has_room => match call {
                    Some(call) => self.gather(call, calls),
                    // All handles are gone; so are those who wait for replies, or they will be.
                    None => is_open = false,
                },
                written = write.write(&self.output[self.sent..]), if self.sent < self.output.len() => match written {
                    Ok(len) => {
                        self.sent += len;
                        if self.sent == self.output.len() {
                            self.output.clear();
                            self.sent = 0;
                        }
                    }
                    Err(error) => return ClientError::Lost(error.kind()),
                },
                got = read.read_buf(&mut self.input) => match got {
                    Ok(0) => return ClientError::Lost(io::ErrorKind::UnexpectedEof),
                    Ok(_) => {
                        if let Err(error) = self.deliver() {
                            return error;
                        }
                    }
                    Err(error) => return ClientError::Lost(error.kind()),
                },
                () = sleep_until(oldest.unwrap_or_else(Instant::now)), if oldest.is_some() => {
                    return ClientError::Timeout(self.patience);
                }
            }
        }
    }

    /// Takes what many callers ask at the same time for one write.
    fn gather(&mut self, first: QueuedFrame, calls: &mut mpsc::Receiver<QueuedFrame>) {
        let now = Instant::now();
        let mut next = Some(first);
        while let Some(call) = next {
            self.output.extend_from_slice(&call.frame);
            self.waiting.push_back((now, ReplyTo(Some(call.reply))));
            let has_room = self.waiting.len() < IN_FLIGHT && self.output.len() < BATCH_BYTES;
            next = if has_room { calls.try_recv().ok() } else { None };
        }
    }

    /// Hands out all complete replies.
    fn deliver(&mut self) -> Result<(), ClientError> {
        while let Some(reply) = frame::reply(&mut self.input)? {
            // A reply that no request asked for: the server reports why it closes the connection.
            let Some((_, caller)) = self.waiting.pop_front() else { return Err(ClientError::Malformed) };
            caller.answer(reply);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::quota::ThrottleParts;

    /// It was handed back as if it had not been sent, and was sent again.
    #[test]
    fn a_request_whose_runtime_ended_is_not_handed_back() {
        let runtime =
            || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connects = runtime();
        let connection = connects.block_on(async {
            ClientConnection::start(TcpStream::connect(address).await.unwrap(), Duration::from_secs(60))
        });
        let (mut server, _) = listener.accept().unwrap();
        let (answered, answer) = channel();
        let asks = runtime();
        let request = frame::throttle(ThrottleParts { key: b"k", numbers: [1; 4] });
        asks.spawn(async move { answered.send(connection.ask(request).await) });
        server.read_exact(&mut [0; 12]).unwrap();
        connects.shutdown_timeout(Duration::from_secs(10));
        match answer.recv_timeout(Duration::from_secs(60)).unwrap() {
            Ok(Err(error)) => assert!(error.may_have_been_executed(), "{error}"),
            Ok(Ok(decision)) => panic!("nobody has decided: {decision:?}"),
            Err(Unsent(_)) => panic!("it was sent"),
        }
    }
}
