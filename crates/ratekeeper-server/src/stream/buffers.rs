//! Buffers to read, decide and write in: lent to a connection while it has something to do.
//!
//! Of ten thousand connections almost all are idle at any moment. Each loop therefore keeps a few sets of buffers, warm
//! in the cache, for those that are awake; an idle connection keeps only the bytes of its unfinished request.

use std::cell::RefCell;

use ratekeeper::{Decision, StoreError};

use super::framing::{ThrottleFraming, ThrottleWire};
use super::pending::{MAX_BATCH, PendingThrottle};
use super::template::ThrottleTemplate;

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
pub(crate) type LentBuffers = Box<Buffers>;

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
    /// The last throttle of each protocol that had to be parsed.
    templates: [Option<ThrottleTemplate>; ThrottleWire::COUNT],
}

impl Buffers {
    /// Returns a set that nobody has used.
    pub(super) fn new() -> Self {
        Buffers {
            input: vec![0; MAX_REQUEST + FRAMING].into_boxed_slice(),
            start: 0,
            end: 0,
            output: Vec::with_capacity(CHUNK),
            pending: Vec::new(),
            decisions: Vec::new(),
            templates: [const { None }; ThrottleWire::COUNT],
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
            templates: [const { None }; ThrottleWire::COUNT],
        }
    }

    /// Lends a set that holds these bytes, which another set was parked with.
    pub(crate) fn lend(parked: &mut Vec<u8>) -> LentBuffers {
        let mut buffers = POOL.with_borrow_mut(Vec::pop).unwrap_or_else(|| Box::new(Buffers::new()));
        buffers.input[..parked.len()].copy_from_slice(parked);
        (buffers.start, buffers.end) = (0, parked.len());
        // Not merely cleared: `clear` would keep the allocation of an idle connection.
        *parked = Vec::new();
        buffers
    }

    /// Returns a set to the pool; what it has read and not used is left in `parked`.
    pub(crate) fn park(mut self: Box<Self>, parked: &mut Vec<u8>) {
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

    /// Returns what was read and not used yet, and where replies go.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&[u8], &mut Vec<u8>) {
        (&self.input[self.start..self.end], &mut self.output)
    }

    /// Marks the next `len` bytes as used.
    #[inline]
    pub(crate) fn consume(&mut self, len: usize) {
        self.start += len;
    }

    /// Takes the next requests for as long as each is the last throttle but for its key, and adds them to the batch until
    /// that is full. Returns true if it took any.
    #[inline]
    pub(crate) fn take_repeated<F: ThrottleFraming>(&mut self) -> bool {
        let Some(template) = &self.templates[F::WIRE as usize] else { return false };
        let before = self.start;
        while self.pending.len() < MAX_BATCH {
            let unread = &self.input[self.start..self.end];
            let Some((throttle, len)) = template.recognise::<F>(unread, self.start) else { break };
            self.pending.push(throttle);
            self.start += len;
        }
        self.start > before
    }

    /// Remembers the next `len` bytes as a throttle that means this, and has the framing of its key after `head` bytes.
    /// Only for a throttle whose meaning depends on nothing but its bytes.
    pub(crate) fn remember<F: ThrottleFraming>(
        &mut self,
        len: usize,
        head: usize,
        throttle: &PendingThrottle,
    ) {
        let text = self.unread().get(..len);
        let template = text.and_then(|text| ThrottleTemplate::new::<F>(text, self.start, head, throttle));
        self.templates[F::WIRE as usize] = template;
    }

    /// Returns where to read to. Never empty, because an unfinished request is shorter than the input.
    #[inline]
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let upto = (self.end + CHUNK).min(self.input.len());
        &mut self.input[self.end..upto]
    }

    /// Marks `len` bytes of the room as read.
    #[inline]
    pub(crate) fn filled(&mut self, len: usize) {
        self.end += len;
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use ratekeeper::{Cost, Quota};

    use super::*;
    use crate::request::ThrottleDialect;

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

    struct ByWire<const PREFIXED: bool>;

    impl<const PREFIXED: bool> ThrottleFraming for ByWire<PREFIXED> {
        const WIRE: ThrottleWire = if PREFIXED { ThrottleWire::MsgPack } else { ThrottleWire::Resp };
        const PREFIX: usize = 0;

        fn is_prefix_of(_: &[u8], _: usize) -> bool {
            true
        }

        fn locate_key(_: &[u8]) -> Option<Range<usize>> {
            Some(0..1)
        }
    }

    /// Buffers that have read a throttle over one protocol, and have it still before them.
    fn remembering(requests: Vec<u8>) -> Buffers {
        let quota = Quota::throttle(1, 2, 3).unwrap();
        let throttle =
            PendingThrottle { key: 1..2, quota, cost: Cost::ONE, dialect: ThrottleDialect::Throttle };
        let mut buffers = Buffers::over(requests);
        buffers.remember::<ByWire<false>>(3, 1, &throttle);
        buffers
    }

    /// Buffers go from clients of one protocol to clients of another.
    #[test]
    fn a_throttle_of_one_protocol_is_not_recognised_on_another() {
        let mut buffers = remembering(b"<k><k>".to_vec());
        assert!(!buffers.take_repeated::<ByWire<true>>());
        assert!(buffers.take_repeated::<ByWire<false>>());
        assert_eq!((buffers.pending.len(), buffers.unread()), (2, &b""[..]));
    }

    #[test]
    fn what_is_recognised_fills_a_batch_and_no_more() {
        let mut buffers = remembering(b"<k>".repeat(MAX_BATCH + 1));
        assert!(buffers.take_repeated::<ByWire<false>>());
        assert_eq!((buffers.pending.len(), buffers.unread()), (MAX_BATCH, &b"<k>"[..]));
        assert!(!buffers.take_repeated::<ByWire<false>>());
    }
}
