//! What is on its way to a client.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use crate::net::Socket;

/// Bytes that a client did not take at once.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    unsent: Vec<u8>,
    /// Everything was written, but some of it is still in the buffers of TLS.
    is_buffered: bool,
}

impl Outbox {
    /// Returns true while the client does not take what was written.
    pub(super) fn is_clogged(&self) -> bool {
        !self.unsent.is_empty() || self.is_buffered
    }

    /// Adds bytes that are to be sent at the next [`poll`](Outbox::poll).
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.unsent
    }

    /// Sends what is there and then `output`, which is empty afterwards. Pending if the client does not take all of it.
    #[inline]
    pub(super) fn poll(
        &mut self,
        socket: &mut Socket,
        context: &mut Context<'_>,
        output: &mut Vec<u8>,
    ) -> Poll<io::Result<()>> {
        if !self.unsent.is_empty() {
            self.unsent.append(output);
            let (polled, sent) = send(socket, context, &self.unsent);
            self.unsent.drain(..sent);
            if self.unsent.is_empty() {
                // Not merely cleared: an idle connection would keep the allocation.
                self.unsent = Vec::new();
            }
            return self.note(polled);
        }
        if output.is_empty() && !self.is_buffered {
            return Poll::Ready(Ok(()));
        }
        let (polled, sent) = send(socket, context, output);
        if sent < output.len() {
            self.unsent = output.split_off(sent);
        }
        output.clear();
        self.note(polled)
    }

    fn note(&mut self, polled: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        self.is_buffered = polled.is_pending() && self.unsent.is_empty();
        polled
    }
}

/// Sends bytes. Returns how many were sent.
#[inline]
fn send(socket: &mut Socket, context: &mut Context<'_>, bytes: &[u8]) -> (Poll<io::Result<()>>, usize) {
    let mut sent = 0;
    while sent < bytes.len() {
        match Pin::new(&mut *socket).poll_write(context, &bytes[sent..]) {
            Poll::Ready(Ok(0)) => return (Poll::Ready(Err(io::ErrorKind::WriteZero.into())), sent),
            Poll::Ready(Ok(len)) => sent += len,
            Poll::Ready(Err(error)) => return (Poll::Ready(Err(error)), sent),
            Poll::Pending => return (Poll::Pending, sent),
        }
    }
    // What was encrypted may not all have been taken yet.
    (Pin::new(socket).poll_flush(context), sent)
}
