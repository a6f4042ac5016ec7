//! Why a quota cannot be honoured.

use std::fmt;

use crate::quote::shorten;

/// The error of a quota that cannot be honoured: the field, its value, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaError {
    kind: QuotaErrorKind,
    field: &'static str,
    value: String,
    remedy: String,
}

/// What kind of mistake it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuotaErrorKind {
    /// A number is below or above its bound.
    OutOfRange,
    /// The text cannot be parsed.
    Syntax,
    /// Each part is valid, but they contradict each other.
    Conflict,
}

impl QuotaError {
    /// Returns an error about a field; `remedy` says what would be right, such as `must be at least 1`.
    pub(crate) fn new(
        kind: QuotaErrorKind,
        field: &'static str,
        value: impl ToString,
        remedy: impl Into<String>,
    ) -> Self {
        QuotaError { kind, field, value: value.to_string(), remedy: remedy.into() }
    }

    /// Returns the error of a number that is out of its range.
    pub(crate) fn range(field: &'static str, value: impl ToString, remedy: impl Into<String>) -> Self {
        Self::new(QuotaErrorKind::OutOfRange, field, value, remedy)
    }

    /// Returns the error of a text that cannot be parsed, quoted and shortened.
    pub(crate) fn syntax(field: &'static str, value: &str, remedy: impl Into<String>) -> Self {
        Self::new(QuotaErrorKind::Syntax, field, format!("`{}`", shorten(value)), remedy)
    }

    /// Returns the error of a part that contradicts the others.
    pub(crate) fn conflict(field: &'static str, value: impl ToString, remedy: impl Into<String>) -> Self {
        Self::new(QuotaErrorKind::Conflict, field, value, remedy)
    }

    /// Returns the kind of mistake.
    pub fn kind(&self) -> QuotaErrorKind {
        self.kind
    }

    /// Returns the name of the field that is wrong.
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// Returns the wrong value as it was given, shortened.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Returns what would be right.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.field, self.value, self.remedy)
    }
}

impl std::error::Error for QuotaError {}
