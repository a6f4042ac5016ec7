//! `SETTLE`, `CANCEL` and `EXTEND`: requests about a hold, by its id.

use ratekeeper::Nanos;
use ratekeeper::port::HoldOutcome;

use super::context::RespTransport;
use super::error_text::error_text;
use super::options::{CommandOptions, KnownOptions, millis};
use super::planned::write_each;
use super::reply::{RespReply, escaped};
use super::throttle::saturated;
use crate::request::{HoldFields, HoldVerb};
use crate::responder::WireAnswer;
use crate::rule_row;

/// Answers the arguments after the command's name.
pub(super) async fn answer(resp: &RespTransport, verb: HoldVerb, args: &[&[u8]], reply: &mut RespReply<'_>) {
    match ask(resp, verb, args).await {
        Ok((WireAnswer::Changed(outcome), each)) => {
            reply.array(4 + usize::from(each));
            write(&outcome, reply);
            write_each(each.then(|| rule_row::of_outcome(&outcome)), reply);
        }
        Ok(_) => {}
        Err(text) => {
            resp.responder.metrics().failed();
            reply.error(&text);
        }
    }
}

/// Returns the answer, and whether it is to tell of every rule.
async fn ask(resp: &RespTransport, verb: HoldVerb, args: &[&[u8]]) -> Result<(WireAnswer, bool), String> {
    let (fields, options) = read(verb, args)?;
    let fields = HoldFields { units: options.units.as_slice(), ..fields };
    let asked = async { resp.responder.answer(&fields.check(verb)?).await };
    let answer = asked.await.map_err(|error| error_text("", &error))?;
    Ok((answer, options.each))
}

/// Tells the arguments apart: key, id, what the verb has besides, and the options.
fn read<'a>(verb: HoldVerb, args: &[&'a [u8]]) -> Result<(HoldFields<'a>, CommandOptions<'a>), String> {
    let (known, form) = match verb {
        HoldVerb::Settle => (SETTLE, "key id [COST n] [UNIT name n ...] [EACH]"),
        HoldVerb::Cancel => (OTHERS, "key id [EACH]"),
        HoldVerb::Extend => (OTHERS, "key id ms [EACH]"),
    };
    let (words, options) = CommandOptions::read(known, args.get(2..).unwrap_or_default(), |_| false)?;
    let lease = match (verb, words) {
        (HoldVerb::Extend, [lease]) => Some(Nanos::from_millis(millis("lease", lease)?)),
        (HoldVerb::Settle | HoldVerb::Cancel, []) => None,
        (_, words) => {
            let what = words.last().map_or("no lease".to_owned(), |word| format!("'{}'", escaped(word)));
            return Err(format!("ERR syntax error: {what}; send {form}"));
        }
    };
    let word = |index: usize| args.get(index).copied().unwrap_or_default();
    let fields = HoldFields { key: word(0), id: word(1), cost: options.cost, lease, units: &[] };
    Ok((fields, options))
}

const SETTLE: KnownOptions = KnownOptions { amounts: true, age: false, lease: false, each: true };
const OTHERS: KnownOptions = KnownOptions { amounts: false, age: false, lease: false, each: true };

/// Writes state, remaining, retry_after_ms and reset_after_ms.
fn write(outcome: &HoldOutcome, reply: &mut RespReply<'_>) {
    reply.bulk(outcome.state.as_str().as_bytes());
    let decision = outcome.standing.as_ref().map(|standing| standing.decision);
    reply.integer(decision.map_or(0, |decision| saturated(decision.remaining)));
    let retry_after = decision.and_then(|decision| decision.retry_after);
    reply.integer(retry_after.map_or(-1, |wait| saturated(wait.ceil_millis())));
    reply.integer(decision.map_or(0, |decision| saturated(decision.reset_after.ceil_millis())));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<'a>(verb: HoldVerb, line: &'a str) -> Result<(HoldFields<'a>, CommandOptions<'a>), String> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        read(verb, &args)
    }

    #[test]
    fn an_empty_id_is_no_missing_word() {
        let fields = HoldFields { key: b"k", id: b"", cost: None, lease: None, units: &[] };
        let error = fields.check(HoldVerb::Cancel).unwrap_err();
        let says = "ERR invalid id: empty; send the id that the hold was answered with";
        assert_eq!(error_text("", &error), says);
    }

    #[test]
    fn what_is_no_option_is_a_mistake() {
        let (fields, options) = words(HoldVerb::Settle, "k id COST 2 UNIT tokens 5 EACH").unwrap();
        assert_eq!((fields.key, fields.id, fields.cost), (&b"k"[..], &b"id"[..], Some(2)));
        assert_eq!((options.units.as_slice(), options.each), (&[("tokens", 5)][..], true));
        let (fields, options) = words(HoldVerb::Extend, "k id 1500").unwrap();
        assert_eq!((fields.lease, options.each), (Some(Nanos::from_millis(1_500)), false));
        for (verb, line, says) in [
            (HoldVerb::Settle, "k id tokens 5", "ERR syntax error: '5'; send key id [COST n]"),
            (HoldVerb::Cancel, "k id COST 5", "ERR syntax error: '5'; send key id [EACH]"),
            (HoldVerb::Extend, "k id EACH", "ERR syntax error: no lease; send key id ms [EACH]"),
            (HoldVerb::Extend, "k id -1", "ERR invalid lease: '-1'; must be a whole number"),
        ] {
            let said = words(verb, line).unwrap_err();
            assert!(said.starts_with(says), "{said}");
        }
    }
}
