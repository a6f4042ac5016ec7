//! The engine's decision about a hold, of what a script has told.

use ratekeeper::algorithm::composite::{self, Passing};
use ratekeeper::algorithm::{AnyView, HeldView, InFlight};
use ratekeeper::port::{HoldRequest, Standing};
use ratekeeper::{Cost, Decision, Nanos, Reason, StoreError, Timestamp};
use redis::Value;

use super::held_rules::HeldRules;
use super::hold_body::{EndedHold, HoldBytes};
use super::reply::{ScriptDecision, expected};
use crate::error::RedisError;

impl ScriptDecision {
    /// Returns what the engine decides about a hold on the same states at the same time. The script has already taken what
    /// it takes, or not: should the two ever disagree, that is an error and not a decision.
    pub(crate) fn hold(&self, held: &HeldRules<'_>) -> Result<Standing, StoreError> {
        let (mut views, is_crowded) = (self.held_views(held)?, self.is_crowded()?);
        let passing = Passing::of(views.iter().zip(&held.rules).map(|(view, rule)| {
            let asked = rule.asked;
            (asked.shadow_of, view.has_room(asked.cost))
        }));
        let passes = passing.allows() && !is_crowded;
        if passes != self.passed {
            return Err(RedisError::script_fault("the script and the engine disagree about a hold").into());
        }
        if !passes {
            return self.look_held(held);
        }
        let each = views.iter_mut().zip(&held.rules).map(|(view, rule)| {
            let asked = rule.asked;
            if passing.charges(asked.shadow_of) { view.take(asked.cost) } else { view.look(asked.cost) }
        });
        let mut standing = standing(each.collect(), held);
        standing.decision = standing.decision.charged(self.now);
        Ok(standing)
    }

    /// Returns what would be decided about a hold.
    pub(crate) fn look_held(&self, held: &HeldRules<'_>) -> Result<Standing, StoreError> {
        let views = self.held_views(held)?;
        let each = views.iter().zip(&held.rules).map(|(view, rule)| view.look(rule.asked.cost));
        let mut standing = standing(each.collect(), held);
        if standing.decision.allowed && self.is_crowded()? {
            standing.decision = Decision::deny(HoldRequest::MOST_OF_A_KEY as u64, 0, None, Nanos::ZERO);
            standing.decision.reason = Reason::AtCapacity;
        }
        Ok(standing)
    }

    /// Returns where the key stands, as one more of everything would find it.
    pub(crate) fn look_one_more(&self, held: &HeldRules<'_>) -> Result<Standing, StoreError> {
        let views = self.held_views(held)?;
        Ok(standing(views.iter().map(|view| view.look(Cost::ONE)).collect(), held))
    }

    /// Returns where the key stands once a hold has ended.
    pub(crate) fn end(&self, held: &HeldRules<'_>) -> Result<Standing, StoreError> {
        let (charged_at, shadows) = self.charged()?;
        let (mut each, mut forgiven) = (Vec::with_capacity(held.rules.len()), 0_u64);
        for (mut view, rule) in self.held_views(held)?.into_iter().zip(&held.rules) {
            let is_charged =
                rule.flag == 0 || shadows.get(usize::from(rule.flag) - 1).is_some_and(|digit| *digit == b'1');
            if let Some(estimate) = rule.estimate.filter(|_| is_charged) {
                let (estimate, spent) = (Cost::new(estimate), Cost::new(rule.spent));
                forgiven = forgiven.saturating_add(view.end(estimate, spent, charged_at, self.now));
            }
            each.push(view.look(Cost::ONE));
        }
        Ok(Standing { forgiven, ..standing(each, held) })
    }

    /// Returns the rules as a hold sees them, in the order of their plans.
    fn held_views<'v>(&'v self, held: &HeldRules<'v>) -> Result<Vec<HeldView<'v>>, StoreError> {
        let mut rates: Vec<Option<AnyView<'v>>> = vec![None; held.rules.len()];
        let numbers = held.groups.iter().flat_map(|group| group.rules.iter().map(|rule| rule.number));
        for (number, view) in numbers.zip(self.views(&held.groups)?) {
            rates[number] = Some(view);
        }
        let sums = self.sums(held.sums.len())?;
        let views = held.rules.iter().zip(rates).map(|(rule, rate)| {
            let in_flight = rule.bound.map(|(most, sum)| InFlight { held: sums[sum], most });
            HeldView { rate, in_flight }
        });
        Ok(views.collect())
    }

    /// Returns what was held of each rule.
    fn sums(&self, count: usize) -> Result<Vec<u64>, StoreError> {
        let Some(Value::BulkString(sums)) = self.held.first() else { return Err(expected("what is held")) };
        let mut bytes = HoldBytes(sums);
        let sums: Option<Vec<u64>> = (0..count).map(|_| bytes.natural()).collect();
        sums.ok_or_else(|| expected("what is held of each rule"))
    }

    fn is_crowded(&self) -> Result<bool, StoreError> {
        match self.held.get(1) {
            Some(Value::Int(live)) => {
                Ok(usize::try_from(*live).is_ok_and(|live| live >= HoldRequest::MOST_OF_A_KEY))
            }
            _ => Err(expected("how many holds are live")),
        }
    }

    /// Returns when the hold was charged, and a digit for each rule in shadow.
    fn charged(&self) -> Result<(Timestamp, &[u8]), StoreError> {
        let read = || {
            let Some(Value::BulkString(charged)) = self.held.get(1) else { return None };
            let mut bytes = HoldBytes(charged);
            let charged_at = bytes.instant()?;
            let shadows = bytes.byte()?.into();
            Some((charged_at, bytes.take(shadows)?))
        };
        read().ok_or_else(|| expected("when the hold was charged"))
    }
}

/// Returns where the key stood when a hold was ended.
pub(crate) fn answer_again(ended: &EndedHold<'_>, held: &HeldRules<'_>) -> Result<Standing, StoreError> {
    let told = [ended.sums, ended.charged].map(|bytes| Value::BulkString(bytes.to_vec()));
    let decision = ScriptDecision::told(&held.groups, ended.now, &ended.told, told.into())?;
    decision.end(held)
}

fn standing(each: Vec<Decision>, held: &HeldRules<'_>) -> Standing {
    let binding = each.iter().zip(&held.rules).map(|(decision, rule)| (*decision, !rule.rule.is_shadow()));
    let decision = composite::join_binding(binding);
    Standing { each, ..Standing::of(decision) }
}
