//! Room to read, decide and write in: lent to a connection while it has something to do.
//!
//! Ten thousand connections are idle at almost every moment. Each loop therefore has a few of these for whoever is
//! awake, warm in the cache, and a sleeping connection keeps only the bytes of its unfinished request.

use std::cell::RefCell;
use std::ops::Range;

use ratekeeper::{Cost, Decision, Quota, StoreError};

use super::Dialect;
use super::template::{Locate, Template};

/// The most bytes of one request. No transport has more.
pub(crate) const MAX_REQUEST: usize = 64 * 1024;
/// Room for the framing of a request that is as long as it may be.
const FRAMING: usize = 16;
/// The most bytes that are read at once: what is read is decided before more is.
const CHUNK: usize = 16 * 1024;
/// How many sets a loop keeps; more are needed only while replies wait for slow readers.
const KEPT: usize = 8;

thread_local! {
    static POOL: RefCell<Vec<Lent>> = const { RefCell::new(Vec::new()) };
}

/// A set on its way between the pool and a connection: moved as a pointer.
pub(super) type Lent = Box<Buffers>;

/// One set.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// By absolute positions.
    pub(super) input: Box<[u8]>,
    start: usize,
    end: usize,
    /// Replies that were not sent yet.
    pub(crate) output: Vec<u8>,
    /// Requests that were not decided yet.
    pub(crate) waiting: Vec<Waiting>,
    /// Room for the answers of a batch.
    pub(crate) answers: Vec<Result<Decision, StoreError>>,
    /// The last request that had to be read.
    template: Option<Template>,
}

/// A request that waits for the rest of its batch. Its key is a range of the input, because a batch outlives no
/// borrow.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) key: Range<usize>,
    pub(crate) quota: Quota,
    pub(crate) cost: Cost,
    pub(crate) dialect: Dialect,
}

impl Buffers {
    fn new() -> Self {
        Buffers {
            input: vec![0; MAX_REQUEST + FRAMING].into_boxed_slice(),
            start: 0,
            end: 0,
            output: Vec::with_capacity(CHUNK),
            waiting: Vec::new(),
            answers: Vec::new(),
            template: None,
        }
    }

    /// A set for requests that were kept elsewhere and are all there. It is never lent.
    pub(crate) fn over(requests: Vec<u8>) -> Self {
        let end = requests.len();
        Buffers {
            input: requests.into_boxed_slice(),
            start: 0,
            end,
            output: Vec::new(),
            waiting: Vec::new(),
            answers: Vec::new(),
            template: None,
        }
    }

    /// A set with these bytes in it, which another one was parked with.
    pub(super) fn lend(parked: &mut Vec<u8>) -> Lent {
        let mut buffers = POOL.with_borrow_mut(Vec::pop).unwrap_or_else(|| Box::new(Buffers::new()));
        buffers.input[..parked.len()].copy_from_slice(parked);
        (buffers.start, buffers.end) = (0, parked.len());
        // Not merely emptied: an idle connection holds nothing.
        *parked = Vec::new();
        buffers
    }

    /// Gives a set back; what it has read and not used is left in `parked`.
    pub(super) fn park(mut self: Box<Self>, parked: &mut Vec<u8>) {
        *parked = self.unread().to_vec();
        self.output.clear();
        // One reply of 64 KiB must not be remembered for ever.
        self.output.shrink_to(2 * CHUNK);
        POOL.with_borrow_mut(|pool| {
            if pool.len() < KEPT {
                pool.push(self);
            }
        });
    }

    /// What was read and not used yet.
    #[inline]
    pub(crate) fn unread(&self) -> &[u8] {
        &self.input[self.start..self.end]
    }

    /// Where [`unread`](Buffers::unread) begins, and all of the input from there.
    #[inline]
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// The input by absolute positions.
    #[inline]
    pub(crate) fn input(&self) -> &[u8] {
        &self.input
    }

    /// So many bytes are done with.
    #[inline]
    pub(crate) fn consume(&mut self, len: usize) {
        self.start += len;
    }

    /// Takes the next request, if it is the last one that was read but for its key: it waits for its batch.
    #[inline]
    pub(crate) fn take_repeated(&mut self) -> bool {
        let repeated =
            self.template.as_ref().and_then(|template| template.recognise(self.unread(), self.start));
        let Some((waiting, len)) = repeated else { return false };
        self.waiting.push(waiting);
        self.consume(len);
        true
    }

    /// Remembers the next request, which is so many bytes long, tells of its key after `head` of them, and means this.
    /// Only for one whose meaning is in its bytes alone.
    pub(crate) fn remember(&mut self, len: usize, head: usize, locate: Locate, waiting: &Waiting) {
        let text = self.unread().get(..len);
        self.template = text.and_then(|text| Template::new(text, self.start, head, locate, waiting));
    }

    /// Where to read to. Never empty, because an unfinished request is shorter than the input.
    #[inline]
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let upto = (self.end + CHUNK).min(self.input.len());
        &mut self.input[self.end..upto]
    }

    /// So many bytes were read.
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
