//! A cost of its own for each rule, and rules in shadow: what a plan with units and trials comes to.

use proptest::prelude::*;
use ratekeeper::algorithm::composite::{self, Asked};
use ratekeeper::algorithm::{AnyView, Tenancy, View};
use ratekeeper::testkit::model::{PlanAnswer, PlanModel};
use ratekeeper::{Cost, Decision, Quota, State, Timestamp};

use super::support::draw::{Span, debit, quota, quota_of_integers, span, start};
use super::support::{Key, before, same};

/// The rules of some plans on one key, as the simplest store would hold them.
#[derive(Clone, Debug)]
struct Shares {
    rules: Vec<(Quota, Option<State>)>,
    /// The plan of each rule that is in shadow.
    shadows: Vec<Option<u8>>,
}

impl Shares {
    fn fresh(rules: &[(Quota, Option<u8>)]) -> Self {
        Shares {
            rules: rules.iter().map(|(quota, _)| (*quota, None)).collect(),
            shadows: rules.iter().map(|(_, shadow_of)| *shadow_of).collect(),
        }
    }

    fn asked(&self, costs: &[Cost]) -> impl Fn(usize) -> Asked {
        let asked = costs.iter().zip(&self.shadows);
        let asked: Vec<Asked> =
            asked.map(|(cost, shadow_of)| Asked { cost: *cost, shadow_of: *shadow_of }).collect();
        move |rule| asked[rule]
    }

    fn keep(&mut self, states: Vec<Option<State>>) {
        for (rule, state) in self.rules.iter_mut().zip(states) {
            if state.is_some() {
                rule.1 = state;
            }
        }
    }

    fn take(&mut self, costs: &[Cost], now: Timestamp) -> Vec<Decision> {
        let taken = composite::try_acquire_each(&self.rules, self.asked(costs), now, Tenancy::Own).unwrap();
        self.keep(taken.1);
        taken.0
    }

    fn peek(&self, costs: &[Cost], now: Timestamp) -> Vec<Decision> {
        composite::peek_each(&self.rules, self.asked(costs), now, Tenancy::Own).unwrap()
    }

    fn debit(&mut self, costs: &[Cost], now: Timestamp) -> (Vec<Decision>, u64) {
        let ((each, states), forgiven) =
            composite::debit_each(&self.rules, self.asked(costs), now, Tenancy::Own).unwrap();
        self.keep(states);
        (each, forgiven)
    }

    fn refund(&mut self, costs: &[Cost], charged_at: Timestamp, now: Timestamp) -> Vec<Decision> {
        let (each, states) =
            composite::refund_each(&self.rules, self.asked(costs), charged_at, now, Tenancy::Own).unwrap();
        self.rules.iter_mut().zip(states).for_each(|(rule, state)| rule.1 = state);
        each
    }

    /// What those that bind say together.
    fn all(&self, each: &[Decision]) -> Decision {
        let binding = each.iter().zip(&self.shadows).map(|(decision, shadow)| (*decision, shadow.is_none()));
        composite::join_binding(binding)
    }

    fn step(&mut self, step: &ShareStep, now: &mut Timestamp) -> Option<Vec<Decision>> {
        let quota = self.rules[0].0;
        match step {
            ShareStep::Take(costs) => return Some(self.take(&self.costs(costs), *now)),
            ShareStep::Debit(costs) => return Some(self.debit(&self.costs(costs), *now).0),
            ShareStep::Refund(costs, age) => {
                let charged_at = before(*now, age.under(&quota));
                return Some(self.refund(&self.costs(costs), charged_at, *now));
            }
            ShareStep::Forward(span) => *now = *now + span.under(&quota),
            ShareStep::Back(span) => *now = before(*now, span.under(&quota)),
        }
        None
    }

    /// One of the drawn costs for each rule.
    fn costs(&self, drawn: &[u64; 4]) -> Vec<Cost> {
        drawn.iter().take(self.rules.len()).map(|cost| Cost::new(*cost)).collect()
    }
}

