//! From the states of a plan's rules to one record, and back, by position: as services in other languages write them,
//! and as this one did before it wrote [names](super::NamedStates).
//!
//! The rules that are fixed windows go together into one part, by name; every other rule is a part of its own. The
//! parts stand in the order in which the plan first names them. A rule that is fresh while another is not is
//! written out as what a fresh key is, so that the shape of a record depends on the plan alone, and a record of
//! another shape is known to be another plan's.

use super::error::StateError;
use super::part::{NamedWindow, NamedWindows, RecordPart, part_of, single};
use super::record::Record;
use crate::algorithm::exact;
use crate::algorithm::fixed_window::FixedWindowState;
use crate::algorithm::gcra::GcraState;
use crate::algorithm::leaky_bucket::LeakyBucketState;
use crate::algorithm::sliding_log::SlidingLogState;
use crate::algorithm::sliding_window::SlidingWindowState;
use crate::algorithm::token_bucket::TokenBucketState;
use crate::{Algorithm, Name, Quota, State, Timestamp};

impl Record {
    /// Returns one record of the state that each rule is in at `now`, changed or not; none if every rule is fresh, which
    /// is a key to forget.
    ///
    /// Refused are more than 8 fixed windows, more than 16 parts, a concurrency limit (whose state is held by
    /// permits), and a state of another algorithm than its rule's.
    ///
    /// ```
    /// use ratekeeper::state::{Record, ascii};
    /// use ratekeeper::{Cost, Name, Quota, State, Timestamp, algorithm};
    ///
    /// let (name, quota): (Name, Quota) = ("default".parse()?, "10/s bucket".parse()?);
    /// let now = Timestamp::from_secs(1_761_884_055);
    /// let (_, state) = algorithm::try_acquire(&quota, None, Cost::new(3), now)?;
    ///
    /// let record = Record::from_rules([(&name, &quota, state.clone())], now)?.unwrap();
    /// assert_eq!(ascii::encode(&record), "12|7|1761884055000000000");
    /// assert_eq!(record.into_rules([(&name, &quota)])?, [state]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_rules<'a, I>(rules: I, now: Timestamp) -> Result<Option<Self>, StateError>
    where
        I: IntoIterator<Item = (&'a Name, &'a Quota, Option<State>)>,
    {
        let rules: Vec<_> = rules.into_iter().collect();
        let all_fresh = rules.iter().all(|(_, _, state)| state.is_none());
        if rules.is_empty() {
            return Ok(None);
        }
        let (mut parts, mut windows, mut windows_at) = (Vec::new(), Vec::new(), 0);
        for (name, quota, state) in rules {
            let state = match state {
                Some(state) => checked(name, quota, state)?,
                None => fresh(name, quota, now)?,
            };
            if let State::FixedWindow(FixedWindowState { count, start }) = state {
                if windows.is_empty() {
                    windows_at = parts.len();
                }
                windows.push(NamedWindow { name: name.clone(), count, start });
                continue;
            }
            parts.push(part_of(name, state)?);
        }
        if !windows.is_empty() {
            parts.insert(windows_at, RecordPart::FixedWindows(NamedWindows::new(windows)?));
        }
        let record = Record::new(parts)?;
        Ok(if all_fresh { None } else { Some(record) })
    }

    /// Returns the state of each rule, in the order of the rules; none where it equals a fresh key's.
    ///
    /// By position, the rules must be those that the record was made of: the same algorithms in the same order, and the
    /// same names of fixed windows. Their numbers may have changed since. By name, a rule that the record does not name
    /// is fresh.
    pub fn into_rules<'a, I>(self, rules: I) -> Result<Vec<Option<State>>, StateError>
    where
        I: IntoIterator<Item = (&'a Name, &'a Quota)>,
    {
        if !self.names().is_empty() {
            return self.into_named_rules(rules);
        }
        let mut parts = self.into_parts().into_iter();
        let mut windows: Option<Vec<NamedWindow>> = None;
        let mut states = Vec::new();
        for (name, quota) in rules {
            let is_window = matches!(quota.algorithm(), Algorithm::FixedWindow(_));
            if !is_window || windows.is_none() {
                match (parts.next(), is_window) {
                    (Some(RecordPart::FixedWindows(found)), true) => windows = Some(found.into_vec()),
                    (Some(part), false) => {
                        let found = part.algorithm();
                        let state = single(part).ok_or_else(|| mismatch(name, quota, found))?;
                        states.push(Some(checked(name, quota, state)?));
                    }
                    (Some(part), true) => return Err(mismatch(name, quota, part.algorithm())),
                    (None, _) => return Err(absent(name)),
                }
            }
            if is_window && let Some(windows) = &mut windows {
                let found = windows.iter().position(|window| window.name == *name);
                let window = windows.swap_remove(found.ok_or_else(|| absent(name))?);
                states.push(Some(State::FixedWindow(window.state())));
            }
            if let Some(state) = states.last_mut() {
                state.take_if(|state| is_fresh(state, quota));
            }
        }
        let surplus_window =
            windows.iter().flatten().next().map(|window| format!("a window `{}`", window.name));
        let surplus_part = || parts.next().map(|part| format!("another `{}`", part.algorithm().word()));
        match surplus_window.or_else(surplus_part) {
            Some(surplus) => Err(StateError::shape("state", surplus, "no rule is for it: reset the key")),
            None => Ok(states),
        }
    }
}

