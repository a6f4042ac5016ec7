//! The server's side of one connection of HTTP/2 (RFC 9113): bytes in, requests out; answers in, bytes out. It has no
//! socket, no clock but that of its [`FloodGuard`], and waits for nothing.
//!
//! Made for small calls: a frame is read where it lies in the input, and an answer is written where it is sent from.

use super::super::call_head::CallHead;
use super::code::Http2Code;
use super::flood::FloodGuard;
use super::frame_head::FrameHead;
use super::frames;
use super::hpack::HpackDecoder;
use super::limits::{
    CONNECTION_WINDOW, MAX_BLOCK, MAX_FIELDS, MAX_FRAME, MAX_MISTAKES, MAX_STREAMS, STREAM_WINDOW,
};
use super::peer_settings::{MAX_WINDOW, PeerSettings};
use super::recent::RecentStreams;
use super::stream_table::{OpenStream, StreamTable};
use super::windows::{ReceiveWindow, SendWindow};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What is asked with the announcement that this side leaves. The answer says that the announcement was read.
const LEAVING: [u8; 8] = *b"leaving.";
/// `:status: 431`, which is `Request Header Fields Too Large`.
const TOO_MANY_FIELDS: &[u8] = b"\x08\x03431";

/// One connection. Each stream keeps an `S` for whoever answers its call.
#[derive(Debug)]
pub(in super::super) struct Http2<S> {
    greeting: Greeting,
    hpack: HpackDecoder,
    /// A header block that other frames must complete.
    block: Option<OpenBlock>,
    pub(super) streams: StreamTable<S>,
    /// The last stream that a client has opened.
    last: u32,
    /// Streams that were ended here while the client could not know it.
    pub(super) recent: RecentStreams,
    receive: ReceiveWindow,
    pub(super) send: SendWindow,
    pub(super) peer: PeerSettings,
    /// Streams with something that waits for a window.
    pub(super) queued: usize,
    /// Something that waited for a window was sent since this was last asked for.
    pub(super) has_sent_queued: bool,
    guard: FloodGuard,
    mistakes: u32,
    departure: Departure,
}

/// What a client has sent of what every client begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Greeting {
    Nothing,
    Preface,
    Settings,
}

/// What becomes of answers that wait for a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum QueueProgress {
    /// There are none.
    Empty,
    /// Some of them were sent.
    Moving,
    /// The client opens no window.
    Stuck,
}

/// How far the end of a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Departure {
    No,
    /// Announced; the client may not know yet.
    Announced,
    /// The client knows: what it still opens is not answered.
    Known,
    /// The connection has failed: nothing more is read.
    Failed,
}

#[derive(Debug)]
struct OpenBlock {
    stream: u32,
    ends_stream: bool,
    bytes: Vec<u8>,
}

/// What the next bytes of a client mean.
#[derive(Debug)]
pub(in super::super) enum Http2Event<'a, S> {
    /// More bytes are needed.
    Starved,
    /// Nothing that anybody has to know.
    Nothing,
    /// A request begins; its stream has an `S` of its own.
    Request { stream: u32, head: CallHead, is_ended: bool },
    /// More of a request.
    Data { stream: u32, bytes: &'a [u8], is_ended: bool },
    /// A stream is over before it was answered.
    Reset { state: S },
    /// The client has sent too many control frames.
    Flood,
    /// The connection is over: what was written is to be sent.
    Failed,
}

/// A frame that breaks the rules ends the connection with this code.
type Step<'a, S> = Result<Http2Event<'a, S>, Http2Code>;

impl<S: Default> Http2<S> {
    /// Returns a new connection, and writes what this side begins with.
    pub(in super::super) fn new(out: &mut Vec<u8>) -> Self {
        frames::settings(
            out,
            &[(3, MAX_STREAMS), (4, STREAM_WINDOW), (6, u32::try_from(MAX_FIELDS).unwrap_or(u32::MAX))],
        );
        frames::window_update(out, 0, CONNECTION_WINDOW - PeerSettings::default().initial_window);
        let peer = PeerSettings::default();
        Http2 {
            greeting: Greeting::Nothing,
            hpack: HpackDecoder::new(),
            block: None,
            streams: StreamTable::new(),
            last: 0,
            recent: RecentStreams::default(),
            receive: ReceiveWindow::new(CONNECTION_WINDOW),
            send: SendWindow::new(peer.initial_window),
            peer,
            queued: 0,
            has_sent_queued: false,
            guard: FloodGuard::new(),
            mistakes: 0,
            departure: Departure::No,
        }
    }

