//! A socket as hyper wants it, which tells the server whose turn it is.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;

use crate::server::{Connection, Socket};

/// The socket of one client.
#[derive(Debug)]
pub(super) struct Wire {
    socket: TokioIo<Socket>,
    connection: Arc<Connection>,
}

impl Wire {
    pub(super) fn new(socket: Socket, connection: Arc<Connection>) -> Self {
        Wire { socket: TokioIo::new(socket), connection }
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.socket).poll_read(context, room);
        // Some bytes of a request came: the rest must follow. Whoever answers it settles that.
        if polled.is_ready() {
            self.connection.owes();
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

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
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
