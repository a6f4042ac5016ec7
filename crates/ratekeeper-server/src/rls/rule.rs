//! One rule of a configuration, ready to be charged.

use std::fmt;
use std::sync::Arc;

use ratekeeper::port::ChargeAction;
use ratekeeper::{Algorithm, FailureMode, Plan};
use serde_json::{Map, Value};

use super::unit::LimitUnit;

/// One rule of a configuration.
#[derive(Clone, Debug)]
pub struct LimitRule {
    /// What it limits to.
    pub limit: RuleLimit,
    /// Its name; empty for none.
    pub name: String,
    /// The names of rules that do not count where this one is found.
    pub replaces: Vec<String>,
    /// Whether it is judged and charged, and never refuses.
    pub is_shadow: bool,
    /// Whether it refuses only together with all others of its kind.
    pub is_quota: bool,
    /// What filters are told when it passes.
    pub metadata: Option<Arc<Map<String, Value>>>,
    /// The number of this rule in its configuration, from 0 on: for counters that are kept beside it.
    pub index: usize,
}

/// What a rule limits to.
#[derive(Clone, Debug)]
pub enum RuleLimit {
    /// Nothing: it has no counter.
    Unlimited,
    /// To nothing at all: over, always.
    Banned(LimitUnit),
    /// To what a plan allows.
    Limited(Limited),
}

/// A limit that is counted.
#[derive(Clone, Debug)]
pub struct Limited {
    /// The rules that it is counted by.
    pub plan: LimitPlan,
    /// What is done with hits that are over; none if the rule does not say it and its plan is a named one: then
    /// [`usual_over`] of that plan.
    pub over: Option<ChargeAction>,
    /// What is answered when the store fails. A plan of its own says the same.
    pub on_store_error: FailureMode,
    /// What is told of it.
    pub told: ToldLimit,
}

/// Where the rules of a limit come from.
#[derive(Clone, Debug)]
pub enum LimitPlan {
    /// Its own, made of the file: a plan called `rls`.
    Own(Arc<Plan>),
    /// A plan of the server, by name. What that plan says of a store that fails does not count here:
    /// [`Limited::on_store_error`] does.
    Named(String),
}

impl fmt::Display for RuleLimit {
    /// Writes what it limits to: `5/m fixed grid`, `plan gold`, `unlimited`, `nothing may pass`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleLimit::Unlimited => f.write_str("unlimited"),
            RuleLimit::Banned(unit) => write!(f, "nothing may pass (0 in a {})", unit.word()),
            RuleLimit::Limited(limited) => limited.plan.fmt(f),
        }
    }
}

impl fmt::Display for LimitPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitPlan::Named(name) => write!(f, "plan {name}"),
            LimitPlan::Own(plan) => {
                for (index, rule) in plan.rules().iter().enumerate() {
                    let separator = if index > 0 { "; " } else { "" };
                    let shadow = if rule.is_shadow() { "in shadow " } else { "" };
                    write!(f, "{separator}{shadow}{rule}")?;
                }
                Ok(())
            }
        }
    }
}

impl Limited {
    /// Returns the word for what is done with hits that are over; none if it depends on a named plan.
    pub fn over_word(&self) -> Option<&'static str> {
        self.over.map(|over| match over {
            ChargeAction::Count | ChargeAction::GiveBack => "count",
            ChargeAction::Ignore => "ignore",
        })
    }
}

/// What is told of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldLimit {
    /// What the file says.
    AsWritten {
        /// How many may pass in a unit.
        requests_per_unit: u32,
        /// The unit; none if it is multiplied.
        unit: Option<LimitUnit>,
    },
    /// The count of the rule that binds, and its unit if its period is exactly one.
    ByBinding,
}

/// Returns what is done with hits that are over a limit whose rule does not say it: they are counted, or what `fixed` says, if
/// all rules of the plan are fixed windows; otherwise they are ignored.
pub fn usual_over(plan: &Plan, fixed: ChargeAction) -> ChargeAction {
    let is_fixed = |algorithm| matches!(algorithm, Algorithm::FixedWindow(_));
    let mut binding = plan.rules().iter().filter(|rule| !rule.is_shadow());
    if binding.all(|rule| is_fixed(rule.quota().algorithm())) { fixed } else { ChargeAction::Ignore }
}
