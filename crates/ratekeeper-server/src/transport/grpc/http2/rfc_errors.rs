//! What RFC 9113 says of clients that break its rules: which frame, on which stream, is answered by which code.

use super::code::Http2Code::{self, *};
use super::echo::{EchoServer, written};
use super::frame_head::FrameHead;
use super::limits::{CONNECTION_WINDOW, MAX_MISTAKES, MAX_STREAMS, STREAM_WINDOW};

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// POST, http, `/`.
pub(super) const REQUEST: &[u8] = b"\x83\x86\x84";

const END_STREAM: u8 = FrameHead::END_STREAM;
const END_HEADERS: u8 = FrameHead::END_HEADERS;
const PADDED: u8 = FrameHead::PADDED;
const DATA: u8 = FrameHead::DATA;
const HEADERS: u8 = FrameHead::HEADERS;

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    FrameHead::write(&mut out, kind, flags, stream, payload.len());
    out.extend_from_slice(payload);
    out
}

/// A request whose body is to come.
fn open(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, REQUEST)
}

/// A server that has read these frames after the preface.
fn server(frames: &[Vec<u8>]) -> EchoServer {
    let mut server = EchoServer::new();
    server.read(PREFACE);
    server.out.clear();
    frames.iter().for_each(|frame| server.read(frame));
    server
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().unwrap())
}

/// The code with which the connection was ended.
fn ended(server: &EchoServer) -> Option<u32> {
    let away = written(&server.out).into_iter().find(|(head, _)| head.kind == FrameHead::GOAWAY);
    away.map(|(_, payload)| number(&payload[4..8]))
}

/// The streams that were ended, and by which codes.
fn resets(server: &EchoServer) -> Vec<(u32, u32)> {
    let all = written(&server.out).into_iter().filter(|(head, _)| head.kind == FrameHead::RST_STREAM);
    all.map(|(head, payload)| (head.stream, number(payload))).collect()
}

/// The streams that were answered to their end.
fn answers(server: &EchoServer) -> Vec<u32> {
    let is_end = |head: &FrameHead| head.kind == HEADERS && head.has(END_STREAM);
    written(&server.out).iter().filter(|(head, _)| is_end(head)).map(|(head, _)| head.stream).collect()
}

