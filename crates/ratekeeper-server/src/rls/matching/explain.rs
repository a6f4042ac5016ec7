//! Why a descriptor finds the rule that it finds, or none.

use std::fmt;

use serde::Serialize;

use super::config::RateLimitConfig;
use super::counter_key::{write_counter_key, write_envoyproxy_key};
use super::found::FoundRule;
use super::level::{Level, LevelNode, MOST_NAMED, MatchedBy};
use super::stat_name::StatName;
use crate::rls::asked::RlsEntry;
use crate::rls::rule::{LimitPlan, LimitRule, Limited, RuleLimit};

/// What a descriptor finds, level by level, and why. Written out it is a text for people; as JSON it has the same fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The domain that was asked.
    pub domain: String,
    /// What each entry finds, until one finds nothing.
    pub levels: Vec<ExplainedLevel>,
    /// The rule that counts.
    pub rule: Option<ExplainedRule>,
    /// Why there is none.
    pub why_none: Option<String>,
}

/// What an entry of a descriptor finds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedLevel {
    /// The key of the entry.
    pub key: String,
    /// Its value.
    pub value: String,
    /// How the node was found: `value`, `pattern`, `key`; none if there is no node.
    pub matched_by: Option<&'static str>,
    /// The pattern, if it was one.
    pub pattern: Option<String>,
    /// Whether the node has a limit, which counts only at the last entry.
    pub has_limit: bool,
    /// The same in a sentence.
    pub note: String,
}

/// The rule that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedRule {
    /// What it limits to: `5/m fixed grid`.
    pub limit: String,
    /// What is done with hits that are over, if the rule says it: `count`, `ignore`.
    pub over: Option<&'static str>,
    /// What is answered when the store fails.
    pub on_store_error: Option<&'static str>,
    /// Its name; empty for none.
    pub name: String,
    /// The names of those that do not count where it is found.
    pub replaces: Vec<String>,
    /// Whether it never refuses.
    pub shadow_mode: bool,
    /// Whether it refuses only together with all others of its kind.
    pub quota_mode: bool,
    /// The key of its counter; none if it has no counter.
    pub counter_key: Option<String>,
    /// The name that it is counted under.
    pub stat_key: String,
    /// The file it stands in.
    pub file: String,
    /// The line.
    pub line: Option<usize>,
}

impl Explanation {
    /// Explains what a descriptor finds.
    pub fn of(config: &RateLimitConfig, domain: &str, entries: &[RlsEntry]) -> Self {
        Self::with_counters(config, domain, entries, |_| false)
    }

    /// Explains what a descriptor finds where limits under some plans are counted in counters of the Go service.
    pub fn with_counters(
        config: &RateLimitConfig,
        domain: &str,
        entries: &[RlsEntry],
        is_counter: impl Fn(&LimitPlan) -> bool,
    ) -> Self {
        let mut explanation =
            Explanation { domain: domain.to_owned(), levels: Vec::new(), rule: None, why_none: None };
        match explanation.walk(config, entries) {
            Ok(found) => explanation.rule = Some(ExplainedRule::new(&found, entries, is_counter)),
            Err(why) => explanation.why_none = Some(why),
        }
        explanation
    }

    fn walk<'c>(
        &mut self,
        config: &'c RateLimitConfig,
        entries: &[RlsEntry],
    ) -> Result<FoundRule<'c>, String> {
        let Some(mut level) = config.domains.get(&*self.domain) else {
            return Err(format!("no domain '{}': {}", self.domain, listed("there are", &config.domains())));
        };
        let mut node: Option<&LevelNode> = None;
        for (index, entry) in entries.iter().enumerate() {
            let Some((found, by)) = level.find_by(entry) else {
                let why = why_nothing(level, node, entry, index);
                self.levels.push(ExplainedLevel::nothing(entry, &why));
                return Err(why);
            };
            let is_last = index + 1 == entries.len();
            self.levels.push(ExplainedLevel::found(entry, found, by, is_last));
            (node, level) = (Some(found), &found.next);
        }
        let Some(node) = node else { return Err("a descriptor without entries finds no rule".to_owned()) };
        match node.rule.and_then(|number| config.rule(number)) {
            Some(found) => Ok(found),
            None if level.is_empty() => Err("what it ends at has no rate_limit: no limit".to_owned()),
            None => {
                let below = listed("at", &level.keys());
                Err(format!("what it ends at has no rate_limit: limits may sit deeper, {below}"))
            }
        }
    }
}

/// Says why a level has nothing for an entry; `above` is the node that it is below.
fn why_nothing(level: &Level, above: Option<&LevelNode>, entry: &RlsEntry, index: usize) -> String {
    let RlsEntry { key, value } = entry;
    if level.is_empty() {
        return match above.and_then(|node| node.rule) {
            Some(_) => format!(
                "nothing is below entry {index}: its limit counts only for descriptors that end there"
            ),
            None => format!("nothing is below entry {index}"),
        };
    }
    match level.known(key) {
        None => format!("no key '{key}' at level {}: {}", index + 1, listed("there are", &level.keys())),
        Some(values) => {
            let values = listed("it has", &values);
            format!(
                "key '{key}' has neither the value '{value}' nor a pattern that matches it, and stands nowhere without a value: {values}"
            )
        }
    }
}

