//! `throttle` in MessagePack: four bytes of length, then a positional array.

use super::super::measurement::LoadAnswer;
use super::super::work::ThrottleNumbers;
use super::reply::WireReply;

/// Bytes before a body: its length.
const PREFIX: usize = 4;
/// The longest reply, in bytes.
const MAX_REPLY: usize = 1 << 10;

/// Returns what stands before and after the key of a request.
pub(super) fn around_key(ThrottleNumbers { burst, count, period }: ThrottleNumbers) -> (Vec<u8>, Vec<u8>) {
    let mut after_key = Vec::new();
    for number in [burst, count, period] {
        after_key.push(0xd2);
        after_key.extend_from_slice(&number.to_be_bytes());
    }
    after_key.push(1);
    // An array of six, the command, and a string of 20 bytes.
    let body = [0x96, 0x01, 0xb4];
    let length = u32::try_from(body.len() + 20 + after_key.len()).unwrap_or(0);
    ([&length.to_be_bytes()[..], &body].concat(), after_key)
}

/// Reads a reply: `ok, allowed, …`, or `not ok, …, message`.
#[inline]
pub(super) fn decode(input: &[u8]) -> WireReply {
    let Some((prefix, rest)) = input.split_first_chunk::<PREFIX>() else {
        // A length of less than 2^24 begins with a zero, and text does not.
        return if input.first().is_some_and(|first| *first != 0) {
            WireReply::Foreign
        } else {
            WireReply::Partial
        };
    };
    let length = u32::from_be_bytes(*prefix) as usize;
    if length > MAX_REPLY {
        return WireReply::Foreign;
    }
    let Some(body) = rest.get(..length) else { return WireReply::Partial };
    let len = PREFIX + length;
    match body {
        [0x96, 0xc3, 1, ..] => WireReply::Whole(len, LoadAnswer::Allowed),
        [0x96, 0xc3, 0, ..] => WireReply::Whole(len, LoadAnswer::Denied),
        [0x97, 0xc2, _, _, _, _, _, message @ ..] => {
            let text = match message {
                [0xd9, _, text @ ..] | [0xa0..=0xbf, text @ ..] => text,
                other => other,
            };
            WireReply::error(len, text)
        }
        _ => WireReply::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies() {
        let whole = [&7u32.to_be_bytes()[..], &[0x96, 0xc3, 1, 5, 4, 0, 6]].concat();
        assert_eq!(decode(&whole), WireReply::Whole(11, LoadAnswer::Allowed));
        for cut in 0..whole.len() {
            assert_eq!(decode(&whole[..cut]), WireReply::Partial, "{cut}");
        }
        assert_eq!(
            decode(b"\x00\x00\x00\x0a\x97\xc2\x00\x00\x00\x00\x00\xa2no"),
            WireReply::Error(14, "no".to_owned())
        );
        for foreign in [&b"-ERR"[..], b"HTTP", b"H", b"\0\0\0\x01\x01"] {
            assert_eq!(decode(foreign), WireReply::Foreign, "{}", foreign.escape_ascii());
        }
    }
}
