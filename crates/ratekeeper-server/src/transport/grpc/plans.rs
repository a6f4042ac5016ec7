//! `ratekeeper.v1.RateLimiter`: requests by the names of plans, or with a quota in words.

use std::time::Instant;

use prost_types::Duration;
use ratekeeper::keeper::{HeldTo, KeeperError};
use ratekeeper::{Charged, Cost, Key, Nanos, Quota, Ruling, StoreErrorKind};

use super::Grpc;
use super::generated::ratekeeper_v1::{
    AcquireRequest, Decision, ForgetRequest, ForgetResponse, RefundRequest, ResetRequest, ResetResponse,
};
use super::status::{Code, Status};
use crate::limits::Limits;
use crate::secret::{NotAdmin, Role};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Acquire,
    Peek,
    Refund(Charged),
}

pub(super) async fn refund(grpc: &Grpc, ask: RefundRequest) -> Result<Decision, Status> {
    let RefundRequest { key, plans, quota, cost, charged_ago } = ask;
    let charged = charged_ago.map_or(Ok(Charged::NOW), charged_before)?;
    answer(grpc, What::Refund(charged), AcquireRequest { key, plans, quota, cost }).await
}

/// A request to look is the same on the wire as one to take; one to give back also tells when it was taken.
pub(super) async fn answer(grpc: &Grpc, what: What, ask: AcquireRequest) -> Result<Decision, Status> {
    let began = Instant::now();
    let key = key(&ask.key)?;
    let cost = Cost::new(ask.cost.unwrap_or(1));
    let quota = quota(&ask.quota, &ask.plans, grpc.engine.limits())?;
    let names: Vec<&str> = ask.plans.iter().map(String::as_str).collect();
    let held_to = match (&quota, names.as_slice()) {
        (Some(quota), _) => HeldTo::Quota(quota),
        (None, []) => return Err(Status::invalid("plans: missing; say `plans` or `quota`")),
        (None, [only]) => HeldTo::Plan(only),
        (None, names) => HeldTo::Plans(names),
    };
    let keeper = grpc.engine.keeper();
    let ruling = match what {
        What::Acquire => keeper.acquire(key, held_to, cost).await?,
        What::Peek => keeper.peek(key, held_to, cost).await?,
        What::Refund(charged) => keeper.refund(key, held_to, cost, charged).await?,
    };
    match what {
        What::Acquire => grpc.meter.took(key, &ruling, began.elapsed()),
        What::Peek | What::Refund(_) => grpc.meter.looked(&ruling, began.elapsed()),
    }
    Ok(decision(&ruling))
}

pub(super) async fn reset(grpc: &Grpc, ask: ResetRequest) -> Result<ResetResponse, Status> {
    let key = key(&ask.key)?;
    let names: Vec<&str> = ask.plans.iter().map(String::as_str).collect();
    // Whatever was admitted once must be forgotten when it is asked to be.
    let forgotten = match quota(&ask.quota, &ask.plans, &Limits::NONE)? {
        Some(quota) => grpc.engine.keeper().reset(key, &quota).await?,
        None => grpc.engine.reset(key, &names).await?,
    };
    Ok(ResetResponse { forgotten })
}

pub(super) async fn forget(
    grpc: &Grpc,
    role: Option<Role>,
    ask: ForgetRequest,
) -> Result<ForgetResponse, Status> {
    NotAdmin::check(&grpc.tokens, role).map_err(|refusal| {
        let code = match refusal {
            NotAdmin::Unknown => Code::Unauthenticated,
            NotAdmin::TurnedOff | NotAdmin::Forbidden => Code::PermissionDenied,
        };
        Status::new(code, format!("Forget: {refusal}"))
    })?;
    match (ask.prefix.is_empty(), ask.all) {
        (true, false) => {
            return Err(Status::invalid(
                "prefix: empty; every key starts with it: set `all` if that is meant",
            ));
        }
        (false, true) => return Err(Status::invalid("prefix: together with `all`; say one of them")),
        (true, true) | (false, false) => {}
    }
    let forgotten = grpc.engine.forget(&ask.prefix).await.map_err(|error| match error {
        KeeperError::Store(error) if error.kind() == StoreErrorKind::Unsupported => {
            Status::new(Code::Unimplemented, error.to_string())
        }
        error => error.into(),
    })?;
    Ok(ForgetResponse { forgotten })
}

fn key(text: &str) -> Result<Key<'_>, Status> {
    Key::new(text).map_err(|error| Status::invalid(error.to_string()))
}

fn quota(text: &str, plans: &[String], limits: &Limits) -> Result<Option<Quota>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    if !plans.is_empty() {
        return Err(Status::invalid("quota: together with plans; say one of them"));
    }
    Ok(Some(limits.parse(text)?))
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

/// When something was charged so long ago. A duration of the wire may be negative, or none at all.
fn charged_before(Duration { seconds, nanos }: Duration) -> Result<Charged, Status> {
    let (secs, subsec) = (u64::try_from(seconds), u64::try_from(nanos));
    match (secs, subsec) {
        (Ok(secs), Ok(subsec @ 0..=999_999_999)) => {
            Ok(Charged::ago(Nanos::from_secs(secs).saturating_add(Nanos::from_nanos(subsec))))
        }
        _ => {
            let told = format!("charged_ago: {seconds} s and {nanos} ns; must be a duration of at least 0");
            Err(Status::invalid(told))
        }
    }
}

/// Exactly: nanoseconds in 64 bits are far from the largest duration that the wire has.
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
        let charged = |seconds, nanos| charged_before(Duration { seconds, nanos }).ok();
        assert_eq!(charged(0, 0), Some(Charged::NOW));
        assert_eq!(charged(1, 5), Some(Charged::ago(Nanos::from_nanos(1_000_000_005))));
        assert_eq!(charged(i64::MAX, 999_999_999), Some(Charged::ago(Nanos::MAX)));
        for (seconds, nanos) in [(-1, 0), (0, -1), (1, 1_000_000_000), (i64::MIN, i32::MIN)] {
            assert_eq!(charged(seconds, nanos), None, "{seconds} s and {nanos} ns");
        }
    }
}
