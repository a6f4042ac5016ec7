//! `envoy.service.ratelimit.v3.RateLimitService`: what Envoy asks.

use std::sync::Arc;

use bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

use super::call_head::CallHead;
use super::context::GrpcTransport;
use super::generated::envoy_config_core_v3::HeaderValue;
use super::generated::envoy_extensions_common_ratelimit_v3::RateLimitDescriptor;
use super::generated::envoy_service_ratelimit_v3::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use super::generated::envoy_service_ratelimit_v3::{RateLimitRequest, RateLimitResponse};
use super::message::{self, RequestMessages};
use super::status::{GrpcCode, GrpcStatus};
use crate::rls::{
    self, LimitUnit, RateLimitService, RlsAnswer, RlsCode, RlsDescriptor, RlsEntry, RlsError, RlsErrorKind,
    RlsOverride, RlsRequest,
};

/// The name of the service.
pub(super) const RLS: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// Bytes from which on a message is counted through before it is decoded: a few of it can stand for many descriptors, each of
/// which takes memory.
const LONG: usize = 8 * 1024;

/// Answers `ShouldRateLimit`.
pub(super) async fn should_rate_limit(
    grpc: &GrpcTransport,
    head: &CallHead,
    messages: &mut RequestMessages,
) -> Result<RateLimitResponse, GrpcStatus> {
    let asked = messages.only_read(|message| Ok((service(grpc)?, read(message)?))).await?;
    let (service, request) = asked;
    let answer = grpc.responder.should_rate_limit(service, &request, head.expected_timeout).await?;
    Ok(response(answer))
}

fn service(grpc: &GrpcTransport) -> Result<&RateLimitService, GrpcStatus> {
    let message = "this server has no rate limits for Envoy: start it with --rls PATH";
    let missing = || GrpcStatus::new(GrpcCode::Unimplemented, message);
    grpc.responder.engine().rls().map(Arc::as_ref).ok_or_else(missing)
}

/// Reads a request.
fn read(message: &[u8]) -> Result<RlsRequest, GrpcStatus> {
    if message.len() > LONG {
        check_counts(message).map_err(|error| GrpcStatus::invalid(error.to_string()))??;
    }
    let RateLimitRequest { domain, descriptors, hits_addend } = message::decode(message)?;
    let descriptors = descriptors.into_iter().map(descriptor).collect();
    Ok(RlsRequest { domain, descriptors, hits_addend })
}

fn descriptor(descriptor: RateLimitDescriptor) -> RlsDescriptor {
    let RateLimitDescriptor { entries, limit, hits_addend, is_negative_hits } = descriptor;
    RlsDescriptor {
        entries: entries.into_iter().map(|entry| RlsEntry { key: entry.key, value: entry.value }).collect(),
        limit: limit
            .map(|limit| RlsOverride { requests_per_unit: limit.requests_per_unit, unit: limit.unit }),
        hits_addend,
        is_negative: is_negative_hits,
    }
}

/// Refuses a message with more descriptors or entries than a request may have, before there is memory for them.
fn check_counts(message: &[u8]) -> Result<Result<(), RlsError>, prost::DecodeError> {
    /// The number of the field that has the descriptors, and of the one that has their entries.
    const DESCRIPTORS: u32 = 2;
    const ENTRIES: u32 = 1;
    let (mut rest, mut descriptors) = (message, 0);
    while let Some(descriptor) = next_field(&mut rest, DESCRIPTORS)? {
        let (mut rest, mut entries) = (descriptor, 0);
        while next_field(&mut rest, ENTRIES)?.is_some() {
            entries += 1;
        }
        if entries > RlsDescriptor::MAX_ENTRIES {
            return Ok(Err(RlsError::TooManyEntries { descriptor: descriptors, sent: entries }));
        }
        descriptors += 1;
    }
    let is_too_many = descriptors > RlsRequest::MAX_DESCRIPTORS;
    Ok(if is_too_many { Err(RlsError::TooManyDescriptors { sent: descriptors }) } else { Ok(()) })
}

/// Skips to the next field of this number that has a length, and returns what is in it.
fn next_field<'a>(rest: &mut &'a [u8], number: u32) -> Result<Option<&'a [u8]>, prost::DecodeError> {
    while rest.has_remaining() {
        let (tag, kind) = decode_key(rest)?;
        if tag != number || kind != WireType::LengthDelimited {
            skip_field(kind, tag, rest, DecodeContext::default())?;
            continue;
        }
        let length = decode_varint(rest)?;
        return match usize::try_from(length) {
            Ok(length) if length <= rest.len() => Ok(rest.split_off(..length)),
            // Whoever decodes it tells what is wrong.
            _ => Ok(None),
        };
    }
    Ok(None)
}

