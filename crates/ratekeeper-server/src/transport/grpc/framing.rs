//! Where HTTP/2 frames begin and end, to tell whether a client has left something unfinished. The crate `h2` does not
//! say that: its interface begins with whole requests, and a client that never completes one must be timed out.

use super::flood::FloodGuard;
use super::frame_head::FrameHead;

/// What every client sends first.
const PREFACE: usize = 24;

const END_HEADERS: u8 = 4;

/// Follows the bytes that come from a client, frame by frame.
#[derive(Debug)]
pub(super) struct FrameTracker {
    /// Bytes until the next frame begins.
    left: usize,
    head: [u8; FrameHead::LEN],
    /// How much of the head is there.
    have: usize,
    /// A header block has begun that more frames must complete.
    is_block_open: bool,
    guard: FloodGuard,
}

impl FrameTracker {
    pub(super) fn new() -> Self {
        FrameTracker {
            left: PREFACE,
            head: [0; FrameHead::LEN],
            have: 0,
            is_block_open: false,
            guard: FloodGuard::new(),
        }
    }

    /// Follows more bytes. Returns true if a frame was completed.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) -> bool {
        let mut completed = false;
        while !bytes.is_empty() {
            if self.left > 0 {
                let skipped = self.left.min(bytes.len());
                self.left -= skipped;
                bytes = &bytes[skipped..];
            } else {
                let taken = (FrameHead::LEN - self.have).min(bytes.len());
                self.head[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
                self.have += taken;
                bytes = &bytes[taken..];
                if self.have == FrameHead::LEN {
                    self.begin();
                }
            }
            completed |= self.left == 0 && self.have == 0;
        }
        completed
    }

    /// Returns true if the client must send more before there is anything to answer.
    pub(super) fn is_midway(&self) -> bool {
        self.left > 0 || self.have > 0 || self.is_block_open
    }

    /// Returns true for a client that has sent too many control frames.
    pub(super) fn is_flood(&mut self) -> bool {
        self.guard.is_flood()
    }

    fn begin(&mut self) {
        let head = FrameHead::read(self.head);
        (self.left, self.have) = (head.len, 0);
        if matches!(head.kind, FrameHead::HEADERS | FrameHead::CONTINUATION) {
            self.is_block_open = head.flags & END_HEADERS == 0;
        }
        self.guard.frame(&head);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_midway_between_frames_only_while_a_header_block_is_open() {
        let settings = b"\0\0\0\x04\0\0\0\0\0";
        let headers = b"\0\0\x02\x01\0\0\0\0\x01ab";
        let rest = b"\0\0\x01\x09\x04\0\0\0\x01c";
        let mut framing = FrameTracker::new();
        assert!(framing.is_midway(), "the preface is owed");
        assert!(!framing.pass(&[b'x'; 23]));
        assert!(framing.pass(b"x") && !framing.is_midway());
        assert!(framing.pass(settings) && !framing.is_midway());
        assert!(framing.pass(headers) && framing.is_midway(), "its continuation is owed");
        assert!(framing.pass(rest) && !framing.is_midway());
        let all = [&settings[..], headers, rest].concat();
        let mut completed = 0;
        for byte in &all {
            completed += usize::from(framing.pass(std::slice::from_ref(byte)));
        }
        assert_eq!((completed, framing.is_midway()), (3, false));
        assert!(framing.pass(&all[..all.len() - 1]) && framing.is_midway());
    }
}
