//! `throttlecrab.RateLimiter/Throttle`: a quota with every request.

use ratekeeper::{Decision, Key};

use super::context::GrpcTransport;
use super::generated::throttlecrab::{ThrottleRequest, ThrottleResponse};
use super::plans::ruling;
use super::status::GrpcStatus;
use crate::request::{RequestError, ThrottleDialect, ThrottleFields};
use crate::secret::UNASKED;

/// Answers a throttle.
pub(super) async fn answer(
    grpc: &GrpcTransport,
    body: ThrottleRequest,
) -> Result<ThrottleResponse, GrpcStatus> {
    let key = Key::new(&body.key).map_err(RequestError::from)?;
    // The wire cannot say that one of these is left out: 0 is refused.
    let fields = ThrottleFields {
        max_burst: Some(body.max_burst.into()),
        count_per_period: Some(body.count_per_period.into()),
        period: Some(body.period.into()),
        quantity: body.quantity.map(i64::from),
    };
    let throttle = fields.check(ThrottleDialect::Throttle, grpc.responder.limits())?;
    let ruling = ruling(grpc.responder.answer(&throttle.request(key, UNASKED)?).await?)?;
    Ok(response(&ruling))
}

fn response(decision: &Decision) -> ThrottleResponse {
    let saturated = |value: u64| i32::try_from(value).unwrap_or(i32::MAX);
    ThrottleResponse {
        allowed: decision.allowed,
        limit: saturated(decision.limit),
        remaining: saturated(decision.remaining),
        retry_after: decision.retry_after.map_or(-1, |wait| saturated(wait.ceil_secs())),
        reset_after: saturated(decision.reset_after.ceil_secs()),
    }
}

#[cfg(test)]
mod tests {
    use ratekeeper::Nanos;

    use super::*;

    #[test]
    fn what_does_not_fit_saturates() {
        let huge = response(&Decision::deny(u64::MAX, u64::MAX, Some(Nanos::MAX), Nanos::MAX));
        assert_eq!((huge.limit, huge.remaining), (i32::MAX, i32::MAX));
        assert_eq!((huge.retry_after, huge.reset_after), (i32::MAX, i32::MAX));
        let never = response(&Decision::deny(5, 5, None, Nanos::ZERO));
        assert_eq!((never.allowed, never.retry_after, never.reset_after), (false, -1, 0));
    }
}
