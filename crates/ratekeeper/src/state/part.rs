//! The state of one rule as a part of what is written under a key; all fixed windows together are one part.

use super::error::StateError;
use crate::algorithm::fixed_window::FixedWindowState;
use crate::algorithm::gcra::GcraState;
use crate::algorithm::leaky_bucket::LeakyBucketState;
use crate::algorithm::sliding_log::SlidingLogState;
use crate::algorithm::sliding_window::SlidingWindowState;
use crate::algorithm::token_bucket::TokenBucketState;
use crate::{Algorithm, Name, State, Timestamp};

/// The state of one rule, or of all rules that are fixed windows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant is the state of its algorithm")]
pub enum RecordPart {
    TokenBucket(TokenBucketState),
    FixedWindows(NamedWindows),
    LeakyBucket(LeakyBucketState),
    Gcra(GcraState),
    SlidingWindow(SlidingWindowState),
    SlidingLog(SlidingLogState),
}

impl RecordPart {
    /// Returns the algorithm that wrote it.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            RecordPart::TokenBucket(_) => Algorithm::TokenBucket,
            RecordPart::FixedWindows(_) => Algorithm::FIXED,
            RecordPart::LeakyBucket(_) => Algorithm::LeakyBucket,
            RecordPart::Gcra(_) => Algorithm::Gcra,
            RecordPart::SlidingWindow(_) => Algorithm::SlidingWindow,
            RecordPart::SlidingLog(_) => Algorithm::SlidingLog,
        }
    }
}

/// One to eight fixed windows with names, no two alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedWindows(Vec<NamedWindow>);

/// A fixed window, and the name of its rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedWindow {
    /// The name of the rule that the window belongs to.
    pub name: Name,
    /// What the window has let pass.
    pub count: u64,
    /// The first instant of the window.
    pub start: Timestamp,
}

impl NamedWindow {
    /// Returns the state of the rule.
    pub fn state(&self) -> FixedWindowState {
        FixedWindowState { count: self.count, start: self.start }
    }
}

impl NamedWindows {
    /// The most windows of one record.
    pub const MAX: usize = 8;

    /// Returns these windows.
    ///
    /// # Errors
    ///
    /// If there are none or more than [8](NamedWindows::MAX), or two have the same name.
    pub fn new(windows: Vec<NamedWindow>) -> Result<Self, StateError> {
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
        Ok(NamedWindows(windows))
    }

    /// Returns the windows in order.
    pub fn as_slice(&self) -> &[NamedWindow] {
        &self.0
    }

    /// Returns the windows in order.
    pub(super) fn into_vec(self) -> Vec<NamedWindow> {
        self.0
    }
}

/// Returns the state of a part that is one rule's; none of several windows.
pub(super) fn single(part: RecordPart) -> Option<State> {
    match part {
        RecordPart::FixedWindows(windows) => match windows.as_slice() {
            [window] => Some(State::FixedWindow(window.state())),
            _ => None,
        },
        RecordPart::TokenBucket(state) => Some(State::TokenBucket(state)),
        RecordPart::LeakyBucket(state) => Some(State::LeakyBucket(state)),
        RecordPart::Gcra(state) => Some(State::Gcra(state)),
        RecordPart::SlidingWindow(state) => Some(State::SlidingWindow(state)),
        RecordPart::SlidingLog(state) => Some(State::SlidingLog(state)),
    }
}

/// Returns a rule's state as a part of its own.
pub(super) fn part_of(name: &Name, state: State) -> Result<RecordPart, StateError> {
    Ok(match state {
        State::FixedWindow(FixedWindowState { count, start }) => {
            RecordPart::FixedWindows(NamedWindows::new(vec![NamedWindow {
                name: name.clone(),
                count,
                start,
            }])?)
        }
        State::TokenBucket(state) => RecordPart::TokenBucket(state),
        State::LeakyBucket(state) => RecordPart::LeakyBucket(state),
        State::Gcra(state) => RecordPart::Gcra(state),
        State::SlidingWindow(state) => RecordPart::SlidingWindow(state),
        State::SlidingLog(state) => RecordPart::SlidingLog(state),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(name: &str) -> NamedWindow {
        NamedWindow { name: name.parse().unwrap(), count: 1, start: Timestamp::EPOCH }
    }

    #[test]
    fn windows_are_few_and_have_names_of_their_own() {
        let numbered = |n: usize| NamedWindows::new((0..n).map(|i| window(&i.to_string())).collect());
        assert!(numbered(1).is_ok() && numbered(8).is_ok());
        assert_eq!(
            numbered(9).unwrap_err().to_string(),
            "windows: 9; one key holds 1 to 8 fixed windows: split the plan"
        );
        assert!(numbered(0).is_err());
        let twice = NamedWindows::new(vec![window("a"), window("b"), window("a")]).unwrap_err();
        assert_eq!(twice.to_string(), "name: `a` twice; each window has a name of its own");
    }
}
