//! The end of a connection that the server closes first: the client must be able to read its last replies.
//!
//! Closing a socket with unread bytes resets the connection, and a reset may destroy replies on their way. So the
//! server shuts down its side, and then reads and discards what the client still sends, until the client has noticed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::connection::Connection;
use super::socket::Socket;

/// How long a client may go on sending.
const LONGEST: Duration = Duration::from_millis(1500);
/// How long a client that sends nothing is waited for: there is nothing unread that could reset its connection.
const QUIET: Duration = Duration::from_millis(250);
/// How many bytes a client that broke the protocol may still send.
const MOST_AFTER_MISTAKE: u64 = 1024 * 1024;

/// Reads and discards what a client sends after its last reply, within bounds.
#[derive(Debug)]
pub(crate) struct Farewell {
    end: Instant,
    /// Boxed: few connections end this way, and a timer would enlarge all of them.
    quiet: Pin<Box<Sleep>>,
    bytes: u64,
}

impl Farewell {
    /// Returns the end of a connection because the server stops, or will not serve it any longer.
    pub(crate) fn stopping() -> Self {
        Self::new(u64::MAX)
    }

    /// Returns the end of a connection whose client broke the protocol.
    pub(crate) fn after_mistake() -> Self {
        Self::new(MOST_AFTER_MISTAKE)
    }

    fn new(bytes: u64) -> Self {
        Farewell { end: Instant::now() + LONGEST, quiet: Box::pin(sleep(QUIET)), bytes }
    }

    /// Returns ready when the connection can be closed: the client has closed its side, is silent, or had enough time.
    /// To be polled after the socket was shut down.
    pub(crate) fn poll(&mut self, socket: &mut Socket, context: &mut Context<'_>) -> Poll<()> {
        let mut scrap = [0; 4096];
        loop {
            let mut room = ReadBuf::new(&mut scrap);
            let len = match Pin::new(&mut *socket).poll_read(context, &mut room) {
                Poll::Ready(Ok(())) => room.filled().len() as u64,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => break,
            };
            let now = Instant::now();
            if len == 0 || len > self.bytes || now >= self.end {
                return Poll::Ready(());
            }
            self.bytes -= len;
            self.quiet.as_mut().reset(self.end.min(now + QUIET));
        }
        self.quiet.as_mut().poll(context)
    }
}

/// Shuts a socket down as the connection's server wants it: at once, or after a [`Farewell`] if the server stops, the
/// client was asked to leave, or it broke the protocol.
#[derive(Debug, Default)]
pub(crate) struct SocketClosing(Option<Farewell>);

impl SocketClosing {
    /// Returns the end of a connection whose client broke the protocol: it can read what it did wrong.
    pub(crate) fn after_mistake() -> Self {
        SocketClosing(Some(Farewell::after_mistake()))
    }

    /// Returns the end of a connection that its client was asked to leave: what it still sends must not cost it its last
    /// replies.
    pub(crate) fn after_leaving() -> Self {
        SocketClosing(Some(Farewell::stopping()))
    }

    /// Returns ready when the socket can be dropped.
    pub(crate) fn poll(
        &mut self,
        socket: &mut Socket,
        connection: &Connection,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut *socket).poll_shutdown(context))?;
        if self.0.is_none() && !connection.stop().is_raised() {
            return Poll::Ready(Ok(()));
        }
        self.0.get_or_insert_with(Farewell::stopping).poll(socket, context).map(Ok)
    }
}
