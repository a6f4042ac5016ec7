//! How much a reset has forgotten: the states that were still live.

use ratekeeper::algorithm::Tenancy;
use ratekeeper::state::{RuleStates, binary, is_live};
use ratekeeper::{State, Timestamp};
use redis::Value;

use super::group::RuleGroup;
use super::hash::{fields_by_state, hash_fields, state_name};
use crate::encoding::Encoding;

/// Reads whatever was under a key that has been forgotten. Appends the states of the group's rules, and returns how many
/// of those that other quotas of requests left were live. What cannot be read was forgotten all the same, and counts for
/// nothing.
pub(super) fn read_forgotten(
    group: &RuleGroup<'_>,
    found: &Value,
    now: Timestamp,
    states: &mut Vec<Option<State>>,
) -> u64 {
    let (own, others) = match (group.encoding, found) {
        (Encoding::Ascii, Value::BulkString(text)) => texts(group, text, now),
        (Encoding::Binary, Value::Array(fields)) => hashes(group, fields, now),
        _ => None,
    }
    .unwrap_or_else(|| (vec![None; group.rules.len()], 0));
    states.extend(own);
    others
}

/// The states of the rules, and how many live ones there were of others.
type ForgottenStates = (Vec<Option<State>>, u64);

fn texts(group: &RuleGroup<'_>, text: &[u8], now: Timestamp) -> Option<ForgottenStates> {
    let found = RuleStates::read(text, group.named(), group.tenancy()).ok()?;
    let others = match group.tenancy() {
        Tenancy::Own => 0,
        Tenancy::Shared => found.others.live(now),
    };
    Some((found.states, others))
}

fn hashes(group: &RuleGroup<'_>, fields: &[Value], now: Timestamp) -> Option<ForgottenStates> {
    let rule = group.rules.first()?;
    let fits = |state: &State| rule.quota.algorithm().has_states_of(state.algorithm());
    if group.tenancy() == Tenancy::Own {
        let binary::Decoded::State(state) = binary::decode(&hash_fields(fields).ok()?).ok()? else {
            return None;
        };
        return Some((vec![Some(state).filter(fits)], 0));
    }
    let (mut own, mut others) = (None, 0);
    for (name, fields) in fields_by_state(fields).ok()? {
        let found = (state_name(name), binary::decode(&fields));
        let (Some(name), Ok(binary::Decoded::State(state))) = found else { continue };
        match name == *rule.name {
            true => own = Some(state).filter(fits),
            false => others += u64::from(is_live(&name, &state, now)),
        }
    }
    Some((vec![own], others))
}
