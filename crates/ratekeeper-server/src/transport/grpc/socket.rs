//! A socket that reports whether the client or the server has to act next.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::FrameTracker;
use crate::net::{Connection, LoopBudget, Socket, SocketClosing};

/// The socket of one client.
#[derive(Debug)]
pub(super) struct GrpcSocket {
    socket: Socket,
    connection: Arc<Connection>,
    unfinished: Unfinished,
    budget: LoopBudget,
    closing: SocketClosing,
    turn: Arc<GrpcTurn>,
}

/// Whether a connection is read on: its socket belongs to h2, and whoever polls that asks here.
#[derive(Debug, Default)]
pub(super) struct GrpcTurn {
    /// Enough was read: others have theirs before this one goes on.
    is_over: AtomicBool,
    /// The client has sent too many control frames: nothing more is read.
    is_flood: AtomicBool,
}

impl GrpcTurn {
    /// Begins another turn, with a whole budget.
    pub(super) fn begin(&self) {
        self.is_over.store(false, Ordering::Relaxed);
    }

    /// Returns true if others have to be served first.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Returns true if the client is to be cut off.
    pub(super) fn is_flood(&self) -> bool {
        self.is_flood.load(Ordering::Relaxed)
    }
}

/// What a client has left unfinished, in either direction.
#[derive(Debug)]
struct Unfinished {
    frames: FrameTracker,
    /// True if the client does not take what is written to it.
    is_clogged: bool,
}

impl Unfinished {
    fn new() -> Self {
        Unfinished { frames: FrameTracker::new(), is_clogged: false }
    }

    /// Notes bytes that came. Returns true if the client has done its part: a frame does not excuse a client that takes no
    /// replies.
    fn read(&mut self, bytes: &[u8]) -> bool {
        self.frames.pass(bytes) && !self.is_clogged
    }

    /// Notes whether the client took what was written. Returns true if it has done its part: taking a reply does not
    /// excuse a frame that never ends.
    fn wrote(&mut self, is_taken: bool) -> bool {
        self.is_clogged = !is_taken;
        is_taken && !self.frames.is_midway()
    }

    /// Returns true if the client has to act next.
    fn is_the_clients(&self) -> bool {
        self.is_clogged || self.frames.is_midway()
    }
}

impl GrpcSocket {
    pub(super) fn new(socket: Socket, connection: Arc<Connection>) -> Self {
        connection.owes();
        let (unfinished, budget, turn) = (Unfinished::new(), LoopBudget::default(), Arc::default());
        GrpcSocket { socket, connection, unfinished, budget, closing: SocketClosing::default(), turn }
    }

    /// Returns whether it is read on, for when h2 owns the socket.
    pub(super) fn turn(&self) -> Arc<GrpcTurn> {
        Arc::clone(&self.turn)
    }

    fn report_write<T>(&mut self, polled: &Poll<T>) {
        let has_done = self.unfinished.wrote(polled.is_ready());
        self.report(has_done);
    }

    fn report(&self, has_done: bool) {
        if has_done {
            self.connection.settled();
        }
        if self.unfinished.is_the_clients() {
            self.connection.owes();
        }
    }
}

impl AsyncRead for GrpcSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.budget.is_spent() {
            this.turn.is_over.store(true, Ordering::Relaxed);
        }
        // The task that polls notices either, and lets others go first or ends the connection. It asks more than once in its
        // turn, so that the turn stays over until it says that another begins.
        if this.turn.is_flood() || this.turn.is_over() {
            return Poll::Pending;
        }
        let before = room.filled().len();
        let polled = Pin::new(&mut this.socket).poll_read(context, room);
        match polled {
            Poll::Pending => this.budget.waited(),
            Poll::Ready(_) => {
                let read = &room.filled()[before..];
                this.budget.spend(read.len());
                let has_done = this.unfinished.read(read);
                this.report(has_done);
                if this.unfinished.frames.is_flood() {
                    this.turn.is_flood.store(true, Ordering::Relaxed);
                }
            }
        }
        polled
    }
}

impl AsyncWrite for GrpcSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.report_write(&polled);
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.socket).poll_flush(context);
        // Asked for when everything was written: with TLS, some of it may not have been taken yet.
        if polled.is_pending() || self.unfinished.is_clogged {
            self.report_write(&polled);
        }
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.closing.poll(&mut this.socket, &this.connection, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.report_write(&polled);
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// However often a task asks in one turn, it reads some 32 KiB.
    #[tokio::test]
    async fn a_turn_that_is_over_stays_over() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (client, server) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (mut client, (server, _)) = (client.unwrap(), server.unwrap());
        let mut socket = GrpcSocket::new(Socket::Plain(server), Connection::alone());
        let turn = socket.turn();
        // One endless frame: nothing is unexpected about it.
        let sent = tokio::spawn(async move {
            client.write_all(&[0; 24]).await.unwrap();
            client.write_all(b"\xff\xff\xff\0\0\0\0\0\x01").await.unwrap();
            client.write_all(&vec![0; 400_000]).await.unwrap();
            client
        });
        let mut buffer = [0; 4_096];
        let mut context = Context::from_waker(Waker::noop());
        let mut read = || match Pin::new(&mut socket).poll_read(&mut context, &mut ReadBuf::new(&mut buffer))
        {
            Poll::Ready(result) => {
                result.unwrap();
                4_096
            }
            Poll::Pending => 0,
        };
        for _ in 0..3 {
            turn.begin();
            let mut bytes = 0;
            while !turn.is_over() {
                bytes += read();
                tokio::task::yield_now().await;
            }
            assert!((32 * 1024..64 * 1024).contains(&bytes), "{bytes}");
            assert_eq!((0..100).map(|_| read()).sum::<usize>(), 0, "it is over");
        }
        sent.abort();
    }

    #[test]
    fn neither_direction_excuses_the_other() {
        let (preface, settings) = ([b'x'; 24], b"\0\0\0\x04\0\0\0\0\0");
        let mut unfinished = Unfinished::new();
        assert!(unfinished.is_the_clients(), "the preface is owed");
        assert!(unfinished.read(&preface) && !unfinished.is_the_clients());
        assert!(!unfinished.wrote(false) && unfinished.is_the_clients(), "room for a reply is owed");
        assert!(!unfinished.read(settings), "and a frame is no excuse");
        assert!(unfinished.wrote(true) && !unfinished.is_the_clients());
        assert!(
            !unfinished.read(&settings[..5]) && unfinished.is_the_clients(),
            "the rest of a frame is owed"
        );
        assert!(!unfinished.wrote(true), "and taking a reply is no excuse");
        assert!(unfinished.read(&settings[5..]) && !unfinished.is_the_clients());
    }
}
