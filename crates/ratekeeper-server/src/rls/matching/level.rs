//! What a configuration has at one level, by key and value.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::pattern::{PatternSet, ValuePattern};
use crate::rls::asked::RlsEntry;

/// All nodes at one level.
#[derive(Debug, Default)]
pub(in crate::rls) struct Level {
    keys: HashMap<Box<str>, KeyNodes, RandomState>,
}

/// All nodes of one key.
#[derive(Debug, Default)]
struct KeyNodes {
    exact: HashMap<Box<str>, LevelNode, RandomState>,
    patterns: PatternSet,
    /// The node of each pattern.
    of_patterns: Vec<LevelNode>,
    /// The node of all other values.
    bare: Option<Box<LevelNode>>,
}

/// A node: a descriptor of the file.
#[derive(Debug, Default)]
pub(in crate::rls) struct LevelNode {
    /// The number of its rule, if it has one.
    pub(in crate::rls) rule: Option<usize>,
    /// What comes below.
    pub(in crate::rls) next: Level,
}

/// How a node was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rls) enum MatchedBy<'a> {
    /// The file has this very value.
    Value,
    /// The file has a pattern that the value matches.
    Pattern(&'a str),
    /// The file has the key without a value.
    Key,
}

impl Level {
    /// Returns the node that an entry finds: of its very value, else of the first pattern that matches, else of the bare key.
    ///
    /// Two lookups at most, whatever the size of the file, and what the patterns cost.
    #[inline]
    pub(super) fn find(&self, entry: &RlsEntry) -> Option<&LevelNode> {
        self.find_by(entry).map(|(node, _)| node)
    }

    /// Like [`find`](Self::find), and tells how.
    #[inline]
    pub(super) fn find_by(&self, entry: &RlsEntry) -> Option<(&LevelNode, MatchedBy<'_>)> {
        let nodes = self.keys.get(&*entry.key)?;
        if let Some(node) = nodes.exact.get(&*entry.value) {
            return Some((node, MatchedBy::Value));
        }
        if let Some((pattern, node)) = nodes.first_pattern(&entry.value) {
            return Some((node, MatchedBy::Pattern(pattern.written())));
        }
        nodes.bare.as_deref().map(|node| (node, MatchedBy::Key))
    }

    /// Returns true if there is a node of this very key and value, as they stand in a file.
    pub(in crate::rls) fn has(&self, key: &str, value: &str) -> bool {
        let Some(nodes) = self.keys.get(key) else { return false };
        match ValuePattern::new(value) {
            Some(pattern) => nodes.patterns.has(&pattern),
            None if value.is_empty() => nodes.bare.is_some(),
            None => nodes.exact.contains_key(value),
        }
    }

    /// Returns the pattern that hides one that comes after all that are there: every value that matches it matches this.
    pub(in crate::rls) fn hiding(&self, key: &str, pattern: &str) -> Option<&str> {
        // A `*` in the text of a pattern is matched by a `*` alone, as a character that no other pattern has would be. So the
        // text matches if and only if everything does that the `*` may stand for.
        self.keys.get(key)?.first_pattern(pattern).map(|(earlier, _)| earlier.written())
    }

    /// Adds a node for a key and a value, as they stand in a file. One that is there already is replaced, unless it is a
    /// pattern: then the first one counts.
    pub(in crate::rls) fn insert(&mut self, key: &str, value: &str, node: LevelNode) {
        if !self.keys.contains_key(key) {
            self.keys.insert(key.into(), KeyNodes::default());
        }
        let Some(nodes) = self.keys.get_mut(key) else { return };
        match ValuePattern::new(value) {
            Some(pattern) => {
                nodes.patterns.push(pattern);
                nodes.of_patterns.push(node);
            }
            None if value.is_empty() => nodes.bare = Some(Box::new(node)),
            None => {
                nodes.exact.insert(value.into(), node);
            }
        }
    }

    /// Returns true if there is nothing below.
    pub(in crate::rls) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns what the file has of a key: values, sorted, then patterns in their order, at most so many. None if it does not
    /// have the key.
    pub(super) fn known(&self, key: &str, most: usize) -> Option<Vec<&str>> {
        let nodes = self.keys.get(key)?;
        let mut values: Vec<&str> = nodes.exact.keys().map(|value| &**value).collect();
        values.sort_unstable();
        values.extend(nodes.patterns.iter().map(ValuePattern::written));
        values.truncate(most);
        Some(values)
    }

    /// Returns the keys at this level, sorted, at most so many.
    pub(super) fn keys(&self, most: usize) -> Vec<&str> {
        let mut keys: Vec<&str> = self.keys.keys().map(|key| &**key).collect();
        keys.sort_unstable();
        keys.truncate(most);
        keys
    }
}

impl KeyNodes {
    #[inline]
    fn first_pattern(&self, value: &str) -> Option<(&ValuePattern, &LevelNode)> {
        let number = self.patterns.first_match(value)?;
        Some((self.patterns.get(number)?, self.of_patterns.get(number)?))
    }
}
