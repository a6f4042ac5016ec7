//! Values with `*` in them, and which of many a value matches first.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// A value with `*` in it, each of which stands for zero or more characters.
#[derive(Debug)]
pub(super) struct ValuePattern {
    written: Box<str>,
    /// How long the part before the first `*` is.
    prefix: usize,
    /// Where the part after the last `*` begins.
    suffix: usize,
    /// The fewest bytes that can match.
    least: usize,
}

impl ValuePattern {
    /// Returns the pattern of this value; none if it has no `*`.
    pub(super) fn new(written: &str) -> Option<Self> {
        let (prefix, suffix) = (written.find('*')?, written.rfind('*')? + 1);
        let least = written.bytes().filter(|byte| *byte != b'*').count();
        Some(ValuePattern { written: written.into(), prefix, suffix, least })
    }

    /// Returns the pattern as the file has it.
    pub(super) fn written(&self) -> &str {
        &self.written
    }

    /// Returns what it begins with and what it ends with.
    fn ends(&self) -> (&[u8], &[u8]) {
        let written = self.written.as_bytes();
        (&written[..self.prefix], &written[self.suffix..])
    }

    /// Returns true if the value begins with the first part, ends with the last, and has the others between, in order.
    pub(super) fn matches(&self, value: &str) -> bool {
        if value.len() < self.least {
            return false;
        }
        let (first, last) = (&self.written[..self.prefix], &self.written[self.suffix..]);
        let Some(rest) = value.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else {
            return false;
        };
        let mut rest = rest;
        // Between the first `*` and the last one. The earliest place of each part leaves the most room for the next.
        for part in self.written[self.prefix..self.suffix].split('*').filter(|part| !part.is_empty()) {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        true
    }
}

/// Up to so many patterns, trying one after the other is faster than looking them up.
const FEW: usize = 8;

/// Patterns in the order of the file, of which a value finds the first that matches.
///
/// Many are found by what they begin and end with, so that thousands of prefixes cost what a few do.
#[derive(Debug, Default)]
pub(super) struct PatternSet {
    patterns: Vec<ValuePattern>,
    by_prefix: Vec<PrefixesOfLength>,
}

/// What patterns begin with, of one length.
#[derive(Debug)]
struct PrefixesOfLength {
    length: usize,
    prefixes: HashMap<Box<[u8]>, Vec<SuffixesOfLength>, RandomState>,
}

/// What patterns of one prefix end with, of one length: the numbers of those patterns, in their order.
#[derive(Debug)]
struct SuffixesOfLength {
    length: usize,
    suffixes: HashMap<Box<[u8]>, Vec<usize>, RandomState>,
}

impl PatternSet {
    /// Adds a pattern after all others, and returns its number, from 0.
    pub(super) fn push(&mut self, pattern: ValuePattern) -> usize {
        let number = self.patterns.len();
        self.patterns.push(pattern);
        match number {
            0..FEW => {}
            FEW => (0..=FEW).for_each(|number| self.index(number)),
            _ => self.index(number),
        }
        number
    }

    fn index(&mut self, number: usize) {
        let (prefix, suffix) = self.patterns[number].ends();
        let at = match self.by_prefix.iter().position(|group| group.length == prefix.len()) {
            Some(at) => at,
            None => {
                self.by_prefix.push(PrefixesOfLength { length: prefix.len(), prefixes: HashMap::default() });
                self.by_prefix.len() - 1
            }
        };
        let groups = self.by_prefix[at].prefixes.entry(prefix.into()).or_default();
        let at = match groups.iter().position(|group| group.length == suffix.len()) {
            Some(at) => at,
            None => {
                groups.push(SuffixesOfLength { length: suffix.len(), suffixes: HashMap::default() });
                groups.len() - 1
            }
        };
        groups[at].suffixes.entry(suffix.into()).or_default().push(number);
    }

