//! What a descriptor finds.

use std::sync::Arc;

use super::configured::{ConfiguredRule, StatDetail};
use super::counter_key::SharedLevels;
use super::stat_name::StatName;
use crate::rls::asked::RlsEntry;
use crate::rls::rule::LimitRule;

/// What a descriptor finds in a configuration.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// The configuration has no such domain.
    NoDomain,
    /// The domain has no rule for it.
    NoRule,
    /// A rule, which may be one without a limit.
    Rule(FoundRule<'a>),
}

/// A rule that was found, and how those who find it are counted.
#[derive(Clone, Copy, Debug)]
pub struct FoundRule<'a> {
    /// The rule.
    pub rule: &'a Arc<LimitRule>,
    /// What stands for the values of a descriptor in its counter: see [`write_counter_key`](super::write_counter_key).
    pub shared: &'a SharedLevels,
    known: &'a ConfiguredRule,
}

impl<'a> FoundRule<'a> {
    pub(super) fn new(known: &'a ConfiguredRule) -> Self {
        FoundRule { rule: &known.rule, shared: &known.shared, known }
    }

    /// Returns the name that the rule is counted under as the file has it, whatever is asked: `edge.user_bob.path`.
    pub fn written(&self) -> &'a StatName {
        &self.known.written
    }

    /// Returns the name that the rule is counted under; none if values of the request are part of it, which
    /// [`write_stat`](Self::write_stat) writes.
    #[inline]
    pub fn fixed_stat(&self) -> Option<&'a StatName> {
        (self.known.detail == StatDetail::AsWritten).then_some(&self.known.written)
    }

    /// Writes the name that these entries are counted under, which found the rule.
    pub fn write_stat(&self, name: &mut StatName, entries: &[RlsEntry]) {
        let written = &self.known.written;
        name.begin(written.domain());
        for (index, entry) in entries.iter().enumerate() {
            let pattern = self.shared.get(index).and_then(Option::as_deref);
            match &self.known.detail {
                StatDetail::AllValues => match pattern {
                    Some(pattern) => name.level(&entry.key, pattern),
                    // As the Go service writes it: `key_` for an empty value, unless a level is shared.
                    None if self.shared.is_empty() => name.level_in_detail(&entry.key, &entry.value),
                    None => name.level(&entry.key, &entry.value),
                },
                StatDetail::Levels(levels) if levels.get(index).copied().unwrap_or_default() => {
                    name.level(&entry.key, &entry.value);
                }
                StatDetail::Levels(_) | StatDetail::AsWritten => name.copy_level(written, index),
            }
        }
    }

    /// Returns the name that these entries are counted under: the rule's own, or one that is written into the buffer.
    #[inline]
    pub fn stat<'s>(&self, buffer: &'s mut StatName, entries: &[RlsEntry]) -> &'s StatName
    where
        'a: 's,
    {
        match self.fixed_stat() {
            Some(name) => name,
            None => {
                self.write_stat(buffer, entries);
                buffer
            }
        }
    }

    /// Returns the file and the line that the rule stands in.
    pub fn place(&self) -> (&'a str, Option<usize>) {
        (&self.known.file, self.known.line)
    }
}
