//! What a client asks of this side: SETTINGS (RFC 9113, section 6.5).

use super::code::Http2Code;

/// The settings that concern what is sent. The table of HPACK is not used for answers, so its size does not; nothing is
/// pushed, and no streams are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerSettings {
    /// Bytes that may be sent on a new stream before the client asks for more.
    pub(super) initial_window: u32,
    /// The most bytes of one frame.
    pub(super) max_frame: u32,
}

/// The largest window there can be.
pub(super) const MAX_WINDOW: u32 = u32::MAX >> 1;

const ENABLE_PUSH: u16 = 2;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;

impl Default for PeerSettings {
    fn default() -> Self {
        PeerSettings { initial_window: 65_535, max_frame: 16_384 }
    }
}

impl PeerSettings {
    /// Takes the settings of a frame; those that are not known are skipped.
    pub(super) fn take(&mut self, frame: &[u8]) -> Result<(), Http2Code> {
        let (settings, []) = frame.as_chunks::<6>() else { return Err(Http2Code::FrameSizeError) };
        for &[high, low, ref value @ ..] in settings {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([high, low]) {
                ENABLE_PUSH if value > 1 => return Err(Http2Code::ProtocolError),
                INITIAL_WINDOW_SIZE if value > MAX_WINDOW => return Err(Http2Code::FlowControlError),
                INITIAL_WINDOW_SIZE => self.initial_window = value,
                MAX_FRAME_SIZE if !(16_384..1 << 24).contains(&value) => {
                    return Err(Http2Code::ProtocolError);
                }
                MAX_FRAME_SIZE => self.max_frame = value,
                _ => {}
            }
        }
        Ok(())
    }
}
