//! Where HTTP/2 frames begin and end, as far as it matters: whether a client has left something unfinished.

use super::conduct::Conduct;

/// What every client sends first.
const PREFACE: usize = 24;
/// Length, type, flags and stream of a frame.
const HEAD: usize = 9;

const END_HEADERS: u8 = 4;

/// What a frame says of itself.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) len: usize,
    pub(super) stream: u32,
}

impl Head {
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const RST_STREAM: u8 = 3;
    const CONTINUATION: u8 = 9;

    fn read([high, middle, low, kind, flags, stream @ ..]: [u8; HEAD]) -> Self {
        let len = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        // Its first bit is reserved.
        Head { kind, flags, len, stream: u32::from_be_bytes(stream) & (u32::MAX >> 1) }
    }
}

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
    conduct: Conduct,
}

impl Framing {
    pub(super) fn new() -> Self {
        Framing { left: PREFACE, head: [0; HEAD], have: 0, is_block_open: false, conduct: Conduct::new() }
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

    /// True for a client that has sent more control frames than there can be a reason for.
    pub(super) fn is_flood(&mut self) -> bool {
        self.conduct.is_flood()
    }

    fn begin(&mut self) {
        let head = Head::read(self.head);
        (self.left, self.have) = (head.len, 0);
        if matches!(head.kind, Head::HEADERS | Head::CONTINUATION) {
            self.is_block_open = head.flags & END_HEADERS == 0;
        }
        self.conduct.frame(&head);
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
