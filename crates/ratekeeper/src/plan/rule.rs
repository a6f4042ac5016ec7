//! A rule of a plan.

use std::fmt;

use crate::{Algorithm, Name, Quota, Unit};

/// A quota of a plan: what it counts, and a name that is unique in the plan.
///
/// A rule in [shadow](Rule::shadow) is decided and charged like the others, on a state of its own, and never binds: what
/// it would have denied is told to observers, and the answer is the one without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    name: Name,
    quota: Quota,
    unit: Unit,
    is_shadow: bool,
    id: RuleId,
}

impl Rule {
    /// Returns a rule that counts requests; places in flight if the quota limits concurrency.
    pub fn new(name: Name, quota: Quota) -> Self {
        let unit = match quota.algorithm() {
            Algorithm::Concurrency => Unit::CONCURRENT,
            _ => Unit::REQUESTS,
        };
        Rule { name, quota, unit, is_shadow: false, id: RuleId::AD_HOC }
    }

    /// Returns the same rule, counting this unit.
    #[must_use]
    pub fn counting(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Returns the same rule in shadow: it never binds.
    #[must_use]
    pub fn shadow(mut self) -> Self {
        self.is_shadow = true;
        self
    }

    /// Returns the same rule as one of this plan.
    pub(super) fn of_plan(mut self, plan: &Name) -> Self {
        self.id = RuleId::of(plan, &self.name);
        self
    }

    /// Returns the rule's name, which no other rule of the plan has.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the quota that the rule holds requests to.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Returns what the rule counts.
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// Returns true if the rule is in shadow.
    #[inline]
    pub fn is_shadow(&self) -> bool {
        self.is_shadow
    }

    /// Returns true if the rule limits what is in flight, which only holds are.
    #[inline]
    pub fn is_concurrency(&self) -> bool {
        self.quota.algorithm() == Algorithm::Concurrency
    }

    /// Returns true of a rule that a plain cost is all about: it counts requests, at a rate, and binds.
    pub(super) fn is_plain(&self) -> bool {
        self.unit.is_requests() && !self.is_shadow && !self.is_concurrency()
    }

    /// Returns what tells this rule's states from another's.
    pub fn id(&self) -> RuleId {
        self.id
    }
}

impl From<(Name, Quota)> for Rule {
    fn from((name, quota): (Name, Quota)) -> Self {
        Rule::new(name, quota)
    }
}

impl fmt::Display for Rule {
    /// Writes the rule's text without its name: `100000 tokens/m burst 20000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.quota.to_string();
        let usual = if self.is_concurrency() { Unit::CONCURRENT } else { Unit::REQUESTS };
        if self.unit == usual {
            return f.write_str(&text);
        }
        let count = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let (count, rest) = text.split_at(count);
        write!(f, "{count} {}{rest}", self.unit)
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
