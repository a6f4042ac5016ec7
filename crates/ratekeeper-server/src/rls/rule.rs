//! One rule of a configuration, ready to be charged.

use std::sync::Arc;

use ratekeeper::Plan;
use ratekeeper::port::ChargeAction;
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
    pub plan: PlanSource,
    /// What is done with hits that are over.
    pub over: ChargeAction,
    /// What is told of it.
    pub told: ToldLimit,
}

/// Where the rules of a limit come from.
#[derive(Clone, Debug)]
pub enum PlanSource {
    /// Its own, made of the file: a plan called `rls`.
    Own(Arc<Plan>),
    /// A plan of the server, by name; `on_store_error` of the rule is not part of it.
    Named(String),
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
