//! What a store must answer: the engine's pure functions on states that are written down and read back.

use std::collections::BTreeMap;

use ratekeeper::algorithm::composite::Asked;
use ratekeeper::algorithm::composite::Passing;
use ratekeeper::algorithm::{AnyView, Tenancy, View, Wait, composite, look};
use ratekeeper::port::{ChargeAction, ChargeStanding, Grant, Standing};
use ratekeeper::state::{NamedStates, RuleStates, binary};
use ratekeeper::{Charged, Cost, Decision, Name, Nanos, Quota, State, Timestamp};

use crate::encoding::Encoding;

/// Some rules, and the states of one key: those of these rules, and those of others.
#[derive(Clone, Debug)]
pub(crate) struct StoreModel {
    pub(crate) encoding: Encoding,
    pub(crate) tenancy: Tenancy,
    pub(crate) rules: Vec<(Name, Quota)>,
    /// The ASCII text of all states.
    pub(crate) text: Option<String>,
    /// The states that are in hashes.
    pub(crate) hashes: BTreeMap<Name, State>,
    /// When a key was last forgotten: that of a rule's own hash, or the one for all.
    pub(crate) resets: BTreeMap<Option<Name>, Timestamp>,
}

type HeldStates = Vec<(Quota, Option<State>)>;

/// One of several charges that are judged together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelCharge<'a> {
    pub(crate) asked: &'a [Asked],
    pub(crate) action: ChargeAction,
    /// Whether the whole passes.
    pub(crate) passes: bool,
    /// Which rules are over, if that was found before.
    pub(crate) over: Option<&'a [bool]>,
}

impl StoreModel {
    pub(crate) fn new(encoding: Encoding, tenancy: Tenancy, rules: Vec<(Name, Quota)>) -> Self {
        let (text, hashes, resets) = (None, BTreeMap::new(), BTreeMap::new());
        StoreModel { encoding, tenancy, rules, text, hashes, resets }
    }

    /// The key under which a rule's state is: one of its own, or that for all.
    fn key_of(&self, name: &Name) -> Option<Name> {
        let has_own = self.encoding == Encoding::Binary && self.tenancy == Tenancy::Own;
        has_own.then(|| name.clone())
    }

    /// Just one of the rules.
    pub(crate) fn alone(&self, rule: usize) -> Self {
        StoreModel { rules: vec![self.rules[rule].clone()], ..self.clone() }
    }

    /// Returns the smallest burst of the rules.
    pub(crate) fn burst(&self) -> u64 {
        self.rules.iter().map(|(_, quota)| quota.burst()).min().unwrap_or(1)
    }

    /// True if states of other rules, or what other quotas share, live as long.
    pub(crate) fn has_others(&mut self) -> bool {
        self.tenancy == Tenancy::Shared || !self.read().1.is_empty()
    }

    /// What these rules find, and what is kept for others. A state of another algorithm is given up for good.
    fn read(&mut self) -> (HeldStates, NamedStates) {
        let named = || self.rules.iter().map(|(name, quota)| (name, quota));
        let (states, others) = match (self.encoding, &self.text) {
            (Encoding::Ascii, None) => (vec![None; self.rules.len()], NamedStates::default()),
            (Encoding::Ascii, Some(text)) => {
                let found = RuleStates::read(text, named(), self.tenancy).unwrap();
                if !found.replaced.is_empty() {
                    let states =
                        named().zip(&found.states).map(|((name, quota), state)| (name, quota, state.clone()));
                    self.text = RuleStates::write(states, &found.others, self.tenancy).unwrap();
                }
                (found.states, found.others)
            }
            (Encoding::Binary, _) => {
                for (name, quota) in &self.rules {
                    let fits = |state: &State| quota.algorithm().has_states_of(state.algorithm());
                    if self.hashes.get(name).is_some_and(|state| !fits(state)) {
                        self.hashes.remove(name);
                    }
                }
                let states = self.rules.iter().map(|(name, _)| self.hashes.get(name).cloned());
                (states.collect(), NamedStates::default())
            }
        };
        (self.rules.iter().map(|rule| rule.1).zip(states).collect(), others)
    }

    /// What the encoding makes of the states, such as microseconds in a hash.
    fn write(&mut self, states: Vec<Option<State>>, others: &NamedStates) {
        match self.encoding {
            Encoding::Ascii => {
                let named = self.rules.iter().zip(states).map(|((name, quota), state)| (name, quota, state));
                self.text = RuleStates::write(named, others, self.tenancy).unwrap();
            }
            Encoding::Binary => {
                for ((name, _), state) in self.rules.iter().zip(states) {
                    let written = state.map(|state| match binary::decode(&binary::encode(&state)) {
                        Ok(binary::Decoded::State(state)) => state,
                        other => panic!("{state:?} became {other:?}"),
                    });
                    match written {
                        Some(state) => drop(self.hashes.insert(name.clone(), state)),
                        None => drop(self.hashes.remove(name)),
                    }
                }
            }
        }
    }