#[test]
fn what_ends_the_connection() {
    let cases: Vec<(&str, Vec<Vec<u8>>, Http2Code)> = vec![
        ("a frame of 16385 bytes", vec![open(1), frame(DATA, 0, 1, &[0; 16_385])], FrameSizeError),
        ("DATA on the connection", vec![frame(DATA, 0, 0, b"x")], ProtocolError),
        ("DATA on an idle stream", vec![frame(DATA, 0, 1, b"x")], ProtocolError),
        ("DATA on a stream of the server", vec![open(3), frame(DATA, 0, 2, b"x")], ProtocolError),
        ("DATA that is all padding", vec![open(1), frame(DATA, PADDED, 1, b"\x05abcd")], ProtocolError),
        ("DATA without its padding", vec![open(1), frame(DATA, PADDED, 1, b"")], FrameSizeError),
        ("HEADERS on the connection", vec![frame(HEADERS, END_HEADERS, 0, REQUEST)], ProtocolError),
        ("unfinished HEADERS on the connection", vec![frame(HEADERS, 0, 0, REQUEST)], ProtocolError),
        ("HEADERS on a stream of the server", vec![open(2)], ProtocolError),
        (
            "HEADERS that are all padding",
            vec![frame(HEADERS, END_HEADERS | PADDED, 1, b"\x03\x83")],
            ProtocolError,
        ),
        (
            "HEADERS without their priority",
            vec![frame(HEADERS, END_HEADERS | 32, 1, b"\0\0\0\0")],
            FrameSizeError,
        ),
        ("HEADERS that are none", vec![frame(HEADERS, END_HEADERS, 1, b"\x80")], CompressionError),
        (
            "HEADERS on a stream that was closed",
            vec![frame(HEADERS, END_HEADERS | END_STREAM, 1, REQUEST), open(1)],
            StreamClosed,
        ),
        ("HEADERS on a stream before the last", vec![open(3), open(1)], StreamClosed),
        ("PRIORITY of the connection", vec![frame(2, 0, 0, &[0; 5])], ProtocolError),
        ("PRIORITY of 4 bytes of an idle stream", vec![frame(2, 0, 1, &[0; 4])], FrameSizeError),
        ("RST_STREAM of the connection", vec![frame(3, 0, 0, &[0; 4])], ProtocolError),
        ("RST_STREAM of an idle stream", vec![frame(3, 0, 1, &[0; 4])], ProtocolError),
        ("RST_STREAM of 3 bytes", vec![open(1), frame(3, 0, 1, &[0; 3])], FrameSizeError),
        ("SETTINGS on a stream", vec![frame(4, 0, 1, b"")], ProtocolError),
        ("SETTINGS of 5 bytes", vec![frame(4, 0, 0, &[0; 5])], FrameSizeError),
        ("SETTINGS in an acknowledgement", vec![frame(4, 1, 0, &[0; 6])], FrameSizeError),
        ("ENABLE_PUSH of 2", vec![frame(4, 0, 0, b"\0\x02\0\0\0\x02")], ProtocolError),
        ("INITIAL_WINDOW_SIZE of 2^31", vec![frame(4, 0, 0, b"\0\x04\x80\0\0\0")], FlowControlError),
        ("MAX_FRAME_SIZE of 16383", vec![frame(4, 0, 0, b"\0\x05\0\0\x3f\xff")], ProtocolError),
        ("MAX_FRAME_SIZE of 2^24", vec![frame(4, 0, 0, b"\0\x05\x01\0\0\0")], ProtocolError),
        (
            "a window that becomes too large by a setting",
            vec![open(1), frame(8, 0, 1, b"\x7f\xff\0\0"), frame(4, 0, 0, b"\0\x04\x7f\xff\xff\xff")],
            FlowControlError,
        ),
        ("PUSH_PROMISE", vec![open(1), frame(5, END_HEADERS, 1, &[0; 5])], ProtocolError),
        ("PING on a stream", vec![frame(6, 0, 1, &[0; 8])], ProtocolError),
        ("PING of 7 bytes", vec![frame(6, 0, 0, &[0; 7])], FrameSizeError),
        ("GOAWAY on a stream", vec![frame(7, 0, 1, &[0; 8])], ProtocolError),
        ("GOAWAY of 7 bytes", vec![frame(7, 0, 0, &[0; 7])], FrameSizeError),
        ("WINDOW_UPDATE of 3 bytes", vec![frame(8, 0, 0, &[0; 3])], FrameSizeError),
        ("WINDOW_UPDATE by nothing", vec![frame(8, 0, 0, &[0; 4])], ProtocolError),
        ("WINDOW_UPDATE of an idle stream", vec![frame(8, 0, 1, b"\0\0\0\x01")], ProtocolError),
        ("WINDOW_UPDATE beyond 2^31-1", vec![frame(8, 0, 0, b"\x7f\xff\xff\xff")], FlowControlError),
        ("CONTINUATION of nothing", vec![frame(9, END_HEADERS, 1, REQUEST)], ProtocolError),
        (
            "CONTINUATION of another stream",
            vec![frame(HEADERS, 0, 1, REQUEST), frame(9, END_HEADERS, 3, b"")],
            ProtocolError,
        ),
        ("a frame amid a block", vec![frame(HEADERS, 0, 1, REQUEST), frame(6, 0, 0, &[0; 8])], ProtocolError),
        (
            "an unknown frame amid a block",
            vec![frame(HEADERS, 0, 1, REQUEST), frame(99, 0, 0, b"")],
            ProtocolError,
        ),
        (
            "a block without end",
            [frame(HEADERS, 0, 1, REQUEST)]
                .into_iter()
                .chain((0..5).map(|_| frame(9, 0, 1, &[0; 16_384])))
                .collect(),
            EnhanceYourCalm,
        ),
        (
            "more than the window of the connection",
            (0..9)
                .flat_map(|nth| {
                    let stream = 2 * nth + 1;
                    let pieces = STREAM_WINDOW / 16_384;
                    [open(stream)]
                        .into_iter()
                        .chain((0..pieces).map(move |_| frame(DATA, 0, stream, &[3; 16_384])))
                })
                .collect(),
            FlowControlError,
        ),
    ];
    for (what, frames, code) in cases {
        let server = server(&frames);
        assert_eq!((ended(&server), server.has_failed), (Some(code as u32), true), "{what}");
        assert_eq!(
            answers(&server).len(),
            usize::from(what == "HEADERS on a stream that was closed"),
            "{what}"
        );
    }
}

