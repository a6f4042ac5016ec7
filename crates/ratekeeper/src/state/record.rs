//! What is written under one key when a store keeps one value per key: the states of a whole plan.

use super::named::NamedStates;
use super::rules::part_of;
use super::{State, StateError};
use crate::algorithm::{
    Algorithm, fixed_window, gcra, leaky_bucket, sliding_log, sliding_window, token_bucket,
};
use crate::{Name, Timestamp};

/// What is written under one key: one part, or several in order (a composite), or several by the names of their rules.
///
/// [`from_rules`](Record::from_rules) makes one of the states of a plan's rules, and
/// [`into_rules`](Record::into_rules) gives them back; [`ascii`](super::ascii) writes and reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    parts: Vec<Part>,
    /// Of every part its rule's, or none at all.
    names: Vec<Name>,
}

impl Record {
    /// The most parts of a record.
    pub const MAX_PARTS: usize = 16;

    /// A record of these parts, 1 to 16 of them.
    pub fn new(parts: Vec<Part>) -> Result<Self, StateError> {
        if !(1..=Self::MAX_PARTS).contains(&parts.len()) {
            let remedy = "a record has 1 to 16; all fixed windows together are one";
            return Err(StateError::shape("parts", parts.len().to_string(), remedy));
        }
        Ok(Record { parts, names: Vec::new() })
    }

    /// A record of states by the names of their rules, 1 to 32 of them, no two alike.
    pub fn by_name(rules: Vec<(Name, State)>) -> Result<Self, StateError> {
        if !(1..=NamedStates::MAX).contains(&rules.len()) {
            return Err(StateError::shape("rules", rules.len().to_string(), "a record names 1 to 32"));
        }
        let (mut names, mut parts) = (Vec::with_capacity(rules.len()), Vec::with_capacity(rules.len()));
        for (name, state) in rules {
            if names.contains(&name) {
                return Err(StateError::shape("name", format!("`{name}` twice"), "each rule is named once"));
            }
            parts.push(part_of(&name, state)?);
            names.push(name);
        }
        Ok(Record { parts, names })
    }

    /// The name of each part's rule; none at all if the parts stand by position.
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    /// The parts, at least one.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    pub(super) fn into_parts(self) -> Vec<Part> {
        self.parts
    }
}

impl From<Part> for Record {
    fn from(part: Part) -> Self {
        Record { parts: vec![part], names: Vec::new() }
    }
}

/// The state of one rule, or of all rules that are fixed windows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant is the state of its algorithm")]
pub enum Part {
    TokenBucket(token_bucket::State),
    FixedWindows(Windows),
    LeakyBucket(leaky_bucket::State),
    Gcra(gcra::State),
    SlidingWindow(sliding_window::State),
    SlidingLog(sliding_log::State),
}

impl Part {
    /// The algorithm that wrote it.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Part::TokenBucket(_) => Algorithm::TokenBucket,
            Part::FixedWindows(_) => Algorithm::FIXED,
            Part::LeakyBucket(_) => Algorithm::LeakyBucket,
            Part::Gcra(_) => Algorithm::Gcra,
            Part::SlidingWindow(_) => Algorithm::SlidingWindow,
            Part::SlidingLog(_) => Algorithm::SlidingLog,
        }
    }
}

/// One to eight fixed windows with names, no two alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows(Vec<Window>);

/// A fixed window, and the name of its rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The rule's name.
    pub name: Name,
    /// What the window has let pass.
    pub count: u64,
    /// The window's first instant.
    pub start: Timestamp,
}

impl Window {
    /// The state of the rule.
    pub fn state(&self) -> fixed_window::State {
        fixed_window::State { count: self.count, start: self.start }
    }
}

impl Windows {
    /// The most windows of one record.
    pub const MAX: usize = 8;

    /// These windows, if they are 1 to 8 and no two have the same name.
    pub fn new(windows: Vec<Window>) -> Result<Self, StateError> {
        if !(1..=Self::MAX).contains(&windows.len()) {
            let remedy = "one key holds 1 to 8 fixed windows: split the plan";
            return Err(StateError::shape("windows", windows.len().to_string(), remedy));
        }
        for (i, window) in windows.iter().enumerate() {
            if windows[..i].iter().any(|earlier| earlier.name == window.name) {
                let found = format!("`{}` twice", window.name);
                return Err(StateError::shape("name", found, "each window has a name of its own"));
            }
        }
        Ok(Windows(windows))
    }

    /// The windows in order.
    pub fn as_slice(&self) -> &[Window] {
        &self.0
    }

    pub(super) fn into_vec(self) -> Vec<Window> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(name: &str) -> Window {
        Window { name: name.parse().unwrap(), count: 1, start: Timestamp::EPOCH }
    }

    #[test]
    fn windows_are_few_and_have_names_of_their_own() {
        let numbered = |n: usize| Windows::new((0..n).map(|i| window(&i.to_string())).collect());
        assert!(numbered(1).is_ok() && numbered(8).is_ok());
        assert_eq!(
            numbered(9).unwrap_err().to_string(),
            "windows: 9; one key holds 1 to 8 fixed windows: split the plan"
        );
        assert!(numbered(0).is_err());
        let twice = Windows::new(vec![window("a"), window("b"), window("a")]).unwrap_err();
        assert_eq!(twice.to_string(), "name: `a` twice; each window has a name of its own");
    }

    #[test]
    fn a_record_has_some_parts_and_not_too_many() {
        let parts = |n| vec![Part::Gcra(gcra::State { tat: Timestamp::EPOCH }); n];
        assert!(Record::new(parts(0)).is_err());
        assert!(Record::new(parts(16)).is_ok());
        assert!(Record::new(parts(17)).is_err());
    }
}
