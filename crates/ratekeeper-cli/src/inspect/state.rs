//! A state that was read.

use std::time::Duration;

use ratekeeper::Timestamp;
use ratekeeper::state::{Record, RecordPart, StateError, ascii};
use ratekeeper_redis::{Encoding, InspectedContent, Inspection};

use super::fields::Strategy;
use super::next::{NextDecision, NextError};

/// A state that was read, whichever encoding it was in.
#[derive(Clone, Debug)]
pub struct InspectedState {
    pub(super) record: Record,
    pub(super) encoding: Encoding,
    /// How long it has to live: `None` if that is not known, `Some(None)` if it never expires.
    pub(super) expires_in: Option<Option<Duration>>,
    pub(super) next: Option<NextDecision>,
    pub(super) now: Timestamp,
}

impl InspectedState {
    /// Reads the ASCII encoding, strictly.
    ///
    /// # Errors
    ///
    /// The text is not a state.
    pub fn from_ascii(text: &str, now: Timestamp) -> Result<Self, StateError> {
        let (record, encoding) = (ascii::decode(text)?, Encoding::Ascii);
        Ok(InspectedState { record, encoding, expires_in: None, next: None, now })
    }

    /// Reads what lies under a key of a Redis server, in either encoding. Times are compared with `now`, or else with
    /// the server's clock.
    ///
    /// # Errors
    ///
    /// The value is not a state, or one of another version.
    pub fn from_redis(found: Inspection, now: Option<Timestamp>) -> Result<Self, UnreadableState> {
        let Inspection { encoding, found, record, expires_in, now: server, .. } = found;
        let record = record.ok_or_else(|| match found {
            InspectedContent::OtherVersion(version) => UnreadableState(format!(
                "version: {version}; a hash of schema version 1 is read, and any other starts fresh"
            )),
            InspectedContent::Unreadable(error) => UnreadableState(error.to_string()),
            _ => UnreadableState("a state that this build does not know".to_owned()),
        })?;
        let now = now.unwrap_or(server);
        Ok(InspectedState { record, encoding, expires_in: Some(expires_in), next: None, now })
    }

    /// Adds what a request of cost 1 would get now under this quota, or under several separated by `;`.
    ///
    /// # Errors
    ///
    /// The text is not a quota, or the state belongs to other rules.
    pub fn under(mut self, quota: &str) -> Result<Self, NextError> {
        self.next = Some(NextDecision::of(&self.record, quota, self.now)?);
        Ok(self)
    }

    /// Returns what it is called: one strategy, `composite`, or `rules` if the states have the names of their rules.
    pub(super) fn strategy(&self) -> Strategy {
        match self.record.parts() {
            _ if !self.record.names().is_empty() => {
                Strategy { word: "rules", words: "states by rule", version: 1 }
            }
            [part] => Strategy::of(part),
            _ => Strategy { word: "composite", words: "composite", version: 1 },
        }
    }

    /// Returns the word for its encoding.
    pub(super) fn encoding_word(&self) -> &'static str {
        match self.encoding {
            Encoding::Ascii => "ascii",
            _ => "binary",
        }
    }

    /// Returns the version of a part's format, which is that of the schema where it is a hash.
    pub(super) fn version(&self, part: &RecordPart) -> u8 {
        match self.encoding {
            Encoding::Ascii => Strategy::of(part).version,
            _ => 1,
        }
    }
}

/// Why a value of a Redis server is not a state that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableState(String);

impl std::fmt::Display for UnreadableState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnreadableState {}
