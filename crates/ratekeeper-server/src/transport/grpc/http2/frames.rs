//! Frames as they are written.

use super::code::Http2Code;
use super::frame_head::FrameHead;

/// Writes a frame.
#[inline]
pub(super) fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    FrameHead::write(out, kind, flags, stream, payload.len());
    out.extend_from_slice(payload);
}

/// Writes fields, in as many frames as they need.
pub(super) fn fields(out: &mut Vec<u8>, stream: u32, max_frame: u32, ends_stream: bool, block: &[u8]) {
    let mut pieces = block.chunks(max_frame as usize).peekable();
    let mut kind = FrameHead::HEADERS;
    let mut flags = if ends_stream { FrameHead::END_STREAM } else { 0 };
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            flags |= FrameHead::END_HEADERS;
        }
        write(out, kind, flags, stream, piece);
        (kind, flags) = (FrameHead::CONTINUATION, 0);
    }
}

/// Tells the client that it may send so many bytes more.
pub(super) fn window_update(out: &mut Vec<u8>, stream: u32, grown: u32) {
    write(out, FrameHead::WINDOW_UPDATE, 0, stream, &grown.to_be_bytes());
}

/// Ends a stream.
pub(super) fn reset(out: &mut Vec<u8>, stream: u32, code: Http2Code) {
    write(out, FrameHead::RST_STREAM, 0, stream, &(code as u32).to_be_bytes());
}

/// Ends the connection after a stream.
pub(super) fn go_away(out: &mut Vec<u8>, last: u32, code: Http2Code) {
    FrameHead::write(out, FrameHead::GOAWAY, 0, 0, 8);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

pub(super) fn ping(out: &mut Vec<u8>, flags: u8, content: [u8; 8]) {
    write(out, FrameHead::PING, flags, 0, &content);
}

pub(super) fn settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    FrameHead::write(out, FrameHead::SETTINGS, 0, 0, 6 * settings.len());
    for (id, value) in settings {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}
