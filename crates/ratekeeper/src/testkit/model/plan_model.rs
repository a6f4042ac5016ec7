//! The model of one key under several rules: all that bind or none, each for a cost of its own, and rules in shadow.

use super::model::{Model, ModelAnswer};
use super::search;
use crate::{Cost, Nanos, Quota, Timestamp};

/// One key under the rules of some plans.
///
/// Every rule is asked for a cost of its own: so much of what it counts.
///
/// ```
/// use ratekeeper::testkit::model::PlanModel;
/// use ratekeeper::{Cost, Timestamp};
/// let mut model = PlanModel::new([("60/m".parse()?, None), ("100/m".parse()?, None)]);
/// let (one, tokens) = (Cost::ONE, Cost::new(101));
/// let answer = model.try_acquire(&[one, tokens], Timestamp::EPOCH);
/// assert!(!answer.all.allowed && answer.each[0].allowed, "more tokens than there can be");
/// assert_eq!(model.peek(&[one, one], Timestamp::EPOCH).each[0].remaining, 60, "nothing was taken");
/// # Ok::<(), ratekeeper::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PlanModel {
    rules: Vec<ModelRule>,
}

#[derive(Clone, Debug)]
struct ModelRule {
    model: Model,
    /// The plan of a rule in shadow.
    shadow_of: Option<u8>,
}

/// What the model answers of all rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanAnswer {
    /// What those that bind say together; none binds of a plan that is all in shadow, and its limit is none.
    pub all: ModelAnswer,
    /// The position of the rule that decided: of those that deny the one to wait for longest, or else the one with least
    /// left; of equals the first.
    pub rule: usize,
    /// What each rule says by itself.
    pub each: Vec<ModelAnswer>,
}

/// What the model answers to a request for as much as there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanGrant {
    /// How much was taken.
    pub granted: Cost,
    /// The answer to that, or to the least if nothing was taken.
    pub answer: PlanAnswer,
    /// The time until the first window ends of the rules that bind, if they have windows that end.
    pub ends: Option<Nanos>,
    /// What one more request of cost 1 would be told then.
    pub next: PlanAnswer,
}

impl PlanModel {
    /// Returns a fresh key under these rules; those in shadow with a number of their plan.
    ///
    /// # Panics
    ///
    /// As [`Model::new`].
    pub fn new(rules: impl IntoIterator<Item = (Quota, Option<u8>)>) -> Self {
        let rule = |(quota, shadow_of)| ModelRule { model: Model::new(quota), shadow_of };
        PlanModel { rules: rules.into_iter().map(rule).collect() }
    }

    /// Takes from each rule its cost if all that bind have room for it; from those in shadow if all of the same plan have, too.
    pub fn try_acquire(&mut self, costs: &[Cost], now: Timestamp) -> PlanAnswer {
        let found = self.peek(costs, now).each;
        let passes = |is_asked: &dyn Fn(&ModelRule) -> bool| {
            let asked = self.rules.iter().zip(&found).filter(|(rule, _)| is_asked(rule));
            asked.into_iter().all(|(_, answer)| answer.allowed)
        };
        let binding = passes(&|rule| rule.shadow_of.is_none());
        let is_charged = |rule: &ModelRule| {
            binding && (rule.shadow_of.is_none() || passes(&|other| other.shadow_of == rule.shadow_of))
        };
        let charged: Vec<bool> = self.rules.iter().map(is_charged).collect();
        let mut each = found;
        for (index, rule) in self.rules.iter_mut().enumerate() {
            match charged[index] {
                true => each[index] = rule.model.try_acquire(costs[index], now),
                false if costs[index] != Cost::ZERO => rule.model.repair(now),
                false => {}
            }
        }
        self.join(each)
    }

    /// Takes from every rule the most that all that bind have room for, between `least` and `most`, which is found by trying; or
    /// nothing.
    pub fn try_acquire_up_to(&mut self, least: Cost, most: Cost, now: Timestamp) -> PlanGrant {
        let each = |cost: u64| vec![Cost::new(cost); self.rules.len()];
        let passes = |more| self.peek(&each(least.get() + more), now).all.allowed;
        let wanted = least.get() + search::last(most.get().saturating_sub(least.get()), passes);
        let (costs, one) = (each(wanted), each(1));
        let answer = self.try_acquire(&costs, now);
        let granted = if answer.all.allowed { Cost::new(wanted) } else { Cost::ZERO };
        let binding = self.rules.iter().filter(|rule| rule.shadow_of.is_none());
        let ends = binding.filter_map(|rule| rule.model.window_left(now)).min();
        PlanGrant { granted, answer, ends, next: self.peek(&one, now) }
    }

    /// Returns what each rule says to its cost. Changes nothing.
    pub fn peek(&self, costs: &[Cost], now: Timestamp) -> PlanAnswer {
        self.join(self.rules.iter().zip(costs).map(|(rule, cost)| rule.model.peek(*cost, now)).collect())
    }

    /// Takes from each rule its cost, whether or not it passes. Returns what one more would be told then, and how much is
    /// forgiven by all of them.
    pub fn debit(&mut self, costs: &[Cost], now: Timestamp) -> (PlanAnswer, u64) {
        let debited = self.rules.iter_mut().zip(costs).map(|(rule, cost)| rule.model.debit(*cost, now));
        let (each, forgiven): (Vec<ModelAnswer>, Vec<u64>) = debited.unzip();
        (self.join(each), forgiven.into_iter().fold(0, u64::saturating_add))
    }

    /// Gives back to each rule what is left of its cost, which was charged then.
    pub fn refund(&mut self, costs: &[Cost], charged_at: Timestamp, now: Timestamp) -> PlanAnswer {
        for (rule, cost) in self.rules.iter_mut().zip(costs) {
            rule.model.refund(*cost, charged_at, now);
        }
        self.peek(&vec![Cost::ZERO; self.rules.len()], now)
    }

    fn join(&self, each: Vec<ModelAnswer>) -> PlanAnswer {
        let binding: Vec<(usize, ModelAnswer)> = each
            .iter()
            .copied()
            .enumerate()
            .filter(|(index, _)| self.rules[*index].shadow_of.is_none())
            .collect();
        let allowed = binding.iter().all(|(_, answer)| answer.allowed);
        // Never is longer than any time.
        let wait = |answer: &ModelAnswer| answer.retry_after.map_or((1, Nanos::ZERO), |wait| (0, wait));
        let deciding = if allowed {
            binding.iter().min_by_key(|(index, answer)| (answer.remaining, *index))
        } else {
            let denying = binding.iter().filter(|(_, answer)| !answer.allowed);
            denying.max_by_key(|(index, answer)| (wait(answer), std::cmp::Reverse(*index)))
        };
        let unlimited = ModelAnswer {
            allowed: true,
            limit: u64::MAX,
            remaining: u64::MAX,
            retry_after: Some(Nanos::ZERO),
            reset_after: Nanos::ZERO,
        };
        let (rule, decision) = deciding.copied().unwrap_or((0, unlimited));
        let all = ModelAnswer {
            remaining: binding.iter().map(|(_, answer)| answer.remaining).min().unwrap_or(u64::MAX),
            reset_after: binding.iter().map(|(_, answer)| answer.reset_after).max().unwrap_or(Nanos::ZERO),
            ..decision
        };
        PlanAnswer { all, rule, each }
    }
}
