//! What went wrong, as gRPC says it: a number, and a text in printable characters.

use ratekeeper::keeper::KeeperError;

use super::http2::FieldBlock;
use crate::request::{RequestError, RequestField};
use crate::secret::NotAdmin;

/// The codes that are used here, by their numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrpcCode {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// Why a call was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GrpcStatus {
    code: GrpcCode,
    message: String,
}

impl GrpcStatus {
    pub(super) fn new(code: GrpcCode, message: impl Into<String>) -> Self {
        GrpcStatus { code, message: message.into() }
    }

    /// Returns the status of a mistake of the client; the message names the field.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(GrpcCode::InvalidArgument, message)
    }

    /// Returns the status of a mistake of this server: an answer of another kind than the request.
    #[cold]
    pub(super) fn internal() -> Self {
        Self::new(GrpcCode::Internal, "the answer does not fit the request")
    }

    /// Returns the number of its code.
    pub(super) fn number(&self) -> i32 {
        self.code as i32
    }

    /// Returns true if the server is to blame, and not who has called.
    pub(super) fn is_our_fault(&self) -> bool {
        matches!(
            self.code,
            GrpcCode::DeadlineExceeded | GrpcCode::Unimplemented | GrpcCode::Internal | GrpcCode::Unavailable
        )
    }

    /// Returns what it says.
    #[cfg(any(test, fuzzing))]
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Writes the trailers.
    pub(super) fn write(&self, fields: &mut FieldBlock) {
        fields.add("grpc-status", itoa::Buffer::new().format(self.code as u16));
        fields.add("grpc-message", &printable(&self.message));
    }
}

/// Returns the message with `%` and everything that is not printable ASCII as `%` and two digits, byte by byte.
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

impl From<RequestError> for GrpcStatus {
    fn from(error: RequestError) -> Self {
        let code = match &error {
            RequestError::PlansOnly => GrpcCode::PermissionDenied,
            RequestError::NotAdmin(_, NotAdmin::Unknown) => GrpcCode::Unauthenticated,
            RequestError::NotAdmin(_, NotAdmin::Remote | NotAdmin::Forbidden) => GrpcCode::PermissionDenied,
            RequestError::CannotForget(_) | RequestError::Unsupported(_) => GrpcCode::Unimplemented,
            RequestError::Keeper(KeeperError::UnknownPlan { .. }) => GrpcCode::NotFound,
            // A store that cannot decide by a quota was asked by mistake, and then the error has a field.
            RequestError::Keeper(KeeperError::Store(_)) if error.field().is_none() => GrpcCode::Unavailable,
            _ => GrpcCode::InvalidArgument,
        };
        Self::new(code, error.spelled(name))
    }
}

/// Returns what a field is called on this wire.
fn name(field: RequestField) -> &'static str {
    match field {
        RequestField::Plan => "plans",
        RequestField::Lease => "lease",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use ratekeeper::{StoreError, StoreErrorKind};

    use super::*;

    #[test]
    fn failures_say_whose_fault_they_are() {
        let status = |error: KeeperError| GrpcStatus::from(RequestError::from(error));
        let of = |kind| status(KeeperError::Store(StoreError::new(kind, "gone"))).code;
        for kind in [StoreErrorKind::Timeout, StoreErrorKind::Unreachable, StoreErrorKind::BreakerOpen] {
            assert_eq!(of(kind), GrpcCode::Unavailable);
        }
        assert_eq!(of(StoreErrorKind::Unsupported), GrpcCode::InvalidArgument);
        assert_eq!(status(KeeperError::UnknownPlan { name: "gold".to_owned() }).code, GrpcCode::NotFound);
        assert_eq!(status(KeeperError::NoPlan).code, GrpcCode::InvalidArgument);
        let missing = GrpcStatus::from(RequestError::Missing(RequestField::Plan));
        assert!(missing.message.starts_with("plans: missing; "), "{}", missing.message);
    }

    #[test]
    fn messages_are_printable() {
        assert_eq!(printable("plan `a b`: 100%\r\né"), "plan `a b`: 100%25%0D%0A%C3%A9");
        let mut fields = FieldBlock::default();
        GrpcStatus::new(GrpcCode::Unauthenticated, "no\0").write(&mut fields);
        assert_eq!(fields.bytes(), b"\0\x0bgrpc-status\x0216\0\x0cgrpc-message\x05no%00");
    }
}
