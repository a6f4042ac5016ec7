//! What a script has found of charges, and the engine's judgment of it.

use std::iter::repeat_n;

use ratekeeper::algorithm::composite::{self, Asked, Passing};
use ratekeeper::algorithm::{AnyView, View, Wait};
use ratekeeper::port::{ChargeAction, ChargeStanding};
use ratekeeper::{Cost, State, StoreError, Timestamp};

use super::judging::{GroupedCharge, JudgeCall, KnownWhole};
use super::reply::ScriptDecision;
use crate::error::{RedisError, unreadable};

/// A charge as a script has found its key.
#[derive(Clone, Debug)]
pub(crate) struct FoundCharge<'v> {
    /// The rules as they were before, in the order of the request.
    views: Vec<AnyView<'v>>,
    asked: Vec<Asked>,
    action: ChargeAction,
    is_look: bool,
    now: Timestamp,
}

/// Which rules of a charge are over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChargeOver {
    /// In the order of the request.
    pub(crate) rules: Vec<bool>,
    passing: Passing,
}

impl ChargeOver {
    /// Returns true if the charge is.
    pub(crate) fn is_over(&self) -> bool {
        !self.passing.allows()
    }
}

/// What a charge does to one of its rules if the whole passes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleEffect {
    /// The position of the rule in the request.
    pub(crate) rule: usize,
    action: ChargeAction,
    cost: Cost,
    /// How much of the cost was forgiven, because a debt is bounded.
    forgiven: u64,
}

impl RuleEffect {
    /// Returns true if it is there only if the whole passes.
    pub(crate) fn depends_on_whole(&self) -> bool {
        self.action == ChargeAction::Ignore
    }

    /// Returns how much can be given back, if the charge was made.
    pub(crate) fn returnable(&self) -> Cost {
        match self.action {
            ChargeAction::Count | ChargeAction::Ignore => {
                Cost::new(self.cost.get().saturating_sub(self.forgiven))
            }
            ChargeAction::GiveBack => Cost::ZERO,
        }
    }

    /// Has it on a state of its rule.
    pub(crate) fn apply(&self, view: &mut AnyView<'_>, now: Timestamp) {
        match self.action {
            ChargeAction::Count => drop(view.debit(self.cost)),
            ChargeAction::Ignore => view.charge(self.cost),
            ChargeAction::GiveBack => view.refund(self.cost, now),
        }
    }
}

impl ScriptDecision {
    /// Returns the charges of a call as they were found, with their positions among the charges, in the order of the script.
    ///
    /// # Errors
    ///
    /// The script has decided otherwise than the engine does: it has charged, or not, by that.
    pub(crate) fn found<'v>(
        &'v self,
        call: &'v JudgeCall<'_>,
        known: KnownWhole,
    ) -> Result<Vec<(&'v GroupedCharge<'v>, FoundCharge<'v>)>, StoreError> {
        let mut found = Vec::with_capacity(call.charges.len());
        let (mut over, mut together) = (0_u64, Vec::new());
        for (position, (charge, places)) in call.places().enumerate() {
            let states = self.states.get(places).unwrap_or_default();
            let one = FoundCharge::new(charge, states, self.now)?;
            let is_over = one.over().is_over();
            over |= u64::from(is_over) << position.min(63);
            together.push((charge.force, is_over));
            found.push((charge, one));
        }
        let spared = known.is_spared.then_some((ratekeeper::port::ChargeForce::Together, false));
        let passes = known.whole.passes(together.into_iter().chain(spared));
        if (over, passes) != (self.over, self.passed) {
            return Err(RedisError::script_fault("the script and the engine disagree about charges").into());
        }
        Ok(found)
    }

    /// Returns the states of a charge as they were found, in the order of the script.
    pub(crate) fn states_of(&self, call: &JudgeCall<'_>, position: usize) -> &[Option<State>] {
        let places = call.places().nth(position).map(|(_, places)| places);
        places.and_then(|places| self.states.get(places)).unwrap_or_default()
    }

    /// Returns whether the whole passed, as far as the script knew, and when it was judged.
    pub(crate) fn outcome(&self) -> (bool, Timestamp) {
        (self.passed, self.now)
    }
}

