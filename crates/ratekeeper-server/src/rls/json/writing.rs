//! An answer as JSON: what is unset, or 0, is left out.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::rls::answer::{CurrentLimit, DescriptorStatus, RlsAnswer};
use crate::rls::unit::LimitUnit;

/// Returns an answer as JSON.
pub fn write_json(answer: &RlsAnswer) -> Vec<u8> {
    let body = AnswerBody {
        overall_code: answer.overall.name(),
        statuses: answer.statuses.iter().map(StatusBody::of).collect(),
        response_headers_to_add: answer.response_headers.iter().map(HeaderBody::of).collect(),
        raw_body: base64(&answer.body),
        dynamic_metadata: answer.metadata.as_ref(),
    };
    // Nothing in it can fail to be JSON.
    serde_json::to_vec(&body).unwrap_or_default()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AnswerBody<'a> {
    overall_code: &'static str,
    statuses: Vec<StatusBody<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    response_headers_to_add: Vec<HeaderBody<'a>>,
    #[serde(skip_serializing_if = "String::is_empty")]
    raw_body: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    dynamic_metadata: Option<&'a Map<String, Value>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusBody<'a> {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_limit: Option<LimitBody<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    limit_remaining: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_until_reset: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LimitBody<'a> {
    #[serde(skip_serializing_if = "is_zero")]
    requests_per_unit: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Serialize)]
struct HeaderBody<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    key: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    value: &'a str,
}

impl<'a> StatusBody<'a> {
    fn of(status: &'a DescriptorStatus) -> Self {
        StatusBody {
            code: status.code.name(),
            current_limit: status.current_limit.as_ref().map(LimitBody::of),
            limit_remaining: status.limit_remaining,
            duration_until_reset: status.until_reset.map(|seconds| format!("{seconds}s")),
        }
    }
}

impl<'a> LimitBody<'a> {
    fn of(CurrentLimit { requests_per_unit, unit, name }: &'a CurrentLimit) -> Self {
        LimitBody { requests_per_unit: *requests_per_unit, unit: unit.map(LimitUnit::name), name }
    }
}

impl<'a> HeaderBody<'a> {
    fn of((key, value): &'a (String, String)) -> Self {
        HeaderBody { key, value }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Returns bytes as JSON has them: in the standard alphabet, padded.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit <= chunk.len() { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rls::answer::RlsCode;

    fn written(answer: &RlsAnswer) -> Value {
        serde_json::from_slice(&write_json(answer)).unwrap()
    }

    fn status(code: RlsCode) -> DescriptorStatus {
        DescriptorStatus { code, current_limit: None, limit_remaining: 0, until_reset: None }
    }

    #[test]
    fn what_is_unset_is_left_out() {
        let limit = |requests_per_unit, unit, name: &str| {
            Some(CurrentLimit { requests_per_unit, unit, name: name.to_owned() })
        };
        let minute = Some(LimitUnit::Minute);
        let mut answer = RlsAnswer {
            overall: RlsCode::OverLimit,
            statuses: vec![
                DescriptorStatus {
                    current_limit: limit(1, minute, ""),
                    until_reset: Some(58),
                    ..status(RlsCode::OverLimit)
                },
                DescriptorStatus {
                    current_limit: limit(0, None, "ban"),
                    until_reset: Some(0),
                    ..status(RlsCode::Ok)
                },
                DescriptorStatus { limit_remaining: u32::MAX, ..status(RlsCode::Ok) },
                status(RlsCode::Ok),
            ],
            response_headers: Vec::new(),
            body: Vec::new(),
            metadata: None,
        };
        let mut expected = json!({
            "overallCode": "OVER_LIMIT",
            "statuses": [
                {"code": "OVER_LIMIT", "currentLimit": {"requestsPerUnit": 1, "unit": "MINUTE"}, "durationUntilReset": "58s"},
                {"code": "OK", "currentLimit": {"name": "ban"}, "durationUntilReset": "0s"},
                {"code": "OK", "limitRemaining": u32::MAX},
                {"code": "OK"},
            ],
        });
        assert_eq!(written(&answer), expected);
        answer.response_headers = vec![("retry-after".to_owned(), "58".to_owned())];
        answer.body = b"{\"a\":1}".to_vec();
        answer.metadata = json!({"domain": "edge"}).as_object().cloned();
        expected["responseHeadersToAdd"] = json!([{"key": "retry-after", "value": "58"}]);
        expected["rawBody"] = json!("eyJhIjoxfQ==");
        expected["dynamicMetadata"] = json!({"domain": "edge"});
        assert_eq!(written(&answer), expected);
    }

    #[test]
    fn bytes_are_padded() {
        for (bytes, expected) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"\xff\xfe\xfd\0", "//79AA=="),
        ] {
            assert_eq!(base64(bytes), expected);
        }
    }
}
