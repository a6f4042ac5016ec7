//! `ACQUIRE`, `PEEK`, `REFUND` and `RESET`: requests by the names of plans.

use ratekeeper::keeper::KeeperError;
use ratekeeper::port::Plans;
use ratekeeper::{Nanos, Ruling};

use super::context::RespTransport;
use super::error_text::error_text;
use super::number::integer;
use super::reply::{RespReply, escaped};
use super::throttle::saturated;
use crate::request::{PlanFields, PlanVerb, RequestError};
use crate::responder::WireAnswer;

/// Answers the arguments after the command's name.
pub(super) async fn answer(resp: &RespTransport, verb: PlanVerb, args: &[&[u8]], reply: &mut RespReply<'_>) {
    match ask(resp, verb, args).await {
        Ok(WireAnswer::Ruling(ruling)) => write(&ruling, reply),
        Ok(WireAnswer::Forgotten(forgotten)) => reply.integer(saturated(forgotten)),
        Err(text) => {
            resp.responder.metrics().failed();
            reply.error(&text);
        }
    }
}

async fn ask(resp: &RespTransport, verb: PlanVerb, args: &[&[u8]]) -> Result<WireAnswer, String> {
    let words = PlanWords::read(verb, args)?;
    let fields = PlanFields {
        key: words.key,
        plans: &words.plans,
        quota: None,
        cost: words.cost,
        charged_ago: words.age.map(Nanos::from_millis),
    };
    let request = fields.check(verb, resp.responder.limits()).map_err(|error| error_text("", &error))?;
    resp.responder.answer(&request).await.map_err(|error| match (&error, words.plans.last()) {
        // The last word may be no plan, but `COST` or `AGE` without its number.
        (RequestError::Keeper(KeeperError::UnknownPlan { .. }), Some(last))
            if resp.responder.engine().registry().find(last).is_none() =>
        {
            no_number(verb, last).unwrap_or_else(|| error_text("", &error))
        }
        _ => error_text("", &error),
    })
}

/// Writes allowed, limit, remaining, retry_after_ms, reset_after_ms and rule.
fn write(ruling: &Ruling, reply: &mut RespReply<'_>) {
    reply.array(6);
    reply.integer(ruling.allowed.into());
    reply.integer(saturated(ruling.limit));
    reply.integer(saturated(ruling.remaining));
    reply.integer(ruling.retry_after.map_or(-1, |wait| saturated(wait.ceil_millis())));
    reply.integer(saturated(ruling.reset_after.ceil_millis()));
    match ruling.rule() {
        Some(rule) => reply.bulk(rule.name().as_str().as_bytes()),
        None => reply.null(),
    }
}

/// The arguments of a command, told apart.
struct PlanWords<'a> {
    key: &'a [u8],
    plans: Vec<&'a str>,
    cost: Option<u64>,
    /// Of a refund: milliseconds since the charge.
    age: Option<u64>,
}

impl<'a> PlanWords<'a> {
    /// Reads `key [plan …] [COST n]`, and `[AGE ms]` of a refund, these two in any order. A plan called `COST` (or `AGE`,
    /// of a refund) cannot be the last but one.
    fn read(verb: PlanVerb, args: &[&'a [u8]]) -> Result<Self, String> {
        let [key, names @ ..] = args else { return Err("ERR no key".to_owned()) };
        let (mut names, mut cost, mut age) = (names, None, None);
        while let [before @ .., word, value] = names {
            let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
            if is(b"cost") && verb != PlanVerb::Reset && cost.is_none() {
                cost = Some(whole("cost", value, COST)?);
            } else if is(b"age") && verb == PlanVerb::Refund && age.is_none() {
                age = Some(whole("age", value, AGE)?);
            } else {
                break;
            }
            names = before;
        }
        let plans = names.iter().map(|name| plan_name(name)).collect::<Result<Vec<_>, _>>()?;
        Ok(PlanWords { key, plans, cost, age })
    }
}

/// What a cost and an age must be.
const COST: &str = "a whole number from 0 to 9223372036854775807";
const AGE: &str = "a whole number of milliseconds from 0 to 9223372036854775807";

/// Returns the error of a command that ends with this word, if a number should follow it.
fn no_number(verb: PlanVerb, word: &str) -> Option<String> {
    let (name, what) = if word.eq_ignore_ascii_case("cost") && verb != PlanVerb::Reset {
        ("cost", COST)
    } else if word.eq_ignore_ascii_case("age") && verb == PlanVerb::Refund {
        ("age", AGE)
    } else {
        return None;
    };
    Some(format!("ERR invalid {name}: none; must be {what}"))
}

fn whole(name: &str, text: &[u8], what: &str) -> Result<u64, String> {
    let number = integer(text).and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| format!("ERR invalid {name}: '{}'; must be {what}", escaped(text)))
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
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        PlanWords::read(verb, &args).map(|words| (words.plans, words.cost, words.age))
    }

    #[test]
    fn plans_and_cost() {
        assert_eq!(words(PlanVerb::Acquire, "k gold"), Ok((vec!["gold"], None, None)));
        assert_eq!(words(PlanVerb::Acquire, "k gold api cost 7"), Ok((vec!["gold", "api"], Some(7), None)));
        assert_eq!(words(PlanVerb::Reset, "k"), Ok((vec![], None, None)));
        assert_eq!(words(PlanVerb::Acquire, "k COST 7"), Ok((vec![], Some(7), None)));
        assert!(words(PlanVerb::Peek, "k gold COST -7").unwrap_err().starts_with("ERR invalid cost: '-7'"));
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
