//! `envoy.service.ratelimit.v3.RateLimitService`: what Envoy asks.

use std::sync::Arc;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

use super::call_head::CallHead;
use super::context::GrpcTransport;
use super::generated::envoy_config_core_v3::HeaderValue;
use super::generated::envoy_service_ratelimit_v3::RateLimitResponse;
use super::generated::envoy_service_ratelimit_v3::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use super::message::RequestMessages;
use super::rls_request;
use super::status::{GrpcCode, GrpcStatus};
use crate::rls::{self, LimitUnit, RateLimitService, RlsAnswer, RlsCode, RlsError, RlsErrorKind};

/// The name of the service.
pub(super) const RLS: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// Answers `ShouldRateLimit`.
pub(super) async fn should_rate_limit(
    grpc: &GrpcTransport,
    head: &CallHead,
    messages: &mut RequestMessages,
) -> Result<RateLimitResponse, GrpcStatus> {
    let asked = messages.only_read(|message| Ok((service(grpc)?, rls_request::read(message)?))).await?;
    let (service, request) = asked;
    let request = request.inspect_err(|_| grpc.responder.refused_unread(service))?;
    let answer = grpc.responder.should_rate_limit(service, &request, head.expected_timeout).await?;
    Ok(response(answer))
}

fn service(grpc: &GrpcTransport) -> Result<&RateLimitService, GrpcStatus> {
    let message = "this server has no rate limits for Envoy: start it with --rls PATH";
    let missing = || GrpcStatus::new(GrpcCode::Unimplemented, message);
    grpc.responder.engine().rls().map(Arc::as_ref).ok_or_else(missing)
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
    use serde_json::json;

    use super::*;

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
}
