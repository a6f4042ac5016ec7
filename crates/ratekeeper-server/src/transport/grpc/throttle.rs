//! `throttlecrab.RateLimiter/Throttle`: a quota with every request.

use std::time::Instant;

use ratekeeper::port::Request;
use ratekeeper::{Cost, Decision, Key, Rules};

use super::Grpc;
use super::generated::throttlecrab::{ThrottleRequest, ThrottleResponse};
use super::status::Status;

pub(super) async fn answer(grpc: &Grpc, ask: ThrottleRequest) -> Result<ThrottleResponse, Status> {
    let began = Instant::now();
    let key = Key::new(&ask.key).map_err(|error| Status::invalid(error.to_string()))?;
    let limits = grpc.engine.limits();
    let quota = limits.throttle(ask.max_burst.into(), ask.count_per_period.into(), ask.period.into())?;
    let quantity = ask.quantity.unwrap_or(1);
    let cost = u64::try_from(quantity)
        .map_err(|_| Status::invalid(format!("quantity: {quantity}; must be at least 0")))?;
    let request = Request { key, rules: Rules::Quota(&quota), cost: Cost::new(cost) };
    let decision = grpc.engine.acquire(request).await?;
    grpc.meter.took(key, &decision, began.elapsed());
    Ok(response(&decision))
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
