//! `ratekeeper.v1.RateLimiter`: requests by the names of plans, or with a quota in words.

use std::collections::BTreeMap;

use ratekeeper::Ruling;

use super::context::GrpcTransport;
use super::duration::{from_wire, to_wire};
use super::generated::ratekeeper_v1::{
    AcquireRequest, DebitRequest, Decision, ForgetRequest, ForgetResponse, RefundRequest, ResetRequest,
    ResetResponse, RuleDecision,
};
use super::status::GrpcStatus;
use crate::request::{AdminVerb, ForgetFields, NamedUnits, PlanFields, PlanVerb};
use crate::responder::WireAnswer;
use crate::rule_row::{self, RuleRow};
use crate::secret::{AdminRight, UNASKED};

/// Answers `Acquire` and `Peek`, which are the same on the wire.
pub(super) async fn acquire(
    grpc: &GrpcTransport,
    verb: PlanVerb,
    body: AcquireRequest,
) -> Result<Decision, GrpcStatus> {
    let AcquireRequest { key, plans, quota, cost, costs, each } = body;
    let fields = PlanFields { key: key.as_bytes(), cost, each, ..PlanFields::default() };
    let answer = answer(grpc, verb, UNASKED, fields, &plans, &quota, &costs).await?;
    Ok(decision(&ruling(answer)?, each))
}

/// Answers `Refund`.
pub(super) async fn refund(
    grpc: &GrpcTransport,
    right: AdminRight,
    body: RefundRequest,
) -> Result<Decision, GrpcStatus> {
    let RefundRequest { key, plans, quota, cost, charged_ago, costs } = body;
    let charged_ago = charged_ago.map(|age| from_wire("charged_ago", age)).transpose()?;
    let fields = PlanFields { key: key.as_bytes(), cost, charged_ago, ..PlanFields::default() };
    let answer = answer(grpc, PlanVerb::Refund, right, fields, &plans, &quota, &costs).await?;
    Ok(decision(&ruling(answer)?, false))
}

/// Answers `Debit`.
pub(super) async fn debit(
    grpc: &GrpcTransport,
    right: AdminRight,
    body: DebitRequest,
) -> Result<Decision, GrpcStatus> {
    let DebitRequest { key, plans, quota, cost, costs, each } = body;
    let fields = PlanFields { key: key.as_bytes(), cost, each, ..PlanFields::default() };
    let answer = answer(grpc, PlanVerb::Debit, right, fields, &plans, &quota, &costs).await?;
    Ok(decision(&ruling(answer)?, each))
}

/// Answers `Reset`.
pub(super) async fn reset(
    grpc: &GrpcTransport,
    right: AdminRight,
    body: ResetRequest,
) -> Result<ResetResponse, GrpcStatus> {
    let ResetRequest { key, plans, quota } = body;
    let fields = PlanFields { key: key.as_bytes(), ..PlanFields::default() };
    let answer = answer(grpc, PlanVerb::Reset, right, fields, &plans, &quota, &BTreeMap::new()).await?;
    Ok(ResetResponse { forgotten: forgotten(answer)? })
}

/// Answers `Forget`.
pub(super) async fn forget(
    grpc: &GrpcTransport,
    right: AdminRight,
    body: ForgetRequest,
) -> Result<ForgetResponse, GrpcStatus> {
    let admin = AdminVerb::Forget.by(right)?;
    // The wire cannot tell an empty prefix from none.
    let prefix = Some(body.prefix.as_slice()).filter(|prefix| !prefix.is_empty());
    let request = ForgetFields { prefix, all: body.all }.check(admin)?;
    Ok(ForgetResponse { forgotten: forgotten(grpc.responder.answer(&request).await?)? })
}

/// Asks for what these fields and their plans, quota and costs mean.
pub(super) async fn answer(
    grpc: &GrpcTransport,
    verb: PlanVerb,
    right: AdminRight,
    fields: PlanFields<'_>,
    plans: &[String],
    quota: &str,
    costs: &BTreeMap<String, u64>,
) -> Result<WireAnswer, GrpcStatus> {
    let names: Vec<&str> = plans.iter().map(String::as_str).collect();
    let quota = (!quota.is_empty()).then_some(quota);
    let units = units(costs)?.instead_of(fields.cost)?;
    let fields = PlanFields { plans: &names, quota, units: units.as_slice(), ..fields };
    Ok(grpc.responder.answer(&fields.check(verb, grpc.responder.limits(), right)?).await?)
}

/// Returns the units that a request names.
pub(super) fn units(costs: &BTreeMap<String, u64>) -> Result<NamedUnits<'_>, GrpcStatus> {
    let mut units = NamedUnits::default();
    for (unit, amount) in costs {
        units.push(unit, *amount)?;
    }
    Ok(units)
}

/// Returns the ruling of an answer that must be one.
pub(super) fn ruling(answer: WireAnswer) -> Result<Ruling, GrpcStatus> {
    match answer {
        WireAnswer::Ruling(ruling) => Ok(ruling),
        _ => Err(GrpcStatus::internal()),
    }
}

fn forgotten(answer: WireAnswer) -> Result<u64, GrpcStatus> {
    match answer {
        WireAnswer::Forgotten(forgotten) => Ok(forgotten),
        _ => Err(GrpcStatus::internal()),
    }
}

/// Returns a ruling as a message; `each` tells of every rule, too.
pub(super) fn decision(ruling: &Ruling, each: bool) -> Decision {
    Decision {
        allowed: ruling.allowed,
        limit: ruling.limit,
        remaining: ruling.remaining,
        retry_after: ruling.retry_after.map(to_wire),
        reset_after: Some(to_wire(ruling.reset_after)),
        plan: ruling.plan().map(|plan| plan.name().as_str().to_owned()).unwrap_or_default(),
        rule: ruling.rule().map(|rule| rule.name().as_str().to_owned()).unwrap_or_default(),
        reason: ruling.reason.as_str().to_owned(),
        rules: each.then(|| rule_row::of_ruling(ruling)).into_iter().flatten().map(rule_decision).collect(),
    }
}

/// Returns what one rule says as a message.
pub(super) fn rule_decision(RuleRow { plan, rule, unit, decision }: RuleRow<'_>) -> RuleDecision {
    RuleDecision {
        plan: plan.to_owned(),
        rule: rule.to_owned(),
        unit: unit.to_owned(),
        allowed: decision.allowed,
        limit: decision.limit,
        remaining: decision.remaining,
        retry_after: decision.retry_after.map(to_wire),
        reset_after: Some(to_wire(decision.reset_after)),
    }
}
