//! A socket as h2 wants it, which tells the server whose turn it is.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::Framing;
use crate::server::{Connection, Farewell, Socket};
use crate::turn::Turn;

/// The socket of one client.
#[derive(Debug)]
pub(super) struct Wire {
    socket: Socket,
    connection: Arc<Connection>,
    debts: Debts,
    turn: Turn,
    farewell: Option<Farewell>,
    /// Raised when the client has sent more control frames than there can be a reason for: nothing more is read.
    flood: Arc<AtomicBool>,
}

/// What a client has left unfinished, in either direction.
#[derive(Debug)]
struct Debts {
    framing: Framing,
    /// It does not take what is written to it.
    is_clogged: bool,
}

impl Debts {
    fn new() -> Self {
        Debts { framing: Framing::new(), is_clogged: false }
    }

    /// Bytes came. True if the client has done its part: a frame does not excuse whoever takes no replies.
    fn read(&mut self, bytes: &[u8]) -> bool {
        self.framing.pass(bytes) && !self.is_clogged
    }

    /// Something was written, or not. True if the client has done its part: taking a reply does not excuse a frame that
    /// never ends.
    fn wrote(&mut self, is_taken: bool) -> bool {
        self.is_clogged = !is_taken;
        is_taken && !self.framing.is_midway()
    }

    /// True if it must do something.
    fn is_the_clients(&self) -> bool {
        self.is_clogged || self.framing.is_midway()
    }
}

impl Wire {
    pub(super) fn new(socket: Socket, connection: Arc<Connection>) -> Self {
        connection.owes();
        let (debts, turn, flood) = (Debts::new(), Turn::default(), Arc::default());
        Wire { socket, connection, debts, turn, farewell: None, flood }
    }

    /// Tells whether the client is to be cut off, also when the socket itself is out of reach.
    pub(super) fn flood(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flood)
    }

    fn report_write<T>(&mut self, polled: &Poll<T>) {
        let has_done = self.debts.wrote(polled.is_ready());
        self.report(has_done);
    }

    fn report(&self, has_done: bool) {
        if has_done {
            self.connection.settled();
        }
        if self.debts.is_the_clients() {
            self.connection.owes();
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // Whoever polls notices it, and says goodbye.
        if this.flood.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        ready!(this.turn.poll_end(context));
        let before = room.filled().len();
        let polled = Pin::new(&mut this.socket).poll_read(context, room);
        match polled {
            Poll::Pending => this.turn.waited(),
            Poll::Ready(_) => {
                let read = &room.filled()[before..];
                this.turn.spend(read.len());
                let has_done = this.debts.read(read);
                this.report(has_done);
                if this.debts.framing.is_flood() {
                    this.flood.store(true, Ordering::Relaxed);
                }
            }
        }
        polled
    }
}

impl AsyncWrite for Wire {
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
        if polled.is_pending() || self.debts.is_clogged {
            self.report_write(&polled);
        }
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.socket).poll_shutdown(context))?;
        if !this.connection.stop().is_raised() {
            return Poll::Ready(Ok(()));
        }
        let farewell = this.farewell.get_or_insert_with(Farewell::stopping);
        farewell.poll(&mut this.socket, context).map(Ok)
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
    use super::*;

    #[test]
    fn neither_direction_excuses_the_other() {
        let (preface, settings) = ([b'x'; 24], b"\0\0\0\x04\0\0\0\0\0");
        let mut debts = Debts::new();
        assert!(debts.is_the_clients(), "the preface is owed");
        assert!(debts.read(&preface) && !debts.is_the_clients());
        assert!(!debts.wrote(false) && debts.is_the_clients(), "room for a reply is owed");
        assert!(!debts.read(settings), "and a frame is no excuse");
        assert!(debts.wrote(true) && !debts.is_the_clients());
        assert!(!debts.read(&settings[..5]) && debts.is_the_clients(), "the rest of a frame is owed");
        assert!(!debts.wrote(true), "and taking a reply is no excuse");
        assert!(debts.read(&settings[5..]) && !debts.is_the_clients());
    }
}
