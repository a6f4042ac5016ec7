//! Decisions counted by plan and rule, debts that were forgiven, holds, and failures of the store by reason.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ratekeeper::port::{HoldId, HoldState, Observer, Request, Standing};
use ratekeeper::{Decision, FailureMode, Key, Name, Plan, Rule, RuleId, Rules, StoreError};

use super::failure_answers::{FailureAnswers, FailureAnswersReading};
use super::failure_log::FailureLog;
use super::hold_counts::HoldCounts;

/// An observer of the keeper that counts for the metrics. Clones count together.
///
/// Counts what is held to plans. Decisions by a quota that came with its request have no plan to be counted under; the
/// transports count those, with all others, in [`TransportMetrics`](super::TransportMetrics).
#[derive(Clone, Debug, Default)]
pub(crate) struct PlanMetrics(Arc<PlanCounters>);

#[derive(Debug, Default)]
struct PlanCounters {
    rules: RwLock<HashMap<RuleId, RuleCounter>>,
    forgiven: AtomicU64,
    holds: HoldCounts,
    store_errors: Mutex<Vec<(&'static str, u64)>>,
    failures: Mutex<FailureLog>,
    answers: FailureAnswers,
}

/// The most rules that are counted by themselves: those of plans that come and go with reloads stay. What decides beyond them
/// is counted under [`OTHER`].
const MOST_RULES: usize = 10_000;

/// The name of what has no counter of its own.
const OTHER: &str = "_other";

#[derive(Debug)]
struct RuleCounter {
    plan: Name,
    rule: Name,
    allowed: AtomicU64,
    denied: AtomicU64,
    would_deny: AtomicU64,
    /// Those that were allowed and left less than a fifth.
    near: AtomicU64,
}

/// How often a rule has decided, at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlanRuleReading {
    /// Requests that it allowed, as the rule that bound.
    pub(crate) allowed: u64,
    /// Requests that it denied.
    pub(crate) denied: u64,
    /// Requests that were allowed, and that it would have denied if it were not in shadow.
    pub(crate) would_deny: u64,
}

impl std::ops::AddAssign for PlanRuleReading {
    fn add_assign(&mut self, other: Self) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.would_deny += other.would_deny;
    }
}

/// What a rule has decided, or would have.
#[derive(Clone, Copy)]
enum RuleResult {
    Allowed,
    /// It is allowed, and little is left.
    Near,
    Denied,
    WouldDeny,
}

impl RuleResult {
    #[inline]
    fn of(decision: &Decision) -> Self {
        match decision.allowed {
            false => RuleResult::Denied,
            // Of what nobody knows, nobody knows that little is left.
            true if is_near(decision) && decision.reason.is_informed() => RuleResult::Near,
            true => RuleResult::Allowed,
        }
    }
}

/// Returns true if less than a fifth is left.
#[inline]
fn is_near(decision: &Decision) -> bool {
    decision.remaining.saturating_mul(5) < decision.limit
}

impl RuleCounter {
    fn of(plan: Name, rule: Name) -> Self {
        RuleCounter {
            plan,
            rule,
            allowed: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            would_deny: AtomicU64::new(0),
            near: AtomicU64::new(0),
        }
    }

