//! A quota or a plan that a trace is replayed against.

use std::fmt;

use ratekeeper::algorithm::{Tenancy, composite, gcra, take};
use ratekeeper::{Algorithm, Cost, Decision, Plan, PlanError, Quota, State, Timestamp};

use super::peak::Peak;
use super::timeline::Timeline;

/// A quota or a plan, the states of all keys under it, and what it has decided so far.
#[derive(Debug)]
pub struct SimulatedPolicy {
    label: String,
    quotas: Box<[Quota]>,
    states: States,
    /// How often each key was denied, by the number of the key.
    denied: Vec<u64>,
    pub(super) admitted: u64,
    pub(super) refused: u64,
    pub(super) timeline: Timeline,
    pub(super) peak: Peak,
}

/// The states of all keys, by the number of the key. None is ever evicted, so that the same trace gets the same answers.
#[derive(Debug)]
enum States {
    /// One GCRA quota: an instant for each key, which is all of its state and fast.
    Instants(Vec<Timestamp>),
    /// As many states for each key as there are quotas.
    Any(Vec<Option<State>>),
}

impl SimulatedPolicy {
    /// Parses one quota, or several separated by `;`.
    ///
    /// # Errors
    ///
    /// The text is not a quota.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let plan =
            Plan::parse("policy", text).map_err(|error| PolicyError { text: text.to_owned(), error })?;
        Ok(Self::of(text.trim().to_owned(), &plan))
    }

    /// Returns a policy with the rules of a plan.
    pub fn of_plan(plan: &Plan) -> Self {
        Self::of(format!("plan {}", plan.name()), plan)
    }

    /// Returns a policy of one quota.
    pub fn of_quota(quota: Quota) -> Self {
        Self::new(quota.to_string(), [quota].into())
    }

    fn of(label: String, plan: &Plan) -> Self {
        Self::new(label, plan.rules().iter().map(|rule| *rule.quota()).collect())
    }

    fn new(label: String, quotas: Box<[Quota]>) -> Self {
        let states = match &*quotas {
            [quota] if quota.algorithm() == Algorithm::Gcra => States::Instants(Vec::new()),
            _ => States::Any(Vec::new()),
        };
        SimulatedPolicy {
            label,
            quotas,
            states,
            denied: Vec::new(),
            admitted: 0,
            refused: 0,
            timeline: Timeline::default(),
            peak: Peak::default(),
        }
    }

    /// Returns its name for reports.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns its quota, if it has only one.
    pub fn quota(&self) -> Option<&Quota> {
        match &*self.quotas {
            [quota] => Some(quota),
            _ => None,
        }
    }

    /// Returns how many requests were admitted.
    pub fn admitted(&self) -> u64 {
        self.admitted
    }

    /// Returns how many requests were denied.
    pub fn denied(&self) -> u64 {
        self.refused
    }

    /// Returns what it decided over time.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Decides one request, and counts it.
    #[inline]
    pub(super) fn decide(&mut self, key: u32, cost: Cost, now: Timestamp) -> Decision {
        // As a store tells it.
        let decision = self.take(key as usize, cost, now).taken(cost, now);
        self.timeline.count(now, decision.allowed);
        if decision.allowed {
            self.admitted += 1;
            self.peak.count(now);
        } else {
            self.refused += 1;
            let key = key as usize;
            if self.denied.len() <= key {
                self.denied.resize(key + 1, 0);
            }
            self.denied[key] += 1;
        }
        decision
    }

    #[inline]
    fn take(&mut self, key: usize, cost: Cost, now: Timestamp) -> Decision {
        match (&mut self.states, &*self.quotas) {
            (States::Instants(instants), [quota, ..]) => {
                if instants.len() <= key {
                    // As good as no state: it has passed at whatever time is asked for.
                    instants.resize(key + 1, Timestamp::MIN);
                }
                let tat = instants[key];
                let mut view = gcra::GcraView::at(quota, Some(gcra::GcraState { tat }), now, Tenancy::Own);
                let decision = take(&mut view, cost);
                if let Some(state) = view.state()
                    && cost != Cost::ZERO
                {
                    instants[key] = state.tat;
                }
                decision
            }
            (States::Any(states), quotas) => {
                let range = key * quotas.len()..(key + 1) * quotas.len();
                if states.len() < range.end {
                    states.resize(range.end, None);
                }
                // A policy holds no concurrency limit, and no state of another algorithm than its quota's.
                composite::acquire_in_place(quotas, &mut states[range], cost, now).unwrap_or(Decision::deny(
                    0,
                    0,
                    None,
                    ratekeeper::Nanos::ZERO,
                ))
            }
            (States::Instants(_), []) => Decision::deny(0, 0, None, ratekeeper::Nanos::ZERO),
        }
    }

    /// Returns the numbers of the keys that were denied most, and how often, the most denied first.
    pub fn worst_keys(&self, most: usize) -> Vec<(u32, u64)> {
        let denied = (0u32..).zip(&self.denied).filter(|(_, denied)| **denied > 0);
        let mut worst: Vec<(u32, u64)> = denied.map(|(key, denied)| (key, *denied)).collect();
        let order = |(key, denied): &(u32, u64)| (std::cmp::Reverse(*denied), *key);
        if most < worst.len() {
            worst.select_nth_unstable_by_key(most, order);
            worst.truncate(most);
        }
        worst.sort_unstable_by_key(order);
        worst
    }

    /// Returns how many keys were denied at least once.
    pub fn keys_denied(&self) -> usize {
        self.denied.iter().filter(|denied| **denied > 0).count()
    }
}

