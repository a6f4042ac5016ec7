//! Several rules at once: all or nothing.

use proptest::prelude::*;
use ratekeeper::algorithm::{AnyView, View};
use ratekeeper::algorithm::{Tenancy, composite};
use ratekeeper::{Algorithm, Cost, Decision, Nanos, Quota, State, Timestamp};

use super::support::draw::{Walk, any_step, cost, quota, start};
use super::support::float::on_the_edge;
use super::support::{Key, TICK, before};

type Rules = Vec<(Quota, Option<State>)>;

/// Some rules with a past each, and an instant that is not before any of it (but for what their clocks did).
fn rules() -> impl Strategy<Value = (Rules, Timestamp)> {
    let rule = (quota(), prop::collection::vec(any_step(), 0..8));
    (start(), prop::collection::vec(rule, 1..5)).prop_map(|(start, rules)| {
        let walks = rules.into_iter().map(|(quota, steps)| {
            let mut walk = Walk::new(quota, start);
            walk.through(steps);
            walk
        });
        let walks: Vec<Walk> = walks.collect();
        let now = walks.iter().map(|walk| walk.now).max().unwrap_or(start);
        (walks.into_iter().map(|walk| (walk.key.quota, walk.key.state)).collect(), now)
    })
}

/// What each rule would decide by itself.
fn each(rules: &Rules, cost: u64, now: Timestamp) -> Vec<Decision> {
    rules.iter().map(|(quota, state)| Key { quota: *quota, state: state.clone() }.peek(cost, now)).collect()
}

fn store(rules: &mut Rules, wrote: Vec<Option<State>>) {
    for (rule, state) in rules.iter_mut().zip(wrote) {
        if state.is_some() {
            rule.1 = state;
        }
    }
}

proptest! {
    #![proptest_config(test_support::cases::config(2_000))]

    /// All allow and all are charged, each as it would have been alone; or one denies, and none is.
    #[test]
    fn all_are_charged_or_none((mut rules, now) in rules(), cost in cost()) {
        let alone = each(&rules, cost, now);
        let before = rules.clone();
        let (decision, wrote) = composite::try_acquire(&rules, Cost::new(cost), now, Tenancy::Own).unwrap();
        prop_assert_eq!(decision.allowed, alone.iter().all(|decision| decision.allowed));
        for ((quota, state), wrote) in before.iter().zip(&wrote) {
            let repaired = AnyView::at(quota, state.as_ref(), now, Tenancy::Own).unwrap().was_repaired();
            let mut key = Key { quota: *quota, state: state.clone() };
            if decision.allowed && cost > 0 {
                key.take(cost, now);
                prop_assert_eq!(wrote.as_ref(), key.state.as_ref());
            } else {
                prop_assert_eq!(wrote.is_some(), repaired && cost > 0, "a denial wrote");
            }
        }
        store(&mut rules, wrote);
        if !decision.allowed {
            prop_assert_eq!(each(&rules, cost, now), alone, "a denial by one burnt another");
        }
    }

    /// `remaining` is the least, `reset_after` the longest, `retry_after` the longest of those that deny. The rule that
    /// binds, with its limit, is the one to be waited for longest, or the one with least left if all allow; of equals
    /// the first.
    #[test]
    fn one_answer_of_many((mut rules, now) in rules(), cost in cost()) {
        let alone = each(&rules, cost, now);
        let peeked = composite::peek(&rules, Cost::new(cost), now, Tenancy::Own).unwrap();
        let (taken, wrote) = composite::try_acquire(&rules, Cost::new(cost), now, Tenancy::Own).unwrap();
        prop_assert_eq!((peeked.allowed, peeked.retry_after), (taken.allowed, taken.retry_after));
        store(&mut rules, wrote);
        let after = if taken.allowed { each(&rules, 0, now) } else { alone.clone() };
        for (decision, parts) in [(peeked, &alone), (taken, &after)] {
            prop_assert_eq!(decision.remaining, parts.iter().map(|part| part.remaining).min().unwrap());
            prop_assert_eq!(decision.reset_after, parts.iter().map(|part| part.reset_after).max().unwrap());
            // Never is longer than any time.
            let wait = |part: &Decision| part.retry_after.map_or((1, Nanos::ZERO), |wait| (0, wait));
            let binding = if decision.allowed {
                let least = parts.iter().map(|part| part.remaining).min().unwrap();
                parts.iter().position(|part| part.remaining == least).unwrap()
            } else {
                let longest = parts.iter().filter(|part| !part.allowed).map(wait).max().unwrap();
                parts.iter().position(|part| !part.allowed && wait(part) == longest).unwrap()
            };
            prop_assert_eq!(usize::from(decision.rule), binding);
            prop_assert_eq!(decision.limit, parts[binding].limit);
            prop_assert_eq!(decision.reason, parts[binding].reason);
            if !decision.allowed {
                prop_assert_eq!(decision.retry_after, parts[binding].retry_after);
            }
        }
    }

    /// Waiting exactly `retry_after` succeeds on all rules together and a nanosecond less fails: a rule that has room
    /// still has it later, so the one to be waited for longest decides.
    #[test]
    fn waiting_for_the_slowest_rule_is_enough((mut rules, now) in rules(), cost in cost()) {
        let (denied, wrote) = composite::try_acquire(&rules, Cost::new(cost), now, Tenancy::Own).unwrap();
        store(&mut rules, wrote);
        if let (false, Some(wait)) = (denied.allowed, denied.retry_after) {
            let then = now + wait;
            prop_assert!(!composite::peek(&rules, Cost::new(cost), before(then, TICK), Tenancy::Own).unwrap().allowed);
            prop_assert!(composite::try_acquire(&rules, Cost::new(cost), then, Tenancy::Own).unwrap().0.allowed);
        }
    }

    /// As many as remain of all pass, one after another. (A leaky bucket adds to its level, and rounds: there, off the very
    /// edge.)
    #[test]
    fn as_many_as_remain_of_all_pass((mut rules, now) in rules()) {
        prop_assume!(!rules.iter().any(|(quota, state)| {
            let key = Key { quota: *quota, state: state.clone() };
            quota.algorithm() == Algorithm::LeakyBucket && on_the_edge(&Walk { key, now, promised: Nanos::ZERO })
        }));
        let remaining = composite::peek(&rules, Cost::ZERO, now, Tenancy::Own).unwrap().remaining;
        for left in (0..=remaining).rev() {
            let (decision, wrote) = composite::try_acquire(&rules, Cost::ONE, now, Tenancy::Own).unwrap();
            prop_assert_eq!(decision.allowed, left > 0);
            store(&mut rules, wrote);
        }
    }
}

/// No rules at all allow everything: there is nothing to exceed.
#[test]
fn nothing_is_exceeded_where_there_is_no_rule() {
    let (decision, wrote) =
        composite::try_acquire(&[], Cost::new(u64::MAX), super::support::NOON, Tenancy::Own).unwrap();
    assert!(decision.allowed && wrote.is_empty());
}

/// One rule alone is decided as if there were no plan around it.
#[test]
fn a_plan_of_one_rule_is_that_rule() {
    let quota: Quota = "3/m".parse().unwrap();
    let (mut key, mut rules) = (Key::fresh(quota), vec![(quota, None)]);
    for cost in [1, 0, 3, 2, 1, u64::MAX] {
        let (decision, wrote) =
            composite::try_acquire(&rules, Cost::new(cost), super::support::NOON, Tenancy::Own).unwrap();
        store(&mut rules, wrote);
        assert_eq!(decision, key.take(cost, super::support::NOON));
        assert_eq!(rules[0].1, key.state);
    }
}
