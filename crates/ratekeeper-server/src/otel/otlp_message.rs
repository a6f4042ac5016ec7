//! Spans as protocol buffers: what of `opentelemetry/proto/trace/v1/trace.proto` a server needs.

use prost::{Message, Oneof};

/// `ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportedTraces {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_spans: Vec<ResourceSpans>,
}

/// The spans of one service.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<OtlpResource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_spans: Vec<ScopeSpans>,
}

/// The service that has made spans.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpResource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<OtlpAttribute>,
}

/// The spans of one library.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<OtlpScope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<OtlpSpan>,
}

/// The library that has made spans.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpScope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

/// One span.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpSpan {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(super) name: String,
    #[prost(int32, tag = "6")]
    pub(super) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub(super) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<OtlpAttribute>,
    #[prost(message, optional, tag = "15")]
    pub(super) status: Option<OtlpStatus>,
}

/// `SPAN_KIND_SERVER`.
pub(super) const KIND_SERVER: i32 = 2;

/// How a span has ended.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpStatus {
    #[prost(int32, tag = "3")]
    pub(super) code: i32,
}

/// `STATUS_CODE_ERROR`.
pub(super) const STATUS_ERROR: i32 = 2;

/// A name and a value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpAttribute {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<OtlpValue>,
}

/// A value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpValue {
    #[prost(oneof = "AnyOtlpValue", tags = "1, 2, 3")]
    pub(super) value: Option<AnyOtlpValue>,
}

/// A value of one of these kinds.
#[derive(Clone, PartialEq, Oneof)]
pub(super) enum AnyOtlpValue {
    /// Text.
    #[prost(string, tag = "1")]
    Text(String),
    /// True or false.
    #[prost(bool, tag = "2")]
    Bool(bool),
    /// A whole number.
    #[prost(int64, tag = "3")]
    Number(i64),
}

impl OtlpAttribute {
    /// Returns an attribute.
    pub(super) fn new(key: &str, value: AnyOtlpValue) -> Self {
        OtlpAttribute { key: key.to_owned(), value: Some(OtlpValue { value: Some(value) }) }
    }

    /// Returns an attribute that is text.
    pub(super) fn text(key: &str, text: &str) -> Self {
        Self::new(key, AnyOtlpValue::Text(text.to_owned()))
    }
}
