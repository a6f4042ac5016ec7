//! The names of rules, and which of them replace which.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::report::Report;
use crate::rls::finding::RlsFinding;
use crate::rls::spec::{LimitSpec, Placed};

/// The names of a set: those that rules have, and those that they replace, by domain.
#[derive(Debug, Default)]
pub(super) struct RuleNames {
    by_domain: HashMap<Box<str>, DomainNames>,
}

#[derive(Debug, Default)]
struct DomainNames {
    own: HashSet<String>,
    replaced: Vec<(Arc<str>, Placed<String>)>,
}

impl RuleNames {
    /// Notes the names of a limit, and tells what is wrong with them.
    pub(super) fn note(&mut self, domain: &str, limit: &LimitSpec, report: &mut Report) {
        let name = &limit.name;
        // Envoy writes it raw into a header.
        if name.value.contains(|letter: char| letter == '"' || letter.is_control()) {
            let message = format!(
                "name {:?} has quotes or control characters, which Envoy writes into a header as they are",
                name.value
            );
            report.warning(name.line, message);
        }
        for replaced in &limit.replaces {
            if replaced.value.is_empty() {
                report.mistake(replaced.line, "should not have an empty replaces entry");
            } else if replaced.value == name.value {
                report.mistake(replaced.line, "replaces should not contain name of same descriptor");
            }
        }
        if name.value.is_empty() && limit.replaces.is_empty() {
            return;
        }
        let names = self.by_domain.entry(domain.into()).or_default();
        if !name.value.is_empty() {
            names.own.insert(name.value.clone());
        }
        let replaced = limit.replaces.iter().filter(|replaced| !replaced.value.is_empty());
        names.replaced.extend(replaced.map(|replaced| (report.file(), replaced.clone())));
    }

    /// Warns of every name that is replaced and that no rule of the domain has.
    pub(super) fn warn(&self, report: &mut Report) {
        for (domain, names) in &self.by_domain {
            for (file, replaced) in &names.replaced {
                if !names.own.contains(&replaced.value) {
                    let message = format!(
                        "replaces '{}', a name that no limit of domain '{domain}' has",
                        replaced.value
                    );
                    report.add_warning(RlsFinding::new(file, replaced.line, message));
                }
            }
        }
    }
}