    #[inline]
    fn add(&self, result: RuleResult) {
        let counter = match result {
            RuleResult::Allowed => &self.allowed,
            RuleResult::Near => {
                self.near.fetch_add(1, Ordering::Relaxed);
                &self.allowed
            }
            RuleResult::Denied => &self.denied,
            RuleResult::WouldDeny => &self.would_deny,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn reading(&self) -> PlanRuleReading {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PlanRuleReading {
            allowed: read(&self.allowed),
            denied: read(&self.denied),
            would_deny: read(&self.would_deny),
        }
    }

    /// Returns the counts by name: those of a rule that decides, those of one in shadow, or both if it was both.
    fn read(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let PlanRuleReading { allowed, denied, would_deny } = self.reading();
        let decided = (allowed, denied) != (0, 0);
        let all = [
            ("allowed", allowed, decided),
            ("denied", denied, decided),
            ("would_deny", would_deny, would_deny > 0),
        ];
        all.into_iter().filter(|(.., is_listed)| *is_listed).map(|(result, count, _)| (result, count))
    }
}

impl PlanMetrics {
    /// Returns plan, rule, result and count of every rule that has decided, sorted.
    pub(crate) fn decisions(&self) -> Vec<(Name, Name, &'static str, u64)> {
        let rules = self.0.rules.read().unwrap_or_else(PoisonError::into_inner);
        let named = |count: &RuleCounter| {
            let (plan, rule) = (count.plan.clone(), count.rule.clone());
            count
                .read()
                .map(move |(result, number)| (plan.clone(), rule.clone(), result, number))
                .collect::<Vec<_>>()
        };
        let mut all: Vec<_> = rules.values().flat_map(named).collect();
        all.sort();
        all
    }

    /// Returns plan, rule and how many requests were allowed and left little of the rule, of every rule that has decided,
    /// sorted.
    pub(crate) fn near_limits(&self) -> Vec<(Name, Name, u64)> {
        let rules = self.0.rules.read().unwrap_or_else(PoisonError::into_inner);
        let decided = rules.values().filter(|count| count.read().any(|(result, _)| result == "allowed"));
        let near = |count: &RuleCounter| count.near.load(Ordering::Relaxed);
        let mut all: Vec<_> =
            decided.map(|count| (count.plan.clone(), count.rule.clone(), near(count))).collect();
        all.sort();
        all
    }

    /// Returns plan, failure mode and how many requests it has answered, sorted.
    pub(crate) fn failure_answers(&self) -> Vec<(String, &'static str, u64)> {
        self.0.answers.read()
    }

    /// Calls `each` with plan, rule, and how often the rule has allowed, denied and would have denied: of every rule that has
    /// decided, in no order. They are copied first: the first decision of a rule waits for that, and while it waits, so does
    /// every other.
    pub(crate) fn each_rule(&self, mut each: impl FnMut(&Name, &Name, PlanRuleReading)) {
        let rules = self.0.rules.read().unwrap_or_else(PoisonError::into_inner);
        let copied = |counter: &RuleCounter| (counter.plan.clone(), counter.rule.clone(), counter.reading());
        let all: Vec<_> = rules.values().map(copied).collect();
        drop(rules);
        all.iter().for_each(|(plan, rule, reading)| each(plan, rule, *reading));
    }

    /// Returns how often failure modes let requests through, and turned them away.
    pub(crate) fn failure_total(&self) -> FailureAnswersReading {
        self.0.answers.total()
    }

    /// Returns how much of debits was forgiven, whatever it is a number of.
    pub(crate) fn forgiven(&self) -> u64 {
        self.0.forgiven.load(Ordering::Relaxed)
    }

    /// Returns how many holds were taken, and what became of them.
    pub(crate) fn holds(&self) -> [(&'static str, u64); 5] {
        self.0.holds.read()
    }

    #[inline]
    fn count(&self, plan: &Plan, rule: &Rule, result: RuleResult) {
        {
            let rules = self.0.rules.read().unwrap_or_else(PoisonError::into_inner);
            // Beyond the bound, what has no counter of its own has one already: nobody locks the others out for it.
            if let Some(count) = rules.get(&rule.id()).or_else(|| rules.get(&RuleId::AD_HOC)) {
                return count.add(result);
            }
        }
        self.count_first(plan, rule, result);
    }

    /// Counts the first decision by a rule, or the first beyond the bound.
    #[cold]
    fn count_first(&self, plan: &Plan, rule: &Rule, result: RuleResult) {
        let mut rules = self.0.rules.write().unwrap_or_else(PoisonError::into_inner);
        let others = || OTHER.parse::<Name>().ok();
        if rules.len() < MOST_RULES || rules.contains_key(&rule.id()) {
            let (plan, name) = (plan.name().clone(), rule.name().clone());
            rules.entry(rule.id()).or_insert_with(|| RuleCounter::of(plan, name)).add(result);
        } else if let (Some(plan), Some(name)) = (others(), others()) {
            // What requests bring has no counter here, so that its identifier is free.
            rules.entry(RuleId::AD_HOC).or_insert_with(|| RuleCounter::of(plan, name)).add(result);
        }
    }

    /// Returns how often the store failed, by reason.
    pub(crate) fn store_errors(&self) -> Vec<(&'static str, u64)> {
        self.0.store_errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Observer for PlanMetrics {
    #[inline]
    fn decided(&self, request: &Request<'_>, decision: &Decision) {
        let Some((plan, rule)) = request.rules.at(decision.rule.into()) else { return };
        self.count(plan, rule, RuleResult::of(decision));
    }

    /// Skips what is held to no plan without looking at it twice: whole batches of throttles are.
    #[inline]
    fn decided_many(&self, requests: &[Request<'_>], answers: &[Result<Decision, StoreError>]) {
        for (request, answer) in requests.iter().zip(answers) {
            if let (Rules::Plan(_) | Rules::Plans(_), Ok(decision)) = (request.rules, answer) {
                self.decided(request, decision);
            }
        }
    }

    fn would_deny(&self, _: &Request<'_>, plan: &Plan, rule: &Rule) {
        self.count(plan, rule, RuleResult::WouldDeny);
    }

    fn failure_mode_answers(&self, rules: Rules<'_>, mode: FailureMode) {
        self.0.answers.count(rules, mode);
    }

    fn debited(&self, _: Key<'_>, standing: &Standing) {
        // A debit may be as large as a number can be: a counter that began anew would tell a wrong rate.
        let add = |forgiven: u64| Some(forgiven.saturating_add(standing.forgiven));
        if standing.forgiven > 0 {
            let _ = self.0.forgiven.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        }
    }

    fn held(&self, _: Key<'_>, _: HoldId) {
        self.0.holds.taken();
    }

    fn hold_changed(&self, _: Key<'_>, _: HoldId, state: HoldState) {
        self.0.holds.changed(state);
    }

    fn store_failed(&self, error: &StoreError, _: Option<&Decision>) {
        // By reason and not by kind: a server that is out of memory and one that is a replica are both unavailable.
        let reason = error.reason();
        {
            let mut errors = self.0.store_errors.lock().unwrap_or_else(PoisonError::into_inner);
            match errors.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => errors.push((reason, 1)),
            }
        }
        self.0.failures.lock().unwrap_or_else(PoisonError::into_inner).note(error);
    }
}

#[cfg(test)]
mod tests {
    use ratekeeper::{Keeper, MemoryStore, Registry};

    use super::*;

    fn lines(metrics: &PlanMetrics) -> Vec<String> {
        let decisions = metrics.decisions().into_iter();
        decisions.map(|(plan, rule, result, count)| format!("{plan} {rule} {result} {count}")).collect()
    }

    #[test]
    fn what_rules_in_shadow_would_have_denied_is_counted_beside_what_was_decided() {
        let metrics = PlanMetrics::default();
        let plans = [
            Plan::with_shadow("gold", ["3/h"], ["2/h", "1/h"]).unwrap(),
            Plan::parse("try", "1/day").unwrap().shadow(),
        ];
        let keeper = Keeper::new(MemoryStore::default(), Registry::new(plans)).observer(metrics.clone());
        for _ in 0..4 {
            keeper.acquire("k", "gold", 1).now().unwrap().unwrap();
            assert!(keeper.acquire("k", "try", 1).now().unwrap().unwrap().allowed);
        }
        assert_eq!(
            lines(&metrics),
            [
                "gold per-h allowed 3",
                "gold per-h denied 1",
                "gold per-h-3 would_deny 2",
                "try per-day allowed 4",
                "try per-day denied 0",
                "try per-day would_deny 3",
            ]
        );
    }

    #[test]
    fn what_leaves_less_than_a_fifth_is_near_the_limit() {
        let metrics = PlanMetrics::default();
        let plans = Registry::new([Plan::parse("free", "10/h").unwrap(), Plan::parse("off", "1/h").unwrap()]);
        let keeper = Keeper::new(MemoryStore::default(), plans).observer(metrics.clone());
        for _ in 0..12 {
            keeper.acquire("k", "free", 1).now().unwrap().unwrap();
        }
        let near: Vec<String> = metrics
            .near_limits()
            .into_iter()
            .map(|(plan, rule, count)| format!("{plan} {rule} {count}"))
            .collect();
        // Of ten, the ninth leaves one and the tenth none.
        assert_eq!(near, ["free per-h 2"]);
        assert_eq!(lines(&metrics), ["free per-h allowed 10", "free per-h denied 2"]);
    }

    #[test]
    fn decisions_go_on_while_counts_are_looked_at() {
        let metrics = PlanMetrics::default();
        let plan = Plan::parse("free", "1/h").unwrap();
        metrics.count(&plan, &plan.rules()[0], RuleResult::Denied);
        let mut looked = 0;
        metrics.each_rule(|_, _, reading| {
            assert!(
                metrics.0.rules.try_write().is_ok(),
                "a first decision would wait, and all others for it"
            );
            looked += reading.denied;
        });
        assert_eq!(looked, 1);
    }

    #[test]
    fn rules_beyond_the_bound_are_counted_together() {
        let metrics = PlanMetrics::default();
        for number in 0..MOST_RULES + 5 {
            let plan = Plan::parse(&format!("p{number}"), "1/h").unwrap();
            metrics.count(&plan, &plan.rules()[0], RuleResult::Denied);
        }
        let all = metrics.decisions();
        let other = all.iter().find(|(plan, _, result, _)| plan.as_str() == OTHER && *result == "denied");
        assert_eq!(other.unwrap().3, 5);
        assert_eq!(all.len(), 2 * (MOST_RULES + 1), "each has two results");
        // While somebody reads, nobody could take the lock that a new counter needs: a decision would wait for ever.
        let reading = metrics.0.rules.read().unwrap();
        let (sender, counted) = std::sync::mpsc::channel();
        let others = metrics.clone();
        std::thread::spawn(move || {
            let plan = Plan::parse("one-more", "1/h").unwrap();
            others.count(&plan, &plan.rules()[0], RuleResult::Denied);
            sender.send(())
        });
        counted.recv_timeout(test_support::wait::PATIENCE).expect("no lock that others wait for");
        drop(reading);
    }

    #[test]
    fn what_debits_forgave_never_wraps() {
        let metrics = PlanMetrics::default();
        let plans = Registry::new([Plan::parse("free", "10/m").unwrap()]);
        let keeper = Keeper::new(MemoryStore::default(), plans).observer(metrics.clone());
        keeper.debit("k", "free", 5).now().unwrap().unwrap();
        assert_eq!(metrics.forgiven(), 0);
        keeper.debit("other", "free", 100).now().unwrap().unwrap();
        assert_eq!(metrics.forgiven(), 80);
        for _ in 0..3 {
            keeper.debit("k", "free", u64::MAX / 2).now().unwrap().unwrap();
        }
        assert_eq!(metrics.forgiven(), u64::MAX);
        assert!(lines(&metrics).is_empty(), "a debit decides nothing");
    }

    #[test]
    fn holds_are_counted_by_what_became_of_them() {
        let (metrics, key) = (PlanMetrics::default(), Key::new("k").unwrap());
        let id = HoldId::from_bits(1);
        metrics.held(key, id);
        let ends = [HoldState::Settled, HoldState::Cancelled, HoldState::Extended, HoldState::Gone];
        ends.into_iter().flat_map(|state| [state; 2]).for_each(|state| metrics.hold_changed(key, id, state));
        assert_eq!(
            metrics.holds(),
            [("taken", 1), ("settled", 2), ("cancelled", 2), ("extended", 2), ("gone", 2)]
        );
    }
}
