//! The frames of throttles that repeat.

use std::ops::Range;

use super::frame::short_bulk;
use crate::stream::{ThrottleFraming, ThrottleWire};

/// An array of bulk strings: nothing but the key tells how long it is. Keys of up to 99 bytes are recognised.
#[derive(Debug)]
pub(super) struct RespFraming;

impl ThrottleFraming for RespFraming {
    const WIRE: ThrottleWire = ThrottleWire::Resp;
    const PREFIX: usize = 0;

    #[inline]
    fn is_prefix_of(_: &[u8], _: usize) -> bool {
        true
    }

    #[inline]
    fn locate_key(bytes: &[u8]) -> Option<Range<usize>> {
        short_bulk(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::command::{self, CommandSpec, RespCommand};
    use super::super::frame::{CommandParser, FrameStep, LINE_END};
    use super::super::throttle;
    use super::*;
    use crate::request::{CheckedThrottle, RequestLimits, ThrottleDialect};
    use crate::stream::{Mutation, ParsedThrottle, PendingThrottle, is_found_out, recognised};

    /// Every number has a default, so that leaving one out is no error, and must be told apart.
    const LIMITS: RequestLimits =
        RequestLimits { burst: Some(7), rate: Some(8), period: Some(9), ..RequestLimits::NONE };

    fn parse(bytes: &[u8], base: usize) -> Option<ParsedThrottle> {
        let mut parser = CommandParser::default();
        let FrameStep::Command(len) = parser.step(bytes) else { return None };
        let args = parser.args();
        let words: Vec<&[u8]> = (0..args.len()).map(|index| &bytes[args.range(index, 0)]).collect();
        let dialect = match words.first().and_then(|name| command::find(name)).map(CommandSpec::command)? {
            RespCommand::Throttle => ThrottleDialect::Throttle,
            RespCommand::ClThrottle => ThrottleDialect::RedisCell,
            _ => return None,
        };
        let Ok(CheckedThrottle { quota, cost, is_refund: false }) =
            throttle::read(dialect, &words[1..], &LIMITS)
        else {
            return None;
        };
        let says_all = args.len() >= 5 && bytes.starts_with(b"*");
        Some(ParsedThrottle {
            throttle: PendingThrottle { key: args.range(1, base), quota, cost, dialect },
            len,
            head: says_all.then(|| args.range(0, 0).end + LINE_END.len()),
        })
    }

    fn encode(words: &[&[u8]]) -> Vec<u8> {
        let mut out = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            out.extend_from_slice(word);
            out.extend_from_slice(LINE_END);
        }
        out
    }

    /// The name, and what follows the key.
    fn around() -> impl Strategy<Value = (String, Vec<String>)> {
        let name = prop_oneof![Just("THROTTLE"), Just("throttle"), Just("CL.THROTTLE")];
        // Mostly what can be remembered.
        let number = prop_oneof![20 => "[1-9][0-9]{0,2}", 1 => "-1|0"];
        let count = prop_oneof![1 => Just(2usize), 8 => 3..=4usize];
        (name.prop_map(str::to_owned), count.prop_flat_map(move |count| vec(number.clone(), count)))
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            3 => vec(any::<u8>(), 0..20),
            1 => Just(b"\r\n$1\r\n2\r\n".to_vec()),
            1 => Just(vec![b'k'; 50]),
        ];
        vec(piece, 0..3).prop_map(|pieces| pieces.concat())
    }

    fn request((name, numbers): &(String, Vec<String>), key: &[u8]) -> Vec<u8> {
        let numbers = numbers.iter().map(String::as_bytes);
        encode(&[name.as_bytes(), key].into_iter().chain(numbers).collect::<Vec<_>>())
    }

    /// A throttle, and what may follow it: another like it, whole and with mistakes, or something else.
    fn pairs() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let parts = (around(), key(), key(), around(), Mutation::any(), any::<bool>());
        parts.prop_map(|(around, first, second, other, mutation, is_like)| {
            let second = request(&around, &second);
            let following =
                if is_like { [mutation.of(&second), second].concat() } else { request(&other, b"key") };
            (request(&around, &first), following)
        })
    }

    proptest! {
        #![proptest_config(test_support::cases::config(4_096))]

        /// Whatever follows a throttle, what is recognised is what the parser reads.
        #[test]
        fn what_is_recognised_is_what_is_read((first, following) in pairs()) {
            recognised::<RespFraming>(&first, &following, parse);
        }
    }

    proptest! {
        #![proptest_config(test_support::cases::config(2_000))]

        #[test]
        fn another_key_is_recognised(
            keys in vec(vec(any::<u8>(), 1..=99), 2..5),
        ) {
            let like = |key: &Vec<u8>| encode(&[b"THROTTLE", key, b"1", b"2", b"3"]);
            let following: Vec<u8> = keys[1..].iter().flat_map(like).collect();
            let count = recognised::<RespFraming>(&like(&keys[0]), &following, parse);
            prop_assert_eq!(count, keys.len() - 1);
        }
    }

    /// Wrong in one thing: does not look at the `$`.
    struct Careless;

    impl ThrottleFraming for Careless {
        const WIRE: ThrottleWire = ThrottleWire::Resp;
        const PREFIX: usize = 0;

        fn is_prefix_of(_: &[u8], _: usize) -> bool {
            true
        }

        fn locate_key(bytes: &[u8]) -> Option<Range<usize>> {
            RespFraming::locate_key(&[b"$", bytes.get(1..)?].concat())
        }
    }

    #[test]
    fn a_careless_framing_is_found_out() {
        assert!(is_found_out::<Careless>(pairs(), parse));
    }
}
