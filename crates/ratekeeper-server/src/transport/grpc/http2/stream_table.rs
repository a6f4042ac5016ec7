//! The streams that are open: few, and mostly the newest are asked for.

use super::limits::STREAM_WINDOW;
use super::windows::{ReceiveWindow, SendWindow};

/// One stream, and what its call keeps with it.
#[derive(Debug)]
pub(super) struct OpenStream<S> {
    /// The client has sent its whole request.
    pub(super) is_ended: bool,
    pub(super) receive: ReceiveWindow,
    pub(super) send: SendWindow,
    /// Bytes that came and that nobody has taken.
    pub(super) held: u32,
    /// Bytes that are to come, if the request told how many.
    pub(super) announced: Option<u64>,
    /// What is to be sent as soon as the windows allow it. Boxed: few streams ever need it.
    pub(super) queue: Option<Box<SendQueue>>,
    pub(super) state: S,
}

/// What waits for a window.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    pub(super) data: Vec<u8>,
    /// How much of the data was sent.
    pub(super) sent: usize,
    /// The fields that end the stream, when the data was sent.
    pub(super) trailers: Option<Vec<u8>>,
}

impl<S> OpenStream<S> {
    pub(super) fn new(send_window: u32, state: S) -> Self {
        OpenStream {
            is_ended: false,
            receive: ReceiveWindow::new(STREAM_WINDOW),
            send: SendWindow::new(send_window),
            held: 0,
            announced: None,
            queue: None,
            state,
        }
    }
}

/// For so many streams there is room while none is open. Many are a burst, and an idle connection would keep it for ever.
const KEPT: usize = 16;

/// The open streams by their numbers.
#[derive(Debug)]
pub(super) struct StreamTable<S> {
    /// Apart from the streams, so that looking for one is looking at a few bytes.
    ids: Vec<u32>,
    streams: Vec<OpenStream<S>>,
}

impl<S> StreamTable<S> {
    pub(super) fn new() -> Self {
        StreamTable { ids: Vec::new(), streams: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    #[inline]
    fn position(&self, id: u32) -> Option<usize> {
        self.ids.iter().rposition(|open| *open == id)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut OpenStream<S>> {
        let at = self.position(id)?;
        self.streams.get_mut(at)
    }

    pub(super) fn get(&self, id: u32) -> Option<&OpenStream<S>> {
        self.streams.get(self.position(id)?)
    }

    /// Adds a stream that is not there yet.
    #[inline]
    pub(super) fn insert(&mut self, id: u32, stream: OpenStream<S>) {
        self.ids.push(id);
        self.streams.push(stream);
    }

    #[inline]
    pub(super) fn remove(&mut self, id: u32) -> Option<OpenStream<S>> {
        let at = self.position(id)?;
        self.ids.swap_remove(at);
        let removed = self.streams.swap_remove(at);
        if self.ids.is_empty() && self.ids.capacity() > KEPT {
            *self = Self::new();
        }
        Some(removed)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut OpenStream<S>)> {
        self.ids.iter().copied().zip(&mut self.streams)
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn iter(&self) -> impl Iterator<Item = &OpenStream<S>> {
        self.streams.iter()
    }
}