impl<'v> FoundCharge<'v> {
    /// Returns a charge whose states are these, in the order of the script.
    pub(crate) fn new(
        charge: &GroupedCharge<'v>,
        states: &'v [Option<State>],
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let places = charge.groups.iter().flat_map(|group| repeat_n(group, group.rules.len()));
        let rules = charge.groups.iter().flat_map(|group| &group.rules);
        let mut placed = Vec::with_capacity(states.len());
        for ((group, rule), state) in places.zip(rules).zip(states) {
            let view = AnyView::at(rule.quota, state.as_ref(), now, group.tenancy());
            placed.push((group.place, view.map_err(|error| unreadable(&error))?, rule.asked));
        }
        placed.sort_by_key(|(place, ..)| *place);
        let (views, asked) = placed.into_iter().map(|(_, view, asked)| (view, asked)).unzip();
        Ok(FoundCharge { views, asked, action: charge.action, is_look: charge.is_look, now })
    }

    /// Returns which rules are over.
    pub(crate) fn over(&self) -> ChargeOver {
        let is_over = |(view, asked): (&AnyView<'_>, &Asked)| self.wait(view, *asked) != Wait::Ready;
        let rules: Vec<bool> = self.views.iter().zip(&self.asked).map(is_over).collect();
        let ready = self.asked.iter().zip(&rules).map(|(asked, is_over)| (asked.shadow_of, !is_over));
        ChargeOver { passing: Passing::of(ready), rules }
    }

    /// Returns what it does to each rule, given that the whole passes.
    pub(crate) fn effects(&self, over: &ChargeOver) -> Vec<RuleEffect> {
        let mut effects = Vec::new();
        for (rule, (view, asked)) in self.views.iter().zip(&self.asked).enumerate() {
            let is_ignored = self.action == ChargeAction::Ignore && !over.passing.charges(asked.shadow_of);
            if asked.cost == Cost::ZERO || is_ignored {
                continue;
            }
            let mut view = *view;
            let forgiven = if self.action == ChargeAction::Count { view.debit(asked.cost) } else { 0 };
            effects.push(RuleEffect { rule, action: self.action, cost: asked.cost, forgiven });
        }
        effects
    }

    /// Returns where the key stands once the whole passes or not.
    pub(crate) fn standing(mut self, over: &ChargeOver, passes: bool) -> ChargeStanding {
        let left = self.binding().map(|(view, _)| view.remaining()).min();
        let left_before = left.unwrap_or(u64::MAX);
        let charges = passes && self.action == ChargeAction::Ignore;
        let mut each = Vec::with_capacity(self.views.len());
        for (number, asked) in self.asked.iter().enumerate() {
            let view = &mut self.views[number];
            match self.action {
                _ if asked.cost == Cost::ZERO => {}
                ChargeAction::Count => drop(view.debit(asked.cost)),
                ChargeAction::Ignore if charges && over.passing.charges(asked.shadow_of) => {
                    view.charge(asked.cost);
                }
                ChargeAction::Ignore => {}
                ChargeAction::GiveBack => view.refund(asked.cost, self.now),
            }
            let is_over = over.rules.get(number).is_some_and(|is_over| *is_over);
            each.push(ChargeStanding::of_rule(
                view,
                is_over.then(|| self.action.wait(view, asked.cost, self.is_look)),
            ));
        }
        let binding = each.iter().zip(&self.asked).map(|(told, asked)| (*told, asked.shadow_of.is_none()));
        let mut decision = composite::join_binding(binding);
        let is_charged = match self.action {
            ChargeAction::Count => true,
            ChargeAction::Ignore => charges && !over.is_over(),
            ChargeAction::GiveBack => false,
        };
        if is_charged && !self.is_look {
            decision = decision.charged(self.now);
        }
        let has_shadow = self.asked.iter().any(|asked| asked.shadow_of.is_some());
        ChargeStanding { decision, left_before, rules: if has_shadow { each } else { Vec::new() } }
    }

    fn binding(&self) -> impl Iterator<Item = (&AnyView<'v>, &Asked)> {
        self.views.iter().zip(&self.asked).filter(|(_, asked)| asked.shadow_of.is_none())
    }

    fn wait(&self, view: &AnyView<'_>, asked: Asked) -> Wait {
        self.action.wait(view, asked.cost, self.is_look)
    }
}
