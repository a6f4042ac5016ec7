//! The methods that can be called, by their paths.

use super::bounds::{MAX_MESSAGE, MAX_RLS_MESSAGE};
use crate::request::PlanVerb;

/// A method that can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrpcMethod {
    Throttle,
    /// `Acquire` or `Peek`.
    Plans(PlanVerb),
    Refund,
    Debit,
    Hold,
    Settle,
    Cancel,
    Extend,
    Reset,
    Forget,
    ShouldRateLimit,
    Check,
    Watch,
    Reflection,
}

impl GrpcMethod {
    pub(super) fn find(path: &str) -> Option<Self> {
        Some(match path {
            "/throttlecrab.RateLimiter/Throttle" => GrpcMethod::Throttle,
            "/ratekeeper.v1.RateLimiter/Acquire" => GrpcMethod::Plans(PlanVerb::Acquire),
            "/ratekeeper.v1.RateLimiter/Peek" => GrpcMethod::Plans(PlanVerb::Peek),
            "/ratekeeper.v1.RateLimiter/Refund" => GrpcMethod::Refund,
            "/ratekeeper.v1.RateLimiter/Debit" => GrpcMethod::Debit,
            "/ratekeeper.v1.RateLimiter/Hold" => GrpcMethod::Hold,
            "/ratekeeper.v1.RateLimiter/Settle" => GrpcMethod::Settle,
            "/ratekeeper.v1.RateLimiter/Cancel" => GrpcMethod::Cancel,
            "/ratekeeper.v1.RateLimiter/Extend" => GrpcMethod::Extend,
            "/ratekeeper.v1.RateLimiter/Reset" => GrpcMethod::Reset,
            "/ratekeeper.v1.RateLimiter/Forget" => GrpcMethod::Forget,
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => GrpcMethod::ShouldRateLimit,
            "/grpc.health.v1.Health/Check" => GrpcMethod::Check,
            "/grpc.health.v1.Health/Watch" => GrpcMethod::Watch,
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => GrpcMethod::Reflection,
            _ => return None,
        })
    }

    /// Returns service and method of what is traced; health and reflection are not.
    pub(super) fn traced_name(self) -> Option<(&'static str, &'static str)> {
        const OWN: &str = "ratekeeper.v1.RateLimiter";
        Some(match self {
            GrpcMethod::Throttle => ("throttlecrab.RateLimiter", "Throttle"),
            GrpcMethod::Plans(PlanVerb::Acquire) => (OWN, "Acquire"),
            GrpcMethod::Plans(_) => (OWN, "Peek"),
            GrpcMethod::Refund => (OWN, "Refund"),
            GrpcMethod::Debit => (OWN, "Debit"),
            GrpcMethod::Hold => (OWN, "Hold"),
            GrpcMethod::Settle => (OWN, "Settle"),
            GrpcMethod::Cancel => (OWN, "Cancel"),
            GrpcMethod::Extend => (OWN, "Extend"),
            GrpcMethod::Reset => (OWN, "Reset"),
            GrpcMethod::Forget => (OWN, "Forget"),
            GrpcMethod::ShouldRateLimit => ("envoy.service.ratelimit.v3.RateLimitService", "ShouldRateLimit"),
            GrpcMethod::Check | GrpcMethod::Watch | GrpcMethod::Reflection => return None,
        })
    }

    /// Returns true for methods without a token: health is asked by machines that have none.
    pub(super) fn is_open(self) -> bool {
        matches!(self, GrpcMethod::Check | GrpcMethod::Watch)
    }

    /// Returns true for methods that only an administrator may call.
    pub(super) fn is_for_admins(self) -> bool {
        matches!(self, GrpcMethod::Refund | GrpcMethod::Debit | GrpcMethod::Reset | GrpcMethod::Forget)
    }

    /// Returns true for methods with an answer of several messages.
    pub(super) fn is_streaming(self) -> bool {
        matches!(self, GrpcMethod::Watch | GrpcMethod::Reflection)
    }

    /// Returns the most bytes of a message.
    pub(super) fn max_message(self) -> usize {
        match self {
            GrpcMethod::ShouldRateLimit => MAX_RLS_MESSAGE,
            _ => MAX_MESSAGE,
        }
    }
}