fn listed(words: &str, names: &[&str]) -> String {
    match names {
        [] => format!("{words} none"),
        names => {
            let quoted: Vec<String> = names.iter().take(MOST_NAMED).map(|name| format!("'{name}'")).collect();
            let more = if names.len() > MOST_NAMED { ", …" } else { "" };
            format!("{words} {}{more}", quoted.join(", "))
        }
    }
}

impl ExplainedLevel {
    fn nothing(entry: &RlsEntry, why: &str) -> Self {
        ExplainedLevel {
            key: entry.key.clone(),
            value: entry.value.clone(),
            matched_by: None,
            pattern: None,
            has_limit: false,
            note: why.to_owned(),
        }
    }

    fn found(entry: &RlsEntry, node: &LevelNode, by: MatchedBy<'_>, is_last: bool) -> Self {
        let (matched_by, pattern, how) = match by {
            MatchedBy::Value => ("value", None, "by its very value".to_owned()),
            MatchedBy::Pattern(pattern) => ("pattern", Some(pattern), format!("by the pattern '{pattern}'")),
            MatchedBy::Key => ("key", None, "by the key, which has no value in the file".to_owned()),
        };
        let has_limit = node.rule.is_some();
        let limit = match (has_limit, is_last) {
            (true, true) => "has a limit",
            (true, false) => "has a limit, which counts only for descriptors that end here",
            (false, _) => "no limit here",
        };
        ExplainedLevel {
            key: entry.key.clone(),
            value: entry.value.clone(),
            matched_by: Some(matched_by),
            pattern: pattern.map(str::to_owned),
            has_limit,
            note: format!("{how}; {limit}"),
        }
    }
}

impl ExplainedRule {
    fn new(found: &FoundRule<'_>, entries: &[RlsEntry], is_counter: impl Fn(&LimitPlan) -> bool) -> Self {
        let LimitRule { limit, name, replaces, is_shadow, is_quota, .. } = &**found.rule;
        let mut buffer = StatName::new();
        let stat_key = found.stat(&mut buffer, entries).to_string();
        let limited = match limit {
            RuleLimit::Limited(limited) => Some(limited),
            RuleLimit::Unlimited | RuleLimit::Banned(_) => None,
        };
        let is_theirs = limited.is_some_and(|limited| is_counter(&limited.plan));
        let write = if is_theirs { write_envoyproxy_key } else { write_counter_key };
        let mut key = Vec::new();
        write(&mut key, found.written().domain(), entries, found.shared);
        let (file, line) = found.place();
        ExplainedRule {
            limit: limit.to_string(),
            over: limited.and_then(Limited::over_word),
            on_store_error: limited.map(|limited| limited.on_store_error.word()),
            name: name.clone(),
            replaces: replaces.clone(),
            shadow_mode: *is_shadow,
            quota_mode: *is_quota,
            counter_key: limited.map(|_| String::from_utf8_lossy(&key).into_owned()),
            stat_key,
            file: file.to_owned(),
            line,
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<String> =
            self.levels.iter().map(|level| format!("{}={}", level.key, level.value)).collect();
        let width = entries.iter().map(|entry| entry.chars().count()).max().unwrap_or_default();
        writeln!(f, "domain {}", self.domain)?;
        for (entry, level) in entries.iter().zip(&self.levels) {
            writeln!(f, "  {entry:width$}  {}", level.note)?;
        }
        match (&self.rule, &self.why_none) {
            (Some(rule), _) => rule.fmt(f),
            (None, Some(why)) => writeln!(f, "no rule: {why}"),
            (None, None) => writeln!(f, "no rule"),
        }
    }
}

impl fmt::Display for ExplainedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit: {}", self.limit)?;
        for (what, is_set) in [("shadow_mode", self.shadow_mode), ("quota_mode", self.quota_mode)] {
            if is_set {
                write!(f, ", {what}")?;
            }
        }
        for (what, word) in [("over", self.over), ("on_store_error", self.on_store_error)] {
            if let Some(word) = word {
                write!(f, ", {what}: {word}")?;
            }
        }
        if !self.name.is_empty() {
            write!(f, ", name: {}", self.name)?;
        }
        if !self.replaces.is_empty() {
            write!(f, ", replaces: {}", self.replaces.join(" "))?;
        }
        match self.line {
            Some(line) => writeln!(f, " ({}:{line})", self.file)?,
            None => writeln!(f, " ({})", self.file)?,
        }
        if let Some(key) = &self.counter_key {
            writeln!(f, "counter: {key}")?;
        }
        writeln!(f, "counted as: {}", self.stat_key)
    }
}