/// Returns an answer as a message.
fn response(answer: RlsAnswer) -> RateLimitResponse {
    let header = |(key, value)| HeaderValue { key, value, raw_value: Vec::new() };
    RateLimitResponse {
        overall_code: code(answer.overall),
        statuses: answer.statuses.into_iter().map(status).collect(),
        response_headers_to_add: answer.response_headers.into_iter().map(header).collect(),
        request_headers_to_add: Vec::new(),
        raw_body: answer.body,
        dynamic_metadata: answer.metadata.map(struct_of),
        quota: None,
    }
}

fn status(status: rls::DescriptorStatus) -> DescriptorStatus {
    DescriptorStatus {
        code: code(status.code),
        current_limit: status.current_limit.map(|limit| RateLimit {
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit.map_or(0, LimitUnit::number),
            name: limit.name,
        }),
        limit_remaining: status.limit_remaining,
        duration_until_reset: status.until_reset.map(|seconds| prost_types::Duration {
            seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
            nanos: 0,
        }),
        quota: None,
    }
}

fn code(code: RlsCode) -> i32 {
    match code {
        RlsCode::Ok => Code::Ok.into(),
        RlsCode::OverLimit => Code::OverLimit.into(),
    }
}

fn struct_of(map: serde_json::Map<String, serde_json::Value>) -> Struct {
    Struct { fields: map.into_iter().map(|(key, value)| (key, value_of(value))).collect() }
}

fn value_of(value: serde_json::Value) -> Value {
    let kind = match value {
        serde_json::Value::Null => Kind::NullValue(0),
        serde_json::Value::Bool(value) => Kind::BoolValue(value),
        serde_json::Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => Kind::StringValue(text),
        serde_json::Value::Array(values) => {
            Kind::ListValue(ListValue { values: values.into_iter().map(value_of).collect() })
        }
        serde_json::Value::Object(map) => Kind::StructValue(struct_of(map)),
    };
    Value { kind: Some(kind) }
}

impl From<RlsError> for GrpcStatus {
    #[cold]
    fn from(error: RlsError) -> Self {
        let code = match error.kind() {
            RlsErrorKind::Request => GrpcCode::InvalidArgument,
            RlsErrorKind::Configuration => GrpcCode::FailedPrecondition,
            RlsErrorKind::Store => GrpcCode::Unavailable,
        };
        Self::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;
    use serde_json::json;

    use super::super::generated::envoy_extensions_common_ratelimit_v3::rate_limit_descriptor::{
        Entry, RateLimitOverride,
    };
    use super::*;

    fn entry(key: &str, value: &str) -> Entry {
        Entry { key: key.to_owned(), value: value.to_owned() }
    }

    fn read_from(message: &RateLimitRequest) -> Result<RlsRequest, String> {
        read(&message.encode_to_vec()).map_err(|status| format!("{status:?}"))
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

    #[test]
    fn an_answer_is_written_as_it_was_meant() {
        let limit =
            rls::CurrentLimit { requests_per_unit: 5, unit: Some(LimitUnit::Week), name: "n".to_owned() };
        let answer = RlsAnswer {
            overall: RlsCode::OverLimit,
            statuses: vec![rls::DescriptorStatus {
                code: RlsCode::Ok,
                current_limit: Some(limit),
                limit_remaining: 4,
                until_reset: Some(58),
            }],
            response_headers: vec![("a".to_owned(), "b".to_owned())],
            body: b"{}".to_vec(),
            metadata: json!({"a": [1, "x", null, true, {"b": 0.5}]}).as_object().cloned(),
        };
        let told = response(answer);
        assert_eq!((told.overall_code, told.raw_body), (2, b"{}".to_vec()));
        let status = &told.statuses[0];
        assert_eq!((status.code, status.limit_remaining), (1, 4));
        let limit = status.current_limit.as_ref().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit, &*limit.name), (5, 7, "n"));
        assert_eq!(status.duration_until_reset.unwrap().seconds, 58);
        assert_eq!(
            (&*told.response_headers_to_add[0].key, &*told.response_headers_to_add[0].value),
            ("a", "b")
        );
        let metadata = format!("{:?}", told.dynamic_metadata.unwrap());
        for part in
            ["NumberValue(1.0)", "StringValue(\"x\")", "NullValue", "BoolValue(true)", "NumberValue(0.5)"]
        {
            assert!(metadata.contains(part), "{part}: {metadata}");
        }
    }

    #[test]
    fn errors_say_whose_fault_they_are() {
        let status = |error| format!("{:?}", GrpcStatus::from(error));
        assert!(status(RlsError::EmptyDomain).contains("InvalidArgument"));
        assert!(status(RlsError::NotLoaded).contains("FailedPrecondition"));
        let store = ratekeeper::StoreError::new(ratekeeper::StoreErrorKind::Timeout, "gone");
        assert!(
            status(RlsError::Keeper(ratekeeper::keeper::KeeperError::Store(store))).contains("Unavailable")
        );
    }

    proptest! {
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