/// What may happen to all rules at once: each has a cost of its own.
#[derive(Clone, Debug)]
enum ShareStep {
    Take([u64; 4]),
    Debit([u64; 4]),
    Refund([u64; 4], Span),
    Forward(Span),
    Back(Span),
}

fn share_steps() -> impl Strategy<Value = Vec<ShareStep>> {
    let cost = || prop_oneof![3 => 0_u64..=2, 1 => 0_u64..=13];
    let costs = move || [cost(), cost(), cost(), cost()];
    let step = prop_oneof![
        8 => costs().prop_map(ShareStep::Take),
        1 => [debit(), debit(), debit(), debit()].prop_map(ShareStep::Debit),
        1 => (costs(), span()).prop_map(|(costs, age)| ShareStep::Refund(costs, age)),
        3 => span().prop_map(ShareStep::Forward),
        1 => span().prop_map(ShareStep::Back),
    ];
    prop::collection::vec(step, 1..20)
}

/// One to four rules, each binding, or in the shadow of one of two plans.
fn rules(quota: impl Strategy<Value = Quota> + 'static) -> impl Strategy<Value = Vec<(Quota, Option<u8>)>> {
    let shadow_of = prop_oneof![3 => Just(None), 1 => Just(Some(0)), 1 => Just(Some(1))];
    prop::collection::vec((quota, shadow_of), 1..=4)
}

/// Whether the answers of the engine, each and together, are the model's.
fn same_of_all(
    shares: &Shares,
    given: &[Decision],
    wanted: &PlanAnswer,
    now: Timestamp,
) -> Result<(), TestCaseError> {
    for (given, wanted) in given.iter().zip(&wanted.each) {
        same(*given, *wanted, now).map_err(TestCaseError::fail)?;
    }
    let all = shares.all(given);
    same(all, wanted.all, now).map_err(TestCaseError::fail)?;
    prop_assert_eq!(usize::from(all.rule), wanted.rule);
    Ok(())
}

