//! What was forgotten: how many states there were that still counted.

use ratekeeper::algorithm::Tenancy;
use ratekeeper::state::{RuleStates, binary, is_live};
use ratekeeper::{State, Timestamp};
use redis::Value;

use crate::encoding::Encoding;
use crate::place::Place;
use crate::{heal, shared};

/// Reads whatever was under a key that is forgotten: the states of the place's rules, and how many still counted of
/// those that other quotas of requests left. What cannot be read is forgotten all the same, and counts for nothing.
pub(crate) fn read(place: &Place<'_>, found: &Value, now: Timestamp, states: &mut Vec<Option<State>>) -> u64 {
    let (own, others) = match (place.encoding, found) {
        (Encoding::Ascii, Value::BulkString(text)) => texts(place, text, now),
        (Encoding::Binary, Value::Array(fields)) => hashes(place, fields, now),
        _ => None,
    }
    .unwrap_or_else(|| (vec![None; place.rules.len()], 0));
    states.extend(own);
    others
}

/// The states of the rules, and how many of others still counted.
type Read = (Vec<Option<State>>, u64);

fn texts(place: &Place<'_>, text: &[u8], now: Timestamp) -> Option<Read> {
    let found = RuleStates::read(text, place.named(), place.tenancy()).ok()?;
    let others = match place.tenancy() {
        Tenancy::Own => 0,
        Tenancy::Shared => found.others.live(now),
    };
    Some((found.states, others))
}

fn hashes(place: &Place<'_>, fields: &[Value], now: Timestamp) -> Option<Read> {
    let rule = place.rules.first()?;
    let fits = |state: &State| rule.quota.algorithm().has_states_of(state.algorithm());
    if place.tenancy() == Tenancy::Own {
        let binary::Decoded::State(state) = binary::decode(&heal::pairs(fields).ok()?).ok()? else {
            return None;
        };
        return Some((vec![Some(state).filter(fits)], 0));
    }
    let (mut own, mut others) = (None, 0);
    for (name, fields) in shared::by_name(fields).ok()? {
        let found = (shared::name(name), binary::decode(&fields));
        let (Some(name), Ok(binary::Decoded::State(state))) = found else { continue };
        match name == *rule.name {
            true => own = Some(state).filter(fits),
            false => others += u64::from(is_live(&name, &state, now)),
        }
    }
    Some((vec![own], others))
}
