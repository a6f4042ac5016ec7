//! What Envoy asks, read from its message.

use prost::Message;

use super::message;
use super::status::GrpcStatus;
use super::wire_field::next_field;
use crate::rls::{RlsDescriptor, RlsEntry, RlsError, RlsOverride, RlsRequest};

/// Bytes from which on a message is counted through before it is decoded: a few of it can stand for many descriptors, each of
/// which takes memory.
const LONG: usize = 8 * 1024;

/// A request as it lies in a message, with its texts as bytes: Envoy sends fields of requests on as they came, and a proxy
/// lets those pass that it gets an error for. So one byte that is no UTF-8 must not make an error of a request.
#[derive(Clone, PartialEq, Message)]
struct RequestBytes {
    #[prost(bytes = "vec", tag = "1")]
    domain: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<DescriptorBytes>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
struct DescriptorBytes {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<EntryBytes>,
    #[prost(message, optional, tag = "2")]
    limit: Option<OverrideBytes>,
    #[prost(message, optional, tag = "3")]
    hits_addend: Option<u64>,
    #[prost(bool, tag = "4")]
    is_negative_hits: bool,
}

#[derive(Clone, PartialEq, Message)]
struct EntryBytes {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct OverrideBytes {
    #[prost(uint32, tag = "1")]
    requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    unit: i32,
}

/// Reads a request, or refuses it unread. What is no UTF-8 is read as U+FFFD, so that values which differ in that alone share
/// a counter.
pub(super) fn read(message: &[u8]) -> Result<Result<RlsRequest, RlsError>, GrpcStatus> {
    if message.len() > LONG
        && let Err(error) = check_counts(message)
    {
        return Ok(Err(error));
    }
    let RequestBytes { domain, descriptors, hits_addend } = message::decode(message)?;
    let descriptors = descriptors.into_iter().map(descriptor).collect();
    Ok(Ok(RlsRequest { domain: text(domain), descriptors, hits_addend }))
}

fn descriptor(descriptor: DescriptorBytes) -> RlsDescriptor {
    let DescriptorBytes { entries, limit, hits_addend, is_negative_hits } = descriptor;
    let entry = |EntryBytes { key, value }| RlsEntry { key: text(key), value: text(value) };
    RlsDescriptor {
        entries: entries.into_iter().map(entry).collect(),
        limit: limit
            .map(|limit| RlsOverride { requests_per_unit: limit.requests_per_unit, unit: limit.unit }),
        hits_addend,
        is_negative: is_negative_hits,
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Refuses a message with more descriptors or entries than a request may have, before there is memory for them. Whoever
/// decodes it tells what else is wrong.
fn check_counts(message: &[u8]) -> Result<(), RlsError> {
    /// The number of the field that has the descriptors, and of the one that has their entries.
    const DESCRIPTORS: u32 = 2;
    const ENTRIES: u32 = 1;
    let mut sent = 0;
    for descriptor in fields(message, DESCRIPTORS) {
        let entries = fields(descriptor, ENTRIES).count();
        if entries > RlsDescriptor::MAX_ENTRIES {
            return Err(RlsError::TooManyEntries { descriptor: sent, sent: entries });
        }
        sent += 1;
    }
    if sent > RlsRequest::MAX_DESCRIPTORS { Err(RlsError::TooManyDescriptors { sent }) } else { Ok(()) }
}

/// Returns what is in the fields of this number.
fn fields(mut message: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || next_field(&mut message))
        .filter_map(move |(tag, inner)| inner.filter(|_| tag == number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::generated::envoy_extensions_common_ratelimit_v3::RateLimitDescriptor;
    use super::super::generated::envoy_extensions_common_ratelimit_v3::rate_limit_descriptor::{
        Entry, RateLimitOverride,
    };
    use super::super::generated::envoy_service_ratelimit_v3::RateLimitRequest;
    use super::*;

    fn entry(key: &str, value: &str) -> Entry {
        Entry { key: key.to_owned(), value: value.to_owned() }
    }

    fn read_from(message: &RateLimitRequest) -> Result<RlsRequest, String> {
        let read = read(&message.encode_to_vec()).and_then(|read| Ok(read?));
        read.map_err(|status| format!("{status:?}"))
    }

    #[test]
    fn a_request_is_read_as_it_was_sent() {
        let sent = RateLimitRequest {
            domain: "edge".to_owned(),
            descriptors: vec![
                RateLimitDescriptor {
                    entries: vec![entry("user", "bob"), entry("path", "")],
                    limit: Some(RateLimitOverride { requests_per_unit: 5, unit: 7 }),
                    hits_addend: Some(0),
                    is_negative_hits: true,
                },
                RateLimitDescriptor::default(),
            ],
            hits_addend: 3,
        };
        let entry = |key: &str, value: &str| RlsEntry { key: key.to_owned(), value: value.to_owned() };
        let expected = RlsRequest {
            domain: "edge".to_owned(),
            descriptors: vec![
                RlsDescriptor {
                    entries: vec![entry("user", "bob"), entry("path", "")],
                    limit: Some(RlsOverride { requests_per_unit: 5, unit: 7 }),
                    hits_addend: Some(0),
                    is_negative: true,
                },
                RlsDescriptor::default(),
            ],
            hits_addend: 3,
        };
        assert_eq!(read_from(&sent).unwrap(), expected);
        let mut long = sent;
        long.descriptors[0].entries[1].value = "x".repeat(2 * LONG);
        assert_eq!(read_from(&long).unwrap().descriptors[0].entries[1].value.len(), 2 * LONG);
    }

    /// A megabyte of empty descriptors would be forty of memory.
    #[test]
    fn too_many_are_refused_before_they_are_decoded() {
        let empty = RateLimitDescriptor::default();
        let many = |descriptors| RateLimitRequest {
            domain: "x".repeat(LONG),
            descriptors: vec![empty.clone(); descriptors],
            hits_addend: 0,
        };
        assert_eq!(read_from(&many(256)).unwrap().descriptors.len(), 256);
        let refused = read_from(&many(500_000)).unwrap_err();
        assert!(refused.contains("InvalidArgument") && refused.contains("descriptors: 500000;"), "{refused}");
        let mut deep = many(2);
        deep.descriptors[1].entries = vec![entry("", ""); 65];
        let refused = read_from(&deep).unwrap_err();
        assert!(refused.contains("descriptors[1].entries: 65;"), "{refused}");
    }

    /// Whoever asks could put such a byte into a header field, and would not be limited.
    #[test]
    fn bytes_that_are_no_text_are_no_error() {
        let entry = |value: &[u8]| EntryBytes { key: b"user".to_vec(), value: value.to_vec() };
        let entries = vec![entry(b"bob\xff"), entry(b"bob\xfe"), entry("b\u{f6}b".as_bytes())];
        let descriptors = vec![DescriptorBytes { entries, ..DescriptorBytes::default() }];
        let sent = RequestBytes { domain: b"\xc3".to_vec(), descriptors, hits_addend: 0 };
        let read = read(&sent.encode_to_vec()).unwrap().unwrap();
        let values: Vec<&str> = read.descriptors[0].entries.iter().map(|entry| &*entry.value).collect();
        assert_eq!((&*read.domain, values), ("\u{fffd}", vec!["bob\u{fffd}", "bob\u{fffd}", "b\u{f6}b"]));
    }

    proptest! {
        #![proptest_config(test_support::cases::config(2_000))]

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), long: bool) {
            let mut bytes = bytes;
            if long {
                // An unknown field before them, so that they are counted through as well.
                let mut filler = Vec::new();
                prost::encoding::bytes::encode(9, &vec![0_u8; LONG], &mut filler);
                bytes = [filler, bytes].concat();
            }
            let _ = read(&bytes);
        }

        /// Bytes that begin as a request does go further into it.
        #[test]
        fn a_broken_request_is_an_error_and_no_more(cut in 0_usize..60, at in 0_usize..60, byte: u8) {
            let whole = RateLimitRequest {
                domain: "edge".to_owned(),
                descriptors: vec![RateLimitDescriptor {
                    entries: vec![entry("user", "bob"); 2],
                    limit: Some(RateLimitOverride { requests_per_unit: 5, unit: 2 }),
                    hits_addend: Some(7),
                    is_negative_hits: true,
                }],
                hits_addend: 3,
            };
            let mut bytes = whole.encode_to_vec();
            let end = bytes.len();
            bytes[at % end] = byte;
            bytes.truncate(end - cut % end);
            let _ = read(&bytes);
            let _ = check_counts(&bytes);
        }
    }
}