proptest! {
    #![proptest_config(test_support::cases::config(1_500))]

    /// Whatever happens, with costs of their own and rules in shadow, every rule answers as the law is worded, and so do all
    /// together.
    #[test]
    fn shares_are_decided_as_the_law_is_worded(
        rules in rules(quota_of_integers()), start in start(), steps in share_steps(),
    ) {
        let (mut shares, mut model, mut now) = (Shares::fresh(&rules), PlanModel::new(rules), start);
        for step in steps {
            let wanted = match &step {
                ShareStep::Take(costs) => {
                    let costs = shares.costs(costs);
                    same_of_all(&shares, &shares.peek(&costs, now), &model.peek(&costs, now), now)?;
                    model.try_acquire(&costs, now)
                }
                ShareStep::Debit(costs) => {
                    let costs = shares.costs(costs);
                    let (wanted, beyond) = model.debit(&costs, now);
                    prop_assert_eq!(shares.clone().debit(&costs, now).1, beyond);
                    wanted
                }
                ShareStep::Refund(costs, age) => {
                    model.refund(&shares.costs(costs), before(now, age.under(&shares.rules[0].0)), now)
                }
                _ => {
                    shares.step(&step, &mut now);
                    continue;
                }
            };
            let given = shares.step(&step, &mut now).unwrap();
            same_of_all(&shares, &given, &wanted, now)?;
        }
    }

    /// Every rule that binds is charged its own cost and no other, or none of them is charged at all.
    #[test]
    fn each_is_charged_its_own_cost_or_none_is(
        rules in rules(quota()), start in start(), steps in share_steps(), costs in [0_u64..=13, 0..=3, 0..=3, 0..=3],
    ) {
        let (mut shares, mut now) = (Shares::fresh(&rules), start);
        for step in steps {
            shares.step(&step, &mut now);
        }
        let (old, costs) = (shares.clone(), shares.costs(&costs));
        let alone: Vec<Decision> = shares.peek(&costs, now);
        let passes = shares.all(&alone).allowed;
        let taken = shares.take(&costs, now);
        prop_assert_eq!(shares.all(&taken).allowed, passes);
        for (index, (quota, state)) in old.rules.into_iter().enumerate() {
            let of_plan = |other: usize| rules[other].1.is_some() && rules[other].1 == rules[index].1;
            let shadows_pass = (0..rules.len()).filter(|other| of_plan(*other)).all(|other| alone[other].allowed);
            let repaired = AnyView::at(&quota, state.as_ref(), now, Tenancy::Own).unwrap().was_repaired();
            let mut key = Key { quota, state };
            if passes && (rules[index].1.is_none() || shadows_pass) {
                prop_assert_eq!(key.take(costs[index].get(), now), taken[index]);
                prop_assert_eq!(&key.state, &shares.rules[index].1);
            } else {
                prop_assert_eq!(alone[index], taken[index], "what is not charged tells what it would have said");
                prop_assert!(repaired || key.state == shares.rules[index].1, "it was charged");
            }
        }
    }

    /// Rules in shadow change no answer: with them and without them, the same sequence gets the same decisions.
    #[test]
    fn rules_in_shadow_change_no_answer(rules in rules(quota()), start in start(), steps in share_steps()) {
        let binds: Vec<usize> = (0..rules.len()).filter(|index| rules[*index].1.is_none()).collect();
        let binding: Vec<(Quota, Option<u8>)> = binds.iter().map(|index| rules[*index]).collect();
        let (mut with, mut without) = (Shares::fresh(&rules), Shares::fresh(&binding));
        // Time goes in the measures of the first rule, whichever it is.
        let (measure, mut now) = (rules[0].0, start);
        for step in steps {
            let costs = |costs: &[u64; 4]| {
                let all = with.costs(costs);
                (binds.iter().map(|index| all[*index]).collect::<Vec<Cost>>(), all)
            };
            let (given, wanted) = match &step {
                ShareStep::Take(drawn) => {
                    let (own, all) = costs(drawn);
                    (with.take(&all, now), without.take(&own, now))
                }
                ShareStep::Debit(drawn) => {
                    let (own, all) = costs(drawn);
                    (with.debit(&all, now).0, without.debit(&own, now).0)
                }
                ShareStep::Refund(drawn, age) => {
                    let ((own, all), charged_at) = (costs(drawn), before(now, age.under(&measure)));
                    (with.refund(&all, charged_at, now), without.refund(&own, charged_at, now))
                }
                _ => {
                    with.step(&step, &mut now);
                    continue;
                }
            };
            let (given_all, wanted_all) = (with.all(&given), without.all(&wanted));
            let position = binds.get(usize::from(wanted_all.rule)).copied().unwrap_or(0);
            prop_assert_eq!(given_all, wanted_all.of_rule(u16::try_from(position).unwrap()));
            prop_assert!(binds.iter().map(|index| &given[*index]).eq(&wanted));
            prop_assert!(binds.iter().map(|index| &with.rules[*index]).eq(&without.rules));
        }
    }

    /// As long as they would have passed, rules in shadow stand where they would stand if they were bound: so what they are
    /// said to have denied first is what they would have denied.
    #[test]
    fn what_is_in_shadow_stands_where_it_would_stand(rules in rules(quota()), start in start(), steps in share_steps()) {
        let bound: Vec<(Quota, Option<u8>)> = rules.iter().map(|(quota, _)| (*quota, None)).collect();
        let (mut trial, mut real, mut now) = (Shares::fresh(&rules), Shares::fresh(&bound), start);
        for step in steps {
            let mut then = now;
            let (tried, held) = (trial.step(&step, &mut now), real.step(&step, &mut then));
            let (Some(tried), Some(held)) = (tried, held) else { continue };
            prop_assert!(tried.iter().map(|each| each.allowed).eq(held.iter().map(|each| each.allowed)));
            if matches!(step, ShareStep::Take(_)) && !held.iter().all(|each| each.allowed) {
                // What is denied in shadow alone is charged to those that bind: from here on they part.
                break;
            }
            prop_assert_eq!(tried, held);
            prop_assert_eq!(&trial.rules, &real.rules);
        }
    }
}
