//! `ratekeeper.v1.RateLimiter`: what is held, and how that ends.

use ratekeeper::port::HoldOutcome;

use super::context::GrpcTransport;
use super::duration::{from_wire, to_wire};
use super::generated::ratekeeper_v1 as proto;
use super::plans::{self, decision, rule_decision, units};
use super::status::GrpcStatus;
use crate::request::{HoldFields, HoldVerb, PlanFields, PlanVerb};
use crate::responder::WireAnswer;
use crate::rule_row;
use crate::secret::UNASKED;

/// Answers `Hold`.
pub(super) async fn hold(
    grpc: &GrpcTransport,
    body: proto::HoldRequest,
) -> Result<proto::HoldResponse, GrpcStatus> {
    let proto::HoldRequest { key, plans, cost, costs, each, lease } = body;
    let lease = lease.map(|lease| from_wire("lease", lease)).transpose()?;
    let fields = PlanFields { key: key.as_bytes(), cost, each, lease, ..PlanFields::default() };
    match plans::answer(grpc, PlanVerb::Hold, UNASKED, fields, &plans, "", &costs).await? {
        WireAnswer::Held(ruling, id) => Ok(proto::HoldResponse {
            decision: Some(decision(&ruling, each)),
            id: id.map(|id| id.to_string()).unwrap_or_default(),
        }),
        _ => Err(GrpcStatus::internal()),
    }
}

/// Answers `Settle`.
pub(super) async fn settle(
    grpc: &GrpcTransport,
    body: proto::SettleRequest,
) -> Result<proto::HoldOutcome, GrpcStatus> {
    let proto::SettleRequest { key, id, cost, costs, each } = body;
    let units = units(&costs)?.instead_of(cost)?;
    let (key, id, units) = (key.as_bytes(), id.as_bytes(), units.as_slice());
    change(grpc, HoldVerb::Settle, HoldFields { key, id, cost, units, lease: None }, each).await
}

/// Answers `Cancel`.
pub(super) async fn cancel(
    grpc: &GrpcTransport,
    body: proto::CancelRequest,
) -> Result<proto::HoldOutcome, GrpcStatus> {
    let proto::CancelRequest { key, id, each } = body;
    let fields = HoldFields { key: key.as_bytes(), id: id.as_bytes(), ..HoldFields::default() };
    change(grpc, HoldVerb::Cancel, fields, each).await
}

/// Answers `Extend`.
pub(super) async fn extend(
    grpc: &GrpcTransport,
    body: proto::ExtendRequest,
) -> Result<proto::HoldOutcome, GrpcStatus> {
    let proto::ExtendRequest { key, id, each, lease } = body;
    let lease = lease.map(|lease| from_wire("lease", lease)).transpose()?;
    let fields = HoldFields { key: key.as_bytes(), id: id.as_bytes(), lease, ..HoldFields::default() };
    change(grpc, HoldVerb::Extend, fields, each).await
}

async fn change(
    grpc: &GrpcTransport,
    verb: HoldVerb,
    fields: HoldFields<'_>,
    each: bool,
) -> Result<proto::HoldOutcome, GrpcStatus> {
    match grpc.responder.answer(&fields.check(verb)?).await? {
        WireAnswer::Changed(outcome) => Ok(changed(&outcome, each)),
        _ => Err(GrpcStatus::internal()),
    }
}

fn changed(outcome: &HoldOutcome, each: bool) -> proto::HoldOutcome {
    let decision = outcome.standing.as_ref().map(|standing| standing.decision);
    proto::HoldOutcome {
        state: outcome.state.as_str().to_owned(),
        remaining: decision.map_or(0, |decision| decision.remaining),
        retry_after: decision.and_then(|decision| decision.retry_after).map(to_wire),
        reset_after: Some(to_wire(decision.map(|decision| decision.reset_after).unwrap_or_default())),
        rules: each.then(|| rule_row::of_outcome(outcome)).into_iter().flatten().map(rule_decision).collect(),
    }
}
