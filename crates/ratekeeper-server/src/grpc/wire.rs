//! A socket as h2 wants it, which tells the server whose turn it is.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::Framing;
use crate::server::{Connection, Socket};

/// The socket of one client.
#[derive(Debug)]
pub(super) struct Wire {
    socket: Socket,
    connection: Arc<Connection>,
    framing: Framing,
}

impl Wire {
    pub(super) fn new(socket: Socket, connection: Arc<Connection>) -> Self {
        connection.owes();
        Wire { socket, connection, framing: Framing::new() }
    }

    fn report_write<T>(&self, polled: &Poll<T>) {
        match polled {
            Poll::Pending => self.connection.owes(),
            // Taking a reply does not excuse a frame that never ends.
            Poll::Ready(_) if self.framing.is_midway() => {}
            Poll::Ready(_) => self.connection.settled(),
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
        let before = room.filled().len();
        let polled = Pin::new(&mut this.socket).poll_read(context, room);
        if polled.is_ready() {
            if this.framing.pass(&room.filled()[before..]) {
                this.connection.settled();
            }
            if this.framing.is_midway() {
                this.connection.owes();
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
        if polled.is_pending() {
            self.report_write(&polled);
        }
        polled
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
        self.report_write(&polled);
        polled
    }
}
