//! A client's socket: read what came, answer it, write once; and hold no buffers while there is nothing to do.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::buffers::Buffers;
use super::protocol::{Progress, StreamProtocol};
use crate::net::{Connection, Farewell, LoopBudget, Socket, StopWatch};

/// Serves one client until it leaves, breaks the protocol, or the server stops.
pub(crate) fn serve_stream<P: StreamProtocol>(
    protocol: P,
    socket: Socket,
    connection: Arc<Connection>,
) -> impl Future<Output = ()> + Send {
    // Built out here: an `async fn` would keep its arguments besides the client that is made of them.
    let (parked, lent, budget) = (Vec::new(), None, LoopBudget::default());
    let mut client = StreamClient { socket, connection, protocol, parked, lent, budget };
    async move {
        // Whatever went wrong, the client has gone.
        let _ = client.run().await;
    }
}

struct StreamClient<P> {
    socket: Socket,
    connection: Arc<Connection>,
    protocol: P,
    /// The unfinished request of a client without buffers.
    parked: Vec<u8>,
    lent: Option<Box<Buffers>>,
    budget: LoopBudget,
}

impl<P: StreamProtocol> StreamClient<P> {
    async fn run(&mut self) -> io::Result<()> {
        let connection = Arc::clone(&self.connection);
        let stop = connection.stop();
        let bell = pin!(stop.bell());
        let mut watch = StopWatch::new(stop, bell);
        // How much of what had arrived when the server stopped is still to be read.
        let mut arrived = None;
        loop {
            if stop.is_raised() && *arrived.get_or_insert_with(|| self.socket.arrived()) == 0 {
                return Box::pin(self.leave(Farewell::stopping())).await;
            }
            let read = watch.poll(|context, is_stopping| match self.poll_read(context) {
                // With bytes in the queue, pending only means that other tasks come first.
                Poll::Pending if is_stopping && self.socket.queued() == 0 => Poll::Ready(None),
                polled => polled.map(Some),
            });
            // A request that has arrived in part is not waited for: its sender sees that it was not answered.
            let Some(read) = read.await else {
                return Box::pin(self.leave(Farewell::stopping())).await;
            };
            let read = read?;
            if read == 0 {
                return Ok(());
            }
            arrived = arrived.map(|left: usize| left.saturating_sub(read));
            while let Some(mut buffers) = self.lent.take() {
                let progress = self.protocol.answer(&mut buffers).await;
                self.report();
                self.budget.spend(buffers.output.len());
                self.lent = Some(buffers);
                self.flush().await?;
                match progress {
                    Progress::Full | Progress::Paused => {
                        if progress == Progress::Paused || self.budget.is_spent() {
                            self.give_way().await;
                        }
                        self.unpark();
                    }
                    Progress::Guess => {
                        // Without buffers: anybody can cause this on as many connections as there may be.
                        self.park();
                        Box::pin(self.protocol.pause()).await;
                        self.budget.waited();
                        self.unpark();
                    }
                    Progress::Starved => {
                        if self.budget.is_spent() {
                            self.give_way().await;
                        }
                        break;
                    }
                    Progress::Quit => return self.close().await,
                    Progress::Broken => return Box::pin(self.leave(Farewell::after_mistake())).await,
                }
            }
        }
    }

    /// Lets the other connections of this loop be served, and holds no buffers meanwhile.
    async fn give_way(&mut self) {
        self.park();
        tokio::task::yield_now().await;
    }

    /// Reads some bytes, into buffers that are returned if there are none.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.unpark();
        let Some(buffers) = &mut self.lent else { return Poll::Ready(Ok(0)) };
        let mut room = ReadBuf::new(buffers.room());
        let polled = Pin::new(&mut self.socket).poll_read(context, &mut room);
        let len = room.filled().len();
        match polled {
            Poll::Ready(Ok(())) => {
                buffers.filled(len);
                self.budget.spend(len);
                Poll::Ready(Ok(len))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                self.budget.waited();
                self.park();
                Poll::Pending
            }
        }
    }

    /// Sends the replies. Nothing is read meanwhile: a client that does not read its replies gets no more of them.
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
                // It may take long, so only the unsent bytes are kept, and the buffers are returned.
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

    /// Reports whether the client or the server has to act next.
    fn report(&mut self) {
        if self.protocol.has_answered() {
            self.connection.settled();
        }
        if self.protocol.is_midway() {
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

    /// Shuts down this side of the connection.
    async fn close(&mut self) -> io::Result<()> {
        std::future::poll_fn(|context| Pin::new(&mut self.socket).poll_shutdown(context)).await
    }

    /// Closes, and lets the client read the last reply. Boxed wherever it is called: it would enlarge every connection.
    async fn leave(&mut self, mut farewell: Farewell) -> io::Result<()> {
        self.park();
        self.close().await?;
        std::future::poll_fn(|context| farewell.poll(&mut self.socket, context)).await;
        Ok(())
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
