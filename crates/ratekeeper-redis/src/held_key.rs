//! Explains what is held for a key.

use ratekeeper::port::{HoldId, HoldState};
use ratekeeper::{StoreError, Timestamp};
use redis::Value;

use crate::error::RedisError;
use crate::exchange::{EndedHold, HoldContents, LiveHold, hash_fields, natural};

/// What is held for a key, and what was lately.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InspectedHolds {
    /// What all live holds have of each rule, by the [number](ratekeeper::RuleId::as_u64) of its identifier. Leases that
    /// have run out are among them until somebody asks for the key.
    pub in_flight: Vec<(u64, u64)>,
    /// The holds, those whose lease ends first before the others.
    pub holds: Vec<InspectedHold>,
    /// The server's time, to compare instants with.
    pub now: Timestamp,
}

/// One hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InspectedHold {
    /// By what it is ended.
    pub id: HoldId,
    /// What it was ended by; none if it was not.
    pub ended: Option<HoldState>,
    /// The names of its plans.
    pub plans: Vec<String>,
    /// What it has of each rule, by the [number](ratekeeper::RuleId::as_u64) of its identifier.
    pub amounts: Vec<(u64, u64)>,
    /// When it was made; of one that has ended, when it was ended.
    pub since: Timestamp,
    /// When its lease ends.
    pub lease_end: Timestamp,
}

/// Reads the answer of `scripts/inspect.lua` about the hash of a key's holds.
pub(crate) fn read(value: Value) -> Result<InspectedHolds, StoreError> {
    let unparsed = || RedisError::unparsed("the script", "the holds of a key");
    let Value::Array(items) = value else { return Err(unparsed().into()) };
    let [_, content, _, Value::Int(micros)] = items.as_slice() else { return Err(unparsed().into()) };
    let now = Timestamp::from_nanos(micros.saturating_mul(1_000));
    let mut found = InspectedHolds { in_flight: Vec::new(), holds: Vec::new(), now };
    let Value::Array(fields) = content else { return Ok(found) };
    for (name, content) in hash_fields(fields)? {
        match name.split_first() {
            Some((b'=', id)) => {
                let id = id.try_into().map(u64::from_le_bytes).map_err(|_| unparsed())?;
                found.in_flight.push((id, natural(content).ok_or_else(unparsed)?));
            }
            Some((b'i', id)) => {
                let id = id.try_into().map(u128::from_be_bytes).map_err(|_| unparsed())?;
                found.holds.push(read_hold(HoldId::from_bits(id), content).ok_or_else(unparsed)?);
            }
            _ => {}
        }
    }
    found.in_flight.sort_unstable();
    found.holds.sort_by_key(|hold| (hold.lease_end, hold.id));
    Ok(found)
}

fn read_hold(id: HoldId, record: &[u8]) -> Option<InspectedHold> {
    let (ended, since, lease_end, body) = match LiveHold::read(record) {
        Some(live) => (None, live.charged_at, live.lease_end, live.body),
        None => {
            let ended = EndedHold::read(record)?;
            (Some(ended.state), ended.now, ended.lease_end, ended.body)
        }
    };
    let HoldContents { plans, rules } = HoldContents::decode(body)?;
    let amounts = rules.iter().map(|rule| (rule.id, rule.amount)).collect();
    Some(InspectedHold { id, ended, plans, amounts, since, lease_end })
}
