//! The end of a connection that the client has not ended: it must be able to read the last replies.
//!
//! A socket that is closed with unread bytes resets the connection, and a reset may destroy replies on their way. So
//! the server first says that there is no more to come, and then reads what the client still sends, to no effect,
//! until the client has noticed.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::socket::Socket;

/// How long a client may go on sending.
const LONGEST: Duration = Duration::from_millis(1500);
/// How long a client that sends nothing is waited for: there is nothing unread that could reset its connection.
const QUIET: Duration = Duration::from_millis(250);
/// How many bytes a client that broke the protocol may still send.
const MOST_AFTER_MISTAKE: u64 = 1024 * 1024;

/// What a client sends after the last reply: read and discarded, within bounds.
#[derive(Debug)]
pub(crate) struct Farewell {
    end: Instant,
    /// In a box: few connections ever say goodbye, and a timer is room.
    quiet: Pin<Box<Sleep>>,
    bytes: u64,
}

impl Farewell {
    /// The server leaves.
    pub(crate) fn stopping() -> Self {
        Self::new(u64::MAX)
    }

    /// The client broke the protocol, and has been told.
    pub(crate) fn after_mistake() -> Self {
        Self::new(MOST_AFTER_MISTAKE)
    }

    fn new(bytes: u64) -> Self {
        Farewell { end: Instant::now() + LONGEST, quiet: Box::pin(sleep(QUIET)), bytes }
    }

    /// Ready when the connection can be closed: the client has closed its side, is silent, or was given enough time.
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