    /// Returns the number of the first pattern that matches.
    pub(super) fn first_match(&self, value: &str) -> Option<usize> {
        if self.patterns.len() <= FEW {
            return self.patterns.iter().position(|pattern| pattern.matches(value));
        }
        let bytes = value.as_bytes();
        let mut first: Option<usize> = None;
        for group in &self.by_prefix {
            let Some(suffixes) = bytes.get(..group.length).and_then(|prefix| group.prefixes.get(prefix))
            else {
                continue;
            };
            for group in suffixes {
                let start = bytes.len().checked_sub(group.length);
                let Some(numbers) = start.and_then(|start| group.suffixes.get(&bytes[start..])) else {
                    continue;
                };
                let earlier = |number: &&usize| first.is_none_or(|first| **number < first);
                let mut candidates = numbers.iter().take_while(earlier);
                first = candidates.find(|number| self.patterns[**number].matches(value)).copied().or(first);
            }
        }
        first
    }

    /// Returns the number of this very pattern.
    pub(super) fn find(&self, written: &str) -> Option<usize> {
        if self.patterns.len() <= FEW {
            return self.patterns.iter().position(|own| &*own.written == written);
        }
        let (first, last) = (written.find('*')?, written.rfind('*')?);
        let (prefix, suffix) = (&written.as_bytes()[..first], &written.as_bytes()[last + 1..]);
        let of_length = self.by_prefix.iter().find(|group| group.length == prefix.len());
        let suffixes = of_length.and_then(|group| group.prefixes.get(prefix)).map(Vec::as_slice);
        let of_length = suffixes.unwrap_or_default().iter().find(|group| group.length == suffix.len());
        let numbers = of_length.and_then(|group| group.suffixes.get(suffix)).map(Vec::as_slice);
        let is_it = |number: &&usize| &*self.patterns[**number].written == written;
        numbers.unwrap_or_default().iter().find(is_it).copied()
    }

    /// Returns the pattern of this number.
    pub(super) fn get(&self, number: usize) -> Option<&ValuePattern> {
        self.patterns.get(number)
    }

    /// Returns the patterns, in the order of the file.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ValuePattern> {
        self.patterns.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, value: &str) -> bool {
        ValuePattern::new(pattern).unwrap().matches(value)
    }

    #[test]
    fn parts_come_in_order_and_do_not_overlap() {
        for (pattern, yes, no) in [
            ("foo*", &["foo", "foo1", "foofoo"][..], &["fo", "xfoo", ""][..]),
            ("*", &["", "a", "*"], &[]),
            ("bar*b", &["barb", "barab", "bar123b"], &["bara", "xbarb", "bar"]),
            ("ab*ba", &["abba", "ab-ba"], &["aba"]),
            ("foo*bar*baz", &["foobarbaz", "foo123bar456baz"], &["foo123baz", "bar456baz", "foobaz"]),
            ("a*b*b", &["abb", "axbxb"], &["ab"]),
            ("*a*a*", &["aa", "xaxax"], &["a", "xax"]),
            ("a**b", &["ab", "axb"], &["a"]),
            ("ü*ß", &["üß", "ü-ß"], &["ü"]),
        ] {
            yes.iter().for_each(|value| assert!(matches(pattern, value), "{pattern} {value}"));
            no.iter().for_each(|value| assert!(!matches(pattern, value), "{pattern} {value}"));
        }
        assert!(ValuePattern::new("plain").is_none());
    }

    #[test]
    fn many_are_found_in_the_order_of_the_file_too() {
        let texts = ["zz*", "a*c", "a*", "ab*", "*c", "*", "b*", "a*b*c", "a*d", "abc*", "*x*", "ü*"];
        let mut set = PatternSet::default();
        for (number, text) in texts.into_iter().enumerate() {
            assert_eq!(set.push(ValuePattern::new(text).unwrap()), number);
        }
        assert!(set.patterns.len() > FEW, "otherwise nothing is looked up");
        for value in ["", "a", "ac", "abc", "abd", "b", "zz", "zzc", "üc", "\u{fc}", "x", "c"] {
            let slowly = set.patterns.iter().position(|pattern| pattern.matches(value));
            assert_eq!(set.first_match(value), slowly, "{value}");
        }
        for (number, text) in texts.into_iter().enumerate() {
            assert_eq!(set.find(text), Some(number), "{text}");
        }
        for text in ["a*e", "z*", "a*b*d*c", "ab*c", "c*", "zz", ""] {
            assert_eq!(set.find(text), None, "{text}");
        }
    }
}
