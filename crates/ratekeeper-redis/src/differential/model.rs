//! What a store must answer: the engine's pure functions on states that are written down and read back.

use std::collections::BTreeMap;

use ratekeeper::algorithm::composite::Asked;
use ratekeeper::algorithm::{AnyView, Tenancy, View, composite, look};
use ratekeeper::port::Standing;
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

    /// How much was granted, and the decision.
    pub(crate) fn take_up_to(&mut self, up_to: u64, asked: &[Asked], now: Timestamp) -> (u64, Decision) {
        let at_cost = |cost| -> Vec<Asked> {
            asked.iter().map(|asked| Asked { cost: Cost::new(cost), ..*asked }).collect()
        };
        let left = self.peek(&at_cost(0), now).decision.remaining;
        let cost = up_to.min(left.max(1));
        let decision = self.take(&at_cost(cost), now).decision;
        (if decision.allowed { cost } else { 0 }, decision)
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
