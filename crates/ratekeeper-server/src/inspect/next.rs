//! What the next request would get.

use ratekeeper::algorithm::{Tenancy, composite};
use ratekeeper::state::{Record, RecordPart};
use ratekeeper::{Algorithm, Cost, Decision, Name, Quota, Timestamp};

use super::{NextError, rules};

/// What a request of cost 1 would get now, and by which rule.
#[derive(Clone, Debug)]
pub struct Next {
    pub(super) decision: Decision,
    pub(super) rule: Name,
}

impl Next {
    pub(super) fn of(record: &Record, quota: &str, now: Timestamp) -> Result<Self, NextError> {
        let mut rules = rules(quota).map_err(NextError::Quota)?;
        borrow_names(record, &mut rules);
        let named = rules.iter().map(|(name, quota)| (name, quota));
        let states = record.clone().into_rules(named).map_err(NextError::State)?;
        let held: Vec<_> = rules.iter().zip(states).map(|((_, quota), state)| (*quota, state)).collect();
        let decision = composite::peek(&held, Cost::ONE, now, Tenancy::Own).map_err(NextError::Mismatch)?;
        let rule = rules.swap_remove(usize::from(decision.rule).min(rules.len() - 1)).0;
        Ok(Next { decision, rule })
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
