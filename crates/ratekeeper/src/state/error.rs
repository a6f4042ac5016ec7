//! Why a state cannot be read, or cannot be written.

use std::borrow::Cow;
use std::fmt;

use crate::quote::quote;

/// The error of a state that cannot be read, or of rules whose states no record can hold: the field, what was found there,
/// and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateError {
    kind: StateErrorKind,
    part: Option<usize>,
    field: &'static str,
    found: String,
    remedy: Cow<'static, str>,
}

/// What kind of error it is, and so who most likely wrote the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StateErrorKind {
    /// Longer than any state that is written.
    TooLong,
    /// It does not begin with a strategy that is known here: most likely something else lives under the key.
    UnknownStrategy,
    /// A known strategy in another format version: most likely a newer or older program wrote it.
    UnknownVersion,
    /// A field is missing, malformed, out of range, or one too many.
    Field,
    /// Each state is well formed, but they are not those of the rules: most likely a plan has changed.
    Shape,
}

impl StateError {
    /// Returns an error about a field; `remedy` says what would be right.
    pub(super) fn new(
        kind: StateErrorKind,
        field: &'static str,
        found: String,
        remedy: impl Into<Cow<'static, str>>,
    ) -> Self {
        StateError { kind, part: None, field, found, remedy: remedy.into() }
    }

    /// Returns the error of a field that is not what it should be.
    pub(super) fn wrong(field: &'static str, found: &[u8], remedy: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StateErrorKind::Field, field, quote(found), remedy)
    }

    /// Returns the error of a field that is missing.
    pub(super) fn missing(field: &'static str, remedy: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StateErrorKind::Field, field, "missing".into(), remedy)
    }

    /// Returns the error of states that are well formed, but not those of the rules.
    pub(super) fn shape(field: &'static str, found: String, remedy: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StateErrorKind::Shape, field, found, remedy)
    }

    /// Returns the same error as one of another kind.
    pub(super) fn of_kind(self, kind: StateErrorKind) -> Self {
        StateError { kind, ..self }
    }

    /// Returns the same error, found in this part of a composite, counted from 1.
    pub(super) fn in_part(self, part: usize) -> Self {
        StateError { part: Some(part), ..self }
    }

    /// Returns the kind of error.
    pub fn kind(&self) -> StateErrorKind {
        self.kind
    }

    /// Returns which part of a composite it was found in, counted from 1; none if the state is no composite.
    pub fn part(&self) -> Option<usize> {
        self.part
    }

    /// Returns the name of the field that is wrong.
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// Returns what was found, quoted and shortened.
    pub fn found(&self) -> &str {
        &self.found
    }

    /// Returns what would be right.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(part) = self.part {
            write!(f, "part {part}: ")?;
        }
        write!(f, "{}: {}; {}", self.field, self.found, self.remedy)
    }
}

impl std::error::Error for StateError {}

/// What a store does about a state that it cannot read. Never silently "fresh": otherwise whoever can damage a key could
/// lift its limit unseen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnUnreadable {
    /// Return the error; the state stays as it is.
    #[default]
    Error,
    /// Start the key fresh; the store logs and counts it.
    Reset,
}
