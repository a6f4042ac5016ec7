//! A server that answers every request by its own body, for tests and for fuzzing: what must hold whatever a client
//! sends is checked after each frame.

use super::frame_head::FrameHead;
use super::http2::{Http2, Http2Event};
use super::limits::{CONNECTION_WINDOW, MAX_FRAME, MAX_STREAMS};
use super::sending::FieldBlock;

/// A server without a socket.
#[derive(Debug)]
pub(in super::super) struct EchoServer {
    pub(in super::super) http2: Http2<Vec<u8>>,
    /// What came and is no whole frame yet.
    unread: Vec<u8>,
    /// Everything that was written.
    pub(in super::super) out: Vec<u8>,
    pub(in super::super) has_failed: bool,
}

impl EchoServer {
    pub(in super::super) fn new() -> Self {
        let mut out = Vec::new();
        let http2 = Http2::new(&mut out);
        EchoServer { http2, unread: Vec::new(), out, has_failed: false }
    }

    /// Reads bytes, and answers all requests that end with them.
    pub(in super::super) fn read(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        let unread = std::mem::take(&mut self.unread);
        let mut rest = &unread[..];
        while !self.has_failed {
            let (len, event) = self.http2.step(rest, &mut self.out);
            match event {
                Http2Event::Starved => break,
                Http2Event::Nothing | Http2Event::Reset { .. } => {}
                Http2Event::Request { stream, is_ended: true, .. } => self.answer(stream),
                Http2Event::Request { .. } => {}
                Http2Event::Data { stream, bytes, is_ended } => {
                    if let Some(body) = self.http2.state(stream) {
                        body.extend_from_slice(bytes);
                        // A call that reads its request as it comes.
                        if body.first() == Some(&4) {
                            body.truncate(1);
                            self.http2.release(stream, bytes.len(), &mut self.out);
                        }
                    }
                    if is_ended {
                        self.answer(stream);
                    }
                }
                Http2Event::Flood | Http2Event::Failed => self.has_failed = true,
            }
            rest = &rest[len..];
            self.check();
        }
        self.unread = rest.to_vec();
    }

    /// Answers in one of several ways, by the first byte of the request.
    fn answer(&mut self, stream: u32) {
        let (http2, out) = (&mut self.http2, &mut self.out);
        let Some(body) = http2.state(stream).map(std::mem::take) else { return };
        match body.first() {
            Some(1) => {
                http2.begin(stream, out);
                http2.send_data(stream, &body, out);
                http2.end(stream, FieldBlock::answered(), out);
            }
            Some(2) => {
                let mut fields = FieldBlock::head();
                fields.add("grpc-message", &"%20".repeat(body.len()));
                http2.refuse(stream, &fields, out);
            }
            // A store that never answers.
            Some(3) => {}
            _ => http2.answer(stream, &body, out),
        }
    }

    fn check(&self) {
        let (open, held) = self.http2.held_by_all();
        assert!(open <= MAX_STREAMS as usize, "{open} streams");
        assert!(held <= CONNECTION_WINDOW as usize, "{held} bytes of unfinished requests");
    }

    /// Returns how many bytes wait for the rest of their frame.
    pub(in super::super) fn unread(&self) -> usize {
        assert!(self.has_failed || self.unread.len() < FrameHead::LEN + MAX_FRAME);
        self.unread.len()
    }
}

/// Returns the frames that were written, which must be whole.
pub(super) fn written(mut out: &[u8]) -> Vec<(FrameHead, &[u8])> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = out.split_first_chunk() {
        let head = FrameHead::read(head);
        let (payload, rest) = rest.split_at(head.len);
        frames.push((head, payload));
        out = rest;
    }
    assert!(out.is_empty(), "half a frame was written");
    frames
}

/// Any bytes of a client, in pieces whose lengths the first bytes tell.
pub(crate) fn exercise(bytes: &[u8]) {
    let (lens, stream) = bytes.split_at(bytes.len().min(4));
    let mut server = EchoServer::new();
    let mut rest = stream;
    for len in lens.iter().cycle().take(stream.len()) {
        let (piece, after) = rest.split_at(rest.len().min(usize::from(*len) + 1));
        server.read(piece);
        server.unread();
        rest = after;
    }
    let mut whole = EchoServer::new();
    whole.read(stream);
    written(&whole.out);
    // A flood is one by the clock, too.
    if !server.http2.has_been_flooded() && !whole.http2.has_been_flooded() {
        assert_eq!(server.out, whole.out, "answers do not depend on how bytes come");
    }
}
