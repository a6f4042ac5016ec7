//! A socket that reports whether the client or the server has to act next.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::{Connection, LoopBudget, Socket, SocketClosing};

/// The socket of one client.
#[derive(Debug)]
pub(super) struct HttpSocket {
    socket: Socket,
    connection: Arc<Connection>,
    closing: SocketClosing,
    budget: SharedBudget,
}

/// The budget of a connection, spent by the task that answers its requests and renewed by its socket.
pub(super) type SharedBudget = Arc<Mutex<LoopBudget>>;

impl HttpSocket {
    pub(super) fn new(socket: Socket, connection: Arc<Connection>, budget: SharedBudget) -> Self {
        HttpSocket { socket, connection, closing: SocketClosing::default(), budget }
    }

    /// Prepares the socket for a stream, if one begins.
    fn note_stream(&self) {
        if self.connection.takes_stream_begin() {
            self.socket.keep_little_unsent();
        }
    }

    fn report_write<T>(&self, polled: &Poll<T>) {
        match polled {
            Poll::Pending => self.connection.owes(),
            Poll::Ready(_) => self.connection.settled(),
        }
    }
}

impl AsyncRead for HttpSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.socket).poll_read(context, room);
        match polled {
            // Some bytes of a request came: the rest must follow. Whoever answers it settles that.
            Poll::Ready(_) => self.connection.owes(),
            Poll::Pending => self.budget.lock().unwrap_or_else(PoisonError::into_inner).waited(),
        }
        polled
    }
}

impl AsyncWrite for HttpSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.note_stream();
        let polled = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.report_write(&polled);
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
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
        self.note_stream();
        let polled = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.report_write(&polled);
        polled
    }
}