    /// When all is as a fresh key's again.
    pub(crate) fn reset_after(&mut self, now: Timestamp) -> Nanos {
        composite::peek(&self.read().0, Cost::ZERO, now, self.tenancy).unwrap().reset_after
    }

    pub(crate) fn peek(&mut self, asked: &[Asked], now: Timestamp) -> Standing {
        let each = composite::peek_each(&self.read().0, |rule| asked[rule], now, self.tenancy).unwrap();
        standing(each, asked)
    }

    /// Takes the same from every rule.
    pub(crate) fn take_evenly(&mut self, cost: u64, now: Timestamp) -> Decision {
        self.take(&vec![Cost::new(cost).into(); self.rules.len()], now).decision
    }

    pub(crate) fn take(&mut self, asked: &[Asked], now: Timestamp) -> Standing {
        let (held, others) = self.read();
        let taken = composite::try_acquire_each(&held, |rule| asked[rule], now, self.tenancy);
        let (each, changed) = taken.unwrap();
        if changed.iter().any(Option::is_some) {
            let states = changed.into_iter().zip(held).map(|(new, (_, old))| new.or(old));
            self.write(states.collect(), &others);
        }
        let mut standing = standing(each, asked);
        if takes(asked) && standing.decision.allowed {
            standing.decision = standing.decision.charged(now);
        }
        standing
    }

    /// Takes as much as there is from the cost that is asked for up to `most`, or nothing. What comes after is told of the
    /// states as they were written.
    pub(crate) fn take_up_to(&mut self, least: Cost, most: Cost, asked: &[Asked], at: Timestamp) -> Grant {
        let at_cost = |cost| -> Vec<Asked> { asked.iter().map(|asked| Asked { cost, ..*asked }).collect() };
        let left = self.peek(&at_cost(Cost::ZERO), at).decision.remaining;
        let cost = Cost::new(left).min(most).max(least);
        let decision = self.take(&at_cost(cost), at).decision;
        let (next, held) = (self.peek(&at_cost(Cost::ONE), at).decision, self.read().0);
        let binding = held.iter().zip(asked).filter(|(_, asked)| asked.shadow_of.is_none());
        let left = binding.filter_map(|((quota, state), _)| {
            AnyView::at(quota, state.as_ref(), at, self.tenancy).unwrap().window_left()
        });
        let granted = if decision.allowed { cost } else { Cost::ZERO };
        Grant { granted, decision, at, ends: left.min(), next }
    }

    pub(crate) fn debit(&mut self, asked: &[Asked], now: Timestamp) -> Standing {
        let (held, others) = self.read();
        let (mut each, mut states, mut forgiven) = (Vec::new(), Vec::new(), 0_u64);
        for ((quota, state), asked) in held.iter().zip(asked) {
            let mut view = AnyView::at(quota, state.as_ref(), now, self.tenancy).unwrap();
            if asked.cost != Cost::ZERO {
                forgiven = forgiven.saturating_add(view.debit(asked.cost));
            }
            each.push(look(&view, Cost::ONE));
            states.push(if asked.cost == Cost::ZERO { state.clone() } else { view.to_state() });
        }
        if takes(asked) {
            self.write(states, &others);
        }
        Standing { forgiven, ..standing(each, asked) }
    }

