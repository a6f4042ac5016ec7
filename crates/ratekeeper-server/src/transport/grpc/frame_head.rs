//! The head of an HTTP/2 frame.

/// Length, type, flags and stream of a frame.
#[derive(Debug)]
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
    pub(super) const RST_STREAM: u8 = 3;
    pub(super) const CONTINUATION: u8 = 9;

    /// Reads the nine bytes before a frame.
    pub(super) fn read([high, middle, low, kind, flags, stream @ ..]: [u8; Self::LEN]) -> Self {
        let len = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        // Its first bit is reserved.
        FrameHead { kind, flags, len, stream: u32::from_be_bytes(stream) & (u32::MAX >> 1) }
    }
}
