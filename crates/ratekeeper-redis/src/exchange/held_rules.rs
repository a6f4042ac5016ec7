//! The rules of a hold: what it takes, or has, of each, and which are summed up.

use std::borrow::Cow;

use ratekeeper::algorithm::composite::Asked;
use ratekeeper::port::HoldRequest;
use ratekeeper::{Cost, OnLapse, Plan, Rule, StoreError};

use super::group::{RuleGroup, add, grouped, sort_by_shape};
use super::hold_body::{BodyKind, BodyRule, HoldContents};
use crate::encoding::Encodings;

/// The rules of a hold: their states by the keys that hold them, and what is held of each.
#[derive(Debug)]
pub(crate) struct HeldRules<'a> {
    /// The rates, in the order in which a script goes over them.
    pub(crate) groups: Vec<RuleGroup<'a>>,
    /// All rules, in the order of their plans.
    pub(crate) rules: Vec<HeldRule<'a>>,
    /// What is held of those that have a bound, and of those that had one when the hold was made.
    pub(crate) sums: Vec<HeldSum>,
    /// How many rules are in shadow.
    pub(crate) shadows: u8,
    /// The plans that give back what has lapsed.
    pub(crate) refunds: Vec<&'a Plan>,
}

/// A rule of a hold.
#[derive(Debug)]
pub(crate) struct HeldRule<'a> {
    pub(crate) rule: &'a Rule,
    pub(crate) asked: Asked,
    /// What may be held of it, and where the sum of that is.
    pub(crate) bound: Option<(u64, usize)>,
    /// Its place among those in shadow; zero if it is not.
    pub(crate) flag: u8,
    /// What the hold has of it, if that is known; not of a rule that the plan did not have then.
    pub(crate) estimate: Option<u64>,
    /// What it has spent.
    pub(crate) spent: u64,
}

/// What all holds have of a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldSum {
    /// The number of its identifier.
    pub(crate) rule: u64,
    pub(crate) amount: u64,
    pub(crate) most: u64,
    pub(crate) shadow_of: Option<u8>,
    pub(crate) flag: u8,
}

