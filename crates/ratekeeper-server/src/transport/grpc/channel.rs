//! What passes between a call that waits and its connection: more of the request, and messages of the answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// One call's end and its connection's end are the same; both are on one task, so the lock is never waited for.
#[derive(Clone, Debug, Default)]
pub(super) struct CallChannel(Arc<Mutex<ChannelContent>>);

/// What is in a channel.
#[derive(Debug, Default)]
struct ChannelContent {
    /// What came of the request, and was not taken.
    request: Vec<u8>,
    is_ended: bool,
    /// Waits for more of the request.
    reader: Option<Waker>,
    /// Bytes that the call has taken, and that the client was not told of.
    taken: usize,
    /// The answer has begun.
    is_begun: bool,
    /// What is to be sent.
    answer: Vec<u8>,
    /// Waits until everything is sent.
    writer: Option<Waker>,
}

/// What a connection has to do for a call.
#[derive(Debug, Default)]
pub(super) struct ChannelWork {
    /// Bytes of the request that were taken.
    pub(super) taken: usize,
    /// The answer begins.
    pub(super) begins: bool,
    /// More of the answer.
    pub(super) answer: Vec<u8>,
}

impl CallChannel {
    fn lock(&self) -> MutexGuard<'_, ChannelContent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds more of the request.
    pub(super) fn receive(&self, bytes: &[u8], is_ended: bool) {
        let mut content = self.lock();
        content.request.extend_from_slice(bytes);
        content.is_ended |= is_ended;
        let reader = content.reader.take();
        drop(content);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Moves what came of the request to `unread`. Returns false if there will be no more.
    pub(super) fn poll_request(&self, context: &mut Context<'_>, unread: &mut Vec<u8>) -> Poll<bool> {
        let mut content = self.lock();
        if !content.request.is_empty() {
            // Nothing keeps room that is not needed: there may be many of these.
            let mut came = std::mem::take(&mut content.request);
            match unread.is_empty() {
                true => *unread = came,
                false => unread.append(&mut came),
            }
            return Poll::Ready(true);
        }
        if content.is_ended {
            return Poll::Ready(false);
        }
        content.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// Returns true if the client has sent its whole request.
    pub(super) fn is_ended(&self) -> bool {
        self.lock().is_ended
    }

    /// Notes that the call has taken so many bytes of its request.
    pub(super) fn take(&self, len: usize) {
        self.lock().taken += len;
    }

    /// Begins the answer.
    pub(super) fn begin(&self) {
        self.lock().is_begun = true;
    }

    /// Sends what `encode` writes, when everything before was sent.
    pub(super) fn poll_send(&self, context: &mut Context<'_>, encode: impl FnOnce(&mut Vec<u8>)) -> Poll<()> {
        let mut content = self.lock();
        if !content.answer.is_empty() {
            content.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        encode(&mut content.answer);
        Poll::Ready(())
    }

    /// Returns what there is to do for the call. More of the answer is taken only while there is `room` for it.
    pub(super) fn work(&self, has_begun: bool, has_room: bool) -> ChannelWork {
        let mut content = self.lock();
        let mut work = ChannelWork {
            taken: std::mem::take(&mut content.taken),
            begins: content.is_begun && !has_begun,
            answer: Vec::new(),
        };
        if has_room && !content.answer.is_empty() {
            work.answer = std::mem::take(&mut content.answer);
            let writer = content.writer.take();
            drop(content);
            if let Some(writer) = writer {
                writer.wake();
            }
        }
        work
    }
}
