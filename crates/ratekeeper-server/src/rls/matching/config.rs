//! A configuration: domains, their rules, and which of them a descriptor finds.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::configured::ConfiguredRule;
use super::found::{Found, FoundRule};
use super::level::Level;
use crate::rls::asked::RlsEntry;
use crate::rls::finding::RlsFinding;
use crate::rls::rule::{LimitPlan, Limited, RuleLimit};

/// All domains of a configuration and their rules: what `ShouldRateLimit` is answered by.
#[derive(Debug, Default)]
pub struct RateLimitConfig {
    pub(in crate::rls) domains: HashMap<Box<str>, Level, RandomState>,
    pub(in crate::rls) rules: Vec<ConfiguredRule>,
}

impl RateLimitConfig {
    /// Returns the rule that a descriptor finds, level by level: its very value, else the first pattern that matches, else the
    /// key alone. Only a rule at its last entry counts.
    ///
    /// Allocates nothing, and costs no more in a large configuration than in a small one.
    pub fn find(&self, domain: &str, entries: &[RlsEntry]) -> Found<'_> {
        let Some(mut level) = self.domains.get(domain) else { return Found::NoDomain };
        let mut number = None;
        for entry in entries {
            let Some(node) = level.find(entry) else { return Found::NoRule };
            number = node.rule;
            level = &node.next;
        }
        match number.and_then(|number| self.rule(number)) {
            Some(rule) => Found::Rule(rule),
            None => Found::NoRule,
        }
    }

    /// Returns the rule of this [index](crate::rls::LimitRule::index).
    pub fn rule(&self, index: usize) -> Option<FoundRule<'_>> {
        self.rules.get(index).map(FoundRule::new)
    }

    /// Returns all rules, in the order of their [index](crate::rls::LimitRule::index), which is that of the files.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = FoundRule<'_>> {
        self.rules.iter().map(FoundRule::new)
    }

    /// Returns the names of the domains, sorted.
    pub fn domains(&self) -> Vec<&str> {
        let mut domains: Vec<&str> = self.domains.keys().map(|domain| &**domain).collect();
        domains.sort_unstable();
        domains
    }

    /// Returns true if there is this domain.
    pub fn has_domain(&self, domain: &str) -> bool {
        self.domains.contains_key(domain)
    }

    /// Returns true if there is no domain at all.
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    /// Returns the plans that rules name, with where they do: whoever knows the plans must see whether there are such ones.
    pub fn plans_named(&self) -> impl Iterator<Item = NamedPlan<'_>> {
        self.rules.iter().filter_map(|known| match &known.rule.limit {
            RuleLimit::Limited(limited) => match &limited.plan {
                LimitPlan::Named(name) => Some(NamedPlan { name, limited, known }),
                LimitPlan::Own(_) => None,
            },
            RuleLimit::Unlimited | RuleLimit::Banned(_) => None,
        })
    }
}

/// A plan that a rule names.
#[derive(Clone, Copy, Debug)]
pub struct NamedPlan<'a> {
    /// The name of the plan.
    pub name: &'a str,
    /// What the rule says besides.
    pub limited: &'a Limited,
    known: &'a ConfiguredRule,
}

impl NamedPlan<'_> {
    /// Returns a finding in the line of the rule.
    pub fn finding(&self, message: impl Into<String>) -> RlsFinding {
        RlsFinding::new(&self.known.file, self.known.line, message)
    }
}
