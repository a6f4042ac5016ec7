//! Requests that a failure mode has answered instead of the store, by plan.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ratekeeper::{FailureMode, Rules};

/// The most plans that are counted by themselves.
const MOST_PLANS: usize = 1_000;
/// The name of what has no counter of its own.
const OTHER: &str = "_other";
/// The name of requests that bring their own quota.
const NO_PLAN: &str = "-";

/// Counts of answers, by plan and failure mode. Locked, for a store that answers needs none.
#[derive(Debug, Default)]
pub(super) struct FailureAnswers(Mutex<AnswersCounted>);

#[derive(Debug, Default)]
struct AnswersCounted {
    /// Of each mode, whatever the plans.
    total: [u64; MODES.len()],
    plans: BTreeMap<String, [u64; MODES.len()]>,
}

/// How often failure modes answered for good, at one instant: what a local twin decides is a decision as any other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailureAnswersReading {
    /// Requests that were allowed because the store failed.
    pub(crate) open: u64,
    /// Requests that were denied because the store failed.
    pub(crate) closed: u64,
}

const MODES: [FailureMode; 4] =
    [FailureMode::Open, FailureMode::Local, FailureMode::Closed, FailureMode::Error];

impl FailureAnswers {
    /// Counts one answer, under each plan of the request.
    #[cold]
    pub(super) fn count(&self, rules: Rules<'_>, mode: FailureMode) {
        let Some(at) = MODES.iter().position(|other| *other == mode) else { return };
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.total[at] += 1;
        let counts = &mut counted.plans;
        let mut add = |plan: &str| match counts.get_mut(plan) {
            Some(count) => count[at] += 1,
            None => {
                let name = if counts.len() < MOST_PLANS { plan } else { OTHER };
                counts.entry(name.to_owned()).or_default()[at] += 1;
            }
        };
        let mut plans = rules.plans().peekable();
        if plans.peek().is_none() {
            add(NO_PLAN);
        }
        plans.for_each(|plan| add(plan.name().as_str()));
    }

    /// Returns how often requests were let through, and how often turned away.
    pub(super) fn total(&self) -> FailureAnswersReading {
        let [open, _, closed, _] = self.0.lock().unwrap_or_else(PoisonError::into_inner).total;
        FailureAnswersReading { open, closed }
    }

    /// Returns plan, mode and count of everything that was counted, sorted by plan.
    pub(super) fn read(&self) -> Vec<(String, &'static str, u64)> {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_plan = |(plan, counts): (&String, &[u64; MODES.len()])| {
            let counted = MODES.into_iter().zip(*counts).filter(|(_, count)| *count > 0);
            counted.map(|(mode, count)| (plan.clone(), mode.word(), count)).collect::<Vec<_>>()
        };
        counted.plans.iter().flat_map(of_plan).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ratekeeper::{Plan, Quota};

    use super::*;

    #[test]
    fn answers_are_counted_by_plan_and_bounded() {
        let answers = FailureAnswers::default();
        let [gold, free] = ["gold", "free"].map(|name| Arc::new(Plan::parse(name, "1/s").unwrap()));
        let quota: Quota = "1/s".parse().unwrap();
        answers.count(Rules::Plan(&gold), FailureMode::Open);
        answers.count(Rules::Plans(&[gold.clone(), free]), FailureMode::Closed);
        answers.count(Rules::Quota(&quota), FailureMode::Error);
        let read: Vec<String> =
            answers.read().into_iter().map(|(plan, mode, count)| format!("{plan} {mode} {count}")).collect();
        assert_eq!(read, ["- error 1", "free closed 1", "gold open 1", "gold closed 1"]);
        assert_eq!(answers.total(), FailureAnswersReading { open: 1, closed: 1 });
        for number in 0..2 * MOST_PLANS {
            let plan = Plan::parse(&format!("p{number}"), "1/s").unwrap();
            answers.count(Rules::Plan(&plan), FailureMode::Open);
        }
        let read = answers.read();
        assert!(read.len() <= MOST_PLANS + 2, "{}", read.len());
        assert_eq!(read.iter().map(|(.., count)| count).sum::<u64>(), 4 + 2 * MOST_PLANS as u64);
    }
}
