//! Who watches: at most so many, and nobody is waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::watch;

use crate::secret::TokenPass;

/// The most streams at a time.
pub(crate) const MOST_STREAMS: usize = 64;
/// So many of them are for administrators, whoever else watches.
const FOR_ADMINISTRATORS: usize = 8;
/// So many messages may come between two that a client takes. One that takes them more slowly is not worth a place.
const MOST_BEHIND: u64 = 10;

/// The streams of one server. All of them share one message, the newest: what a client misses is gone.
#[derive(Debug)]
pub(super) struct StatsStreams {
    open: Arc<AtomicUsize>,
    newest: watch::Sender<Arc<StreamMessage>>,
}

/// A message, for those who may see keys and for those who may not.
#[derive(Debug, Default)]
struct StreamMessage {
    /// Counts what was sent, from 1.
    number: u64,
    plain: Bytes,
    admin: Bytes,
}

/// One stream. Its place is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct StatsStream {
    first: Option<Bytes>,
    is_admin: bool,
    pass: TokenPass,
    /// The number of the last message that was taken.
    taken: u64,
    messages: watch::Receiver<Arc<StreamMessage>>,
    _place: StreamPlace,
}

#[derive(Debug)]
struct StreamPlace(Arc<AtomicUsize>);

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for StatsStreams {
    fn default() -> Self {
        StatsStreams { open: Arc::default(), newest: watch::Sender::new(Arc::default()) }
    }
}

impl StatsStreams {
    /// Returns how many streams there are.
    pub(super) fn open_count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Returns true if there is no place for somebody who is an administrator, or is none.
    pub(super) fn is_crowded(&self, is_admin: bool) -> bool {
        self.open_count() >= places(is_admin)
    }

    /// Opens a stream that begins with this message; none if there are as many as there may be.
    pub(super) fn open(&self, is_admin: bool, pass: TokenPass, first: Bytes) -> Option<StatsStream> {
        let place = StreamPlace(Arc::clone(&self.open));
        if self.open.fetch_add(1, Ordering::Relaxed) >= places(is_admin) {
            return None;
        }
        let messages = self.newest.subscribe();
        let taken = messages.borrow().number;
        Some(StatsStream { first: Some(first), is_admin, pass, taken, messages, _place: place })
    }

    /// Hands the newest message to all streams: as everybody sees it, and as an administrator does.
    pub(super) fn send(&self, plain: Bytes, admin: Bytes) {
        self.newest.send_modify(|newest| {
            *newest = Arc::new(StreamMessage { number: newest.number + 1, plain, admin });
        });
    }
}

fn places(is_admin: bool) -> usize {
    if is_admin { MOST_STREAMS } else { MOST_STREAMS - FOR_ADMINISTRATORS }
}

impl StatsStream {
    /// Waits for the next message. Returns none if the client takes them too slowly, or tokens were exchanged: what it was
    /// shown for may no longer be valid.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        self.messages.changed().await.ok()?;
        let message = Arc::clone(&self.messages.borrow_and_update());
        if message.number > self.taken + MOST_BEHIND || !self.pass.is_valid() {
            return None;
        }
        self.taken = message.number;
        Some(if self.is_admin { message.admin.clone() } else { message.plain.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::{LiveTokens, Secret, Tokens};

    fn open(streams: &StatsStreams, is_admin: bool) -> Option<StatsStream> {
        streams.open(is_admin, LiveTokens::default().pass(), Bytes::from("first"))
    }

    fn send(streams: &StatsStreams, numbers: std::ops::RangeInclusive<u32>) {
        numbers.for_each(|number| streams.send(Bytes::from(number.to_string()), Bytes::from("keys")));
    }

    #[tokio::test]
    async fn all_see_the_newest_and_who_is_too_slow_is_cut_off() {
        let streams = StatsStreams::default();
        send(&streams, 1..=7);
        let mut one = open(&streams, false).unwrap();
        let mut other = open(&streams, true).unwrap();
        assert_eq!(one.next().await.unwrap(), "first");
        assert_eq!(other.next().await.unwrap(), "first");
        send(&streams, 8..=8);
        assert_eq!((one.next().await.unwrap(), other.next().await.unwrap()), ("8".into(), "keys".into()));
        send(&streams, 9..=18);
        assert_eq!(one.next().await.unwrap(), "18", "what was missed is gone");
        send(&streams, 19..=19);
        assert_eq!(one.next().await.unwrap(), "19");
        assert_eq!(other.next().await, None, "eleven behind");
    }

    #[tokio::test]
    async fn a_stream_ends_with_the_tokens_it_was_opened_by() {
        let (streams, tokens) = (StatsStreams::default(), LiveTokens::default());
        let mut stream = streams.open(true, tokens.pass(), Bytes::from("first")).unwrap();
        stream.next().await.unwrap();
        send(&streams, 1..=1);
        assert!(stream.next().await.is_some());
        tokens.replace(Tokens { admin: Secret::new("new"), ..Tokens::default() });
        send(&streams, 2..=2);
        assert_eq!(stream.next().await, None);
    }

    #[test]
    fn there_are_as_many_places_as_there_are_and_some_are_for_administrators() {
        let streams = StatsStreams::default();
        let plain = MOST_STREAMS - FOR_ADMINISTRATORS;
        let mut all: Vec<_> = (0..plain).map(|_| open(&streams, false).unwrap()).collect();
        assert!(open(&streams, false).is_none() && streams.is_crowded(false) && !streams.is_crowded(true));
        all.extend((0..FOR_ADMINISTRATORS).map(|_| open(&streams, true).unwrap()));
        assert!(open(&streams, true).is_none() && streams.is_crowded(true));
        assert_eq!(streams.open_count(), MOST_STREAMS);
        all.pop();
        assert!(open(&streams, true).is_some());
        drop(all);
        assert_eq!(streams.open_count(), 0);
    }
}
