//! What is written under one key when a store keeps one value per key: the states of a whole plan.

use super::error::StateError;
use super::part::{RecordPart, part_of};
use crate::{Name, State};

/// What is written under one key: one part, or several in order (a composite), or several by the names of their rules.
///
/// [`from_rules`](Record::from_rules) makes one of the states of a plan's rules, and
/// [`into_rules`](Record::into_rules) gives them back; [`ascii`](super::ascii) writes and reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    parts: Vec<RecordPart>,
    /// Of every part its rule's, or none at all.
    names: Vec<Name>,
}

impl Record {
    /// The most parts of a record.
    pub const MAX_PARTS: usize = 16;

    /// The most names of a record: those of a plan's rules, and as many of others.
    pub const MAX_NAMES: usize = 32;

    /// Returns a record of these parts, by position.
    ///
    /// # Errors
    ///
    /// If there are none, or more than [16](Record::MAX_PARTS).
    pub fn new(parts: Vec<RecordPart>) -> Result<Self, StateError> {
        if !(1..=Self::MAX_PARTS).contains(&parts.len()) {
            let remedy = "a record has 1 to 16; all fixed windows together are one";
            return Err(StateError::shape("parts", parts.len().to_string(), remedy));
        }
        Ok(Record { parts, names: Vec::new() })
    }

    /// Returns a record of states by the names of their rules.
    ///
    /// # Errors
    ///
    /// If there are none, more than [32](Record::MAX_NAMES), or two of the same name.
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

    /// Returns the name of each part's rule; none at all if the parts stand by position.
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    /// Returns the parts, at least one.
    pub fn parts(&self) -> &[RecordPart] {
        &self.parts
    }

    /// Returns the parts, without their names.
    pub(super) fn into_parts(self) -> Vec<RecordPart> {
        self.parts
    }
}

impl From<RecordPart> for Record {
    fn from(part: RecordPart) -> Self {
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
        let parts = |n| vec![RecordPart::Gcra(GcraState { tat: Timestamp::EPOCH }); n];
        assert!(Record::new(parts(0)).is_err());
        assert!(Record::new(parts(16)).is_ok());
        assert!(Record::new(parts(17)).is_err());
    }
}
