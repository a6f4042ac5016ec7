//! The plan and its rules.

use std::fmt;

use super::error::{MAX_RULES, PlanError};
use crate::failure_mode::FailureMode;
use crate::{Algorithm, Name, NameError, Quota};

/// A named list of 1 to 16 rules: all must allow a request, or none is charged.
///
/// ```
/// use ratekeeper::Plan;
/// let gold = Plan::parse("gold", "10/s burst 20; daily=1000/day fixed")?;
/// let names: Vec<_> = gold.rules().iter().map(|rule| rule.name().as_str()).collect();
/// assert_eq!(names, ["per-s", "daily"]);
/// # Ok::<(), ratekeeper::PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    name: Name,
    rules: Box<[Rule]>,
    on_store_error: FailureMode,
}

impl Plan {
    /// The most rules in one plan.
    pub const MAX_RULES: usize = MAX_RULES;

    /// Returns a plan of these rules, each with its name.
    ///
    /// # Errors
    ///
    /// If there are no rules, more than [16](Plan::MAX_RULES), two of the same name, or one that limits concurrency.
    pub fn new(name: Name, rules: impl IntoIterator<Item = (Name, Quota)>) -> Result<Self, PlanError> {
        let rules: Box<[Rule]> = rules
            .into_iter()
            .take(Self::MAX_RULES + 1)
            .map(|(rule, quota)| Rule::new(&name, rule, quota))
            .collect();
        if rules.is_empty() {
            return Err(PlanError::NoRules);
        }
        if rules.len() > Self::MAX_RULES {
            return Err(PlanError::TooManyRules);
        }
        for (index, rule) in rules.iter().enumerate() {
            if rules[..index].iter().any(|earlier| earlier.name == rule.name) {
                return Err(PlanError::DuplicateRule(rule.name.clone()));
            }
            if rule.quota.algorithm() == Algorithm::Concurrency {
                return Err(PlanError::Concurrency(rule.quota));
            }
        }
        Ok(Plan { name, rules, on_store_error: FailureMode::default() })
    }

    /// Parses a plan: quotas separated by `;`, each with an optional name before `=`.
    ///
    /// A rule without a name is called after its period (`per-s`, `per-30s`, `per-day`), not its count, so that a
    /// limit can be changed without losing what its callers have used.
    ///
    /// # Errors
    ///
    /// If the name or a quota is malformed, or for the reasons of [`Plan::new`].
    pub fn parse(name: &str, text: &str) -> Result<Self, PlanError> {
        Self::from_texts(name, text.split(';').filter(|part| !part.trim().is_empty()))
    }

    /// Parses a plan of several texts, each one rule as in [`Plan::parse`].
    ///
    /// # Errors
    ///
    /// As [`Plan::parse`].
    pub fn from_texts<'a>(name: &str, texts: impl IntoIterator<Item = &'a str>) -> Result<Self, PlanError> {
        let name: Name = name.parse()?;
        let mut rules: Vec<(Name, Quota)> = Vec::new();
        for text in texts {
            let (rule, quota) = match text.split_once('=') {
                Some((rule, quota)) => (Some(rule.trim().parse()?), quota.parse()?),
                None => (None, text.parse()?),
            };
            let rule = match rule {
                Some(rule) => rule,
                None => unused_name(&quota, &rules)?,
            };
            rules.push((rule, quota));
        }
        Self::new(name, rules)
    }

    /// Sets what to answer when the store fails. Defaults to [`FailureMode::Open`].
    #[must_use]
    pub fn on_store_error(mut self, mode: FailureMode) -> Self {
        self.on_store_error = mode;
        self
    }

    /// Returns the name that requests ask for this plan by.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the rules, in the order they were given.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns what to answer when the store fails.
    pub fn failure_mode(&self) -> FailureMode {
        self.on_store_error
    }
}

/// Returns the name of a rule that was given none: `per-30s`, or `per-30s-2` if that is taken.
fn unused_name(quota: &Quota, taken: &[(Name, Quota)]) -> Result<Name, NameError> {
    let text = quota.to_string();
    let period =
        text.split_once('/').map(|(_, rest)| rest).or(text.split_once(" per ").map(|(_, rest)| rest));
    let period = period.and_then(|rest| rest.split(' ').next()).unwrap_or("rule");
    let mut candidate = format!("per-{period}");
    for number in 2..=Plan::MAX_RULES + 1 {
        if !taken.iter().any(|(name, _)| name.as_str() == candidate) {
            break;
        }
        candidate = format!("per-{period}-{number}");
    }
    candidate.parse()
}

/// A quota of a plan, with a name that is unique in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    name: Name,
    quota: Quota,
    id: RuleId,
}

impl Rule {
    fn new(plan: &Name, name: Name, quota: Quota) -> Self {
        let id = RuleId::of(plan, &name);
        Rule { name, quota, id }
    }

    /// Returns the rule's name, which no other rule of the plan has.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the quota that the rule holds requests to.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Returns what tells this rule's states from another's.
    pub fn id(&self) -> RuleId {
        self.id
    }
}

/// An identifier that tells the states of one rule from those of another: derived from the names of plan and rule alone, so that
/// it survives a restart and a change of the quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(u64);

impl RuleId {
    /// The identifier of a quota that comes with the request and belongs to no plan.
    pub const AD_HOC: RuleId = RuleId(0);

    fn of(plan: &Name, rule: &Name) -> Self {
        // FNV-1a. The names are the operator's, not an attacker's: it must be stable, not secret.
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let bytes = plan.as_str().bytes().chain([0]).chain(rule.as_str().bytes());
        RuleId(bytes.fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME)))
    }

    /// Returns the identifier as a number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, rule) in self.rules.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{}={}", rule.name, rule.quota)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Plan::parse("gold", text).unwrap_err().to_string()
    }

    #[test]
    fn the_same_rule_named_twice_is_refused() {
        assert_eq!(error("a=1/s; a=2/m"), "rule: `a`; each rule of a plan has a name of its own");
        assert_eq!(error(" ; "), "rules: none; a plan has at least one rule");
        assert!(error(&"1/s;".repeat(17)).contains("at most 16 rules"));
        assert!(error("32 concurrent").contains("held by a permit"));
        assert!(Plan::parse("go ld", "1/s").unwrap_err().to_string().starts_with("name: `go ld`"));
    }

    #[test]
    fn names_follow_the_period_and_not_the_count() {
        let names = |text| {
            let plan = Plan::parse("gold", text).unwrap();
            plan.rules().iter().map(|rule| rule.name().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            names("10/s burst 20; 5 per 30s; 1/day fixed; 2/s"),
            ["per-s", "per-30s", "per-day", "per-s-2"]
        );
        assert_eq!(names("11/s"), ["per-s"]);
    }

    #[test]
    fn display_parses_to_the_same_plan() {
        let plan = Plan::parse("gold", "10/s burst 20; daily=1000/day fixed calendar").unwrap();
        assert_eq!(Plan::parse("gold", &plan.to_string()).unwrap(), plan);
    }

    #[test]
    fn ids_differ_by_plan_and_by_rule() {
        let id = |plan, text| Plan::parse(plan, text).unwrap().rules()[0].id();
        assert_ne!(id("gold", "1/s"), id("silver", "1/s"));
        assert_ne!(id("gold", "1/s"), id("gold", "1/m"));
        assert_eq!(id("gold", "1/s"), id("gold", "2/s burst 9"));
    }
}