/// Returns the state of a fresh key, spelled out.
pub(super) fn fresh(name: &Name, quota: &Quota, now: Timestamp) -> Result<State, StateError> {
    Ok(match quota.algorithm() {
        Algorithm::Gcra => State::Gcra(GcraState { tat: now }),
        Algorithm::TokenBucket => {
            State::TokenBucket(TokenBucketState { tokens: exact(quota.burst()), last: now })
        }
        Algorithm::LeakyBucket => State::LeakyBucket(LeakyBucketState { level: 0.0, last: now }),
        Algorithm::FixedWindow(_) => State::FixedWindow(FixedWindowState { count: 0, start: now }),
        Algorithm::SlidingWindow => {
            State::SlidingWindow(SlidingWindowState { previous: 0, current: 0, start: now })
        }
        Algorithm::SlidingLog => State::SlidingLog(SlidingLogState::default()),
        Algorithm::Concurrency => return Err(not_stored(name)),
    })
}

/// Returns true if the state equals a fresh key's at any time. (A TAT does only once it has passed.)
///
/// Without this, the first request of a window that was written out while empty would not begin it.
pub(super) fn is_fresh(state: &State, quota: &Quota) -> bool {
    match state {
        State::Gcra(_) => false,
        State::TokenBucket(state) => state.tokens >= exact(quota.burst()),
        State::LeakyBucket(state) => state.level <= 0.0,
        State::FixedWindow(state) => state.count == 0,
        State::SlidingWindow(state) => state.previous == 0 && state.current == 0,
        State::SlidingLog(state) => state.is_empty(),
    }
}

/// Returns the state, if it is of the rule's algorithm.
pub(super) fn checked(name: &Name, quota: &Quota, state: State) -> Result<State, StateError> {
    let found = state.algorithm();
    if quota.algorithm().has_states_of(found) { Ok(state) } else { Err(mismatch(name, quota, found)) }
}

/// A state that is given up, because the rule of its name is decided by another algorithm now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replaced {
    /// The rule, which starts fresh.
    pub rule: Name,
    /// The algorithm whose state it was.
    pub found: Algorithm,
}

impl Replaced {
    /// Returns a note that this rule's state was one of that algorithm.
    pub fn new(rule: Name, found: Algorithm) -> Self {
        Replaced { rule, found }
    }
}

/// What a record by position says of rules that it may not have been made of.
pub(super) struct Fitting {
    /// The state of each rule, in the order of the rules.
    pub(super) states: Vec<Option<State>>,
    /// Windows of rules that are not there.
    pub(super) others: Vec<NamedWindow>,
    /// What is of another algorithm than the rule in its place.
    pub(super) replaced: Vec<Replaced>,
}

impl Record {
    /// Returns the state of each rule, as far as it can be told whose it is: windows by name, everything else in the order of the
    /// rules, each with the first state of its algorithm that is left. The plan may have been edited since the record was written, so a
    /// rule for which nothing is left is fresh. What a dropped rule left has no name to be kept under.
    pub(super) fn into_fitting_rules(self, rules: &[(&Name, &Quota)]) -> Result<Fitting, StateError> {
        let (mut parts, mut others) = (Vec::new(), Vec::new());
        for part in self.into_parts() {
            match part {
                RecordPart::FixedWindows(windows) => others.extend(windows.into_vec()),
                part => parts.extend(single(part)),
            }
        }
        let (mut states, mut unmet) = (Vec::with_capacity(rules.len()), Vec::new());
        for (name, quota) in rules {
            let fits = |state: &State| quota.algorithm().has_states_of(state.algorithm());
            let state = match quota.algorithm() {
                Algorithm::Concurrency => return Err(not_stored(name)),
                Algorithm::FixedWindow(_) => {
                    let found = others.iter().position(|window| window.name == **name);
                    found.map(|at| State::FixedWindow(others.remove(at).state()))
                }
                _ => parts.iter().position(fits).map(|at| parts.remove(at)),
            };
            if state.is_none() {
                unmet.push((*name).clone());
            }
            states.push(state.filter(|state| !is_fresh(state, quota)));
        }
        let mut replaced = Vec::new();
        // A window has a name: if a rule of another algorithm has it now, it is that rule's.
        others.retain(|window| {
            let is_of_a_rule = rules.iter().any(|(name, _)| window.name == **name);
            if is_of_a_rule {
                unmet.retain(|name| *name != window.name);
                replaced.push(Replaced::new(window.name.clone(), Algorithm::FIXED));
            }
            !is_of_a_rule
        });
        let found = parts.iter().map(State::algorithm);
        replaced.extend(unmet.into_iter().zip(found).map(|(rule, found)| Replaced::new(rule, found)));
        Ok(Fitting { states, others, replaced })
    }

    fn into_named_rules<'a, I>(self, rules: I) -> Result<Vec<Option<State>>, StateError>
    where
        I: IntoIterator<Item = (&'a Name, &'a Quota)>,
    {
        let names = self.names().to_vec();
        let mut states: Vec<Option<State>> = self.into_parts().into_iter().map(single).collect();
        let rules = rules.into_iter().map(|(name, quota)| {
            let at = names.iter().position(|known| known == name);
            let state = at.and_then(|at| states[at].take()).map(|state| checked(name, quota, state));
            Ok(state.transpose()?.filter(|state| !is_fresh(state, quota)))
        });
        rules.collect()
    }
}

fn mismatch(name: &Name, quota: &Quota, found: Algorithm) -> StateError {
    if quota.algorithm() == Algorithm::Concurrency {
        return not_stored(name);
    }
    let remedy =
        format!("the rule is decided by `{}`: reset the key or rename the plan", quota.algorithm().word());
    StateError::shape("rule", format!("`{name}` written by `{}`", found.word()), remedy)
}

fn not_stored(name: &Name) -> StateError {
    let remedy = "a concurrency limit is held by permits, not by stored state";
    StateError::shape("rule", format!("`{name}`"), remedy)
}

fn absent(name: &Name) -> StateError {
    let remedy = "the stored state has none of it: reset the key or rename the plan";
    StateError::shape("rule", format!("`{name}`"), remedy)
}
