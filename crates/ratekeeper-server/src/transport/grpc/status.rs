//! What went wrong, as gRPC tells it: a number, and a text in printable characters.

use http::{HeaderMap, HeaderName, HeaderValue};
use ratekeeper::keeper::KeeperError;
use ratekeeper::{StoreError, StoreErrorKind};

use crate::limits::{QuotaRefusal, RefusalCode};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The codes that are used here, by their numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// Why a call was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    code: Code,
    message: String,
}

impl Status {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Status { code, message: message.into() }
    }

    /// A mistake of the client; the message names the field.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// The trailers that tell of it.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        headers.insert(GRPC_STATUS, HeaderValue::from(self.code as u16));
        // Whatever is not printable is written in digits, so it is a value.
        if let Ok(message) = HeaderValue::try_from(printable(&self.message)) {
            headers.insert(GRPC_MESSAGE, message);
        }
    }
}

/// The trailers of a call that was answered.
pub(super) fn ok() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
    trailers
}

/// `%` and everything that is not printable ASCII as `%` and two digits, byte by byte.
fn printable(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b'%' | ..=0x1f | 0x7f.. => {
                out.push('%');
                for digit in [byte >> 4, byte & 0xf] {
                    out.extend(char::from_digit(digit.into(), 16).map(|digit| digit.to_ascii_uppercase()));
                }
            }
            _ => out.push(char::from(byte)),
        }
    }
    out
}

impl From<QuotaRefusal> for Status {
    fn from(refusal: QuotaRefusal) -> Self {
        match refusal.code() {
            RefusalCode::PlansOnly => Self::new(Code::PermissionDenied, refusal.to_string()),
            _ => Self::invalid(refusal.to_string()),
        }
    }
}

impl From<StoreError> for Status {
    fn from(error: StoreError) -> Self {
        // What no store can do was asked for by mistake.
        if error.kind() == StoreErrorKind::Unsupported {
            return Self::invalid(format!("quota: {error}"));
        }
        Self::new(Code::Unavailable, format!("store: {error}"))
    }
}

impl From<KeeperError> for Status {
    fn from(error: KeeperError) -> Self {
        match error {
            KeeperError::UnknownPlan { .. } => Self::new(Code::NotFound, error.to_string()),
            KeeperError::Store(error) => error.into(),
            other => Self::invalid(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_say_whose_fault_they_are() {
        let of = |kind| Status::from(KeeperError::Store(StoreError::new(kind, "gone"))).code;
        for kind in [StoreErrorKind::Timeout, StoreErrorKind::Unreachable, StoreErrorKind::BreakerOpen] {
            assert_eq!(of(kind), Code::Unavailable);
        }
        assert_eq!(of(StoreErrorKind::Unsupported), Code::InvalidArgument);
        let unknown = KeeperError::UnknownPlan { name: "gold".to_owned() };
        assert_eq!(Status::from(unknown).code, Code::NotFound);
        assert_eq!(Status::from(KeeperError::NoPlan).code, Code::InvalidArgument);
    }

    #[test]
    fn messages_are_printable() {
        assert_eq!(printable("plan `a b`: 100%\r\né"), "plan `a b`: 100%25%0D%0A%C3%A9");
        let mut headers = HeaderMap::new();
        Status::new(Code::Unauthenticated, "no\0").write(&mut headers);
        assert_eq!(
            (&headers["grpc-status"], &headers["grpc-message"]),
            (&HeaderValue::from_static("16"), &HeaderValue::from_static("no%00"),)
        );
    }
}
