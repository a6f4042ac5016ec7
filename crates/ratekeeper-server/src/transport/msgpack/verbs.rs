//! Answers to requests by the names of plans and about holds: maps, and refusals as of a throttle.

use ratekeeper::port::HoldOutcome;
use ratekeeper::{Decision, Ruling};

use super::answer::{self, PackWriter};
use super::body::BodyError;
use super::verb::PackVerb;
use super::verb_body::VerbBody;
use crate::responder::{Responder, WireAnswer};
use crate::rule_row::{self, RuleRow};
use crate::secret::AdminRight;

/// Answers the map of a verb.
pub(super) async fn answer(
    responder: &Responder,
    right: AdminRight,
    verb: PackVerb,
    bytes: &[u8],
    out: &mut Vec<u8>,
) {
    match ask(responder, right, verb, bytes).await {
        Ok((answer, each)) => answer::map(out, |writer| write(&answer, each, writer)),
        Err(BodyError(message)) => {
            responder.metrics().failed();
            answer::refuse(out, &message);
        }
    }
}

async fn ask(
    responder: &Responder,
    right: AdminRight,
    verb: PackVerb,
    bytes: &[u8],
) -> Result<(WireAnswer, bool), BodyError> {
    let body = VerbBody::read(verb, bytes)?;
    let answer = responder.answer(&body.check(verb, responder.limits(), right)?).await?;
    Ok((answer, body.each))
}

fn write(answer: &WireAnswer, each: bool, writer: &mut PackWriter<'_>) {
    let more = usize::from(each);
    match answer {
        WireAnswer::Ruling(ruling) => {
            writer.map_of(9 + more);
            write_ruling(ruling, writer);
            write_each(each.then(|| rule_row::of_ruling(ruling)), writer);
        }
        WireAnswer::Held(ruling, id) => {
            writer.map_of(10 + more);
            write_ruling(ruling, writer);
            writer.text("id");
            writer.optional(id.map(|id| id.to_string()).as_deref());
            write_each(each.then(|| rule_row::of_ruling(ruling)), writer);
        }
        WireAnswer::Changed(outcome) => {
            writer.map_of(5 + more);
            write_outcome(outcome, writer);
            write_each(each.then(|| rule_row::of_outcome(outcome)), writer);
        }
        WireAnswer::Forgotten(forgotten) => {
            writer.map_of(2);
            writer.text("ok");
            writer.bool(true);
            writer.text("forgotten");
            writer.whole(*forgotten);
        }
    }
}

fn write_ruling(ruling: &Ruling, writer: &mut PackWriter<'_>) {
    writer.text("ok");
    writer.bool(true);
    write_decision(ruling, writer);
    writer.text("plan");
    writer.optional(ruling.plan().map(|plan| plan.name().as_str()));
    writer.text("rule");
    writer.optional(ruling.rule().map(|rule| rule.name().as_str()));
    writer.text("reason");
    writer.text(ruling.reason.as_str());
}

/// Writes five fields.
fn write_decision(decision: &Decision, writer: &mut PackWriter<'_>) {
    writer.text("allowed");
    writer.bool(decision.allowed);
    writer.text("limit");
    writer.whole(decision.limit);
    write_times(Some(decision), writer);
}

/// Writes three fields: what is left, and how long that takes to change.
fn write_times(decision: Option<&Decision>, writer: &mut PackWriter<'_>) {
    writer.text("remaining");
    writer.whole(decision.map_or(0, |decision| decision.remaining));
    writer.text("retry_after_ms");
    match decision.and_then(|decision| decision.retry_after) {
        Some(wait) => writer.whole(wait.ceil_millis()),
        None => writer.integer(-1),
    }
    writer.text("reset_after_ms");
    writer.whole(decision.map_or(0, |decision| decision.reset_after.ceil_millis()));
}

fn write_outcome(outcome: &HoldOutcome, writer: &mut PackWriter<'_>) {
    writer.text("ok");
    writer.bool(true);
    writer.text("state");
    writer.text(outcome.state.as_str());
    write_times(outcome.standing.as_ref().map(|standing| &standing.decision), writer);
}

fn write_each<'a>(rows: Option<impl Iterator<Item = RuleRow<'a>>>, writer: &mut PackWriter<'_>) {
    let Some(rows) = rows else { return };
    let rows: Vec<RuleRow<'_>> = rows.collect();
    writer.text("rules");
    writer.array_of(rows.len());
    for RuleRow { plan, rule, unit, decision } in rows {
        writer.map_of(8);
        for (field, name) in [("plan", plan), ("rule", rule), ("unit", unit)] {
            writer.text(field);
            writer.text(name);
        }
        write_decision(decision, writer);
    }
}
