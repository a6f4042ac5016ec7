//! The frames of throttles that repeat.

use std::ops::Range;

use super::answer::PREFIX;
use crate::stream::{ThrottleFraming, ThrottleWire};

/// A length of four bytes, then the body, in which the key is a string or bytes. Keys of up to 255 bytes are recognised.
#[derive(Debug)]
pub(super) struct MsgPackFraming;

impl ThrottleFraming for MsgPackFraming {
    const WIRE: ThrottleWire = ThrottleWire::MsgPack;
    const PREFIX: usize = PREFIX;

    #[inline]
    fn is_prefix_of(prefix: &[u8], len: usize) -> bool {
        prefix.first_chunk().is_some_and(|prefix| u32::from_be_bytes(*prefix) as usize + PREFIX == len)
    }

    #[inline]
    fn locate_key(bytes: &[u8]) -> Option<Range<usize>> {
        match bytes {
            [marker @ 0xa0..=0xbf, ..] => Some(1..1 + usize::from(marker & 0x1f)),
            [0xc4 | 0xd9, len, ..] => Some(2..2 + usize::from(*len)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::body::PackBody;
    use super::*;
    use crate::request::{RequestLimits, ThrottleDialect};
    use crate::stream::{Mutation, ParsedThrottle, PendingThrottle, is_found_out, recognised};

    /// Every number has a default, so that leaving one out is no error, and must be told apart.
    const LIMITS: RequestLimits =
        RequestLimits { burst: Some(7), rate: Some(8), period: Some(9), ..RequestLimits::NONE };

    fn parse(bytes: &[u8], base: usize) -> Option<ParsedThrottle> {
        let (prefix, rest) = bytes.split_first_chunk::<PREFIX>()?;
        let body = rest.get(..u32::from_be_bytes(*prefix) as usize)?;
        let Ok(PackBody::Throttle { key, quota, cost, repeats }) = PackBody::read(body, &LIMITS) else {
            return None;
        };
        let base = base + PREFIX;
        let key = base + key.start..base + key.end;
        Some(ParsedThrottle {
            throttle: PendingThrottle { key, quota, cost, dialect: ThrottleDialect::Throttle },
            len: PREFIX + body.len(),
            head: repeats.map(|head| PREFIX + head),
        })
    }

    fn framed(body: &[u8]) -> Vec<u8> {
        [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], body].concat()
    }

    /// A string or bytes, with a length in as many bytes as wanted, or in more where that is too few; or what only looks
    /// like one: an array.
    fn packed(key: &[u8], form: u8) -> Vec<u8> {
        let len = u16::try_from(key.len()).unwrap();
        let [high, low] = len.to_be_bytes();
        let marker = match (form, len) {
            (0, 0..=31) => vec![0xa0 | low],
            (0 | 1, 0..=255) => vec![0xd9, low],
            (2, 0..=255) => vec![0xc4, low],
            (3, _) => vec![0xc5, high, low],
            (4, 0..=15) => vec![0x90 | low],
            _ => vec![0xda, high, low],
        };
        [&marker, key].concat()
    }

    /// What stands before and after the key in a body.
    fn around() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let number = prop_oneof![
            4 => (1..100u8).prop_map(|small| vec![small]),
            2 => (1..1000i32).prop_map(|number| [&[0xd2][..], &number.to_be_bytes()].concat()),
            1 => Just(vec![0xc0]),
            1 => Just(vec![0xcc, 200]),
        ];
        let numbers = prop::collection::vec(number, 4);
        let array = (numbers.clone(), 0..=4usize).prop_map(|(numbers, given)| {
            let head = vec![0x90 | u8::try_from(2 + given).unwrap(), 1];
            (head, numbers[..given].concat())
        });
        // The key comes first, last, or twice; something unknown is somewhere.
        let map = (numbers, 0..4usize, any::<bool>()).prop_map(|(numbers, place, twice)| {
            let names = [&b"\xa5burst"[..], b"\xa4rate", b"\xa6period", b"\xa8quantity"];
            let pairs: Vec<Vec<u8>> =
                names.iter().zip(&numbers).map(|(name, number)| [name, &number[..]].concat()).collect();
            let again = if twice { &b"\xa3key\xa3key"[..] } else { b"\xa3etc\x92\xa3key\xa1x" };
            let head = [b"\x87\xa3cmd\x01", again, &pairs[..place].concat(), b"\xa3key"].concat();
            (head, pairs[place..].concat())
        });
        prop_oneof![array, map]
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        let some = prop::collection::vec(any::<u8>(), 0..40);
        let long = (30..300usize).prop_map(|len| vec![b'k'; len]);
        (prop_oneof![3 => some, 1 => long], 0..6u8).prop_map(|(key, form)| packed(&key, form))
    }

    /// A throttle, and what may follow it: another like it, whole and with mistakes, or something else.
    fn pairs() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let parts = (around(), key(), key(), around(), Mutation::any(), any::<bool>());
        parts.prop_map(|((head, tail), first, second, other, mutation, is_like)| {
            let like = |key: &[u8]| framed(&[&head[..], key, &tail].concat());
            let second = like(&second);
            let other = framed(&[&other.0[..], &packed(b"key", 0), &other.1].concat());
            let following = if is_like { [mutation.of(&second), second].concat() } else { other };
            (like(&first), following)
        })
    }

