//! The head of an HTTP/2 frame.

/// Length, type, flags and stream of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameHead {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) len: usize,
    pub(super) stream: u32,
}

impl FrameHead {
    /// Bytes of a head.
    pub(super) const LEN: usize = 9;

    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const PRIORITY: u8 = 2;
    pub(super) const RST_STREAM: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const PUSH_PROMISE: u8 = 5;
    pub(super) const PING: u8 = 6;
    pub(super) const GOAWAY: u8 = 7;
    pub(super) const WINDOW_UPDATE: u8 = 8;
    pub(super) const CONTINUATION: u8 = 9;

    /// Of DATA and HEADERS: the client or the server has nothing more to say.
    pub(super) const END_STREAM: u8 = 1;
    /// Of SETTINGS and PING.
    pub(super) const ACK: u8 = 1;
    pub(super) const END_HEADERS: u8 = 4;
    pub(super) const PADDED: u8 = 8;
    /// Of HEADERS: five bytes of priority come first.
    pub(super) const HAS_PRIORITY: u8 = 32;

    /// Reads the nine bytes before a frame.
    #[inline]
    pub(super) fn read(&[high, middle, low, kind, flags, ref stream @ ..]: &[u8; Self::LEN]) -> Self {
        let len = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        // Its first bit is reserved.
        FrameHead { kind, flags, len, stream: u32::from_be_bytes(*stream) & (u32::MAX >> 1) }
    }

    /// Writes a head; no frame here is as long as three bytes can say.
    #[inline]
    pub(super) fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, len: usize) {
        let [.., high, middle, low] = len.to_be_bytes();
        let [a, b, c, d] = stream.to_be_bytes();
        out.extend_from_slice(&[high, middle, low, kind, flags, a, b, c, d]);
    }

    #[inline]
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}
