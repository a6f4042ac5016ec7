//! What the next request would get under a quota.

use std::fmt;

use ratekeeper::algorithm::{Mismatch, Tenancy, composite};
use ratekeeper::state::{Record, RecordPart, StateError};
use ratekeeper::{Algorithm, Cost, Decision, Name, Plan, PlanError, Quota, Timestamp};

/// What a request of cost 1 would get now, and the rule that decides it.
#[derive(Clone, Debug)]
pub struct NextDecision {
    pub(super) decision: Decision,
    pub(super) rule: Name,
}

impl NextDecision {
    pub(super) fn of(record: &Record, quota: &str, now: Timestamp) -> Result<Self, NextError> {
        let mut rules = rules(quota).map_err(NextError::Quota)?;
        borrow_names(record, &mut rules);
        let named = rules.iter().map(|(name, quota)| (name, quota));
        let states = record.clone().into_rules(named).map_err(NextError::State)?;
        let held: Vec<_> = rules.iter().zip(states).map(|((_, quota), state)| (*quota, state)).collect();
        let decision = composite::peek(&held, Cost::ONE, now, Tenancy::Own).map_err(NextError::Mismatch)?;
        let rule = rules.swap_remove(usize::from(decision.rule).min(rules.len() - 1)).0;
        Ok(NextDecision { decision, rule })
    }
}

/// Windows are stored by name, and so may be all rules. Who gives as many as there are, and names none of them, means
/// them in order.
fn borrow_names(record: &Record, rules: &mut [(Name, Quota)]) {
    let names = record.names();
    if !names.is_empty() {
        if names.len() == rules.len() && !rules.iter().any(|(name, _)| names.contains(name)) {
            rules.iter_mut().zip(names).for_each(|(rule, name)| rule.0 = name.clone());
        }
        return;
    }
    let windows = record.parts().iter().find_map(|part| match part {
        RecordPart::FixedWindows(windows) => Some(windows.as_slice()),
        _ => None,
    });
    let Some(windows) = windows else { return };
    let fixed =
        || (0..rules.len()).filter(|rule| matches!(rules[*rule].1.algorithm(), Algorithm::FixedWindow(_)));
    let known = fixed().any(|rule| windows.iter().any(|window| window.name == rules[rule].0));
    if known || fixed().count() != windows.len() {
        return;
    }
    let fixed: Vec<usize> = fixed().collect();
    for (rule, window) in fixed.into_iter().zip(windows) {
        rules[rule].0 = window.name.clone();
    }
}

/// Returns the rules that a text means.
fn rules(quota: &str) -> Result<Vec<(Name, Quota)>, PlanError> {
    let plan = Plan::parse("inspect", quota)?;
    Ok(plan.rules().iter().map(|rule| (rule.name().clone(), *rule.quota())).collect())
}

/// Why nothing can be said about the next request.
#[derive(Debug)]
#[non_exhaustive]
pub enum NextError {
    /// The text is not a quota.
    Quota(PlanError),
    /// The state belongs to other rules.
    State(StateError),
    /// The state belongs to another algorithm.
    Mismatch(Mismatch),
}

impl fmt::Display for NextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("--quota: ")?;
        match self {
            NextError::Quota(error) => error.fmt(f),
            NextError::State(error) => error.fmt(f),
            NextError::Mismatch(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NextError {}
