//! What the fields of a request say, as far as gRPC is concerned.
//!
//! Clients repeat their fields with every call, and HPACK has them refer to a table instead. What a field means is found
//! out once, when it enters that table ([`FieldMeaning`]); a call is then a few numbers that are looked up.

use std::time::Duration;

use http::HeaderValue;

use super::method::GrpcMethod;
use crate::net::FORWARDING_FIELDS;
use crate::trace_parent::TraceParent;

/// What one field means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldMeaning {
    /// `:method`; a call is a POST.
    Method {
        is_post: bool,
    },
    Scheme,
    /// `:path`, and the method that it is.
    Path(Option<GrpcMethod>),
    Authority,
    /// `content-type`; others than protocol buffers exist, and would be taken for broken messages.
    ContentType {
        is_grpc: bool,
    },
    /// `content-length`.
    ContentLength(u64),
    Authorization,
    /// `x-envoy-expected-rq-timeout-ms`.
    ExpectedTimeout {
        millis: u64,
    },
    /// `traceparent`.
    TraceParent,
    /// A proxy has passed the call on: whoever called is somewhere else.
    Forwarded,
    /// Nothing of interest.
    Other,
    /// No request has this field, or not with this value.
    Malformed,
}

impl FieldMeaning {
    /// Returns what a field means.
    pub(super) fn of(name: &[u8], value: &[u8]) -> Self {
        if !value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~' | 0x80..)) {
            return FieldMeaning::Malformed;
        }
        match name {
            b":method" => FieldMeaning::Method { is_post: value == b"POST" },
            b":scheme" => FieldMeaning::Scheme,
            b":path" if value.is_empty() => FieldMeaning::Malformed,
            b":path" => {
                let path = value.split(|byte| *byte == b'?').next().unwrap_or_default();
                FieldMeaning::Path(std::str::from_utf8(path).ok().and_then(GrpcMethod::find))
            }
            b":authority" => FieldMeaning::Authority,
            b"content-type" => FieldMeaning::ContentType { is_grpc: is_grpc(value) },
            b"content-length" => {
                let number = std::str::from_utf8(value).ok().filter(|text| !text.starts_with('+'));
                let number = number.and_then(|text| text.parse().ok());
                number.map_or(FieldMeaning::Malformed, FieldMeaning::ContentLength)
            }
            b"authorization" => FieldMeaning::Authorization,
            b"x-envoy-expected-rq-timeout-ms" => {
                let millis = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
                millis.map_or(FieldMeaning::Other, |millis| FieldMeaning::ExpectedTimeout { millis })
            }
            b"traceparent" => FieldMeaning::TraceParent,
            name if FORWARDING_FIELDS.iter().any(|field| field.as_bytes() == name) => FieldMeaning::Forwarded,
            b"te" if value != b"trailers" => FieldMeaning::Malformed,
            // They are about a connection of HTTP/1.
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
                FieldMeaning::Malformed
            }
            _ if name.is_empty() || !name.iter().all(|byte| is_name(*byte)) => FieldMeaning::Malformed,
            _ => FieldMeaning::Other,
        }
    }
}

