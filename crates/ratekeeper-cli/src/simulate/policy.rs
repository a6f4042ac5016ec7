//! A quota or a plan that a trace is replayed against.

use std::fmt;

use ratekeeper::algorithm::{Tenancy, composite, gcra, take};
use ratekeeper::port::AmountError;
use ratekeeper::{Algorithm, Cost, Decision, Name, Plan, PlanError, Quota, Rule, State, Timestamp};

use super::peak::Peak;
use super::plan_states::{PlanStates, nothing};
use super::shadow_rule::ShadowRule;
use super::timeline::Timeline;
use super::trace::TraceEntry;

/// A quota or a plan, the states of all keys under it, and what it has decided so far.
#[derive(Debug)]
pub struct SimulatedPolicy {
    label: String,
    /// The plan that it is. Of a trace that tells plans, it decides what has named it.
    plan: Option<Name>,
    /// What the rules count, and those that a trace cannot tell of, too.
    units: Vec<String>,
    /// The rules in flight, which are left out: a trace does not tell how long a request takes.
    left_out: Vec<String>,
    /// The only rule, if there is one, with what is assumed of its unit.
    only: Option<(Rule, Option<Cost>)>,
    quotas: Box<[Quota]>,
    states: States,
    /// How often each key was denied, by the number of the key.
    denied: Vec<u64>,
    /// How often each key asked it, if that is not how often it asked.
    asked: Vec<u64>,
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
    /// As many states for each key as there are quotas, all of which count requests.
    Any(Vec<Option<State>>),
    /// Rules that count other units, or are in shadow.
    Plan(Box<PlanStates>),
}

