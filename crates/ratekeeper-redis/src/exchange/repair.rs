//! What to write instead of a state that the script could not read.
//!
//! The script reads what this store and the engine's encoders write. Everything else comes here: text that means
//! the same but is written otherwise (`+5`, leading zeros, by position instead of by name) is rewritten, another schema
//! version and the state of another algorithm are discarded, and for what is no state at all the policy answers.

use ratekeeper::StoreError;
use ratekeeper::algorithm::Tenancy;
use ratekeeper::state::{OnUnreadable, Replaced, RuleStates, StateError, binary};
use redis::Value;

use super::group::RuleGroup;
use super::hash::{fields_by_state, hash_fields};
use crate::encoding::Encoding;
use crate::error::{RedisError, unreadable};
use crate::script::ScriptCall;

/// Why a state was discarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StateLoss {
    /// Its schema has another version, quoted here.
    OtherVersion(String),
    /// These rules are decided by another algorithm now.
    OtherAlgorithm(Vec<Replaced>),
    /// It cannot be read, for this reason, and the policy says to start afresh.
    Unreadable(String),
}

/// The call that replaces a state, and what is lost by it, if anything.
#[derive(Debug)]
pub(crate) struct StateRepair {
    pub(crate) call: ScriptCall,
    pub(crate) loss: Option<StateLoss>,
}

impl StateRepair {
    /// Finds out what a state is that the script could not read, and what to write instead.
    ///
    /// # Errors
    ///
    /// The state is none, and the policy says that this is an error; or the script should have read it.
    pub(crate) fn of(
        group: &RuleGroup<'_>,
        key: &[u8],
        found: &Value,
        policy: OnUnreadable,
    ) -> Result<Self, StoreError> {
        let mut call = ScriptCall::with_capacity(8, 128);
        call.key(key);
        let loss = match (group.encoding, found) {
            (Encoding::Ascii, Value::BulkString(text)) => {
                call.arg(b"a");
                call.arg(text);
                rewrite_text(group, text, policy, &mut call)?
            }
            (Encoding::Binary, Value::Array(fields)) => {
                call.arg(b"b");
                for (name, content) in hash_fields(fields)? {
                    call.arg(name);
                    call.arg(content);
                }
                discard_hash(group, fields, policy)?
            }
            _ => {
                return Err(
                    RedisError::unparsed("the script", "an unread state of the encoding's type").into()
                );
            }
        };
        Ok(StateRepair { call, loss })
    }
}

fn rewrite_text(
    group: &RuleGroup<'_>,
    text: &[u8],
    policy: OnUnreadable,
    call: &mut ScriptCall,
) -> Result<Option<StateLoss>, StoreError> {
    let found = match RuleStates::read(text, group.named(), group.tenancy()) {
        Ok(found) => found,
        Err(error) => return give_up(&error, policy).map(Some),
    };
    let states = group.named().zip(found.states).map(|((name, quota), state)| (name, quota, state));
    let canonical = RuleStates::write(states, &found.others, group.tenancy());
    if let Some(canonical) = canonical.map_err(|error| unreadable(&error))? {
        if canonical.as_bytes() == text {
            return Err(unread_by_script());
        }
        call.arg(canonical.as_bytes());
    }
    Ok((!found.replaced.is_empty()).then_some(StateLoss::OtherAlgorithm(found.replaced)))
}

/// A hash is always written in the same way, so that there is nothing to rewrite: it is lost, or an error.
fn discard_hash(
    group: &RuleGroup<'_>,
    fields: &[Value],
    policy: OnUnreadable,
) -> Result<Option<StateLoss>, StoreError> {
    let rule = group.first_rule()?;
    let pairs = match group.tenancy() {
        Tenancy::Own => hash_fields(fields)?,
        Tenancy::Shared => {
            // One version for all of them.
            let mut found = fields_by_state(fields)?;
            let own = found.remove(rule.name.as_str().as_bytes());
            own.map_or_else(|| hash_fields(fields), Ok)?
        }
    };
    match binary::decode(&pairs) {
        Ok(binary::Decoded::OtherVersion { found }) => Ok(Some(StateLoss::OtherVersion(found))),
        Ok(binary::Decoded::State(state)) => {
            let found = state.algorithm();
            if rule.quota.algorithm().has_states_of(found) {
                return Err(unread_by_script());
            }
            Ok(Some(StateLoss::OtherAlgorithm(vec![Replaced::new(rule.name.as_ref().clone(), found)])))
        }
        Err(error) => give_up(&error, policy).map(Some),
    }
}

fn unread_by_script() -> StoreError {
    RedisError::script_fault("the script cannot read a state that the engine wrote").into()
}

fn give_up(error: &StateError, policy: OnUnreadable) -> Result<StateLoss, StoreError> {
    match policy {
        OnUnreadable::Reset => Ok(StateLoss::Unreadable(unreadable(error).to_string())),
        _ => Err(unreadable(error)),
    }
}
