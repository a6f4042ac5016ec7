//! The names that rules are counted under.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::rls::asked::RlsEntry;

/// The name that a rule is counted under: `edge.user_bob.path`, the domain and a part for each level.
///
/// A buffer as well: writing another name into it allocates nothing once it is large enough.
#[derive(Clone, Debug, Default)]
pub struct StatName {
    text: String,
    /// Where the domain ends, and each level.
    ends: Vec<usize>,
}

impl StatName {
    /// Returns an empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets what was in it, and begins a name of this domain.
    pub(in crate::rls) fn begin(&mut self, domain: &str) {
        self.text.clear();
        self.ends.clear();
        self.text.push_str(domain);
        self.ends.push(self.text.len());
    }

    /// Adds a level; an empty value adds nothing but the key.
    pub(in crate::rls) fn level(&mut self, key: &str, value: &str) {
        self.text.push('.');
        self.text.push_str(key);
        if !value.is_empty() {
            self.text.push('_');
            self.text.push_str(value);
        }
        self.ends.push(self.text.len());
    }

    /// Adds a level with whatever value there is: `key_` for an empty one.
    pub(super) fn level_in_detail(&mut self, key: &str, value: &str) {
        self.text.extend([".", key, "_", value]);
        self.ends.push(self.text.len());
    }

    /// Adds a level of another name.
    pub(super) fn copy_level(&mut self, other: &StatName, index: usize) {
        self.text.push('.');
        self.text.push_str(other.part(index + 1).unwrap_or_default());
        self.ends.push(self.text.len());
    }

    /// Takes the last level away.
    pub(in crate::rls) fn pop(&mut self) {
        if self.ends.len() > 1 {
            self.ends.pop();
            self.text.truncate(self.ends.last().copied().unwrap_or_default());
        }
    }

    /// Returns the whole name: `edge.user_bob.path`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the domain.
    pub fn domain(&self) -> &str {
        self.part(0).unwrap_or_default()
    }

    /// Returns the part of each level, `user_bob` and `path`: labels, without asking where a dot is part of a value.
    pub fn levels(&self) -> impl ExactSizeIterator<Item = &str> {
        (1..self.ends.len().max(1)).map(|index| self.part(index).unwrap_or_default())
    }

    fn part(&self, index: usize) -> Option<&str> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] + 1);
        self.text.get(start..*self.ends.get(index)?)
    }
}

impl PartialEq for StatName {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for StatName {}

impl Hash for StatName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for StatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Writes the name that a limit is counted under which a caller brings: every value that it sent.
pub fn write_override_stat(name: &mut StatName, domain: &str, entries: &[RlsEntry]) {
    name.begin(domain);
    for entry in entries {
        name.level(&entry.key, &entry.value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_within_values_do_not_make_levels() {
        let mut name = StatName::new();
        assert_eq!((name.as_str(), name.domain(), name.levels().len()), ("", "", 0));
        name.begin("edge.eu");
        name.level("ip", "10.0.0.1");
        name.level("path", "");
        assert_eq!(name.as_str(), "edge.eu.ip_10.0.0.1.path");
        assert_eq!(name.domain(), "edge.eu");
        assert_eq!(name.levels().collect::<Vec<_>>(), ["ip_10.0.0.1", "path"]);
        name.pop();
        assert_eq!(name.as_str(), "edge.eu.ip_10.0.0.1");
        name.begin("d");
        name.pop();
        assert_eq!((name.as_str(), name.levels().len()), ("d", 0));
    }
}
