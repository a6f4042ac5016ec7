//! A socket as hyper wants it, which tells the server whose turn it is.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;

use crate::server::{Connection, Farewell, Socket};
use crate::turn::Turn;

/// The socket of one client.
#[derive(Debug)]
pub(super) struct Wire {
    socket: TokioIo<Socket>,
    connection: Arc<Connection>,
    farewell: Option<Farewell>,
    turn: SharedTurn,
}

/// What was done for a connection since it last waited; by its socket, and by whoever answers its requests.
pub(super) type SharedTurn = Arc<Mutex<Turn>>;

impl Wire {
    pub(super) fn new(socket: Socket, connection: Arc<Connection>, turn: SharedTurn) -> Self {
        Wire { socket: TokioIo::new(socket), connection, farewell: None, turn }
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.socket).poll_read(context, room);
        match polled {
            // Some bytes of a request came: the rest must follow. Whoever answers it settles that.
            Poll::Ready(_) => self.connection.owes(),
            Poll::Pending => self.turn.lock().unwrap_or_else(PoisonError::into_inner).waited(),
        }
        polled
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write(context, bytes);
        match polled {
            Poll::Pending => self.connection.owes(),
            Poll::Ready(_) => self.connection.settled(),
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.socket).poll_shutdown(context))?;
        if !this.connection.stop().is_raised() {
            return Poll::Ready(Ok(()));
        }
        let farewell = this.farewell.get_or_insert_with(Farewell::stopping);
        farewell.poll(this.socket.inner_mut(), context).map(Ok)
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
        match polled {
            Poll::Pending => self.connection.owes(),
            Poll::Ready(_) => self.connection.settled(),
        }
        polled
    }
}
