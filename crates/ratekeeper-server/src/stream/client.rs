//! A client's socket: read what came, answer it, write once; and hold nothing while there is nothing to do.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::buffers::{Buffers, Lent};
use super::{Conversation, Progress};
use crate::server::{Connection, IN_FLIGHT, Socket};
use crate::turn::Turn;

/// How long, and for how many bytes, a client is listened to after the last reply, so that it has read that before
/// unread bytes of its own reset the connection.
const FAREWELL: Duration = Duration::from_secs(1);
/// The same, when it is the server who leaves.
const STOPPING_FAREWELL: Duration = Duration::from_millis(200);
const FAREWELL_BYTES: usize = 1024 * 1024;

/// Serves one client until it leaves, breaks the protocol, or the server stops.
pub(crate) fn serve<C: Conversation>(
    conversation: C,
    socket: Socket,
    connection: Arc<Connection>,
) -> impl Future<Output = ()> + Send {
    // Put together out here: an `async fn` would keep its arguments and the client made of them.
    let mut client =
        Client { socket, connection, conversation, parked: Vec::new(), lent: None, turn: Turn::default() };
    async move {
        // Whatever went wrong, the client has gone: there is nobody to tell.
        let _ = client.run().await;
    }
}

struct Client<C> {
    socket: Socket,
    connection: Arc<Connection>,
    conversation: C,
    /// The unfinished request of a client without buffers.
    parked: Vec<u8>,
    lent: Option<Lent>,
    turn: Turn,
}

impl<C: Conversation> Client<C> {
    async fn run(&mut self) -> io::Result<()> {
        let connection = Arc::clone(&self.connection);
        let stop = connection.stop();
        let mut bell = pin!(stop.bell());
        let mut is_armed = false;
        loop {
            let read = std::future::poll_fn(|context| {
                // Once is enough: the task that must be woken stays the same.
                if !is_armed {
                    is_armed = true;
                    let _ = bell.as_mut().poll(context);
                }
                match self.poll_read(context) {
                    Poll::Pending if stop.is_raised() => Poll::Ready(None),
                    polled => polled.map(Some),
                }
            });
            let read = match read.await {
                Some(read) => read?,
                None => match self.last_read().await {
                    Some(read) => read?,
                    None => {
                        self.close().await?;
                        return Box::pin(self.farewell(STOPPING_FAREWELL)).await;
                    }
                },
            };
            if read == 0 {
                return Ok(());
            }
            while let Some(mut buffers) = self.lent.take() {
                let progress = self.conversation.answer(&mut buffers).await;
                self.report();
                self.turn.spend(buffers.output.len());
                self.lent = Some(buffers);
                self.flush().await?;
                match progress {
                    Progress::Full | Progress::Paused => {
                        if progress == Progress::Paused || self.turn.is_over() {
                            self.give_way().await;
                        }
                        self.unpark();
                    }
                    Progress::Starved => {
                        if self.turn.is_over() {
                            self.give_way().await;
                        }
                        break;
                    }
                    Progress::Quit => return self.close().await,
                    Progress::Broken => {
                        self.close().await?;
                        return Box::pin(self.farewell(FAREWELL)).await;
                    }
                }
            }
        }
    }

    /// Lets the others of this loop have their turn, and holds no buffers meanwhile.
    async fn give_way(&mut self) {
        self.park();
        tokio::task::yield_now().await;
    }

    /// Reads what was sent before the stop and has not arrived yet. In a box, because few ever need it.
    async fn last_read(&mut self) -> Option<io::Result<usize>> {
        let read = std::future::poll_fn(|context| self.poll_read(context));
        Box::pin(timeout(IN_FLIGHT, read)).await.ok()
    }

    /// Reads some bytes, into buffers that are given back if there are none.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.unpark();
        let Some(buffers) = &mut self.lent else { return Poll::Ready(Ok(0)) };
        let mut room = ReadBuf::new(buffers.room());
        let polled = Pin::new(&mut self.socket).poll_read(context, &mut room);
        let len = room.filled().len();
        match polled {
            Poll::Ready(Ok(())) => {
                buffers.filled(len);
                self.turn.spend(len);
                Poll::Ready(Ok(len))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                self.turn.waited();
                self.park();
                Poll::Pending
            }
        }
    }

    /// Sends the replies. Meanwhile nothing is read: a client that does not read its replies gets no more of them.
    async fn flush(&mut self) -> io::Result<()> {
        let Some(buffers) = &mut self.lent else { return Ok(()) };
        let mut sent = 0;
        let socket = &mut self.socket;
        let first = std::future::poll_fn(|context| {
            Poll::Ready(poll_send(socket, context, &buffers.output, &mut sent))
        });
        match first.await {
            Poll::Ready(result) => {
                buffers.output.clear();
                result
            }
            Poll::Pending => {
                // It may take long, so only what is owed is kept.
                let rest = buffers.output[sent..].to_vec();
                self.park();
                self.connection.owes();
                let mut sent = 0;
                std::future::poll_fn(|context| poll_send(&mut self.socket, context, &rest, &mut sent))
                    .await?;
                self.connection.settled();
                self.report();
                Ok(())
            }
        }
    }

    /// Tells the server whose turn it is.
    fn report(&mut self) {
        if self.conversation.has_answered() {
            self.connection.settled();
        }
        if self.conversation.is_midway() {
            self.connection.owes();
        }
    }

    fn park(&mut self) {
        if let Some(buffers) = self.lent.take() {
            buffers.park(&mut self.parked);
        }
    }

    fn unpark(&mut self) {
        if self.lent.is_none() {
            self.lent = Some(Buffers::lend(&mut self.parked));
        }
    }

    /// Says that there will be no more replies.
    async fn close(&mut self) -> io::Result<()> {
        std::future::poll_fn(|context| Pin::new(&mut self.socket).poll_shutdown(context)).await
    }

    /// Lets the client read the last reply, before unread bytes make the kernel reset the connection. In a box wherever it
    /// is called, because its timer would be room in every connection.
    async fn farewell(&mut self, patience: Duration) -> io::Result<()> {
        let mut heard = 0;
        let listen = std::future::poll_fn(|context| {
            while heard < FAREWELL_BYTES {
                if let Some(buffers) = &mut self.lent {
                    buffers.discard();
                }
                match ready!(self.poll_read(context))? {
                    0 => break,
                    len => heard += len,
                }
            }
            Poll::Ready(Ok(()))
        });
        timeout(patience, listen).await.unwrap_or(Ok(()))
    }
}

/// Sends all of `bytes`, from `sent` on.
fn poll_send(
    socket: &mut Socket,
    context: &mut Context<'_>,
    bytes: &[u8],
    sent: &mut usize,
) -> Poll<io::Result<()>> {
    while *sent < bytes.len() {
        match ready!(Pin::new(&mut *socket).poll_write(context, &bytes[*sent..]))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            len => *sent += len,
        }
    }
    // What was encrypted may not all have been taken yet.
    Pin::new(socket).poll_flush(context)
}
