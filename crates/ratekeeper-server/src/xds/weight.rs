//! How many parts a message has, counted over its bytes: some take two bytes on the wire and hundreds in memory, so that they
//! are counted before they are decoded.

use crate::transport::grpc::next_field;

/// The most descriptors, replaced rules and values of metadata in a push, and the most resources.
pub(super) const MOST_PARTS: usize = 200_000;

/// A message whose parts are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weighed {
    /// `DiscoveryResponse`: its resources, not what is in them.
    Push,
    /// `RateLimitConfig`.
    Domain,
    /// `RateLimitDescriptor`.
    Descriptor,
    /// `RateLimitPolicy`.
    Limit,
    /// `google.protobuf.Struct`.
    Struct,
    /// An entry of one.
    Entry,
    /// `google.protobuf.Value`.
    Value,
    /// `google.protobuf.ListValue`.
    List,
    /// Has no parts.
    Leaf,
}

impl Weighed {
    /// Returns what the field of this number holds, and whether there may be many of it; none if it is not of interest.
    fn field(self, tag: u32) -> Option<(Weighed, bool)> {
        Some(match (self, tag) {
            (Weighed::Push, 2) | (Weighed::Limit, 5) => (Weighed::Leaf, true),
            (Weighed::Domain, 3) | (Weighed::Descriptor, 4) => (Weighed::Descriptor, true),
            (Weighed::Descriptor, 3) => (Weighed::Limit, false),
            (Weighed::Descriptor, 8) | (Weighed::Value, 5) => (Weighed::Struct, false),
            (Weighed::Struct, 1) => (Weighed::Entry, true),
            (Weighed::Entry, 2) => (Weighed::Value, false),
            (Weighed::Value, 6) => (Weighed::List, false),
            (Weighed::List, 1) => (Weighed::Value, true),
            _ => return None,
        })
    }
}

/// Returns how many parts a message has, or none if they are more than `most`. What cannot be read is not counted: decoding
/// finds it, and stops there too.
pub(super) fn parts(message: &[u8], kind: Weighed, most: usize) -> Option<usize> {
    let mut count = 0;
    // Not a recursion: how deep it goes is for whoever sent it to say.
    let mut messages = vec![(message, kind)];
    while let Some((mut rest, kind)) = messages.pop() {
        while let Some((tag, inner)) = next_field(&mut rest) {
            let Some(inner) = inner else { continue };
            if let Some((field, is_repeated)) = kind.field(tag) {
                count += usize::from(is_repeated);
                if field != Weighed::Leaf && !inner.is_empty() {
                    messages.push((inner, field));
                }
                // Others may be repeated on the wire as well: what is to be looked at is bounded, too.
                if count > most || messages.len() > MOST_PARTS {
                    return None;
                }
            }
        }
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_types::value::Kind;
    use prost_types::{ListValue, Struct, Value};

    use super::*;
    use crate::transport::grpc::generated::ratelimit_config_ratelimit_v3::{
        RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitReplace,
    };

    #[test]
    fn everything_that_there_may_be_many_of_is_counted() {
        let value = |kind: Kind| Value { kind: Some(kind) };
        let list = value(Kind::ListValue(ListValue { values: vec![Value::default(); 5] }));
        let inner = value(Kind::StructValue(Struct { fields: [("b".to_owned(), list)].into() }));
        let descriptor = RateLimitDescriptor {
            rate_limit: Some(RateLimitPolicy {
                replaces: vec![RateLimitReplace::default(); 3],
                ..RateLimitPolicy::default()
            }),
            descriptors: vec![RateLimitDescriptor::default(); 2],
            metadata: Some(Struct { fields: [("a".to_owned(), inner)].into() }),
            ..RateLimitDescriptor::default()
        };
        let config = RateLimitConfig {
            name: "n".to_owned(),
            descriptors: vec![descriptor.clone(), descriptor],
            ..RateLimitConfig::default()
        };
        // Two descriptors, each with two more, three names, an entry in an entry, and five values.
        let bytes = config.encode_to_vec();
        assert_eq!(parts(&bytes, Weighed::Domain, 26), Some(26));
        assert_eq!(parts(&bytes, Weighed::Domain, 25), None);
    }

    /// Fields that the decoder passes over hide nothing; where it stops, this does.
    #[test]
    fn what_is_unknown_is_passed_over_and_what_is_broken_ends_it() {
        // A varint, a group and text of unknown numbers, then an empty descriptor, then one that is cut.
        let bytes = b"\x78\x01\x7b\x78\x01\x7c\x7a\x01x\x1a\x00\x1a\x05";
        assert_eq!(parts(bytes, Weighed::Domain, 10), Some(1));
        assert_eq!(parts(b"", Weighed::Domain, 10), Some(0));
    }

    /// The last of them would count, and all would have to be looked at.
    #[test]
    fn what_there_is_one_of_cannot_be_many() {
        assert_eq!(parts(&b"\x1a\x02\x10\x00".repeat(MOST_PARTS), Weighed::Descriptor, 10), Some(0));
        assert_eq!(parts(&b"\x1a\x02\x10\x00".repeat(MOST_PARTS + 1), Weighed::Descriptor, 10), None);
    }

    #[test]
    fn depth_costs_no_stack() {
        let mut bytes = Vec::new();
        for _ in 0..2_000 {
            let mut outer = vec![0x22];
            prost::encoding::encode_varint(bytes.len() as u64, &mut outer);
            outer.extend_from_slice(&bytes);
            bytes = outer;
        }
        assert_eq!(parts(&bytes, Weighed::Descriptor, 10_000), Some(2_000));
    }
}
