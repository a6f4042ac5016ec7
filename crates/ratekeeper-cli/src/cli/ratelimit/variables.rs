//! The environment, and values as Go spells them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::go_duration;

/// The variables of an environment.
#[derive(Clone, Default)]
pub(super) struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Returns those of this process. What is no text is left out: none of ours can be meant by it.
    pub(super) fn of_process() -> Self {
        let texts = std::env::vars_os();
        Variables(
            texts
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
        )
    }

    /// Returns a value as it was written. One that was set to nothing is there, and empty.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns a text, unless it is empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.given(name).filter(|value| !value.is_empty())
    }

    /// Returns a boolean, in the words that Go knows; false if it was not set.
    pub(super) fn bool(&self, name: &'static str) -> Result<bool, VariableError> {
        match self.given(name) {
            None | Some("0" | "f" | "F" | "false" | "False" | "FALSE") => Ok(false),
            Some("1" | "t" | "T" | "true" | "True" | "TRUE") => Ok(true),
            Some(other) => Err(VariableError::quoting(name, other, "write `true` or `false`")),
        }
    }

    /// Returns a boolean that is true if it was not set.
    pub(super) fn bool_or_true(&self, name: &'static str) -> Result<bool, VariableError> {
        if self.given(name).is_none() { Ok(true) } else { self.bool(name) }
    }

    /// Returns a number, if it was set.
    pub(super) fn number<T: FromStr>(
        &self,
        name: &'static str,
        right: &'static str,
    ) -> Result<Option<T>, VariableError> {
        let Some(value) = self.given(name) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| VariableError::quoting(name, value, right))
    }

    /// Returns a duration, if it was set.
    pub(super) fn duration(&self, name: &'static str) -> Result<Option<Duration>, VariableError> {
        let Some(value) = self.given(name) else { return Ok(None) };
        let right = "write a duration such as `100ms`, `1m30s` or `24h`";
        go_duration::parse(value).map(Some).ok_or_else(|| VariableError::quoting(name, value, right))
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Variables {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Variables(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

impl fmt::Debug for Variables {
    /// Without values: there are passwords among them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

/// What is wrong with a variable, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VariableError {
    name: &'static str,
    message: String,
}

impl VariableError {
    /// Returns an error that says only this: the value may be a secret, or there is none.
    pub(super) fn new(name: &'static str, message: impl Into<String>) -> Self {
        VariableError { name, message: message.into() }
    }

    /// Returns an error that quotes the value.
    pub(super) fn quoting(name: &'static str, value: &str, right: impl fmt::Display) -> Self {
        VariableError { name, message: format!("{value:?}; {right}") }
    }
}

impl fmt::Display for VariableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.message)
    }
}

impl std::error::Error for VariableError {}
