//! Decodes stored states: strategy, version, fields, times, and what the next request would get.
//!
//! - [`InspectedState`]: a state that was read, whichever encoding it was in; [`NextDecision`]: what comes next
//! - `fields`: what the parts of a state are called; `words`, `json`: a state for people and for programs

mod fields;
mod json;
mod next;
mod state;
mod words;

pub use next::{NextDecision, NextError};
pub use state::{InspectedState, UnreadableState};
