//! What is done about a state that the script did not understand.
//!
//! The script reads what this store and the engine's encoders write. Everything else comes here: text that means
//! the same but is written otherwise (`+5`, leading zeros) is rewritten, another schema version is discarded, and for
//! what is no state at all the policy answers.

use ratekeeper::state::{OnUnreadable, Record, State, StateError, ascii, binary};
use ratekeeper::{StoreError, StoreErrorKind, Timestamp};
use redis::Value;

use crate::call::Call;
use crate::encoding::Encoding;
use crate::place::Place;
use crate::reply::{odd, unreadable};

/// Why a state was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Its schema has another version.
    OtherVersion(String),
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
            let fields = fields.iter().map(|field| match field {
                Value::BulkString(bytes) => Ok(bytes.as_slice()),
                _ => Err(odd("a hash of something else than bytes")),
            });
            let fields = fields.collect::<Result<Vec<_>, _>>()?;
            call.arg(b"b");
            fields.iter().for_each(|field| call.arg(field));
            discard_hash(place, &fields, policy)?
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
    let rules = || place.rules.iter().map(|(name, quota, _)| (*name, *quota));
    let states = match ascii::decode(text).and_then(|record| record.into_rules(rules())) {
        Ok(states) => states,
        Err(error) => return give_up(&error, policy).map(Some),
    };
    let named = rules().zip(states).map(|((name, quota), state)| (name, quota, state));
    // The time only fills in for rules that are fresh, and what is long past is fresh too.
    let record = Record::from_rules(named, Timestamp::EPOCH).map_err(|error| unreadable(&error))?;
    if let Some(record) = record {
        let canonical = ascii::encode(&record);
        if canonical.as_bytes() == text {
            return Err(odd("it does not read what the engine writes"));
        }
        call.arg(canonical.as_bytes());
    }
    Ok(None)
}

/// A hash is always written in the same way, so that there is nothing to rewrite: it is lost, or an error.
fn discard_hash(
    place: &Place<'_>,
    fields: &[&[u8]],
    policy: OnUnreadable,
) -> Result<Option<Loss>, StoreError> {
    let pairs: Vec<_> = fields.as_chunks::<2>().0.iter().map(|[name, content]| (*name, *content)).collect();
    match binary::decode(&pairs) {
        Ok(binary::Decoded::OtherVersion { found }) => Ok(Some(Loss::OtherVersion(found))),
        Ok(binary::Decoded::State(state)) => match mismatch(place, &state) {
            None => Err(odd("it does not read what the engine writes")),
            Some(error) => lose(error, policy).map(Some),
        },
        Err(error) => give_up(&error, policy).map(Some),
    }
}

/// What is wrong with a readable state: that it belongs to another algorithm.
fn mismatch(place: &Place<'_>, state: &State) -> Option<StoreError> {
    let (name, quota, _) = place.rules.first()?;
    let error = Record::from_rules([(*name, *quota, Some(state.clone()))], Timestamp::EPOCH).err()?;
    Some(unreadable(&error))
}

fn give_up(error: &StateError, policy: OnUnreadable) -> Result<Loss, StoreError> {
    lose(unreadable(error), policy)
}

fn lose(error: StoreError, policy: OnUnreadable) -> Result<Loss, StoreError> {
    debug_assert_eq!(error.kind(), StoreErrorKind::Unreadable);
    match policy {
        OnUnreadable::Reset => Ok(Loss::Unreadable(error.to_string())),
        _ => Err(error),
    }
}
