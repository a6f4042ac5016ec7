//! How much may be sent, in either direction, before the other side asks for more (RFC 9113, section 5.2).

use super::peer_settings::MAX_WINDOW;

/// Bytes that a client may still send.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    left: i64,
    /// Bytes that were taken, and that the client was not told of yet.
    taken: u32,
    /// From how many on it is told.
    worth_telling: u32,
}

impl ReceiveWindow {
    /// Returns the window of a client that was told of so many bytes.
    pub(super) fn new(size: u32) -> Self {
        ReceiveWindow { left: size.into(), taken: 0, worth_telling: size / 2 }
    }

    /// Notes bytes that came. Returns false if they are more than the client may send.
    #[inline]
    pub(super) fn receive(&mut self, len: u32) -> bool {
        self.left -= i64::from(len);
        self.left >= 0
    }

    /// Notes bytes that are gone from memory. Returns by how much to tell the client that its window grows: many are told
    /// of at once.
    #[inline]
    pub(super) fn release(&mut self, len: u32) -> Option<u32> {
        self.taken += len;
        if self.taken < self.worth_telling.max(1) {
            return None;
        }
        self.left += i64::from(self.taken);
        Some(std::mem::take(&mut self.taken))
    }
}

/// Bytes that may still be sent to a client. Less than none if it has changed its mind.
#[derive(Debug)]
pub(super) struct SendWindow(i64);

impl SendWindow {
    pub(super) fn new(size: u32) -> Self {
        SendWindow(size.into())
    }

    /// Returns how many bytes may be sent now.
    #[inline]
    pub(super) fn left(&self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Notes bytes that were sent.
    #[inline]
    pub(super) fn spend(&mut self, len: usize) {
        self.0 -= i64::try_from(len).unwrap_or(i64::MAX / 2);
    }

    /// Makes the window larger or smaller. Returns false if it becomes larger than there can be.
    pub(super) fn change(&mut self, by: i64) -> bool {
        self.0 += by;
        self.0 <= i64::from(MAX_WINDOW)
    }
}
