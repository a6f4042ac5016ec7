//! Several charges, of several keys, that are judged together.

use super::request::Request;
use crate::algorithm::{View, Wait};
use crate::{Cost, Decision, Nanos};

/// One of several charges that are [judged together](super::Store::charge), each of a key of its own, or of the same.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The key, its rules, and the cost. A cost of 0 looks, and charges nothing.
    pub request: Request<'a>,
    /// What is done with the cost.
    pub action: ChargeAction,
    /// What it means for the whole that this one is over.
    pub force: ChargeForce,
}

impl Charge<'_> {
    /// Returns true if it only looks: if it asks for nothing of any rule.
    pub fn is_look(&self) -> bool {
        match self.request.is_plain() {
            true => self.request.cost == Cost::ZERO,
            false => self.request.shares().all(|share| share.cost == Cost::ZERO),
        }
    }
}

/// What is done with the cost of a [`Charge`], and when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeAction {
    /// It is charged whether or not it passes, as a [debit](super::Store::debit) is. It is over if it does not pass by what
    /// there was before; a look is over if the key is in debt: more was counted than the limit.
    Count,
    /// It is charged if it passes and the whole does; otherwise the key stays as it was. It is over if it does not pass; a
    /// look is over if a cost of 1 would not pass.
    Ignore,
    /// It is given back, as something that was charged just now, never above the capacity. It is never over.
    GiveBack,
}

impl ChargeAction {
    /// Returns what a rule has a cost wait for: the charge is over unless it is ready. `is_look` if the charge takes nothing of
    /// any rule; what takes nothing of this rule alone is never over by it.
    pub fn wait(self, view: &impl View, cost: Cost, is_look: bool) -> Wait {
        match self {
            ChargeAction::GiveBack => Wait::Ready,
            ChargeAction::Count if is_look => view.wait_until_paid(),
            ChargeAction::Ignore if is_look => view.wait_for(Cost::ONE),
            _ if cost == Cost::ZERO => Wait::Ready,
            _ => view.wait_for(cost),
        }
    }
}

/// What it means for the whole that a [`Charge`] is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeForce {
    /// The whole is refused.
    Alone,
    /// The whole is refused if all of this force are over.
    Together,
    /// Nothing.
    Never,
}

/// What is known of the whole before any store was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// Nothing: the charges decide, by their [force](ChargeForce).
    Open,
    /// It passes, whatever they say.
    Passes,
    /// It is refused, whatever they say.
    Refused,
}

impl Whole {
    /// Returns whether the whole passes, by the force of each charge and whether it is over.
    pub fn passes(self, charges: impl IntoIterator<Item = (ChargeForce, bool)>) -> bool {
        let (mut together, mut within) = (false, false);
        for (force, is_over) in charges {
            match force {
                ChargeForce::Alone if is_over && self == Whole::Open => return false,
                ChargeForce::Together => {
                    together = true;
                    within |= !is_over;
                }
                ChargeForce::Alone | ChargeForce::Never => {}
            }
        }
        match self {
            Whole::Open => within || !together,
            Whole::Passes => true,
            Whole::Refused => false,
        }
    }
}

/// What became of [charges](super::Store::charge) that were judged together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgment {
    /// Whether the whole passes.
    pub passes: bool,
    /// Where each charge's key stands, in the order of the charges.
    pub each: Vec<ChargeStanding>,
}

/// Where a key stands after it was [charged](super::Store::charge).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargeStanding {
    /// What the rules say together: `allowed` is false if the charge is over, and all else is told as it is afterwards, with
    /// what stays of the charges before it.
    ///
    /// If it is over, `retry_after` is when this very cost would pass (a look under [`Count`](ChargeAction::Count): when the
    /// debt is paid; under [`Ignore`](ChargeAction::Ignore): when a cost of 1 would pass), none for never, and zero if only
    /// charges before it stood in the way that do not stay. `reset_after` of
    /// a fixed window is the time until its end, also if nothing was counted in it. It has a
    /// [`charged_at`](Decision::charged_at) if the cost was charged.
    pub decision: Decision,
    /// How many requests of cost 1 would have passed before, one after another.
    pub left_before: u64,
    /// What each rule says, those in shadow, too, if any is; otherwise nothing.
    pub rules: Vec<Decision>,
}

impl ChargeStanding {
    /// Returns where one rule stands; over if there is something to wait for, which may be over by now.
    pub fn of_rule(view: &impl View, over: Option<Wait>) -> Decision {
        let (limit, left, ends) = (view.limit(), view.remaining(), view.ends_after());
        match over {
            None => Decision::allow(limit, left, ends),
            Some(Wait::Ready) => Decision::deny(limit, left, Some(Nanos::ZERO), ends),
            Some(Wait::After(wait)) => Decision::deny(limit, left, Some(wait), ends),
            Some(Wait::Never) => Decision::deny(limit, left, None, ends),
        }
    }
}