#[test]
fn what_ends_its_stream_alone() {
    let long = || (0..9).map(|_| frame(DATA, 0, 1, &[3; 16_384])).collect::<Vec<_>>();
    let lower = |block: &[u8]| frame(HEADERS, END_HEADERS, 1, block);
    let cases: Vec<(&str, Vec<Vec<u8>>, Http2Code)> = vec![
        ("a request without a path", vec![lower(b"\x83\x86")], ProtocolError),
        ("a request without a scheme", vec![lower(b"\x83\x84")], ProtocolError),
        ("a request without a method", vec![lower(b"\x86\x84")], ProtocolError),
        ("two paths", vec![lower(b"\x83\x86\x84\x84")], ProtocolError),
        ("capitals", vec![lower(b"\x83\x86\x84\0\x01A\x01b")], ProtocolError),
        ("a field of HTTP/1", vec![lower(b"\x83\x86\x84\0\x0aconnection\x05close")], ProtocolError),
        ("an unknown pseudo-field", vec![lower(b"\x83\x86\x84\0\x02:x\x01y")], ProtocolError),
        ("a pseudo-field after others", vec![lower(b"\x83\x86\0\x01a\x01b\x84")], ProtocolError),
        ("a field of a response", vec![lower(b"\x83\x86\x84\x88")], ProtocolError),
        (
            "less than was announced",
            vec![lower(b"\x83\x86\x84\x0f\x0d\x012"), frame(DATA, END_STREAM, 1, b"a")],
            ProtocolError,
        ),
        (
            "more than was announced",
            vec![lower(b"\x83\x86\x84\x0f\x0d\x012"), frame(DATA, 0, 1, b"abc")],
            ProtocolError,
        ),
        (
            "nothing of what was announced",
            vec![frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x83\x86\x84\x0f\x0d\x012")],
            ProtocolError,
        ),
        ("trailers that do not end", vec![open(1), lower(b"\0\x01a\x01b")], ProtocolError),
        (
            "trailers with a path",
            vec![open(1), frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x84")],
            ProtocolError,
        ),
        (
            "DATA after the end",
            vec![open(1), frame(DATA, END_STREAM, 1, b"\x03"), frame(DATA, 0, 1, b"x")],
            StreamClosed,
        ),
        (
            "fields after the end",
            vec![open(1), frame(DATA, END_STREAM, 1, b"\x03"), lower(b"\0\x01a\x01b")],
            StreamClosed,
        ),
        (
            "DATA on a stream that was answered",
            vec![open(1), frame(DATA, END_STREAM, 1, b"a"), frame(DATA, 0, 1, b"x")],
            StreamClosed,
        ),
        ("PRIORITY of 4 bytes", vec![open(1), frame(2, 0, 1, &[0; 4])], FrameSizeError),
        ("WINDOW_UPDATE by nothing", vec![open(1), frame(8, 0, 1, &[0; 4])], ProtocolError),
        ("WINDOW_UPDATE beyond 2^31-1", vec![open(1), frame(8, 0, 1, b"\x7f\xff\xff\xff")], FlowControlError),
        ("more than the window of the stream", [vec![open(1)], long()].concat(), FlowControlError),
    ];
    for (what, frames, code) in cases {
        let mut server = server(&frames);
        assert_eq!(resets(&server), [(1, code as u32)], "{what}");
        assert_eq!(ended(&server), None, "{what}");
        server.out.clear();
        // What the client had sent before it knew is no mistake, and the next call is answered.
        server.read(&frame(DATA, 0, 1, b"late"));
        server.read(&frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\0\x01a\x01b"));
        server.read(&frame(HEADERS, END_HEADERS | END_STREAM, 5, REQUEST));
        assert_eq!((resets(&server), answers(&server)), (vec![], vec![5]), "{what}");
        assert_eq!(server.http2.held_by_all(), (0, 0), "{what}");
    }
}

#[test]
fn what_is_no_mistake() {
    for (what, frames) in [
        ("an unknown frame", vec![frame(77, 255, 1, b"abc")]),
        ("an unknown setting", vec![frame(4, 0, 0, b"\x12\x34\0\0\0\x01")]),
        ("PRIORITY of an idle stream", vec![frame(2, 0, 7, &[0; 5])]),
        (
            "a request with priority and padding",
            vec![frame(HEADERS, 0x2d, 1, b"\x02\0\0\0\0\x0f\x83\x86\x84\0\0")],
        ),
        ("a client that leaves", vec![frame(7, 0, 0, &[0; 8])]),
        ("an answer to no PING", vec![frame(6, 1, 0, &[0; 8])]),
        (
            "a reset of what was answered",
            vec![open(1), frame(DATA, END_STREAM, 1, b"a"), frame(3, 0, 1, &[0; 4])],
        ),
        (
            "a window of what was answered",
            vec![open(1), frame(DATA, END_STREAM, 1, b"a"), frame(8, 0, 1, &[0; 4])],
        ),
        ("a reserved bit", vec![frame(HEADERS, 5, 0x8000_0001, REQUEST)]),
    ] {
        let mut server = server(&frames);
        server.read(&frame(HEADERS, END_HEADERS | END_STREAM, 9, REQUEST));
        assert_eq!((ended(&server), resets(&server)), (None, vec![]), "{what}");
        assert!(answers(&server).contains(&9), "{what}");
    }
}

#[test]
fn what_does_not_begin_as_http2() {
    for first in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX", b"\x16\x03\x01"] {
        let mut server = EchoServer::new();
        server.read(first);
        assert_eq!(ended(&server), Some(ProtocolError as u32));
    }
    for first in [frame(6, 0, 0, &[0; 8]), frame(4, 1, 0, b""), open(1)] {
        let mut server = EchoServer::new();
        server.read(&PREFACE[..24]);
        server.read(&first);
        assert_eq!(ended(&server), Some(ProtocolError as u32), "the first frame is SETTINGS");
    }
}

#[test]
fn too_many_streams_are_refused_and_too_many_mistakes_end_it() {
    let first: Vec<_> = (0..MAX_STREAMS).map(|nth| open(2 * nth + 1)).collect();
    let mut server = server(&first);
    assert!(resets(&server).is_empty());
    let next = 2 * MAX_STREAMS + 1;
    server.read(&open(next));
    assert_eq!(resets(&server), [(next, RefusedStream as u32)]);
    for nth in 1..MAX_MISTAKES {
        server.read(&open(next + 2 * nth));
    }
    assert_eq!(ended(&server), None);
    server.read(&open(next + 2 * MAX_MISTAKES));
    assert_eq!(ended(&server), Some(EnhanceYourCalm as u32));
}

#[test]
fn too_many_fields_are_answered_and_what_they_taught_is_remembered() {
    let field = [b"\x40\x01n\x7f\xf2\x06".as_slice(), &[b'v'; 1_009]].concat();
    let block = [REQUEST, &field, &b"\xbe".repeat(20)].concat();
    let mut server = server(&[frame(HEADERS, END_HEADERS | END_STREAM, 1, &block)]);
    assert!(server.out.windows(3).any(|text| text == b"431"));
    assert_eq!(answers(&server), [1]);
    server.read(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &[REQUEST, b"\xbe"].concat()));
    assert_eq!((answers(&server), ended(&server)), (vec![1, 3], None));
}

#[test]
fn windows_are_kept_open_for_a_client_that_sends_for_ever() {
    let mut server = server(&[open(1)]);
    // The first byte has the server read as it comes.
    for _ in 0..4 * CONNECTION_WINDOW / 16_384 {
        server.read(&frame(DATA, 0, 1, &[4; 16_384]));
    }
    assert_eq!((ended(&server), resets(&server)), (None, vec![]));
    let frames = written(&server.out);
    let grown = |stream| -> u32 {
        let of = frames.iter().filter(|(head, _)| head.kind == 8 && head.stream == stream);
        of.map(|(_, payload)| number(payload)).sum()
    };
    let sent = 4 * CONNECTION_WINDOW;
    assert!(grown(0) <= sent && grown(0) >= sent - CONNECTION_WINDOW / 2, "{}", grown(0));
    assert!(grown(1) <= sent && grown(1) >= sent - STREAM_WINDOW / 2, "{}", grown(1));
    assert!(frames.len() < 200, "many bytes are told of at once: {}", frames.len());
}

#[test]
fn answers_wait_for_windows_and_come_whole() {
    // No window for anything, and frames as small as they come.
    let body: Vec<u8> = (0..40_000_u32).map(|nth| if nth == 0 { 9 } else { nth.to_le_bytes()[0] }).collect();
    let mut frames = vec![frame(4, 0, 0, b"\0\x04\0\0\0\0"), open(1)];
    frames.extend(body.chunks(10_000).map(|piece| frame(DATA, 0, 1, piece)));
    frames.push(frame(DATA, END_STREAM, 1, b""));
    let mut server = server(&frames);
    let sent = |server: &EchoServer| -> Vec<u8> {
        let frames = written(&server.out);
        frames
            .iter()
            .filter(|(head, _)| head.kind == DATA)
            .flat_map(|(_, payload)| payload.to_vec())
            .collect()
    };
    assert_eq!((sent(&server).len(), answers(&server).len()), (0, 0));
    server.read(&frame(8, 0, 1, &7_u32.to_be_bytes()));
    assert_eq!(sent(&server), body[..7]);
    // By a setting, which also takes away.
    server.read(&frame(4, 0, 0, b"\0\x04\0\0\x03\xe8"));
    assert_eq!(sent(&server), body[..1_007]);
    server.read(&frame(4, 0, 0, b"\0\x04\0\0\0\0"));
    server.read(&frame(8, 0, 1, &1_000_u32.to_be_bytes()));
    assert_eq!(sent(&server), body[..1_007]);
    server.read(&frame(8, 0, 1, &30_000_u32.to_be_bytes()));
    assert_eq!(sent(&server), body[..31_007]);
    assert!(answers(&server).is_empty());
    server.read(&frame(8, 0, 1, &100_000_u32.to_be_bytes()));
    assert_eq!((sent(&server), answers(&server)), (body, vec![1]));
    assert!(written(&server.out).iter().all(|(head, _)| head.len <= 16_384));
}

#[test]
fn the_window_of_the_connection_is_for_all_streams() {
    let answer = |stream: u32| {
        [open(stream), frame(DATA, 0, stream, &[9; 16_000]), frame(DATA, END_STREAM, stream, b"")]
    };
    let frames: Vec<_> = (0..6).flat_map(|nth| answer(2 * nth + 1)).collect();
    let mut server = server(&frames);
    let sent = |server: &EchoServer| -> usize {
        written(&server.out).iter().filter(|(head, _)| head.kind == DATA).map(|(head, _)| head.len).sum()
    };
    assert_eq!((sent(&server), answers(&server).len()), (65_535, 4));
    server.read(&frame(8, 0, 0, &100_000_u32.to_be_bytes()));
    assert_eq!((sent(&server), answers(&server).len()), (96_000, 6));
}

#[test]
fn a_server_that_leaves_answers_what_was_asked_before_its_client_knew() {
    let mut server = server(&[open(1)]);
    server.http2.leave(&mut server.out);
    assert_eq!(ended(&server), Some(NoError as u32));
    // Opened before the announcement was read.
    server.read(&frame(HEADERS, END_HEADERS | END_STREAM, 3, REQUEST));
    assert_eq!(answers(&server), [3]);
    let ping = written(&server.out).iter().find(|(head, _)| head.kind == 6).unwrap().1.to_vec();
    server.read(&frame(6, 1, 0, &ping));
    assert!(!server.http2.is_done(), "a call is not answered yet");
    let last = written(&server.out).iter().rfind(|(head, _)| head.kind == 7).unwrap().1.to_vec();
    assert_eq!((number(&last[..4]), number(&last[4..8])), (3, 0));
    // Opened after that: not answered, and no mistake.
    server.read(&open(5));
    server.read(&frame(DATA, END_STREAM, 5, b"x"));
    server.read(&frame(DATA, END_STREAM, 1, b"a"));
    assert_eq!((answers(&server), resets(&server)), (vec![3, 1], vec![]));
    assert!(server.http2.is_done() && !server.http2.has_failed());
}
