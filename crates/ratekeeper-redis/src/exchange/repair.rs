//! What is done about a state that the script did not understand.
//!
//! The script reads what this store and the engine's encoders write. Everything else comes here: text that means
//! the same but is written otherwise (`+5`, leading zeros, by position instead of by name) is rewritten, another schema
//! version and the state of another algorithm are discarded, and for what is no state at all the policy answers.

use ratekeeper::StoreError;
use ratekeeper::algorithm::Tenancy;
use ratekeeper::state::{OnUnreadable, Replaced, RuleStates, StateError, binary};
use redis::Value;

use crate::call::Call;
use crate::encoding::Encoding;
use crate::place::Place;
use crate::reply::{odd, unreadable};
use crate::shared;

/// Why a state was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Its schema has another version.
    OtherVersion(String),
    /// The rule of its name is decided by another algorithm now.
    OtherAlgorithm(Vec<Replaced>),
    /// It cannot be read, and the policy says to start afresh.
    Unreadable(String),
}

/// The call that puts a state right, and what is lost by it, if anything.
#[derive(Debug)]
pub(crate) struct Cure {
    pub(crate) call: Call,
    pub(crate) loss: Option<Loss>,
}

/// Finds out what a state is that the script did not understand, and what to write instead.
pub(crate) fn cure(
    place: &Place<'_>,
    key: &[u8],
    found: &Value,
    policy: OnUnreadable,
) -> Result<Cure, StoreError> {
    let mut call = Call::with_capacity(8, 128);
    call.key(key);
    let loss = match (place.encoding, found) {
        (Encoding::Ascii, Value::BulkString(text)) => {
            call.arg(b"a");
            call.arg(text);
            rewrite_text(place, text, policy, &mut call)?
        }
        (Encoding::Binary, Value::Array(fields)) => {
            call.arg(b"b");
            for (name, content) in pairs(fields)? {
                call.arg(name);
                call.arg(content);
            }
            discard_hash(place, fields, policy)?
        }
        _ => return Err(odd("an unread state of another type")),
    };
    Ok(Cure { call, loss })
}

fn rewrite_text(
    place: &Place<'_>,
    text: &[u8],
    policy: OnUnreadable,
    call: &mut Call,
) -> Result<Option<Loss>, StoreError> {
    let found = match RuleStates::read(text, place.named(), place.tenancy()) {
        Ok(found) => found,
        Err(error) => return give_up(&error, policy).map(Some),
    };
    let states = place.named().zip(found.states).map(|((name, quota), state)| (name, quota, state));
    let canonical = RuleStates::write(states, &found.others, place.tenancy());
    if let Some(canonical) = canonical.map_err(|error| unreadable(&error))? {
        if canonical.as_bytes() == text {
            return Err(odd("it does not read what the engine writes"));
        }
        call.arg(canonical.as_bytes());
    }
    Ok((!found.replaced.is_empty()).then_some(Loss::OtherAlgorithm(found.replaced)))
}

/// A hash is always written in the same way, so that there is nothing to rewrite: it is lost, or an error.
fn discard_hash(
    place: &Place<'_>,
    fields: &[Value],
    policy: OnUnreadable,
) -> Result<Option<Loss>, StoreError> {
    let rule = place.rules.first().ok_or_else(|| odd("a place without a rule"))?;
    let pairs = match place.tenancy() {
        Tenancy::Own => pairs(fields)?,
        Tenancy::Shared => {
            // One version for all of them.
            let mut found = shared::by_name(fields)?;
            let own = found.remove(rule.name.as_str().as_bytes());
            own.map_or_else(|| pairs(fields), Ok)?
        }
    };
    match binary::decode(&pairs) {
        Ok(binary::Decoded::OtherVersion { found }) => Ok(Some(Loss::OtherVersion(found))),
        Ok(binary::Decoded::State(state)) => {
            let found = state.algorithm();
            if rule.quota.algorithm().has_states_of(found) {
                return Err(odd("it does not read what the engine writes"));
            }
            Ok(Some(Loss::OtherAlgorithm(vec![Replaced::new(rule.name.as_ref().clone(), found)])))
        }
        Err(error) => give_up(&error, policy).map(Some),
    }
}

/// The name and the content of a field of a hash.
pub(crate) type Field<'v> = (&'v [u8], &'v [u8]);

/// The fields of a hash.
pub(crate) fn pairs(fields: &[Value]) -> Result<Vec<Field<'_>>, StoreError> {
    let bytes = fields.iter().map(|field| match field {
        Value::BulkString(bytes) => Ok(bytes.as_slice()),
        _ => Err(odd("a hash of something else than bytes")),
    });
    let bytes = bytes.collect::<Result<Vec<_>, _>>()?;
    Ok(bytes.as_chunks::<2>().0.iter().map(|[name, content]| (*name, *content)).collect())
}

fn give_up(error: &StateError, policy: OnUnreadable) -> Result<Loss, StoreError> {
    match policy {
        OnUnreadable::Reset => Ok(Loss::Unreadable(unreadable(error).to_string())),
        _ => Err(unreadable(error)),
    }
}
