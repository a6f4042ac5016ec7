//! `ACQUIRE`, `PEEK`, `REFUND` and `RESET`: requests by the names of plans.

use std::time::Instant;

use ratekeeper::keeper::{HeldTo, KeeperError};
use ratekeeper::{Charged, Cost, Key, Nanos, Ruling};

use super::Resp;
use super::number::integer;
use super::reply::{Reply, escaped};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Acquire,
    Peek,
    Refund,
    Reset,
}

/// A request that was understood.
struct Ask<'a> {
    key: Key<'a>,
    plans: Vec<&'a str>,
    cost: Cost,
    /// Of a refund: when it was taken.
    charged: Charged,
}

/// Answers the arguments after the command's name.
pub(super) async fn answer(resp: &Resp, verb: Verb, args: &[&[u8]], reply: &mut Reply<'_>) {
    let result = match Ask::parse(verb, args) {
        Ok(ask) if verb == Verb::Reset => {
            resp.engine.reset(ask.key, &ask.plans).await.map_err(message).map(|forgotten| {
                reply.integer(saturated(forgotten));
            })
        }
        Ok(ask) => decide(resp, verb, &ask).await.map(|ruling| write(&ruling, reply)),
        Err(message) => Err(message),
    };
    if let Err(message) = result {
        resp.meter.failed();
        reply.error(&format!("ERR {message}"));
    }
}

async fn decide(resp: &Resp, verb: Verb, ask: &Ask<'_>) -> Result<Ruling, String> {
    let began = Instant::now();
    let keeper = resp.engine.keeper();
    let held_to = match ask.plans.as_slice() {
        [only] => HeldTo::Plan(only),
        plans => HeldTo::Plans(plans),
    };
    let ruling = match verb {
        Verb::Peek => keeper.peek(ask.key, held_to, ask.cost).await,
        Verb::Refund => keeper.refund(ask.key, held_to, ask.cost, ask.charged).await,
        Verb::Acquire | Verb::Reset => keeper.acquire(ask.key, held_to, ask.cost).await,
    };
    let ruling = ruling.map_err(|error| match (&error, ask.plans.last()) {
        // The last may be no plan, but a word whose number is missing.
        (KeeperError::UnknownPlan { .. }, Some(last)) if keeper.plans().find(last).is_none() => {
            no_number(verb, last).unwrap_or_else(|| message(error))
        }
        _ => message(error),
    })?;
    match verb {
        Verb::Acquire => resp.meter.took(ask.key, &ruling, began.elapsed()),
        _ => resp.meter.looked(&ruling, began.elapsed()),
    }
    Ok(ruling)
}

fn message(error: KeeperError) -> String {
    match error {
        KeeperError::UnknownPlan { name } => format!("unknown plan '{}'", escaped(name.as_bytes())),
        KeeperError::Store(error) => format!("store: {error}"),
        other => format!("invalid {other}"),
    }
}

