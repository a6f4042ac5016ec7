//! What a configuration has at one level, by key and value.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::pattern::{PatternSet, ValuePattern};
use crate::rls::asked::RlsEntry;

/// All nodes at one level.
#[derive(Debug, Default)]
pub(in crate::rls) struct Level {
    keys: HashMap<Box<str>, KeyNodes, RandomState>,
    /// Some of the keys, to be told.
    listed: FirstTexts,
}

/// All nodes of one key.
#[derive(Debug, Default)]
struct KeyNodes {
    exact: HashMap<Box<str>, LevelNode, RandomState>,
    /// Some of the values in `exact`, to be told.
    listed: FirstTexts,
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

/// How many keys or values of a level are listed at most: one more than are told, so that it shows whether there are others.
const MOST_LISTED: usize = MOST_NAMED + 1;

/// How many keys or values of a file are told.
pub(super) const MOST_NAMED: usize = 8;

/// The first of many texts, in their order. Kept beside the map that has them all: whoever asks what there is must not cost a
/// walk through a hundred thousand of them.
#[derive(Debug, Default)]
struct FirstTexts(Vec<Box<str>>);

impl FirstTexts {
    fn add(&mut self, text: &str) {
        if let Err(at) = self.0.binary_search_by(|other| (**other).cmp(text))
            && at < MOST_LISTED
        {
            self.0.insert(at, text.into());
            self.0.truncate(MOST_LISTED);
        }
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|text| &**text)
    }
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
    /// Returns the node that an entry finds: of its very value, be it a pattern, else of the first pattern that matches, else of
    /// the bare key.
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
        if let Some((pattern, node)) = nodes.pattern_of(&entry.value) {
            return Some((node, MatchedBy::Pattern(pattern.written())));
        }
        nodes.bare.as_deref().map(|node| (node, MatchedBy::Key))
    }

    /// Returns true if there is a node of this very key and value, as they stand in a file.
    pub(in crate::rls) fn has(&self, key: &str, value: &str) -> bool {
        let Some(nodes) = self.keys.get(key) else { return false };
        match ValuePattern::new(value) {
            Some(_) => nodes.patterns.find(value).is_some(),
            None if value.is_empty() => nodes.bare.is_some(),
            None => nodes.exact.contains_key(value),
        }
    }

    /// Returns the pattern that hides one that comes after all that are there: every value that matches it matches this.
    pub(in crate::rls) fn hiding(&self, key: &str, pattern: &str) -> Option<&str> {
        // A `*` in the text of a pattern is matched by a `*` alone, as a character that no other pattern has would be. So the
        // text matches if and only if everything does that the `*` may stand for.
        let patterns = &self.keys.get(key)?.patterns;
        patterns.get(patterns.first_match(pattern)?).map(ValuePattern::written)
    }

    /// Adds a node for a key and a value, as they stand in a file. One that is there already is replaced, unless it is a
    /// pattern: then the first one counts.
    pub(in crate::rls) fn insert(&mut self, key: &str, value: &str, node: LevelNode) {
        if !self.keys.contains_key(key) {
            self.keys.insert(key.into(), KeyNodes::default());
            self.listed.add(key);
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
                nodes.listed.add(value);
            }
        }
    }

    /// Returns true if there is nothing below.
    pub(in crate::rls) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns what the file has of a key: values, sorted, then patterns in their order; one more than are told, if there are
    /// so many. None if it does not have the key.
    pub(super) fn known(&self, key: &str) -> Option<Vec<&str>> {
        let nodes = self.keys.get(key)?;
        Some(
            nodes
                .listed
                .iter()
                .chain(nodes.patterns.iter().map(ValuePattern::written))
                .take(MOST_LISTED)
                .collect(),
        )
    }

    /// Returns the keys at this level, sorted; one more than are told, if there are so many.
    pub(super) fn keys(&self) -> Vec<&str> {
        self.listed.iter().collect()
    }
}

impl KeyNodes {
    #[inline]
    fn pattern_of(&self, value: &str) -> Option<(&ValuePattern, &LevelNode)> {
        if self.of_patterns.is_empty() {
            return None;
        }
        let itself = if value.contains('*') { self.patterns.find(value) } else { None };
        let number = itself.or_else(|| self.patterns.first_match(value))?;
        Some((self.patterns.get(number)?, self.of_patterns.get(number)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_many_are_listed() {
        let mut level = Level::default();
        for number in (10..100).rev() {
            level.insert("k", &number.to_string(), LevelNode::default());
            level.insert("k", &number.to_string(), LevelNode::default());
            level.insert(&format!("k{number}"), "x*", LevelNode::default());
        }
        let first: Vec<String> = (10..19).map(|number| number.to_string()).collect();
        assert_eq!(level.known("k").unwrap(), first);
        assert_eq!(level.known("k10").unwrap(), ["x*"]);
        assert_eq!(level.known("l"), None);
        assert_eq!(level.keys()[..2], ["k", "k10"]);
        assert_eq!(level.keys().len(), MOST_LISTED);
    }
}
