//! Failure modes, as flags and files spell them.

use ratekeeper::FailureMode;
use serde::Deserialize;

/// How to answer when the store fails: a [`FailureMode`] as the file writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnStoreError {
    /// Allow the request.
    #[default]
    Open,
    /// Deny the request.
    Closed,
    /// Let a store in the memory of this process decide.
    Local,
    /// Answer with an error.
    Error,
}

impl From<OnStoreError> for FailureMode {
    fn from(word: OnStoreError) -> Self {
        match word {
            OnStoreError::Open => FailureMode::Open,
            OnStoreError::Closed => FailureMode::Closed,
            OnStoreError::Local => FailureMode::Local,
            OnStoreError::Error => FailureMode::Error,
        }
    }
}