    /// Makes a charge, and tells where the key stands then, and which rules are over.
    pub(crate) fn charge(&mut self, charge: ModelCharge<'_>, now: Timestamp) -> (ChargeStanding, Vec<bool>) {
        let ModelCharge { asked, action, passes, over } = charge;
        let (held, others) = self.read();
        let tenancy = self.tenancy;
        let mut views: Vec<AnyView<'_>> = Vec::new();
        for (quota, state) in &held {
            views.push(AnyView::at(quota, state.as_ref(), now, tenancy).unwrap());
        }
        let wait = |view: &AnyView<'_>, asked: &Asked| match action {
            ChargeAction::GiveBack => Wait::Ready,
            ChargeAction::Count if !takes(charge.asked) => view.wait_until_paid(),
            ChargeAction::Ignore if !takes(charge.asked) => view.wait_for(Cost::ONE),
            _ => view.wait_for(asked.cost),
        };
        let is_over: Vec<bool> =
            views.iter().zip(asked).map(|(view, asked)| wait(view, asked) != Wait::Ready).collect();
        let passing = Passing::of(asked.iter().zip(&is_over).map(|(asked, over)| (asked.shadow_of, !over)));
        let binding = |at: &usize| asked[*at].shadow_of.is_none();
        let left = (0..views.len()).filter(binding).map(|at| views[at].remaining()).min();
        let (mut each, mut states, mut is_written) = (Vec::new(), Vec::new(), false);
        for (at, (view, asked)) in views.iter_mut().zip(asked).enumerate() {
            let charges = passes && passing.charges(asked.shadow_of);
            let changes = asked.cost != Cost::ZERO
                && match action {
                    ChargeAction::Count => {
                        view.debit(asked.cost);
                        true
                    }
                    ChargeAction::Ignore if charges => {
                        view.charge(asked.cost);
                        true
                    }
                    ChargeAction::Ignore => view.was_repaired(),
                    ChargeAction::GiveBack => {
                        view.refund(asked.cost, now);
                        held[at].1.is_some()
                    }
                };
            is_written |= changes;
            states.push(if changes { view.to_state() } else { held[at].1.clone() });
            let (limit, left, ends) = (view.limit(), view.remaining(), view.ends_after());
            let is_over = over.map_or(is_over[at], |over| over[at]);
            each.push(match wait(view, asked) {
                _ if !is_over => Decision::allow(limit, left, ends),
                Wait::Ready => Decision::deny(limit, left, Some(Nanos::ZERO), ends),
                Wait::After(wait) => Decision::deny(limit, left, Some(wait), ends),
                Wait::Never => Decision::deny(limit, left, None, ends),
            });
        }
        if is_written {
            self.write(states, &others);
        }
        let mut decision = standing(each.clone(), asked).decision;
        let is_charged = match action {
            ChargeAction::Count => true,
            ChargeAction::Ignore => passes && passing.allows(),
            ChargeAction::GiveBack => false,
        };
        if is_charged && takes(asked) {
            decision = decision.charged(now);
        }
        let has_shadow = asked.iter().any(|asked| asked.shadow_of.is_some());
        let rules = if has_shadow { each } else { Vec::new() };
        (ChargeStanding { decision, left_before: left.unwrap_or(u64::MAX), rules }, is_over)
    }

    pub(crate) fn refund(&mut self, asked: &[Asked], charged: Charged, now: Timestamp) -> Decision {
        let (held, others) = self.read();
        let charged_at = charged.instant(now);
        let is_reset = |name| self.resets.get(&self.key_of(name)).is_some_and(|reset| charged_at <= *reset);
        let (mut views, mut states) = (Vec::new(), Vec::new());
        for (((name, _), (quota, state)), asked) in self.rules.iter().zip(&held).zip(asked) {
            let mut view = AnyView::at(quota, state.as_ref(), now, self.tenancy).unwrap();
            let is_refunded = asked.cost != Cost::ZERO && !is_reset(name);
            if is_refunded {
                view.refund(asked.cost, charged_at);
            }
            states.push(if is_refunded && state.is_some() { view.to_state() } else { state.clone() });
            views.push(view);
        }
        let decision = standing(views.iter().map(|view| look(view, Cost::ZERO)).collect(), asked).decision;
        if takes(asked) && self.rules.iter().any(|(name, _)| !is_reset(name)) {
            self.write(states, &others);
        }
        decision
    }

    /// Forgets, and tells how many states of these rules counted.
    pub(crate) fn reset(&mut self, now: Timestamp) -> u64 {
        let held = self.read().0;
        let live = |rule: &&(Quota, Option<State>)| {
            let left = composite::peek(std::slice::from_ref(*rule), Cost::ZERO, now, self.tenancy);
            left.unwrap().reset_after > Nanos::ZERO
        };
        let count = held.iter().filter(live).count() as u64;
        match (self.encoding, self.tenancy) {
            (Encoding::Binary, Tenancy::Own) => {
                for (name, _) in &self.rules {
                    self.hashes.remove(name);
                    self.resets.insert(Some(name.clone()), now);
                }
            }
            // One key holds all of them.
            _ => {
                (self.text, self.hashes) = (None, BTreeMap::new());
                self.resets.insert(None, now);
            }
        }
        count
    }
}

fn takes(asked: &[Asked]) -> bool {
    asked.iter().any(|asked| asked.cost != Cost::ZERO)
}

fn standing(each: Vec<Decision>, asked: &[Asked]) -> Standing {
    let binding = each.iter().zip(asked).map(|(decision, asked)| (*decision, asked.shadow_of.is_none()));
    let decision = composite::join_binding(binding);
    Standing { each, ..Standing::of(decision) }
}