/// Allowed, limit, remaining, retry_after_ms, reset_after_ms, rule.
fn write(ruling: &Ruling, reply: &mut Reply<'_>) {
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

impl<'a> Ask<'a> {
    /// `key [plan …] [COST n]`, and `[AGE ms]` of a refund, in whatever order. No plan called `COST` (or `AGE`, of a
    /// refund) can be the last but one, which nobody will miss.
    fn parse(verb: Verb, args: &[&'a [u8]]) -> Result<Self, String> {
        let [key, names @ ..] = args else { return Err("no key".to_owned()) };
        let key = Key::new(*key).map_err(|error| format!("invalid {error}"))?;
        let (mut names, mut cost, mut age) = (names, None, None);
        while let [before @ .., word, value] = names {
            let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
            if is(b"cost") && verb != Verb::Reset && cost.is_none() {
                cost = Some(whole("cost", value, COST)?);
            } else if is(b"age") && verb == Verb::Refund && age.is_none() {
                age = Some(whole("age", value, AGE)?);
            } else {
                break;
            }
            names = before;
        }
        let (cost, charged) =
            (Cost::new(cost.unwrap_or(1)), Charged::ago(Nanos::from_millis(age.unwrap_or(0))));
        let plans = names.iter().map(|name| plan_name(name)).collect::<Result<Vec<_>, _>>()?;
        if plans.is_empty() && verb != Verb::Reset {
            return Err("invalid plan: none; name at least one".to_owned());
        }
        Ok(Ask { key, plans, cost, charged })
    }
}

/// What a cost and an age must be.
const COST: &str = "a whole number from 0 to 9223372036854775807";
const AGE: &str = "a whole number of milliseconds from 0 to 9223372036854775807";

/// What to say of a request that ends with this word, if a number should follow it.
fn no_number(verb: Verb, word: &str) -> Option<String> {
    let (name, what) = if word.eq_ignore_ascii_case("cost") && verb != Verb::Reset {
        ("cost", COST)
    } else if word.eq_ignore_ascii_case("age") && verb == Verb::Refund {
        ("age", AGE)
    } else {
        return None;
    };
    Some(format!("invalid {name}: none; must be {what}"))
}

fn whole(name: &str, text: &[u8], what: &str) -> Result<u64, String> {
    let number = integer(text).and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| format!("invalid {name}: '{}'; must be {what}", escaped(text)))
}

fn plan_name(name: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(name).map_err(|_| format!("unknown plan '{}'", escaped(name)))
}

fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(verb: Verb, line: &str) -> Result<(Vec<&str>, u64), String> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        Ask::parse(verb, &args).map(|ask| (ask.plans, ask.cost.get()))
    }

    #[test]
    fn plans_and_cost() {
        assert_eq!(parsed(Verb::Acquire, "k gold"), Ok((vec!["gold"], 1)));
        assert_eq!(parsed(Verb::Acquire, "k gold api cost 7"), Ok((vec!["gold", "api"], 7)));
        assert_eq!(parsed(Verb::Reset, "k"), Ok((vec![], 1)));
        assert!(parsed(Verb::Acquire, "k COST 7").unwrap_err().starts_with("invalid plan: none"));
        assert!(parsed(Verb::Peek, "k gold COST -7").unwrap_err().starts_with("invalid cost: '-7'"));
        assert!(parsed(Verb::Refund, "k").unwrap_err().starts_with("invalid plan: none"));
    }

    #[test]
    fn a_refund_may_tell_its_age() {
        fn charged(line: &str) -> Result<(Vec<&str>, u64, Charged), String> {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            Ask::parse(Verb::Refund, &args).map(|ask| (ask.plans, ask.cost.get(), ask.charged))
        }
        let ago = |millis| Charged::ago(Nanos::from_millis(millis));
        assert_eq!(charged("k gold"), Ok((vec!["gold"], 1, Charged::NOW)));
        assert_eq!(charged("k gold AGE 1500"), Ok((vec!["gold"], 1, ago(1_500))));
        assert_eq!(charged("k gold api cost 7 age 0"), Ok((vec!["gold", "api"], 7, Charged::NOW)));
        assert_eq!(charged("k gold AGE 2 COST 7"), Ok((vec!["gold"], 7, ago(2))));
        assert_eq!(
            charged("k gold AGE 9223372036854775807"),
            Ok((vec!["gold"], 1, Charged::ago(Nanos::MAX)))
        );
        for wrong in ["-1", "9223372036854775808"] {
            let message = format!(
                "invalid age: '{wrong}'; must be a whole number of milliseconds from 0 to {}",
                i64::MAX
            );
            assert_eq!(charged(&format!("k gold AGE {wrong}")), Err(message));
        }
        assert!(charged("k gold AGE 1.5").unwrap_err().starts_with("invalid age: '1.5'"));
        assert!(charged("k AGE 5").unwrap_err().starts_with("invalid plan: none"));
        assert_eq!(
            parsed(Verb::Acquire, "k gold AGE 5"),
            Ok((vec!["gold", "AGE", "5"], 1)),
            "of a refund only"
        );
    }
}
