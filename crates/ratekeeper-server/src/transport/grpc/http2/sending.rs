//! What is written: frames, and answers made of them. Fields are written without the table of HPACK, so their bytes are
//! always the same.

use super::code::Http2Code;
use super::frame_head::FrameHead;
use super::frames::{fields, reset, write};
use super::http2::Http2;
use super::stream_table::SendQueue;

/// `:status: 200` and `content-type: application/grpc`.
const HEAD: &[u8] = b"\x88\x0f\x10\x10application/grpc";
/// `grpc-status: 0`.
const ANSWERED: &[u8] = b"\0\x0bgrpc-status\x010";
/// `:status: 415`, which is `Unsupported Media Type`.
const UNSUPPORTED: &[u8] = b"\x08\x03415";

/// Fields that are not always the same.
#[derive(Debug, Default)]
pub(in super::super) struct FieldBlock(Vec<u8>);

impl FieldBlock {
    /// Returns the fields with which every answer begins.
    pub(in super::super) fn head() -> Self {
        FieldBlock(HEAD.to_vec())
    }

    /// Returns the field that ends every answer that went well.
    pub(in super::super) fn answered() -> Self {
        FieldBlock(ANSWERED.to_vec())
    }

    /// Adds a field whose name is in small letters, and whose value is printable.
    pub(in super::super) fn add(&mut self, name: &str, value: &str) {
        self.0.push(0);
        for text in [name, value] {
            self.number(text.len());
            self.0.extend_from_slice(text.as_bytes());
        }
    }

    /// Returns the bytes of the block.
    #[cfg(test)]
    pub(in super::super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Writes the length of a text that is not coded.
    fn number(&mut self, value: usize) {
        const MOST: usize = 127;
        let Some(mut rest) = value.checked_sub(MOST) else {
            return self.0.extend(u8::try_from(value));
        };
        self.0.push(0x7f);
        while rest >= 128 {
            self.0.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        self.0.extend(u8::try_from(rest));
    }
}

impl<S: Default> Http2<S> {
    /// Answers a request by one message, with its prefix, and ends the stream. One that is gone needs no answer.
    #[inline]
    pub(in super::super) fn answer(&mut self, stream: u32, message: &[u8], out: &mut Vec<u8>) {
        let Some(open) = self.streams.get_mut(stream) else { return };
        let room = open.send.left().min(self.send.left()).min(self.peer.max_frame as usize);
        if message.len() > room {
            self.begin(stream, out);
            self.send_data(stream, message, out);
            self.end(stream, FieldBlock::answered(), out);
            return;
        }
        self.send.spend(message.len());
        out.reserve(3 * FrameHead::LEN + HEAD.len() + message.len() + ANSWERED.len());
        write(out, FrameHead::HEADERS, FrameHead::END_HEADERS, stream, HEAD);
        write(out, FrameHead::DATA, 0, stream, message);
        write(out, FrameHead::HEADERS, FrameHead::END_HEADERS | FrameHead::END_STREAM, stream, ANSWERED);
        self.close(stream, out);
    }

    /// Answers a request by fields alone, and ends the stream.
    pub(in super::super) fn refuse(&mut self, stream: u32, block: &FieldBlock, out: &mut Vec<u8>) {
        self.fields_alone(stream, &block.0, out);
    }

    /// Answers what is no gRPC.
    pub(in super::super) fn unsupported(&mut self, stream: u32, out: &mut Vec<u8>) {
        self.fields_alone(stream, UNSUPPORTED, out);
    }

    fn fields_alone(&mut self, stream: u32, block: &[u8], out: &mut Vec<u8>) {
        if self.streams.get(stream).is_some() {
            fields(out, stream, self.peer.max_frame, true, block);
            self.close(stream, out);
        }
    }

    /// Begins an answer of several messages.
    pub(in super::super) fn begin(&mut self, stream: u32, out: &mut Vec<u8>) {
        if self.streams.get(stream).is_some() {
            write(out, FrameHead::HEADERS, FrameHead::END_HEADERS, stream, HEAD);
        }
    }

    /// Sends more of an answer, when the windows allow it.
    pub(in super::super) fn send_data(&mut self, stream: u32, data: &[u8], out: &mut Vec<u8>) {
        let Some(open) = self.streams.get_mut(stream) else { return };
        if data.is_empty() {
            return;
        }
        self.queued += usize::from(open.queue.is_none());
        open.queue.get_or_insert_default().data.extend_from_slice(data);
        self.send_queued_of(stream, out);
    }

    /// Ends an answer of several messages.
    pub(in super::super) fn end(&mut self, stream: u32, trailers: FieldBlock, out: &mut Vec<u8>) {
        let Some(open) = self.streams.get_mut(stream) else { return };
        self.queued += usize::from(open.queue.is_none());
        open.queue.get_or_insert_default().trailers = Some(trailers.0);
        self.send_queued_of(stream, out);
    }

    /// Returns true if everything of an answer was sent so far.
    pub(in super::super) fn is_sent(&self, stream: u32) -> bool {
        self.streams.get(stream).is_none_or(|open| open.queue.is_none())
    }

    /// Sends what waited for a window.
    pub(super) fn send_queued(&mut self, out: &mut Vec<u8>) {
        if self.queued == 0 {
            return;
        }
        let waiting = self.streams.iter_mut().filter(|(_, open)| open.queue.is_some());
        let waiting: Vec<u32> = waiting.map(|(stream, _)| stream).collect();
        for stream in waiting {
            self.send_queued_of(stream, out);
        }
    }

    pub(super) fn send_queued_of(&mut self, stream: u32, out: &mut Vec<u8>) {
        let Some(open) = self.streams.get_mut(stream) else { return };
        let Some(queue) = &mut open.queue else { return };
        let SendQueue { data, sent, trailers } = &mut **queue;
        let rest = &data[*sent..];
        let room = rest.len().min(open.send.left()).min(self.send.left());
        for piece in rest[..room].chunks(self.peer.max_frame as usize) {
            write(out, FrameHead::DATA, 0, stream, piece);
        }
        open.send.spend(room);
        self.send.spend(room);
        *sent += room;
        self.has_sent_queued |= room > 0;
        if *sent < data.len() {
            return;
        }
        let trailers = trailers.take();
        open.queue = None;
        self.queued -= 1;
        if let Some(trailers) = trailers {
            fields(out, stream, self.peer.max_frame, true, &trailers);
            self.close(stream, out);
        }
    }

    /// Ends a stream that was answered. A client that has not finished its request is told to stop.
    #[inline]
    fn close(&mut self, stream: u32, out: &mut Vec<u8>) {
        if self.streams.get(stream).is_some_and(|open| !open.is_ended) {
            self.recent.insert(stream);
            reset(out, stream, Http2Code::NoError);
        }
        self.forget(stream, out);
    }
}
