//! What is written under one key when a store keeps one value per key: the states of a whole plan.

use super::error::StateError;
use super::part::{Part, part_of};
use crate::{Name, State};

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

    /// The most names of a record: those of a plan's rules, and as many of others.
    pub const MAX_NAMES: usize = 32;

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
        if !(1..=Self::MAX_NAMES).contains(&rules.len()) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::algorithm::gcra::GcraState;

    #[test]
    fn a_record_has_some_parts_and_not_too_many() {
        let parts = |n| vec![Part::Gcra(GcraState { tat: Timestamp::EPOCH }); n];
        assert!(Record::new(parts(0)).is_err());
        assert!(Record::new(parts(16)).is_ok());
        assert!(Record::new(parts(17)).is_err());
    }
}
