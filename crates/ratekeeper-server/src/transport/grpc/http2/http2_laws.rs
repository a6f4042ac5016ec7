//! What holds for any bytes of any client: answers do not depend on how the bytes come, nothing panics, and what is kept
//! is bounded.

use proptest::prelude::*;

use super::echo::{EchoServer, exercise, written};
use super::frame_head::FrameHead;
use super::rfc_errors::{PREFACE, REQUEST, frame};
use crate::stream::Mutation;

/// Frames as clients send them, in any order, with few streams so that they meet.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let stream = || prop_oneof![8 => (0..6_u32).prop_map(|nth| 2 * nth + 1), 1 => 0..4_u32];
    let block = prop_oneof![
        Just(REQUEST.to_vec()),
        // Remembered, and referred to.
        Just(b"\x83\x86\x44\x02/a\x40\x02te\x08trailers".to_vec()),
        Just(b"\x83\x86\xbf\xbe".to_vec()),
        Just(b"\0\x01a\x01b".to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
    ];
    let data = (0..6_u8, prop::collection::vec(any::<u8>(), 0..40))
        .prop_map(|(first, rest)| [&[first][..], &rest].concat());
    prop_oneof![
        4 => (stream(), block.clone(), prop::sample::select(vec![4_u8, 5, 4, 5, 0, 1]))
            .prop_map(|(stream, block, flags)| frame(FrameHead::HEADERS, flags, stream, &block)),
        5 => (stream(), data, prop::bool::ANY)
            .prop_map(|(stream, data, end)| frame(FrameHead::DATA, end.into(), stream, &data)),
        1 => (stream(), block).prop_map(|(stream, block)| frame(FrameHead::CONTINUATION, 4, stream, &block)),
        1 => stream().prop_map(|stream| frame(FrameHead::RST_STREAM, 0, stream, &[0, 0, 0, 8])),
        1 => (stream(), 0..200_000_u32)
            .prop_map(|(stream, by)| frame(FrameHead::WINDOW_UPDATE, 0, stream, &by.to_be_bytes())),
        1 => (prop::sample::select(vec![0_u8, 3, 4, 5]), prop_oneof![0..100_u32, 16_384..70_000_u32])
            .prop_map(|(id, value)| frame(FrameHead::SETTINGS, 0, 0, &[&[0, id][..], &value.to_be_bytes()].concat())),
        1 => any::<[u8; 8]>().prop_map(|content| frame(FrameHead::PING, 0, 0, &content)),
        1 => (any::<u8>(), any::<u8>(), stream(), prop::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload)),
    ]
}

/// A valid session: calls one after the other and at once, in every form.
fn session() -> Vec<u8> {
    let calls = [
        frame(FrameHead::HEADERS, 4, 1, b"\x83\x86\x44\x02/a\x40\x02te\x08trailers"),
        frame(FrameHead::DATA, 1, 1, b"hello"),
        frame(FrameHead::HEADERS, 0x2c, 3, b"\x01\0\0\0\0\x10\x83\x86\xbf\xbe\0"),
        frame(FrameHead::HEADERS, 0, 5, b"\x83\x86"),
        frame(FrameHead::CONTINUATION, 4, 5, b"\x84"),
        frame(FrameHead::PING, 0, 0, b"pingpong"),
        frame(FrameHead::DATA, 8, 3, b"\x02\x01stream\0\0"),
        frame(FrameHead::DATA, 1, 5, b"\x02refused"),
        frame(FrameHead::HEADERS, 5, 3, b"\0\x01x\x01y"),
        frame(FrameHead::SETTINGS, 0, 0, b"\0\x04\0\0\0\x03"),
        frame(FrameHead::HEADERS, 4, 7, REQUEST),
        frame(FrameHead::DATA, 1, 7, b"longer than its window"),
        frame(FrameHead::WINDOW_UPDATE, 0, 7, &[0, 0, 0, 5]),
        frame(FrameHead::SETTINGS, 0, 0, b"\0\x04\0\0\x10\0"),
        frame(FrameHead::HEADERS, 4, 9, REQUEST),
        frame(FrameHead::RST_STREAM, 0, 9, &[0, 0, 0, 8]),
    ];
    [PREFACE.to_vec(), calls.concat()].concat()
}

fn answered(pieces: &[&[u8]]) -> Vec<u8> {
    let mut server = EchoServer::new();
    for piece in pieces {
        server.read(piece);
        server.unread();
    }
    server.out
}

#[test]
fn a_session_may_be_cut_anywhere() {
    let session = session();
    let whole = answered(&[&session]);
    let ends = written(&whole).iter().filter(|(head, _)| head.kind == 1 && head.flags & 1 != 0).count();
    assert_eq!(ends, 4, "every call but the one that was given up is answered");
    for at in 0..session.len() {
        let (first, rest) = session.split_at(at);
        assert_eq!(answered(&[first, rest]), whole, "cut after {at}");
    }
    let bytes: Vec<&[u8]> = session.chunks(1).collect();
    assert_eq!(answered(&bytes), whole);
}

proptest! {
    #![proptest_config(test_support::cases::config(2_000))]

    #[test]
    fn any_frames(frames in prop::collection::vec(any_frame(), 0..60), lens: [u8; 4]) {
        exercise(&[&lens, PREFACE, &frames.concat()].concat());
    }

    #[test]
    fn any_session_with_a_mistake(mutation in Mutation::any(), lens: [u8; 4]) {
        exercise(&[&lens[..], &mutation.of(&session())].concat());
    }

    #[test]
    fn any_bytes(bytes: Vec<u8>, is_greeted: bool, lens: [u8; 4]) {
        let greeting = if is_greeted { PREFACE } else { b"" };
        exercise(&[&lens, greeting, &bytes].concat());
    }
}
