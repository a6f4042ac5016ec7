//! `ratekeeper.v1.RateLimiter`: requests by the names of plans, or with a quota in words.

use prost_types::Duration;
use ratekeeper::{Nanos, Ruling};

use super::context::GrpcTransport;
use super::generated::ratekeeper_v1::{
    AcquireRequest, Decision, ForgetRequest, ForgetResponse, RefundRequest, ResetRequest, ResetResponse,
};
use super::status::GrpcStatus;
use crate::request::{ForgetFields, PlanFields, PlanVerb};
use crate::responder::WireAnswer;
use crate::secret::Role;

/// Answers `Acquire` and `Peek`, which are the same on the wire.
pub(super) async fn acquire(
    grpc: &GrpcTransport,
    verb: PlanVerb,
    body: AcquireRequest,
) -> Result<Decision, GrpcStatus> {
    let AcquireRequest { key, plans, quota, cost } = body;
    let answer = answer(grpc, verb, &key, &plans, &quota, cost, None).await?;
    Ok(decision(&ruling(answer)?))
}

/// Answers `Refund`.
pub(super) async fn refund(grpc: &GrpcTransport, body: RefundRequest) -> Result<Decision, GrpcStatus> {
    let RefundRequest { key, plans, quota, cost, charged_ago } = body;
    let age = charged_ago.map(age).transpose()?;
    let answer = answer(grpc, PlanVerb::Refund, &key, &plans, &quota, cost, age).await?;
    Ok(decision(&ruling(answer)?))
}

/// Answers `Reset`.
pub(super) async fn reset(grpc: &GrpcTransport, body: ResetRequest) -> Result<ResetResponse, GrpcStatus> {
    let ResetRequest { key, plans, quota } = body;
    let answer = answer(grpc, PlanVerb::Reset, &key, &plans, &quota, None, None).await?;
    Ok(ResetResponse { forgotten: forgotten(answer)? })
}

/// Answers `Forget`.
pub(super) async fn forget(
    grpc: &GrpcTransport,
    role: Option<Role>,
    body: ForgetRequest,
) -> Result<ForgetResponse, GrpcStatus> {
    let admin = grpc.responder.admin(role)?;
    // The wire cannot tell an empty prefix from none.
    let prefix = Some(body.prefix.as_slice()).filter(|prefix| !prefix.is_empty());
    let request = ForgetFields { prefix, all: body.all }.check(admin)?;
    Ok(ForgetResponse { forgotten: forgotten(grpc.responder.answer(&request).await?)? })
}

async fn answer(
    grpc: &GrpcTransport,
    verb: PlanVerb,
    key: &str,
    plans: &[String],
    quota: &str,
    cost: Option<u64>,
    charged_ago: Option<Nanos>,
) -> Result<WireAnswer, GrpcStatus> {
    let names: Vec<&str> = plans.iter().map(String::as_str).collect();
    let quota = (!quota.is_empty()).then_some(quota);
    let fields = PlanFields { key: key.as_bytes(), plans: &names, quota, cost, charged_ago };
    Ok(grpc.responder.answer(&fields.check(verb, grpc.responder.limits())?).await?)
}

/// Returns the ruling of an answer that must be one.
pub(super) fn ruling(answer: WireAnswer) -> Result<Ruling, GrpcStatus> {
    match answer {
        WireAnswer::Ruling(ruling) => Ok(ruling),
        WireAnswer::Forgotten(_) => Err(GrpcStatus::internal()),
    }
}

fn forgotten(answer: WireAnswer) -> Result<u64, GrpcStatus> {
    match answer {
        WireAnswer::Forgotten(forgotten) => Ok(forgotten),
        WireAnswer::Ruling(_) => Err(GrpcStatus::internal()),
    }
}

fn decision(ruling: &Ruling) -> Decision {
    Decision {
        allowed: ruling.allowed,
        limit: ruling.limit,
        remaining: ruling.remaining,
        retry_after: ruling.retry_after.map(duration),
        reset_after: Some(duration(ruling.reset_after)),
        plan: ruling.plan().map(|plan| plan.name().as_str().to_owned()).unwrap_or_default(),
        rule: ruling.rule().map(|rule| rule.name().as_str().to_owned()).unwrap_or_default(),
        reason: ruling.reason.as_str().to_owned(),
    }
}

/// Returns how long ago something was charged. A duration of the wire may be negative, or not a duration at all.
fn age(Duration { seconds, nanos }: Duration) -> Result<Nanos, GrpcStatus> {
    let (secs, subsec) = (u64::try_from(seconds), u64::try_from(nanos));
    match (secs, subsec) {
        (Ok(secs), Ok(subsec @ 0..=999_999_999)) => {
            Ok(Nanos::from_secs(secs).saturating_add(Nanos::from_nanos(subsec)))
        }
        _ => {
            let problem =
                format!("charged_ago: {seconds} s and {nanos} ns; must be a duration of at least 0");
            Err(GrpcStatus::invalid(problem))
        }
    }
}

/// Returns the exact duration: nanoseconds in 64 bits are far from the largest that the wire has.
fn duration(nanos: Nanos) -> Duration {
    let exact = nanos.as_duration();
    Duration {
        seconds: i64::try_from(exact.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(exact.subsec_nanos()).unwrap_or(i32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_a_duration_that_is_not_negative() {
        let charged = |seconds, nanos| age(Duration { seconds, nanos }).ok();
        assert_eq!(charged(0, 0), Some(Nanos::ZERO));
        assert_eq!(charged(1, 5), Some(Nanos::from_nanos(1_000_000_005)));
        assert_eq!(charged(i64::MAX, 999_999_999), Some(Nanos::MAX));
        for (seconds, nanos) in [(-1, 0), (0, -1), (1, 1_000_000_000), (i64::MIN, i32::MIN)] {
            assert_eq!(charged(seconds, nanos), None, "{seconds} s and {nanos} ns");
        }
    }
}
