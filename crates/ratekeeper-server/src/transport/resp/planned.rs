//! `ACQUIRE`, `PEEK`, `REFUND`, `DEBIT`, `HOLD` and `RESET`: requests by the names of plans.

use ratekeeper::keeper::KeeperError;
use ratekeeper::port::Plans;
use ratekeeper::{Decision, Nanos, Ruling};

use super::context::RespTransport;
use super::error_text::error_text;
use super::options::{CommandOptions, KnownOptions};
use super::reply::{RespReply, escaped};
use super::throttle::saturated;
use crate::request::{PlanFields, PlanVerb, RequestError};
use crate::responder::WireAnswer;
use crate::rule_row::{self, RuleRow};
use crate::secret::AdminRight;

/// Answers the arguments after the command's name.
pub(super) async fn answer(
    resp: &RespTransport,
    right: AdminRight,
    verb: PlanVerb,
    args: &[&[u8]],
    reply: &mut RespReply<'_>,
) {
    if let Err(text) = ask(resp, right, verb, args, reply).await {
        resp.responder.metrics().failed();
        reply.error(&text);
    }
}

/// Writes the answer; an error is the text of one that is still to be written.
async fn ask(
    resp: &RespTransport,
    right: AdminRight,
    verb: PlanVerb,
    args: &[&[u8]],
    reply: &mut RespReply<'_>,
) -> Result<(), String> {
    let [key, words @ ..] = args else { return Err("ERR no key".to_owned()) };
    let registry = resp.responder.engine().registry();
    let is_plan = |word: &[u8]| std::str::from_utf8(word).is_ok_and(|name| registry.find(name).is_some());
    let (names, options) = CommandOptions::read(options_of(verb), words, is_plan)?;
    let plans = names.iter().map(|name| plan_name(name)).collect::<Result<Vec<_>, _>>()?;
    let fields = PlanFields {
        key,
        plans: &plans,
        quota: None,
        cost: options.cost,
        units: options.units.as_slice(),
        charged_ago: options.age.map(Nanos::from_millis),
        lease: options.lease.map(Nanos::from_millis),
        each: options.each,
    };
    let limits = resp.responder.limits();
    let request = fields.check(verb, limits, right).map_err(|error| error_text("", &error))?;
    match resp.responder.answer(&request).await {
        Ok(answer) => write(&answer, options.each, reply),
        Err(error) => {
            // The last word may be no plan, but an option without its value; and so may `UNIT` before it, which has two.
            let no_value = match &error {
                RequestError::Keeper(KeeperError::UnknownPlan { name }) => {
                    let last = plans.last().filter(|last| registry.find(last).is_none());
                    let unit = Some(&**name).filter(|name| name.eq_ignore_ascii_case("unit"));
                    last.copied().into_iter().chain(unit).find_map(|word| options_of(verb).no_value(word))
                }
                _ => None,
            };
            return Err(no_value.unwrap_or_else(|| error_text("", &error)));
        }
    }
    Ok(())
}

/// Writes an answer; `each` tells of every rule.
fn write(answer: &WireAnswer, each: bool, reply: &mut RespReply<'_>) {
    match answer {
        WireAnswer::Ruling(ruling) => {
            reply.array(6 + usize::from(each));
            write_ruling(ruling, reply);
            write_each(each.then(|| rule_row::of_ruling(ruling)), reply);
        }
        WireAnswer::Held(ruling, id) => {
            reply.array(7 + usize::from(each));
            write_ruling(ruling, reply);
            match id {
                Some(id) => reply.bulk(id.to_string().as_bytes()),
                None => reply.null(),
            }
            write_each(each.then(|| rule_row::of_ruling(ruling)), reply);
        }
        WireAnswer::Forgotten(forgotten) => reply.integer(saturated(*forgotten)),
        WireAnswer::Changed(_) => {}
    }
}

/// Returns the options that a command has behind its plans.
const fn options_of(verb: PlanVerb) -> KnownOptions {
    KnownOptions {
        amounts: !matches!(verb, PlanVerb::Reset),
        age: matches!(verb, PlanVerb::Refund),
        lease: matches!(verb, PlanVerb::Hold),
        // A store tells one thing of a refund.
        each: !matches!(verb, PlanVerb::Reset | PlanVerb::Refund),
    }
}

