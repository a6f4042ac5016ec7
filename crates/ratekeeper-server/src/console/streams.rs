//! Who watches: at most so many, and nobody is waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::watch;

/// The most streams at a time.
pub(crate) const MOST_STREAMS: usize = 64;
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
pub(crate) struct StreamMessage {
    /// Counts from 1.
    pub(crate) number: u64,
    /// As everybody sees it.
    pub(crate) plain: Bytes,
    /// As an administrator sees it.
    pub(crate) admin: Bytes,
}

/// One stream. Its place is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct StatsStream {
    first: Option<Bytes>,
    is_admin: bool,
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

    /// Opens a stream that begins with this message; none if there are as many as there may be.
    pub(super) fn open(&self, is_admin: bool, first: Bytes) -> Option<StatsStream> {
        let place = StreamPlace(Arc::clone(&self.open));
        if self.open.fetch_add(1, Ordering::Relaxed) >= MOST_STREAMS {
            return None;
        }
        let messages = self.newest.subscribe();
        let taken = messages.borrow().number;
        Some(StatsStream { first: Some(first), is_admin, taken, messages, _place: place })
    }

    /// Hands the newest message to all streams.
    pub(super) fn send(&self, message: StreamMessage) {
        self.newest.send_replace(Arc::new(message));
    }
}

impl StatsStream {
    /// Waits for the next message. Returns none if the client takes them too slowly.
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
        if message.number > self.taken + MOST_BEHIND {
            return None;
        }
        self.taken = message.number;
        Some(if self.is_admin { message.admin.clone() } else { message.plain.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u64) -> StreamMessage {
        StreamMessage { number, plain: Bytes::from(number.to_string()), admin: Bytes::from("keys") }
    }

    #[tokio::test]
    async fn all_see_the_newest_and_who_is_too_slow_is_cut_off() {
        let streams = StatsStreams::default();
        streams.send(message(7));
        let mut one = streams.open(false, Bytes::from("first")).unwrap();
        let mut other = streams.open(true, Bytes::from("first")).unwrap();
        assert_eq!(one.next().await.unwrap(), "first");
        assert_eq!(other.next().await.unwrap(), "first");
        streams.send(message(8));
        assert_eq!((one.next().await.unwrap(), other.next().await.unwrap()), ("8".into(), "keys".into()));
        streams.send(message(9));
        streams.send(message(18));
        assert_eq!(one.next().await.unwrap(), "18", "what was missed is gone");
        streams.send(message(19));
        assert_eq!(one.next().await.unwrap(), "19");
        assert_eq!(other.next().await, None, "eleven behind");
    }

    #[test]
    fn there_are_as_many_places_as_there_are() {
        let streams = StatsStreams::default();
        let mut all: Vec<_> = (0..MOST_STREAMS).map(|_| streams.open(false, Bytes::new()).unwrap()).collect();
        assert!(streams.open(false, Bytes::new()).is_none());
        assert_eq!(streams.open_count(), MOST_STREAMS);
        all.pop();
        assert!(streams.open(false, Bytes::new()).is_some());
        drop(all);
        assert_eq!(streams.open_count(), 0);
    }
}
