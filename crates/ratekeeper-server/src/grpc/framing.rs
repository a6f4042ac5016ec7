//! Where HTTP/2 frames begin and end, as far as it matters: whether a client has left something unfinished.

/// What every client sends first.
const PREFACE: usize = 24;
/// Length, type, flags and stream of a frame.
const HEAD: usize = 9;

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// Watches the bytes that come from a client go by.
#[derive(Debug)]
pub(super) struct Framing {
    /// Bytes until the next frame begins.
    left: usize,
    head: [u8; HEAD],
    /// How much of the head is there.
    have: usize,
    /// A header block has begun that more frames must complete.
    is_block_open: bool,
}

impl Framing {
    pub(super) fn new() -> Self {
        Framing { left: PREFACE, head: [0; HEAD], have: 0, is_block_open: false }
    }

    /// More bytes came. True if a frame was completed.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) -> bool {
        let mut completed = false;
        while !bytes.is_empty() {
            if self.left > 0 {
                let skipped = self.left.min(bytes.len());
                self.left -= skipped;
                bytes = &bytes[skipped..];
            } else {
                let taken = (HEAD - self.have).min(bytes.len());
                self.head[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
                self.have += taken;
                bytes = &bytes[taken..];
                if self.have == HEAD {
                    self.begin();
                }
            }
            completed |= self.left == 0 && self.have == 0;
        }
        completed
    }

    /// True if the client must send more before there is anything to answer.
    pub(super) fn is_midway(&self) -> bool {
        self.left > 0 || self.have > 0 || self.is_block_open
    }

    fn begin(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.have = 0;
        if matches!(kind, HEADERS | CONTINUATION) {
            self.is_block_open = flags & END_HEADERS == 0;
        }
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
        let mut framing = Framing::new();
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