/// Returns true for what a name is made of: letters are small, and a colon is not among them.
fn is_name(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

fn is_grpc(value: &[u8]) -> bool {
    let essence = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is_ours = |name: &[u8]| essence.eq_ignore_ascii_case(name);
    is_ours(b"application/grpc") || is_ours(b"application/grpc+proto")
}

/// The fields of one request.
#[derive(Debug, Default)]
pub(super) struct CallHead {
    /// The method that is called, if it is known.
    pub(super) method: Option<GrpcMethod>,
    pub(super) authorization: Option<HeaderValue>,
    pub(super) content_length: Option<u64>,
    /// How long Envoy waits for the answer, if it says so.
    pub(super) expected_timeout: Option<Duration>,
    /// The trace that the call belongs to, if it says so.
    pub(super) trace_parent: Option<TraceParent>,
    /// Whether a proxy has passed it on.
    pub(super) is_forwarded: bool,
    is_post: bool,
    is_grpc: Option<bool>,
    is_malformed: bool,
    /// Bits of the pseudo-fields that were there, and whether other fields were.
    seen: u8,
}

const METHOD: u8 = 1;
const SCHEME: u8 = 2;
const PATH: u8 = 4;
const AUTHORITY: u8 = 8;
const REGULAR: u8 = 16;
const NEEDED: u8 = METHOD | SCHEME | PATH;

impl CallHead {
    /// Takes one more field.
    #[inline]
    pub(super) fn add(&mut self, meaning: FieldMeaning, value: &[u8]) {
        match meaning {
            FieldMeaning::Method { is_post } => {
                self.pseudo(METHOD);
                self.is_post = is_post;
            }
            FieldMeaning::Scheme => self.pseudo(SCHEME),
            FieldMeaning::Path(method) => {
                self.pseudo(PATH);
                self.method = method;
            }
            FieldMeaning::Authority => self.pseudo(AUTHORITY),
            FieldMeaning::ContentType { is_grpc } => {
                self.seen |= REGULAR;
                self.is_grpc.get_or_insert(is_grpc);
            }
            FieldMeaning::ContentLength(len) => {
                self.seen |= REGULAR;
                self.is_malformed |= self.content_length.is_some_and(|other| other != len);
                self.content_length = Some(len);
            }
            FieldMeaning::Authorization => {
                self.seen |= REGULAR;
                if self.authorization.is_none() {
                    self.authorization = HeaderValue::from_bytes(value).ok();
                }
            }
            FieldMeaning::ExpectedTimeout { millis } => {
                self.seen |= REGULAR;
                self.expected_timeout.get_or_insert(Duration::from_millis(millis));
            }
            FieldMeaning::TraceParent => {
                self.seen |= REGULAR;
                self.trace_parent = self.trace_parent.or_else(|| TraceParent::parse(value));
            }
            FieldMeaning::Forwarded => {
                self.seen |= REGULAR;
                self.is_forwarded = true;
            }
            FieldMeaning::Other => self.seen |= REGULAR,
            FieldMeaning::Malformed => self.is_malformed = true,
        }
    }

    /// Pseudo-fields come once, and before all others.
    #[inline]
    fn pseudo(&mut self, bit: u8) {
        self.is_malformed |= self.seen & (bit | REGULAR) != 0;
        self.seen |= bit;
    }

    /// Returns true for fields that no request has, or that lack some which every request has.
    pub(super) fn is_malformed(&self) -> bool {
        self.is_malformed || self.seen & NEEDED != NEEDED
    }

    /// Returns true for fields that cannot come after the body.
    pub(super) fn is_no_trailer(&self) -> bool {
        self.is_malformed || self.seen & !REGULAR != 0
    }

    /// Returns true for a call of gRPC with protocol buffers.
    pub(super) fn is_grpc(&self) -> bool {
        self.is_post && self.is_grpc == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)]) -> CallHead {
        let mut head = CallHead::default();
        for (name, value) in fields {
            head.add(FieldMeaning::of(name.as_bytes(), value.as_bytes()), value.as_bytes());
        }
        head
    }

    const CALL: [(&str, &str); 4] = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/throttlecrab.RateLimiter/Throttle?x"),
        ("content-type", "Application/gRPC; charset=utf-8"),
    ];

    #[test]
    fn a_call_is_recognised() {
        let call = head(&CALL);
        assert!(!call.is_malformed() && call.is_grpc());
        assert_eq!(call.method, Some(GrpcMethod::Throttle));
        assert!(!head(&[&CALL[..], &[("te", "trailers"), ("x-y.z_1", "ü")]].concat()).is_malformed());
        let token = head(&[&CALL[..], &[("authorization", "Bearer a"), ("authorization", "b")]].concat());
        assert_eq!(token.authorization, Some(HeaderValue::from_static("Bearer a")));
        for (name, value) in [("content-type", "text/html"), (":method", "GET")] {
            let other = CALL.map(|field| if field.0 == name { (name, value) } else { field });
            assert!(!head(&other).is_malformed() && !head(&other).is_grpc(), "{name}");
        }
    }

    #[test]
    fn the_callers_patience_is_read() {
        let told = |value| {
            let call = head(&[&CALL[..], &[("x-envoy-expected-rq-timeout-ms", value)]].concat());
            assert!(!call.is_malformed() && call.is_grpc(), "{value}");
            call.expected_timeout
        };
        assert_eq!(told("250"), Some(Duration::from_millis(250)));
        assert_eq!([told(""), told("-1"), told("soon"), head(&CALL).expected_timeout], [None; 4]);
    }

    #[test]
    fn the_callers_trace_is_read() {
        let field = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let told = |value| head(&[&CALL[..], &[("traceparent", value)]].concat()).trace_parent;
        assert_eq!(told(field), TraceParent::parse(field.as_bytes()));
        assert!(told(field).is_some() && told("").is_none() && head(&CALL).trace_parent.is_none());
    }

    #[test]
    fn a_proxy_is_seen() {
        assert!(!head(&CALL).is_forwarded);
        for name in FORWARDING_FIELDS {
            assert!(head(&[&CALL[..], &[(name, "x")]].concat()).is_forwarded, "{name}");
        }
    }

    #[test]
    fn what_no_request_has() {
        for missing in 0..3 {
            let rest: Vec<_> = CALL.into_iter().enumerate().filter(|(nth, _)| *nth != missing).collect();
            assert!(head(&rest.into_iter().map(|(_, field)| field).collect::<Vec<_>>()).is_malformed());
        }
        for extra in [
            (":method", "POST"),
            (":authority", "after others"),
            (":status", "200"),
            ("connection", "close"),
            ("te", "gzip"),
            ("Upper", "x"),
            ("", "x"),
            ("a b", "x"),
            ("x", "a\nb"),
            ("content-length", "-1"),
            ("content-length", "+1"),
        ] {
            assert!(head(&[&CALL[..], &[extra]].concat()).is_malformed(), "{extra:?}");
        }
        assert!(
            head(&[&CALL[..], &[("content-length", "1"), ("content-length", "2")]].concat()).is_malformed()
        );
        let path = [(":method", "POST"), (":scheme", "http"), (":path", "")];
        assert!(head(&path).is_malformed());
    }

    #[test]
    fn trailers_have_no_pseudo_fields() {
        assert!(!head(&[("x", "y")]).is_no_trailer());
        assert!(head(&[("x", "y"), (":path", "/")]).is_no_trailer());
        assert!(head(&[("X", "y")]).is_no_trailer());
    }
}
