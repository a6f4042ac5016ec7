//! Any bytes as a client over MessagePack might send them, for tests and for fuzzing.

use std::sync::Arc;

use ratekeeper::testkit::fuzz::check_message;

use super::answer::PREFIX;
use super::protocol::MsgPackProtocol;
use super::reader::{PackReader, PackValue};
use super::transport::NAME;
use crate::engine::{fuzz_engine, fuzz_tokens};
use crate::net::Connection;
use crate::responder::Responder;
use crate::stream::{MAX_REQUEST, StreamExchange, flagged, pieces};

/// Tokens are asked for.
const NEEDS_TOKENS: u8 = 1;
/// The client is on another machine.
const IS_REMOTE: u8 = 2;

/// Has a client send these bytes, whole and in pieces: a byte of flags, four that tell how long the pieces are, and the stream.
///
/// # Panics
///
/// The answers depend on the pieces, or are not one whole reply for each frame.
pub(crate) fn exercise(bytes: &[u8]) {
    let (flags, bytes) = flagged(bytes);
    let (pieces, stream) = pieces(&bytes);
    let whole = StreamExchange::of(&mut client(flags), [stream]);
    let frames = frames(stream);
    assert_eq!(replies(&whole.out), frames, "a reply for each frame");
    let cut = StreamExchange::of(&mut client(flags), pieces);
    assert_eq!(whole.end, cut.end, "how it ends does not depend on how bytes come");
    assert!(without_ids(whole.out) == without_ids(cut.out), "answers do not depend on how bytes come");
}

fn client(flags: u8) -> MsgPackProtocol {
    let tokens = fuzz_tokens(flags & NEEDS_TOKENS != 0);
    let peer = if flags & IS_REMOTE != 0 { [192, 0, 2, 1] } else { [127, 0, 0, 1] };
    MsgPackProtocol::new(
        Arc::new(Responder::new(NAME, fuzz_engine(), tokens)),
        Connection::alone_from(peer.into()),
    )
}

/// Returns how many frames there are, those that are too long included, which are the last.
fn frames(mut stream: &[u8]) -> usize {
    let mut count = 0;
    while let Some((prefix, rest)) = stream.split_first_chunk::<PREFIX>() {
        let len = u32::from_be_bytes(*prefix) as usize;
        if len > MAX_REQUEST {
            return count + 1;
        }
        let Some(after) = rest.get(len..) else { break };
        count += 1;
        stream = after;
    }
    count
}

/// Returns how many replies there are: each is one value, within the bound of clients, and a refusal one short line.
fn replies(mut out: &[u8]) -> usize {
    let mut count = 0;
    while !out.is_empty() {
        let Some((prefix, rest)) = out.split_first_chunk::<PREFIX>() else { panic!("half a reply") };
        let len = u32::from_be_bytes(*prefix) as usize;
        assert!(len <= 64 * 1024, "a reply of {len} bytes");
        let Some((body, after)) = rest.split_at_checked(len) else { panic!("half a reply") };
        let mut reader = PackReader::new(body);
        let Ok(value @ (PackValue::Array(6 | 7) | PackValue::Map(_))) = reader.value() else {
            panic!("no reply: {}", body.escape_ascii())
        };
        assert!(reader.skip_within(value).is_ok() && reader.left() == 0, "{}", body.escape_ascii());
        if let [0x97, 0xc2, _, _, _, _, _, 0xd9, _, message @ ..] = body {
            let Ok(message) = str::from_utf8(message) else { panic!("no text: {}", body.escape_ascii()) };
            check_message(message);
        }
        count += 1;
        out = after;
    }
    count
}

/// Returns replies without the ids of holds, which are chosen by chance.
fn without_ids(mut out: Vec<u8>) -> Vec<u8> {
    const HEAD: &[u8] = b"\xa2id\xd9\x20";
    let mut at = 0;
    while let Some(found) = out[at..].windows(HEAD.len()).position(|bytes| bytes == HEAD) {
        at += found + HEAD.len();
        if let Some(id) = out.get_mut(at..at + 32) {
            id.fill(b'0');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_session_may_be_cut_anywhere() {
        let frame = |body: &[u8]| [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], body].concat();
        let session = [
            frame(b"\x95\x01\xa1k\x03\x01\x3c"),
            frame(b"\x95\x01\xa2bb\x03\x01\x3c"),
            frame(b"\x92\x02\xa6sesame"),
            frame(b"\x83\xa3cmd\x02\xa3key\xa1k\xa4plan\xa4free"),
            frame(b"\x84\xa3cmd\x07\xa3key\xa1k\xa4plan\xa4held\xa5costs\x81\xa6tokens\x01"),
            frame(b"\x83\xa3cmd\x08\xa3key\xa1k\xa2id\xd9\x2000000000000000000000000000000001"),
            frame(b"\xc1"),
            b"\xff\xff\xff\xff".to_vec(),
        ]
        .concat();
        for flags in 0..8 {
            for lens in [[0; 4], [1, 2, 3, 4], [255; 4], [6, 0, 20, 1]] {
                exercise(&[&[flags], &lens[..], &session].concat());
            }
        }
    }
}
