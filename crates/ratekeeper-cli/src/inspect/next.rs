//! What the next request would get under a quota.

use std::fmt;

use ratekeeper::algorithm::{Mismatch, Tenancy, composite};
use ratekeeper::state::{Record, RecordPart, StateError};
use ratekeeper::{Algorithm, Cost, Decision, Name, Plan, PlanError, Quota, Timestamp};

use super::debt::Debt;

/// What a request of cost 1 would get now, and the rule that decides it.
#[derive(Clone, Debug)]
pub struct NextDecision {
    pub(super) decision: Decision,
    pub(super) rule: Name,
    /// Rules that are in debt.
    pub(super) debts: Vec<(Name, Debt)>,
}

impl NextDecision {
    pub(super) fn of(record: &Record, quota: &str, now: Timestamp) -> Result<Self, NextError> {
        let mut rules = rules(quota)?;
        borrow_names(record, &mut rules);
        let named = rules.iter().map(|(name, quota)| (name, quota));
        let states = record.clone().into_rules(named).map_err(NextError::State)?;
        let held: Vec<_> = rules.iter().zip(states).map(|((_, quota), state)| (*quota, state)).collect();
        let decision = composite::peek(&held, Cost::ONE, now, Tenancy::Own).map_err(NextError::Mismatch)?;
        let debts = rules.iter().zip(&held).filter_map(|((name, _), (quota, state))| {
            Debt::of(quota, state.as_ref(), now).map(|debt| (name.clone(), debt))
        });
        let debts = debts.collect();
        let rule = rules.swap_remove(usize::from(decision.rule).min(rules.len() - 1)).0;
        Ok(NextDecision { decision, rule, debts })
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

/// Returns the rates that a text means. What is in flight has no state of its own.
fn rules(quota: &str) -> Result<Vec<(Name, Quota)>, NextError> {
    let plan = Plan::parse("inspect", quota).map_err(NextError::Quota)?;
    let rates = plan.rules().iter().filter(|rule| !rule.is_concurrency());
    let rates: Vec<_> = rates.map(|rule| (rule.name().clone(), *rule.quota())).collect();
    if rates.is_empty() { Err(NextError::InFlight) } else { Ok(rates) }
}

/// Why nothing can be said about the next request.
#[derive(Debug)]
#[non_exhaustive]
pub enum NextError {
    /// The text is not a quota.
    Quota(PlanError),
    /// The text limits what is in flight, and no rate.
    InFlight,
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
            NextError::InFlight => {
                f.write_str("it limits only what is in flight, of which a state tells nothing; give a rate such as `10/s`")
            }
            NextError::State(error) => error.fmt(f),
            NextError::Mismatch(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NextError {}
