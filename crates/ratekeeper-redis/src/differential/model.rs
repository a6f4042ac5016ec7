//! What a store must answer: the engine's pure functions on states that are written down and read back.

use ratekeeper::algorithm::composite;
use ratekeeper::state::{Record, State, binary};
use ratekeeper::{Cost, Decision, Name, Nanos, Quota, Timestamp};

use crate::encoding::Encoding;

/// A plan's rules and their states.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) encoding: Encoding,
    pub(crate) names: Vec<Name>,
    pub(crate) rules: Vec<(Quota, Option<State>)>,
    /// The text that was written last: what of it is fresh depends on the quota that it is read under.
    pub(crate) record: Option<Record>,
}

impl Model {
    pub(crate) fn peek(&self, cost: u64, now: Timestamp) -> Decision {
        composite::peek(&self.rules, Cost::new(cost), now, ratekeeper::algorithm::Tenancy::Own).unwrap()
    }

    pub(crate) fn take(&mut self, cost: u64, now: Timestamp) -> Decision {
        let (decision, states) =
            composite::try_acquire(&self.rules, Cost::new(cost), now, ratekeeper::algorithm::Tenancy::Own)
                .unwrap();
        if states.iter().any(Option::is_some) {
            for (rule, state) in self.rules.iter_mut().zip(states) {
                rule.1 = state.or(rule.1.take());
            }
            self.write(now);
        }
        decision
    }

    /// How much was granted, and the decision.
    pub(crate) fn take_up_to(&mut self, up_to: u64, now: Timestamp) -> (u64, Decision) {
        let left = self.peek(0, now).remaining;
        let cost = up_to.min(left.max(1));
        let decision = self.take(cost, now);
        (if decision.allowed { cost } else { 0 }, decision)
    }

    pub(crate) fn refund(&mut self, cost: u64, now: Timestamp) -> Decision {
        let (decision, states) =
            composite::refund(&self.rules, Cost::new(cost), now, now, ratekeeper::algorithm::Tenancy::Own)
                .unwrap();
        if cost > 0 && self.rules.iter().any(|rule| rule.1.is_some()) {
            self.rules.iter_mut().zip(states).for_each(|(rule, state)| rule.1 = state);
            self.write(now);
        }
        decision
    }

    /// Forgets, and tells how many states counted.
    pub(crate) fn reset(&mut self, now: Timestamp) -> u64 {
        let live = |rule: &&mut (Quota, Option<State>)| {
            let rule = std::slice::from_ref(&**rule);
            composite::peek(rule, Cost::PEEK, now, ratekeeper::algorithm::Tenancy::Own).unwrap().reset_after
                > Nanos::ZERO
        };
        let count = self.rules.iter_mut().filter(live).count() as u64;
        self.rules.iter_mut().for_each(|rule| rule.1 = None);
        self.record = None;
        count
    }

    /// The same rules with other quotas.
    pub(crate) fn change(&mut self, quotas: impl Iterator<Item = Quota>) {
        self.rules.iter_mut().zip(quotas).for_each(|(rule, quota)| rule.0 = quota);
        if self.encoding == Encoding::Ascii {
            self.read();
        }
    }

    fn read(&mut self) {
        let named = self.names.iter().zip(&self.rules);
        let read = self
            .record
            .clone()
            .map(|record| record.into_rules(named.map(|(name, (quota, _))| (name, quota))).unwrap());
        let read = read.unwrap_or_else(|| vec![None; self.rules.len()]);
        self.rules.iter_mut().zip(read).for_each(|(rule, state)| rule.1 = state);
    }

    /// What the encoding makes of the states: microseconds in a hash, and in a text a fresh rule spelled out while
    /// another is not fresh.
    fn write(&mut self, now: Timestamp) {
        match self.encoding {
            Encoding::Binary => {
                for (_, state) in &mut self.rules {
                    *state = state.take().map(|state| match binary::decode(&binary::encode(&state)) {
                        Ok(binary::Decoded::State(state)) => state,
                        other => panic!("{state:?} became {other:?}"),
                    });
                }
            }
            Encoding::Ascii => {
                let named = self.names.iter().zip(&self.rules);
                let states = named.map(|(name, (quota, state))| (name, quota, state.clone()));
                self.record = Record::from_rules(states, now).unwrap();
                self.read();
            }
        }
    }
}
