//! The states of some rules, from one text in whichever form, and back.

use super::error::StateError;
use super::named::{HEADER, NamedStates, read_state};
use super::part_text::{MAX_LEN, decode_parts, text_of, too_long};
use super::rules::{Replaced, checked, fresh, is_fresh};
use super::shared::is_plain;
use crate::algorithm::Tenancy;
use crate::{Name, Quota, State, Timestamp};

/// The states of some rules, as one text tells them.
///
/// ```
/// use ratekeeper::algorithm::Tenancy;
/// use ratekeeper::state::RuleStates;
/// use ratekeeper::{Name, Plan};
///
/// let plan = Plan::parse("free", "per-s=10/s; daily=1000/day fixed")?;
/// let rules = || plan.rules().iter().map(|rule| (rule.name(), rule.quota()));
/// // Another version of the plan has a rule `hourly`, and no `daily`.
/// let text = "81|hourly=12|8.5|1761884055342794596$per-s=42|1761884055342794596";
/// let found = RuleStates::read(text, rules(), Tenancy::Own)?;
/// assert!(found.states[0].is_some() && found.states[1].is_none());
///
/// let states = rules().zip(found.states).map(|((name, quota), state)| (name, quota, state));
/// let written = RuleStates::write(states, &found.others, Tenancy::Own)?;
/// assert_eq!(written.unwrap(), "81|per-s=42|1761884055342794596$hourly=12|8.5|1761884055342794596");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RuleStates {
    /// The state of each rule, in the order of the rules; none where it equals a fresh key's.
    pub states: Vec<Option<State>>,
    /// What belongs to nobody here, to be [written](RuleStates::write) again as it was. While there is any, the time to
    /// live must not be shortened.
    pub others: NamedStates,
    /// States of these rules by other algorithms: given up, to be counted and logged.
    pub replaced: Vec<Replaced>,
    /// True if the text is in an older form, by position: it is rewritten when it is next changed.
    pub is_old: bool,
}

impl RuleStates {
    /// Returns the states of so many rules that are all fresh, for a key without a text.
    pub fn fresh(rules: usize) -> Self {
        let (others, replaced) = (NamedStates::default(), Vec::new());
        RuleStates { states: vec![None; rules], others, replaced, is_old: false }
    }

    /// Reads the states of these rules from a text in whichever form. Rules of [`Tenancy::Shared`] are one quota that a
    /// request brings, under its [name](super::shared_name).
    ///
    /// # Errors
    ///
    /// If the text, or the state of one of these rules, cannot be read.
    pub fn read<'a, I>(text: impl AsRef<[u8]>, rules: I, tenancy: Tenancy) -> Result<Self, StateError>
    where
        I: IntoIterator<Item = (&'a Name, &'a Quota)>,
    {
        let (text, rules) = (text.as_ref(), Vec::from_iter(rules));
        let (mut others, is_old, mut replaced) = match (tenancy, rules.first()) {
            _ if text.starts_with(HEADER.as_bytes()) => (NamedStates::decode(text)?, false, Vec::new()),
            (Tenancy::Shared, Some((_, quota))) => NamedStates::decode_shared(text, quota)?,
            _ => {
                let found = decode_parts(text_of(text)?)?.into_fitting_rules(&rules)?;
                let mut others = NamedStates::default();
                for window in found.others {
                    others.push(window.name.clone(), State::FixedWindow(window.state()))?;
                }
                let (states, replaced) = (found.states, found.replaced);
                return Ok(RuleStates { states, others, replaced, is_old: true });
            }
        };
        let mut states = Vec::with_capacity(rules.len());
        for (name, quota) in rules {
            let found = others.find(name).map(|at| others.0.remove(at));
            let state = found.map(|(name, text)| read_state(&name, &text)).transpose()?;
            states.push(match state {
                // What is full under this quota may not be under another that shares it.
                Some(state) if quota.algorithm().has_states_of(state.algorithm()) => {
                    Some(state).filter(|state| tenancy == Tenancy::Shared || !is_fresh(state, quota))
                }
                Some(other) => {
                    replaced.push(Replaced { rule: name.clone(), found: other.algorithm() });
                    None
                }
                None => None,
            });
        }
        Ok(RuleStates { states, others, replaced, is_old })
    }

    /// Writes the states of rules by name, and after them what belongs to others, of which the first
    /// [16](NamedStates::MAX_OTHERS) are kept: the most recently written. None if there is nothing to be written: a key to
    /// forget.
    ///
    /// # Errors
    ///
    /// If a state is not of its rule's algorithm, or the text would be longer than can be read.
    pub fn write<'a, I>(
        rules: I,
        others: &NamedStates,
        tenancy: Tenancy,
    ) -> Result<Option<String>, StateError>
    where
        I: IntoIterator<Item = (&'a Name, &'a Quota, Option<State>)>,
    {
        let mut named = NamedStates::default();
        for (name, quota, state) in rules {
            if let Some(state) = state {
                named.push(name.clone(), checked(name, quota, state)?)?;
            }
        }
        named.0.extend(others.0.iter().take(NamedStates::MAX_OTHERS).cloned());
        let text = match (named.0.as_slice(), tenancy) {
            ([], _) => return Ok(None),
            ([(name, state)], Tenancy::Shared) if is_plain(name, state) => state.to_string(),
            _ => named.encode(),
        };
        if text.len() > MAX_LEN {
            return Err(too_long(text.len()));
        }
        Ok(Some(text))
    }

    /// Like [`write`](RuleStates::write), but if there is nothing to be written, a fresh rule is spelled out: for stores that
    /// cannot delete a key on condition.
    pub(crate) fn write_out<'a, I>(
        rules: I,
        others: &NamedStates,
        tenancy: Tenancy,
        now: Timestamp,
    ) -> Result<String, StateError>
    where
        I: IntoIterator<Item = (&'a Name, &'a Quota, Option<State>)>,
    {
        let mut rules = rules.into_iter().peekable();
        let first = rules.peek().map(|(name, quota, _)| (*name, *quota));
        if let Some(text) = Self::write(rules, others, tenancy)? {
            return Ok(text);
        }
        let first = first.map(|(name, quota)| Ok((name, quota, Some(fresh(name, quota, now)?))));
        let text = Self::write(first.transpose()?, others, tenancy)?;
        text.ok_or_else(|| StateError::shape("rules", "none".into(), "there is a rule to every state"))
    }
}
