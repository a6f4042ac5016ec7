//! Buffers to read, decide and write in: lent to a connection while it has something to do.
//!
//! Of ten thousand connections almost all are idle at any moment. Each loop therefore keeps a few sets of buffers, warm
//! in the cache, for those that are awake; an idle connection keeps only the bytes of its unfinished request.

use std::cell::RefCell;

use ratekeeper::{Decision, StoreError};

use super::pending::PendingThrottle;
use super::template::{LocateKey, ThrottleTemplate};

/// The most bytes of one request of any protocol.
pub(crate) const MAX_REQUEST: usize = 64 * 1024;
/// Room for the framing of a request that is as long as it may be.
const FRAMING: usize = 16;
/// The most bytes that are read at once: what is read is decided before more is.
const CHUNK: usize = 16 * 1024;
/// How many sets a loop keeps. More are needed only while replies wait for slow readers.
const KEPT: usize = 8;

thread_local! {
    static POOL: RefCell<Vec<LentBuffers>> = const { RefCell::new(Vec::new()) };
}

/// A set on its way between the pool and a connection: moved as a pointer, because it is large.
pub(super) type LentBuffers = Box<Buffers>;

/// One set of buffers.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// What was read, by absolute positions.
    pub(super) input: Box<[u8]>,
    start: usize,
    end: usize,
    /// Replies that were not sent yet.
    pub(crate) output: Vec<u8>,
    /// Throttles that were not decided yet.
    pub(crate) pending: Vec<PendingThrottle>,
    /// Room for the decisions of a batch.
    pub(super) decisions: Vec<Result<Decision, StoreError>>,
    /// The last throttle that had to be parsed.
    template: Option<ThrottleTemplate>,
}

impl Buffers {
    fn new() -> Self {
        Buffers {
            input: vec![0; MAX_REQUEST + FRAMING].into_boxed_slice(),
            start: 0,
            end: 0,
            output: Vec::with_capacity(CHUNK),
            pending: Vec::new(),
            decisions: Vec::new(),
            template: None,
        }
    }

    /// Returns a set that holds these requests, which were kept elsewhere. It is never lent.
    pub(crate) fn over(requests: Vec<u8>) -> Self {
        let end = requests.len();
        Buffers {
            input: requests.into_boxed_slice(),
            start: 0,
            end,
            output: Vec::new(),
            pending: Vec::new(),
            decisions: Vec::new(),
            template: None,
        }
    }

    /// Lends a set that holds these bytes, which another set was parked with.
    pub(super) fn lend(parked: &mut Vec<u8>) -> LentBuffers {
        let mut buffers = POOL.with_borrow_mut(Vec::pop).unwrap_or_else(|| Box::new(Buffers::new()));
        buffers.input[..parked.len()].copy_from_slice(parked);
        (buffers.start, buffers.end) = (0, parked.len());
        // Not merely cleared: `clear` would keep the allocation of an idle connection.
        *parked = Vec::new();
        buffers
    }

    /// Returns a set to the pool; what it has read and not used is left in `parked`.
    pub(super) fn park(mut self: Box<Self>, parked: &mut Vec<u8>) {
        *parked = self.unread().to_vec();
        self.output.clear();
        // One reply of 64 KiB must not keep its memory for ever.
        self.output.shrink_to(2 * CHUNK);
        POOL.with_borrow_mut(|pool| {
            if pool.len() < KEPT {
                pool.push(self);
            }
        });
    }

    /// Returns what was read and not used yet.
    #[inline]
    pub(crate) fn unread(&self) -> &[u8] {
        &self.input[self.start..self.end]
    }

    /// Returns the position at which [`unread`](Buffers::unread) begins.
    #[inline]
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// Returns the input by absolute positions.
    #[inline]
    pub(crate) fn input(&self) -> &[u8] {
        &self.input
    }

    /// Marks the next `len` bytes as used.
    #[inline]
    pub(crate) fn consume(&mut self, len: usize) {
        self.start += len;
    }

    /// Takes the next request if it is the last throttle but for its key, and adds it to the batch.
    #[inline]
    pub(crate) fn take_repeated(&mut self) -> bool {
        let repeated =
            self.template.as_ref().and_then(|template| template.recognise(self.unread(), self.start));
        let Some((throttle, len)) = repeated else { return false };
        self.pending.push(throttle);
        self.consume(len);
        true
    }

    /// Remembers the next `len` bytes as a throttle that means this, and has its key after `head` bytes. Only for a
    /// throttle whose meaning depends on nothing but its bytes.
    pub(crate) fn remember(
        &mut self,
        len: usize,
        head: usize,
        locate: LocateKey,
        throttle: &PendingThrottle,
    ) {
        let text = self.unread().get(..len);
        self.template = text.and_then(|text| ThrottleTemplate::new(text, self.start, head, locate, throttle));
    }

    /// Returns where to read to. Never empty, because an unfinished request is shorter than the input.
    #[inline]
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let upto = (self.end + CHUNK).min(self.input.len());
        &mut self.input[self.end..upto]
    }

    /// Marks `len` bytes of the room as read.
    #[inline]
    pub(super) fn filled(&mut self, len: usize) {
        self.end += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parked_connection_keeps_its_unfinished_bytes_and_nothing_else() {
        let mut parked = Vec::new();
        let mut buffers = Buffers::lend(&mut parked);
        buffers.room()[..5].copy_from_slice(b"abcde");
        buffers.filled(5);
        buffers.consume(2);
        buffers.park(&mut parked);
        assert_eq!((parked.as_slice(), parked.capacity()), (&b"cde"[..], 3));
        let mut again = Buffers::lend(&mut parked);
        assert_eq!((again.unread(), parked.capacity()), (&b"cde"[..], 0));
        again.consume(3);
        assert_eq!(again.room().len(), CHUNK);
        again.park(&mut parked);
        assert_eq!(parked.capacity(), 0);
    }
}