impl<'a> HeldRules<'a> {
    fn none() -> Self {
        let (groups, rules, sums, refunds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        HeldRules { groups, rules, sums, shadows: 0, refunds }
    }

    /// Returns no rules, but the plans among these that give back what has lapsed.
    pub(crate) fn lapsing(plans: impl Iterator<Item = &'a Plan>) -> Self {
        let refunds = plans.filter(|plan| plan.lapse() == OnLapse::Refund).collect();
        HeldRules { refunds, ..Self::none() }
    }

    /// Returns the rates of one plan, to which all is given back that a hold has of them.
    pub(crate) fn lapsed(
        plan: &'a Plan,
        body: &HoldContents,
        encodings: &Encodings,
    ) -> Result<Self, StoreError> {
        let held = Self::ending(&[plan], body, |_, _| 0, encodings)?;
        Ok(HeldRules { sums: Vec::new(), refunds: Vec::new(), ..held })
    }

    /// Returns how long what is to be given back may matter, in milliseconds.
    pub(crate) fn kept(&self) -> u64 {
        const LONGEST: u64 = 30 * 86_400_000;
        let quotas = self.refunds.iter().flat_map(|plan| plan.rules()).map(Rule::quota);
        let times =
            quotas.map(|quota| quota.refill_time().max(quota.period()).ceil_millis().saturating_mul(2));
        times.max().unwrap_or(0).clamp(HoldRequest::REMEMBERED.ceil_millis(), LONGEST)
    }

    /// Returns the rules of some plans, each of which is asked for so much.
    pub(crate) fn asking(
        plans: impl Iterator<Item = &'a Plan>,
        mut asked: impl FnMut() -> Cost,
        encodings: &Encodings,
    ) -> Result<Self, StoreError> {
        let mut held = Self::none();
        for (position, plan) in plans.enumerate() {
            if plan.lapse() == OnLapse::Refund {
                held.refunds.push(plan);
            }
            let shadow = u8::try_from(position).ok();
            for rule in plan.rules() {
                let shadow_of = shadow.filter(|_| rule.is_shadow());
                let asked = Asked { cost: asked(), shadow_of };
                let flag = if rule.is_shadow() {
                    held.shadows = held.shadows.saturating_add(1);
                    held.shadows
                } else {
                    0
                };
                let bound = plan.most_in_flight(rule).map(|most| {
                    let amount = asked.cost.get();
                    held.sums.push(HeldSum { rule: rule.id().as_u64(), amount, most, shadow_of, flag });
                    (most, held.sums.len() - 1)
                });
                held.rules.push(HeldRule { rule, asked, bound, flag, estimate: None, spent: 0 });
            }
            held.group(plan, encodings)?;
        }
        sort_by_shape(&mut held.groups);
        Ok(held)
    }

    /// Returns the rules of some plans of which a hold has so much, as its body says, and has spent what is said.
    pub(crate) fn ending(
        plans: &[&'a Plan],
        body: &HoldContents,
        spent: impl Fn(&Rule, u64) -> u64,
        encodings: &Encodings,
    ) -> Result<Self, StoreError> {
        let mut held = Self::asking(plans.iter().copied(), || Cost::ZERO, encodings)?;
        let entry = |rule: u64| body.rules.iter().find(|entry| entry.id == rule);
        for held in &mut held.rules {
            let Some(entry) = entry(held.rule.id().as_u64()) else { continue };
            held.estimate = Some(entry.amount);
            held.flag = entry.flag;
            held.spent = spent(held.rule, entry.amount);
        }
        for sum in &mut held.sums {
            (sum.amount, sum.flag) = entry(sum.rule)
                .filter(|entry| entry.is_bounded)
                .map_or((0, 0), |entry| (entry.amount, entry.flag));
        }
        // What it has is free, also where there is no such rule any more.
        for entry in body.rules.iter().filter(|entry| entry.is_bounded) {
            if !held.sums.iter().any(|sum| sum.rule == entry.id) {
                let &BodyRule { id, amount, flag, .. } = entry;
                held.sums.push(HeldSum { rule: id, amount, most: 0, shadow_of: None, flag });
            }
        }
        for group in &mut held.groups {
            for rule in &mut group.rules {
                let of = &held.rules[rule.number];
                let estimate = of.estimate.unwrap_or(of.spent);
                rule.asked.cost = Cost::new(of.spent.abs_diff(estimate));
                (rule.is_more, rule.flag) = (of.spent > estimate, of.flag);
            }
        }
        Ok(held)
    }

    fn group(&mut self, plan: &'a Plan, encodings: &Encodings) -> Result<(), StoreError> {
        let first = self.rules.len() - plan.rules().len();
        let of_plan = self.rules[first..].iter().enumerate();
        let mut rates = of_plan.filter(|(_, held)| !held.rule.is_concurrency()).peekable();
        if rates.peek().is_none() {
            return Ok(());
        }
        let rates = rates.map(|(index, held)| {
            let (name, quota) = (Cow::Borrowed(held.rule.name()), held.rule.quota());
            grouped(name, quota, held.asked, first + index)
        });
        add(&mut self.groups, Some(plan.name()), rates, encodings)
    }

    /// Returns what is remembered of a hold of these rules.
    pub(crate) fn body(&self, plans: impl Iterator<Item = &'a Plan> + Clone) -> HoldContents {
        let plans_of: Vec<&Plan> = plans.clone().collect();
        let of_plan = plans.clone().enumerate().flat_map(|(at, plan)| plan.rules().iter().map(move |_| at));
        let rules = self.rules.iter().zip(of_plan).map(|(held, plan)| BodyRule {
            plan: u8::try_from(plan).unwrap_or(u8::MAX),
            kind: match plans_of[plan].lapse() {
                _ if held.rule.is_concurrency() => BodyKind::Place,
                OnLapse::Refund => BodyKind::Refunded,
                _ => BodyKind::Rate,
            },
            flag: held.flag,
            is_bounded: held.bound.is_some(),
            id: held.rule.id().as_u64(),
            amount: held.asked.cost.get(),
        });
        HoldContents { rules: rules.collect(), plans: plans.map(|plan| plan.name().to_string()).collect() }
    }
}