impl SimulatedPolicy {
    /// Parses one quota, or several separated by `;`.
    ///
    /// # Errors
    ///
    /// The text is not a quota, or limits only what is in flight.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let flag = || format!("--quota {text:?}");
        let plan = Plan::parse("policy", text).map_err(|error| PolicyError::Plan { of: flag(), error })?;
        Self::of(text.trim().to_owned(), &plan, flag)
    }

    /// Returns a policy with the rules of a plan.
    ///
    /// # Errors
    ///
    /// The plan limits only what is in flight.
    pub fn of_plan(plan: &Plan) -> Result<Self, PolicyError> {
        let label = format!("plan {}", plan.name());
        let policy = Self::of(label.clone(), plan, || label.clone())?;
        Ok(SimulatedPolicy { plan: Some(plan.name().clone()), ..policy })
    }

    /// Returns true if it decides this request: of a trace that tells plans, a plan decides what has named it.
    #[inline]
    pub(super) fn concerns(&self, entry: &TraceEntry<'_>) -> bool {
        match &self.plan {
            Some(plan) if entry.plans.are_told() => entry.plans.has(plan.as_str()),
            _ => true,
        }
    }

    /// Returns how many requests it has decided.
    pub fn decided(&self) -> u64 {
        self.admitted + self.refused
    }

    /// Returns how often a key asked it, of a trace in which it asked so often.
    pub(super) fn asked(&self, key: u32, in_all: u64) -> u64 {
        match self.asked.is_empty() {
            true => in_all,
            false => self.asked.get(key as usize).copied().unwrap_or(0),
        }
    }

    /// Returns a policy like this one, which has one rule, with another quota for it; one that was in shadow binds.
    pub(super) fn with_quota(&self, quota: Quota) -> Result<Self, PlanError> {
        let policy = self.of_quota(quota)?;
        Ok(SimulatedPolicy { plan: self.plan.clone(), ..policy })
    }

    fn of_quota(&self, quota: Quota) -> Result<Self, PlanError> {
        let Some((rule, assumed)) = &self.only else {
            return Ok(Self::plain(quota.to_string(), [quota].into()));
        };
        let (unit, label) = (rule.unit(), self.text_of(&quota));
        if unit.is_requests() {
            return Ok(Self::plain(label, [quota].into()));
        }
        let mut plan =
            Plan::new("policy".parse()?, [Rule::new(rule.name().clone(), quota).counting(unit.clone())])?;
        if let Some(assumed) = assumed {
            plan = plan.assume(unit.as_str(), *assumed)?;
        }
        Ok(Self::understood(label, &plan))
    }

    /// Returns the text of its only rule with another quota.
    pub fn text_of(&self, quota: &Quota) -> String {
        match &self.only {
            Some((rule, _)) => {
                Rule::new(rule.name().clone(), *quota).counting(rule.unit().clone()).to_string()
            }
            None => quota.to_string(),
        }
    }

    fn of(label: String, plan: &Plan, named: impl Fn() -> String) -> Result<Self, PolicyError> {
        let wrong = |error| PolicyError::Plan { of: named(), error };
        let (in_flight, rates): (Vec<&Rule>, Vec<&Rule>) =
            plan.rules().iter().partition(|rule| rule.is_concurrency());
        if rates.is_empty() {
            return Err(PolicyError::InFlight { of: named() });
        }
        let mut simulated = Plan::new(plan.name().clone(), rates.into_iter().cloned()).map_err(wrong)?;
        for (unit, cost) in plan.assumed() {
            if simulated.units().any(|counted| counted == unit) {
                simulated = simulated.assume(unit.as_str(), *cost).map_err(wrong)?;
            }
        }
        let mut policy = Self::understood(label, &simulated);
        policy.units = plan.units().map(ToString::to_string).collect();
        policy.left_out = in_flight.into_iter().map(ToString::to_string).collect();
        Ok(policy)
    }

    /// Returns a policy of rates alone.
    fn understood(label: String, plan: &Plan) -> Self {
        let quotas = plan.rules().iter().map(|rule| *rule.quota()).collect();
        let mut policy = Self::plain(label, quotas);
        if !plan.is_plain() {
            policy.states = States::Plan(Box::new(PlanStates::new(plan.clone())));
        }
        policy.units = plan.units().map(ToString::to_string).collect();
        if let [rule] = plan.rules() {
            let assumed = plan.assumed().iter().find(|(unit, _)| unit == rule.unit()).map(|(_, cost)| *cost);
            policy.only = Some((rule.clone(), assumed));
        }
        policy
    }

    /// Returns a policy of quotas that count requests.
    fn plain(label: String, quotas: Box<[Quota]>) -> Self {
        let states = match &*quotas {
            [quota] if quota.algorithm() == Algorithm::Gcra => States::Instants(Vec::new()),
            _ => States::Any(Vec::new()),
        };
        SimulatedPolicy {
            label,
            plan: None,
            units: vec!["requests".to_owned()],
            left_out: Vec::new(),
            only: None,
            quotas,
            states,
            denied: Vec::new(),
            asked: Vec::new(),
            admitted: 0,
            refused: 0,
            timeline: Timeline::default(),
            peak: Peak::default(),
        }
    }

    /// Returns what its rules count.
    pub fn units(&self) -> impl Iterator<Item = &str> {
        self.units.iter().map(String::as_str)
    }

    /// Returns true if it has no other rules than of requests.
    pub(super) fn counts_requests(&self) -> bool {
        self.units().eq(["requests"])
    }

    /// Returns the rules that are left out, because a trace does not tell how long a request takes.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Returns its rules in shadow.
    pub fn shadows(&self) -> &[ShadowRule] {
        match &self.states {
            States::Plan(states) => &states.shadows,
            _ => &[],
        }
    }

    /// Returns the rules in shadow that would have denied the last request, though it was admitted.
    pub fn last_denials(&self) -> impl Iterator<Item = &ShadowRule> {
        let denials = match &self.states {
            States::Plan(states) => states.last_denials,
            _ => 0,
        };
        self.shadows()
            .iter()
            .enumerate()
            .filter(move |(index, _)| denials >> index & 1 == 1)
            .map(|(_, rule)| rule)
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

    /// Decides one request, and counts it. One whose amounts the rules cannot be asked for is an error, and not counted.
    #[inline]
    pub(super) fn decide(&mut self, key: u32, entry: &TraceEntry<'_>) -> Result<Decision, AmountError> {
        let (cost, now) = (Cost::new(entry.cost), entry.at);
        let decision = match &mut self.states {
            States::Plan(states) => states.take(key, entry)?,
            // As a store tells it.
            _ => self.take(key as usize, cost, now).taken(cost, now),
        };
        self.timeline.count(now, decision.allowed);
        if self.plan.is_some() && entry.plans.are_told() {
            count(&mut self.asked, key);
        }
        if decision.allowed {
            self.admitted += 1;
            self.peak.count(now);
        } else {
            self.refused += 1;
            count(&mut self.denied, key);
        }
        Ok(decision)
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
                composite::acquire_in_place(quotas, &mut states[range], cost, now).unwrap_or(nothing())
            }
            (States::Instants(_), []) | (States::Plan(_), _) => nothing(),
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

    /// Returns how many keys would have been denied at least once if this rule in shadow denied, too.
    pub(super) fn keys_denied_with(&self, rule: &ShadowRule) -> usize {
        let known = self.denied.len().max(rule.keys().len());
        let is_denied = |of: &[u64], key: usize| of.get(key).is_some_and(|denied| *denied > 0);
        (0..known).filter(|key| is_denied(&self.denied, *key) || is_denied(rule.keys(), *key)).count()
    }

    /// Returns how many keys were denied at least once.
    pub fn keys_denied(&self) -> usize {
        self.denied.iter().filter(|denied| **denied > 0).count()
    }
}