    proptest! {
        #![proptest_config(test_support::cases::config(4_096))]

        /// Whatever follows a throttle, what is recognised is what the parser reads.
        #[test]
        fn what_is_recognised_is_what_is_read((first, following) in pairs()) {
            recognised::<MsgPackFraming>(&first, &following, parse);
        }
    }

    proptest! {
        #![proptest_config(test_support::cases::config(2_000))]

        /// What says everything and differs in its key alone is recognised, however the key is written.
        #[test]
        fn another_key_is_recognised(
            keys in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..=255), 0..3u8), 2..5),
            named in any::<bool>(),
        ) {
            let (head, tail) = match named {
                true => (&b"\x85\xa3cmd\x01\xa3key"[..], &b"\xa5burst\x01\xa4rate\x02\xa6period\x03"[..]),
                false => (&b"\x95\x01"[..], &b"\x01\x02\x03"[..]),
            };
            let like = |(key, form): &(Vec<u8>, u8)| framed(&[head, &packed(key, *form), tail].concat());
            let following: Vec<u8> = keys[1..].iter().flat_map(like).collect();
            let count = recognised::<MsgPackFraming>(&like(&keys[0]), &following, parse);
            prop_assert_eq!(count, keys.len() - 1);
        }
    }

    #[test]
    fn what_is_left_to_the_configuration_is_not_remembered() {
        let twice = |body: &[u8]| recognised::<MsgPackFraming>(&framed(body), &framed(body), parse);
        assert_eq!(twice(b"\x95\x01\xa1k\x01\x02\x03"), 1);
        assert_eq!(twice(b"\x96\x01\xa1k\x01\x02\x03\xc0"), 1, "the quantity is 1 everywhere");
        for body in [&b"\x95\x01\xa1k\x01\x02\xc0"[..], b"\x94\x01\xa1k\x01\x02", b"\x92\x01\xa1k"] {
            assert_eq!(twice(body), 0, "{}", body.escape_ascii());
        }
    }

    /// Wrong in one thing: does not look at the length before the body, or takes an array for the key.
    struct Careless<const TAKES_ARRAYS: bool>;

    impl<const TAKES_ARRAYS: bool> ThrottleFraming for Careless<TAKES_ARRAYS> {
        const WIRE: ThrottleWire = ThrottleWire::MsgPack;
        const PREFIX: usize = PREFIX;

        fn is_prefix_of(prefix: &[u8], len: usize) -> bool {
            !TAKES_ARRAYS || MsgPackFraming::is_prefix_of(prefix, len)
        }

        fn locate_key(bytes: &[u8]) -> Option<Range<usize>> {
            match bytes {
                [marker @ 0x90..=0x9f, ..] if TAKES_ARRAYS => Some(1..1 + usize::from(marker & 0x0f)),
                _ => MsgPackFraming::locate_key(bytes),
            }
        }
    }

    #[test]
    fn a_careless_framing_is_found_out() {
        assert!(is_found_out::<Careless<false>>(pairs(), parse));
        assert!(is_found_out::<Careless<true>>(pairs(), parse));
    }
}
