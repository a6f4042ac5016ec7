//! What one rule says, as wires tell it that were asked for each.

use ratekeeper::port::HoldOutcome;
use ratekeeper::{Decision, Plan, Rule, Ruling};

/// One rule of an answer, and what it says by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleRow<'a> {
    /// The plan that it is of.
    pub(crate) plan: &'a str,
    /// Its own name.
    pub(crate) rule: &'a str,
    /// What it counts.
    pub(crate) unit: &'a str,
    /// What the rule says.
    pub(crate) decision: &'a Decision,
}

/// Returns the rules of a ruling, as far as it tells of them.
pub(crate) fn of_ruling(ruling: &Ruling) -> impl Iterator<Item = RuleRow<'_>> {
    ruling.each().map(row)
}

/// Returns the rules of a hold, in the order in which they were told when it was made.
pub(crate) fn of_outcome(outcome: &HoldOutcome) -> impl Iterator<Item = RuleRow<'_>> {
    outcome.each().map(row)
}

fn row<'a>((plan, rule, decision): (&'a Plan, &'a Rule, &'a Decision)) -> RuleRow<'a> {
    let (plan, unit) = (plan.name().as_str(), rule.unit().as_str());
    RuleRow { plan, rule: rule.name().as_str(), unit, decision }
}