/// Counts one more of a key, by its number.
fn count(counts: &mut Vec<u64>, key: u32) {
    let key = key as usize;
    if counts.len() <= key {
        counts.resize(key + 1, 0);
    }
    counts[key] += 1;
}

/// What is no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// The text is not a quota.
    Plan {
        /// Where it was given.
        of: String,
        /// What is wrong with it.
        error: PlanError,
    },
    /// It limits what is in flight, and no rate.
    InFlight {
        /// Where it was given.
        of: String,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::Plan { of, error } => write!(f, "{of}: {error}"),
            PolicyError::InFlight { of } => write!(
                f,
                "{of}: it limits only what is in flight, and a trace does not tell how long a request takes; give a rate such as `10/s`"
            ),
        }
    }
}

impl std::error::Error for PolicyError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratekeeper::port::Request;
    use ratekeeper::testkit::FakeClock;
    use ratekeeper::{Amounts, Keeper, Key, MemoryStore, Nanos, Registry, Rules};

    use super::super::trace::TraceUnits;
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

    /// Limits, and limits in shadow.
    const PLANS: [(&str, &str); 5] = [
        ("3 t/s", ""),
        ("2/s; 9 t per 3s bucket; 8 u/s log", ""),
        ("3/s", "2/s fixed; 4 t per 2s"),
        ("", "2/s; 3 t/s sliding"),
        ("5 t/s", "3 t/s leaky"),
    ];

    fn entry(units: &str, cost: u64, at: Timestamp) -> TraceEntry<'_> {
        TraceEntry::new(at, b"", cost, TraceUnits::parse(units.as_bytes()).unwrap())
    }

    fn at_millis(millis: u64) -> Timestamp {
        Timestamp::from_nanos(i64::try_from(millis).unwrap() * 1_000_000)
    }

    proptest! {
        #![proptest_config(test_support::cases::config(2_000))]

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
                let now = at_millis(millis);
                let bytes = key.to_be_bytes();
                let request =
                    Request::new(Key::new(&bytes).unwrap(), Rules::Plan(&plan), Cost::new(cost));
                let expected = store.acquire_at(request, now).unwrap();
                prop_assert_eq!(policy.decide(key, &entry("", cost, now)).unwrap(), expected);
            }
        }

        /// The same law for units and for rules in shadow, and these are told as the store tells them.
        #[test]
        fn the_store_in_memory_would_have_answered_the_same_for_every_unit(
            which in 0..PLANS.len(),
            asks in prop::collection::vec((0u64..900, 0u32..3, 0u64..4, 0u64..6, 0u64..4), 1..100),
        ) {
            let (limits, shadow) = PLANS[which];
            let split = |text: &'static str| text.split(';').filter(|rule| !rule.is_empty());
            let plan = Plan::with_shadow("policy", split(limits), split(shadow)).unwrap();
            let mut policy = SimulatedPolicy::of_plan(&plan).unwrap();
            let clock = FakeClock::at(at_millis(1_000_000));
            let keeper = Keeper::new(
                MemoryStore::builder().clock(clock.clone()).build(),
                Registry::new([plan.clone()]),
            );
            let (mut millis, mut would_deny) = (1_000_000, 0);
            for (step, key, cost, t, u) in asks {
                millis += step;
                clock.advance(Nanos::from_millis(step));
                let words = format!("t={t} u={u}");
                let units: Vec<(&str, u64)> =
                    [("t", t), ("u", u)].into_iter().filter(|(unit, _)| plan.units().any(|known| known == unit)).collect();
                let bytes = key.to_be_bytes();
                let asked = keeper.acquire(&bytes[..], "policy", Amounts::new(cost, &units)).each().now();
                let expected = asked.unwrap().unwrap();
                let found = policy.decide(key, &entry(&words, cost, at_millis(millis))).unwrap();
                prop_assert_eq!(&found, expected.decision());
                let denials = expected.each().filter(|(_, rule, decision)| {
                    expected.allowed && rule.is_shadow() && !decision.allowed
                });
                let denials: Vec<String> = denials.map(|(_, rule, _)| rule.name().to_string()).collect();
                prop_assert!(policy.last_denials().map(ShadowRule::name).eq(denials.iter()));
                would_deny += denials.len() as u64;
            }
            prop_assert_eq!(policy.shadows().iter().map(ShadowRule::would_deny).sum::<u64>(), would_deny);
        }
    }

    #[test]
    fn what_nobody_says_and_what_cannot_be_told() {
        let mut policy = SimulatedPolicy::parse("60/m; 100 tokens/m; 8 concurrent").unwrap();
        assert_eq!(policy.left_out(), ["8 concurrent"]);
        let missing = policy.decide(0, &entry("", 1, Timestamp::EPOCH)).unwrap_err().to_string();
        assert_eq!(missing, "tokens: missing; `policy` counts tokens: say how many, or set `assume`");
        assert_eq!((policy.admitted(), policy.denied()), (0, 0));
        let assuming =
            Plan::parse("llm", "100 tokens/m; 200 tokens concurrent").unwrap().assume("tokens", 60).unwrap();
        let mut policy = SimulatedPolicy::of_plan(&assuming).unwrap();
        let mut allowed = |units| policy.decide(0, &entry(units, 1, Timestamp::EPOCH)).unwrap().allowed;
        assert_eq!(
            [allowed(""), allowed(""), allowed("tokens=40 other=9"), allowed("tokens=0")],
            [true, false, true, true]
        );
        let error = SimulatedPolicy::parse("8 concurrent").unwrap_err().to_string();
        assert!(error.starts_with("--quota \"8 concurrent\": it limits only what is in flight"), "{error}");
    }

    #[test]
    fn the_worst_keys_come_first_and_are_exact() {
        let mut policy = SimulatedPolicy::parse("1/h").unwrap();
        for key in 0..100u32 {
            for _ in 0..=(key % 10) {
                policy.decide(key, &entry("", 1, Timestamp::EPOCH)).unwrap();
            }
        }
        assert_eq!(policy.worst_keys(3), [(9, 9), (19, 9), (29, 9)]);
        assert_eq!((policy.keys_denied(), policy.worst_keys(1000).len()), (90, 90));
        assert_eq!((policy.admitted(), policy.denied()), (100, 450));
    }
}