/// A text that is not a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyError {
    text: String,
    error: PlanError,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--quota {:?}: {}", self.text, self.error)
    }
}

impl std::error::Error for PolicyError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratekeeper::port::Request;
    use ratekeeper::{Key, MemoryStore, Rules};

    use super::*;

    const POLICIES: [&str; 8] = [
        "3/s",
        "5/s burst 2",
        "4/s bucket",
        "4/s leaky",
        "3/s fixed",
        "3/s sliding",
        "3/s log",
        "2/s; 5 per 3s fixed grid; 6 per 4s bucket",
    ];

    proptest! {
        /// The law of this module: its answers are those of the store that a server has.
        #[test]
        fn the_store_in_memory_would_have_answered_the_same(
            which in 0..POLICIES.len(),
            asks in prop::collection::vec((0u64..900, 0u32..4, 0u64..5), 1..120),
        ) {
            let plan = Plan::parse("policy", POLICIES[which]).unwrap();
            let mut policy = SimulatedPolicy::parse(POLICIES[which]).unwrap();
            let store = MemoryStore::default();
            let mut millis = 1_000_000;
            for (step, key, cost) in asks {
                millis += step;
                let now = Timestamp::from_nanos(i64::try_from(millis).unwrap() * 1_000_000);
                let bytes = key.to_be_bytes();
                let request =
                    Request { key: Key::new(&bytes).unwrap(), rules: Rules::Plan(&plan), cost: Cost::new(cost) };
                let expected = store.acquire_at(request, now).unwrap();
                prop_assert_eq!(policy.decide(key, Cost::new(cost), now), expected);
            }
        }
    }

    #[test]
    fn the_worst_keys_come_first_and_are_exact() {
        let mut policy = SimulatedPolicy::parse("1/h").unwrap();
        for key in 0..100u32 {
            for _ in 0..=(key % 10) {
                policy.decide(key, Cost::ONE, Timestamp::EPOCH);
            }
        }
        assert_eq!(policy.worst_keys(3), [(9, 9), (19, 9), (29, 9)]);
        assert_eq!((policy.keys_denied(), policy.worst_keys(1000).len()), (90, 90));
        assert_eq!((policy.admitted(), policy.denied()), (100, 450));
    }
}