/// Writes allowed, limit, remaining, retry_after_ms, reset_after_ms and rule.
fn write_ruling(ruling: &Ruling, reply: &mut RespReply<'_>) {
    numbers(ruling, reply);
    match ruling.rule() {
        Some(rule) => reply.bulk(rule.name().as_str().as_bytes()),
        None => reply.null(),
    }
}

fn numbers(decision: &Decision, reply: &mut RespReply<'_>) {
    reply.integer(decision.allowed.into());
    reply.integer(saturated(decision.limit));
    reply.integer(saturated(decision.remaining));
    reply.integer(decision.retry_after.map_or(-1, |wait| saturated(wait.ceil_millis())));
    reply.integer(saturated(decision.reset_after.ceil_millis()));
}

/// Writes what was asked for by `EACH`: of every rule its plan, name and unit, allowed, limit, remaining, retry_after_ms and
/// reset_after_ms.
pub(super) fn write_each<'a>(rows: Option<impl Iterator<Item = RuleRow<'a>>>, reply: &mut RespReply<'_>) {
    let Some(rows) = rows else { return };
    let rows: Vec<RuleRow<'_>> = rows.collect();
    reply.array(rows.len());
    for RuleRow { plan, rule, unit, decision } in rows {
        reply.array(8);
        for name in [plan, rule, unit] {
            reply.bulk(name.as_bytes());
        }
        numbers(decision, reply);
    }
}

fn plan_name(name: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(name).map_err(|_| format!("ERR unknown plan '{}'", escaped(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plans, the cost and the age.
    type Words<'a> = Result<(Vec<&'a str>, Option<u64>, Option<u64>), String>;

    fn words(verb: PlanVerb, line: &str) -> Words<'_> {
        let args: Vec<&[u8]> = line.split(' ').skip(1).map(str::as_bytes).collect();
        let (plans, options) = CommandOptions::read(options_of(verb), &args, |_| false)?;
        let plans = plans.iter().map(|name| plan_name(name)).collect::<Result<Vec<_>, _>>()?;
        Ok((plans, options.cost, options.age))
    }

    #[test]
    fn plans_and_cost() {
        assert_eq!(words(PlanVerb::Acquire, "k gold"), Ok((vec!["gold"], None, None)));
        assert_eq!(words(PlanVerb::Acquire, "k gold api cost 7"), Ok((vec!["gold", "api"], Some(7), None)));
        assert_eq!(words(PlanVerb::Reset, "k"), Ok((vec![], None, None)));
        assert_eq!(words(PlanVerb::Acquire, "k COST 7"), Ok((vec![], Some(7), None)));
        assert!(words(PlanVerb::Peek, "k gold COST -7").unwrap_err().starts_with("ERR invalid cost: '-7'"));
        let reset = words(PlanVerb::Reset, "k unit a 1 each cost 5");
        assert_eq!(reset, Ok((vec!["unit", "a", "1", "each", "cost", "5"], None, None)), "it has no options");
    }

    #[test]
    fn a_refund_may_tell_its_age() {
        fn refund(line: &str) -> Words<'_> {
            words(PlanVerb::Refund, line)
        }
        assert_eq!(refund("k gold AGE 1500"), Ok((vec!["gold"], None, Some(1_500))));
        assert_eq!(refund("k gold api cost 7 age 0"), Ok((vec!["gold", "api"], Some(7), Some(0))));
        assert_eq!(refund("k gold AGE 2 COST 7"), Ok((vec!["gold"], Some(7), Some(2))));
        for wrong in ["-1", "9223372036854775808"] {
            let message = format!(
                "ERR invalid age: '{wrong}'; must be a whole number of milliseconds from 0 to {}",
                i64::MAX
            );
            let line = format!("k gold AGE {wrong}");
            assert_eq!(refund(&line), Err(message));
        }
        assert!(refund("k gold AGE 1.5").unwrap_err().starts_with("ERR invalid age: '1.5'"));
        let not_a_refund = words(PlanVerb::Acquire, "k gold AGE 5");
        assert_eq!(not_a_refund, Ok((vec!["gold", "AGE", "5"], None, None)), "of a refund only");
    }
}