    /// Takes the next frame from the input. Returns how many bytes it had, and what it means.
    #[inline]
    pub(in super::super) fn step<'a>(
        &mut self,
        input: &'a [u8],
        out: &mut Vec<u8>,
    ) -> (usize, Http2Event<'a, S>) {
        if self.departure == Departure::Failed {
            return (0, Http2Event::Failed);
        }
        if self.greeting == Greeting::Nothing {
            return self.greeted(input, out);
        }
        let Some((head, rest)) = input.split_first_chunk::<{ FrameHead::LEN }>() else {
            return (0, Http2Event::Starved);
        };
        let head = FrameHead::read(head);
        if head.len > MAX_FRAME {
            return (0, self.fail(Http2Code::FrameSizeError, out));
        }
        let Some(payload) = rest.get(..head.len) else { return (0, Http2Event::Starved) };
        self.guard.frame(&head);
        if self.guard.is_flood() {
            return (0, Http2Event::Flood);
        }
        let event = match self.frame(&head, payload, out) {
            Ok(event) => event,
            Err(code) => self.fail(code, out),
        };
        (FrameHead::LEN + head.len, event)
    }

    #[cold]
    fn greeted<'a>(&mut self, input: &'a [u8], out: &mut Vec<u8>) -> (usize, Http2Event<'a, S>) {
        let have = input.len().min(PREFACE.len());
        if input[..have] != PREFACE[..have] {
            return (0, self.fail(Http2Code::ProtocolError, out));
        }
        if have < PREFACE.len() {
            return (0, Http2Event::Starved);
        }
        self.greeting = Greeting::Preface;
        (have, Http2Event::Nothing)
    }

    /// Returns true if the client must send more, even after a whole frame, before there is anything to answer.
    pub(in super::super) fn is_midway(&self) -> bool {
        self.is_new() || self.block.is_some()
    }

    /// Returns true before the client has said what every client says first.
    pub(in super::super) fn is_new(&self) -> bool {
        self.greeting == Greeting::Nothing
    }

    /// Returns true if the connection can be closed: both sides know that nothing will be answered any more.
    pub(in super::super) fn is_done(&self) -> bool {
        match self.departure {
            Departure::No | Departure::Announced => false,
            Departure::Known => self.streams.len() == 0,
            Departure::Failed => true,
        }
    }

    /// Returns what has become of answers that wait for a window, since this was last asked for.
    pub(in super::super) fn queue_progress(&mut self) -> QueueProgress {
        let has_sent = std::mem::take(&mut self.has_sent_queued);
        match self.queued {
            0 => QueueProgress::Empty,
            _ if has_sent => QueueProgress::Moving,
            _ => QueueProgress::Stuck,
        }
    }

    /// Returns true if the connection ended by a mistake.
    pub(in super::super) fn has_failed(&self) -> bool {
        self.departure == Departure::Failed
    }

    /// Returns what a stream keeps, if it is open.
    #[inline]
    pub(in super::super) fn state(&mut self, stream: u32) -> Option<&mut S> {
        self.streams.get_mut(stream).map(|open| &mut open.state)
    }

    /// Asks the client to open no more streams. Those that it has opened meanwhile are answered.
    pub(in super::super) fn leave(&mut self, out: &mut Vec<u8>) {
        if self.departure != Departure::No {
            return;
        }
        if self.is_new() {
            // Whatever it has sent, nothing of it was looked at.
            self.departure = Departure::Known;
            frames::go_away(out, 0, Http2Code::NoError);
        } else {
            self.departure = Departure::Announced;
            frames::go_away(out, MAX_WINDOW, Http2Code::NoError);
            frames::ping(out, 0, LEAVING);
        }
    }

    /// Ends the connection because of what the client has done.
    #[cold]
    pub(in super::super) fn fail<'a>(&mut self, code: Http2Code, out: &mut Vec<u8>) -> Http2Event<'a, S> {
        if self.departure != Departure::Failed {
            self.departure = Departure::Failed;
            frames::go_away(out, self.last, code);
        }
        Http2Event::Failed
    }

    #[inline]
    fn frame<'a>(&mut self, head: &FrameHead, payload: &'a [u8], out: &mut Vec<u8>) -> Step<'a, S> {
        if self.greeting != Greeting::Settings {
            if head.kind != FrameHead::SETTINGS || head.has(FrameHead::ACK) {
                return Err(Http2Code::ProtocolError);
            }
            self.greeting = Greeting::Settings;
        }
        if self.block.is_some() && head.kind != FrameHead::CONTINUATION {
            return Err(Http2Code::ProtocolError);
        }
        match head.kind {
            FrameHead::DATA => self.data(head, payload, out),
            FrameHead::HEADERS => self.headers(head, payload, out),
            FrameHead::CONTINUATION => self.continuation(head, payload, out),
            _ => self.control(head, payload, out),
        }
    }

    #[inline]
    fn data<'a>(&mut self, head: &FrameHead, payload: &'a [u8], out: &mut Vec<u8>) -> Step<'a, S> {
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let bytes = unpadded(head, payload)?;
        if self.is_idle(head.stream) {
            return Err(Http2Code::ProtocolError);
        }
        if !self.receive.receive(len) {
            return Err(Http2Code::FlowControlError);
        }
        let Some(open) = self.streams.get_mut(head.stream).filter(|open| !open.is_ended) else {
            self.release_connection(len, out);
            if self.recent.contains(head.stream) {
                return Ok(Http2Event::Nothing);
            }
            return self.mistake(head.stream, Http2Code::StreamClosed, out);
        };
        let taken = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        open.held += taken;
        open.is_ended = head.has(FrameHead::END_STREAM);
        let is_allowed = open.receive.receive(len);
        if let Some(announced) = &mut open.announced {
            let left = announced.checked_sub(taken.into());
            if left.is_none_or(|left| open.is_ended && left > 0) {
                self.release_connection(len - taken, out);
                return self.mistake(head.stream, Http2Code::ProtocolError, out);
            }
            *announced = left.unwrap_or(0);
        }
        let is_ended = open.is_ended;
        if !is_allowed {
            self.release_connection(len - taken, out);
            return self.mistake(head.stream, Http2Code::FlowControlError, out);
        }
        // Padding is in nobody's memory.
        if len > taken {
            self.give_back(head.stream, len - taken, out);
        }
        Ok(Http2Event::Data { stream: head.stream, bytes, is_ended })
    }

    #[inline]
    fn headers<'a>(&mut self, head: &FrameHead, payload: &'a [u8], out: &mut Vec<u8>) -> Step<'a, S> {
        let mut block = unpadded(head, payload)?;
        if head.has(FrameHead::HAS_PRIORITY) {
            block = block.get(5..).ok_or(Http2Code::FrameSizeError)?;
        }
        let (stream, ends_stream) = (head.stream, head.has(FrameHead::END_STREAM));
        if head.has(FrameHead::END_HEADERS) {
            return self.whole_block(stream, ends_stream, block, out);
        }
        if stream == 0 {
            return Err(Http2Code::ProtocolError);
        }
        self.block = Some(OpenBlock { stream, ends_stream, bytes: block.to_vec() });
        Ok(Http2Event::Nothing)
    }

    fn continuation<'a>(&mut self, head: &FrameHead, payload: &[u8], out: &mut Vec<u8>) -> Step<'a, S> {
        let block = self.block.as_mut().filter(|block| block.stream == head.stream);
        let block = block.ok_or(Http2Code::ProtocolError)?;
        if block.bytes.len() + payload.len() > MAX_BLOCK {
            return Err(Http2Code::EnhanceYourCalm);
        }
        block.bytes.extend_from_slice(payload);
        if !head.has(FrameHead::END_HEADERS) {
            return Ok(Http2Event::Nothing);
        }
        let Some(OpenBlock { stream, ends_stream, bytes }) = self.block.take() else {
            return Err(Http2Code::ProtocolError);
        };
        self.whole_block(stream, ends_stream, &bytes, out)
    }

    /// Decodes the fields of a stream: always, because those of other streams may refer to them.
    fn whole_block<'a>(
        &mut self,
        stream: u32,
        ends_stream: bool,
        block: &[u8],
        out: &mut Vec<u8>,
    ) -> Step<'a, S> {
        // Streams of the server are even, and it opens none.
        if stream.is_multiple_of(2) {
            return Err(Http2Code::ProtocolError);
        }
        let (mut head, mut size) = (CallHead::default(), 0_usize);
        let decoded = self.hpack.decode(block, |field| {
            size += field.size();
            if size <= MAX_FIELDS {
                head.add(field.meaning, field.value);
            }
        });
        decoded.map_err(|_| Http2Code::CompressionError)?;
        if stream <= self.last {
            return self.trailers(stream, ends_stream, &head, out);
        }
        self.last = stream;
        if self.departure == Departure::Known {
            self.recent.insert(stream);
            return Ok(Http2Event::Nothing);
        }
        if self.streams.len() >= MAX_STREAMS as usize {
            return self.mistake(stream, Http2Code::RefusedStream, out);
        }
        if size > MAX_FIELDS {
            frames::fields(out, stream, self.peer.max_frame, true, TOO_MANY_FIELDS);
            if !ends_stream {
                self.recent.insert(stream);
                frames::reset(out, stream, Http2Code::NoError);
            }
            return Ok(Http2Event::Nothing);
        }
        if head.is_malformed() || (ends_stream && head.content_length.is_some_and(|len| len > 0)) {
            return self.mistake(stream, Http2Code::ProtocolError, out);
        }
        let mut open = OpenStream::new(self.peer.initial_window, S::default());
        (open.is_ended, open.announced) = (ends_stream, head.content_length);
        self.streams.insert(stream, open);
        Ok(Http2Event::Request { stream, head, is_ended: ends_stream })
    }

    /// Takes the fields after a request: nothing in them is of interest but that it ends.
    #[cold]
    fn trailers<'a>(
        &mut self,
        stream: u32,
        ends_stream: bool,
        fields: &CallHead,
        out: &mut Vec<u8>,
    ) -> Step<'a, S> {
        match self.streams.get_mut(stream) {
            Some(open) if open.is_ended => self.mistake(stream, Http2Code::StreamClosed, out),
            Some(open) => {
                let is_short = open.announced.is_some_and(|left| left > 0);
                if !ends_stream || is_short || fields.is_no_trailer() {
                    return self.mistake(stream, Http2Code::ProtocolError, out);
                }
                open.is_ended = true;
                Ok(Http2Event::Data { stream, bytes: &[], is_ended: true })
            }
            None if self.recent.contains(stream) => Ok(Http2Event::Nothing),
            None => Err(Http2Code::StreamClosed),
        }
    }

    fn control<'a>(&mut self, head: &FrameHead, payload: &[u8], out: &mut Vec<u8>) -> Step<'a, S> {
        match head.kind {
            FrameHead::PRIORITY if head.stream == 0 => return Err(Http2Code::ProtocolError),
            // It is deprecated, and nothing here has a priority.
            FrameHead::PRIORITY if payload.len() == 5 => {}
            FrameHead::PRIORITY if self.is_idle(head.stream) => return Err(Http2Code::FrameSizeError),
            FrameHead::PRIORITY => return self.mistake(head.stream, Http2Code::FrameSizeError, out),
            FrameHead::RST_STREAM => {
                if payload.len() != 4 {
                    return Err(Http2Code::FrameSizeError);
                }
                if self.is_idle(head.stream) {
                    return Err(Http2Code::ProtocolError);
                }
                if let Some(state) = self.forget(head.stream, out) {
                    return Ok(Http2Event::Reset { state });
                }
            }
            FrameHead::SETTINGS => self.settings(head, payload, out)?,
            FrameHead::PUSH_PROMISE => return Err(Http2Code::ProtocolError),
            FrameHead::PING => self.ping(head, payload, out)?,
            FrameHead::GOAWAY if head.stream != 0 => return Err(Http2Code::ProtocolError),
            // The client leaves, and will close when it has its answers.
            FrameHead::GOAWAY if payload.len() < 8 => return Err(Http2Code::FrameSizeError),
            FrameHead::WINDOW_UPDATE => return self.window_update(head, payload, out),
            _ => {}
        }
        Ok(Http2Event::Nothing)
    }

    fn settings(&mut self, head: &FrameHead, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Http2Code> {
        if head.stream != 0 {
            return Err(Http2Code::ProtocolError);
        }
        if head.has(FrameHead::ACK) {
            return if payload.is_empty() { Ok(()) } else { Err(Http2Code::FrameSizeError) };
        }
        let before = self.peer.initial_window;
        self.peer.take(payload)?;
        let grown = i64::from(self.peer.initial_window) - i64::from(before);
        if grown != 0 && !self.streams.iter_mut().all(|(_, open)| open.send.change(grown)) {
            return Err(Http2Code::FlowControlError);
        }
        FrameHead::write(out, FrameHead::SETTINGS, FrameHead::ACK, 0, 0);
        if grown > 0 {
            self.send_queued(out);
        }
        Ok(())
    }

    fn ping(&mut self, head: &FrameHead, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Http2Code> {
        if head.stream != 0 {
            return Err(Http2Code::ProtocolError);
        }
        let content = <[u8; 8]>::try_from(payload).map_err(|_| Http2Code::FrameSizeError)?;
        if !head.has(FrameHead::ACK) {
            frames::ping(out, FrameHead::ACK, content);
        } else if self.departure == Departure::Announced && content == LEAVING {
            self.departure = Departure::Known;
            frames::go_away(out, self.last, Http2Code::NoError);
        }
        Ok(())
    }

    fn window_update<'a>(&mut self, head: &FrameHead, payload: &[u8], out: &mut Vec<u8>) -> Step<'a, S> {
        let increment = <[u8; 4]>::try_from(payload).map_err(|_| Http2Code::FrameSizeError)?;
        let increment = u32::from_be_bytes(increment) & MAX_WINDOW;
        if head.stream == 0 {
            if increment == 0 {
                return Err(Http2Code::ProtocolError);
            }
            if !self.send.change(increment.into()) {
                return Err(Http2Code::FlowControlError);
            }
            self.send_queued(out);
        } else if self.is_idle(head.stream) {
            return Err(Http2Code::ProtocolError);
        } else if let Some(open) = self.streams.get_mut(head.stream) {
            if increment == 0 {
                return self.mistake(head.stream, Http2Code::ProtocolError, out);
            }
            if !open.send.change(increment.into()) {
                return self.mistake(head.stream, Http2Code::FlowControlError, out);
            }
            self.send_queued_of(head.stream, out);
        }
        Ok(Http2Event::Nothing)
    }

    /// Returns true for a stream that nobody has opened. The connection itself is no stream either.
    fn is_idle(&self, stream: u32) -> bool {
        stream.is_multiple_of(2) || stream > self.last
    }

    /// Ends a stream whose client has broken the rules there; and the connection, if that happens often.
    #[cold]
    fn mistake<'a>(&mut self, stream: u32, code: Http2Code, out: &mut Vec<u8>) -> Step<'a, S> {
        self.mistakes += 1;
        if self.mistakes > MAX_MISTAKES {
            return Err(Http2Code::EnhanceYourCalm);
        }
        self.recent.insert(stream);
        frames::reset(out, stream, code);
        Ok(self.forget(stream, out).map_or(Http2Event::Nothing, |state| Http2Event::Reset { state }))
    }

    /// Removes a stream, whose bytes nobody will take any more.
    pub(super) fn forget(&mut self, stream: u32, out: &mut Vec<u8>) -> Option<S> {
        let open = self.streams.remove(stream)?;
        self.queued -= usize::from(open.queue.is_some());
        self.release_connection(open.held, out);
        Some(open.state)
    }

    fn release_connection(&mut self, len: u32, out: &mut Vec<u8>) {
        if let Some(grown) = self.receive.release(len) {
            frames::window_update(out, 0, grown);
        }
    }

    /// Lets the client send as many bytes as these on a stream, and on the connection.
    fn give_back(&mut self, stream: u32, len: u32, out: &mut Vec<u8>) {
        self.release_connection(len, out);
        if let Some(open) = self.streams.get_mut(stream)
            && !open.is_ended
            && let Some(grown) = open.receive.release(len)
        {
            frames::window_update(out, stream, grown);
        }
    }

    /// Notes that so many bytes of a request were taken: the client may send as many more.
    pub(in super::super) fn release(&mut self, stream: u32, len: usize, out: &mut Vec<u8>) {
        let Some(open) = self.streams.get_mut(stream) else { return };
        let len = u32::try_from(len).unwrap_or(u32::MAX).min(open.held);
        open.held -= len;
        self.give_back(stream, len, out);
    }
}

#[cfg(any(test, fuzzing))]
impl<S> Http2<S> {
    /// Returns how many streams are open, and the bytes of their unfinished requests.
    pub(super) fn held_by_all(&self) -> (usize, usize) {
        let held = self.streams.iter().map(|open| open.held as usize).sum();
        (self.streams.len(), held)
    }

    /// Returns true if the clock has decided something.
    pub(super) fn has_been_flooded(&self) -> bool {
        self.guard.has_asked_the_clock()
    }
}

/// Returns what a frame holds besides its padding.
#[inline]
fn unpadded<'a>(head: &FrameHead, payload: &'a [u8]) -> Result<&'a [u8], Http2Code> {
    if !head.has(FrameHead::PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(Http2Code::FrameSizeError)?;
    let len = rest.len().checked_sub(usize::from(*padding)).ok_or(Http2Code::ProtocolError)?;
    Ok(&rest[..len])
}
