//! Decodes stored states: strategy, version, fields, times, and what the next request would get.
//!
//! - [`InspectedState`]: a state that was read, whichever encoding it was in; [`NextDecision`]: what comes next
//! - [`Debt`]: what a state owes under a quota; [`InspectedSnapshot`]: what a snapshot holds; [`HoldsOfKey`]: what is held in Redis
//! - `fields`: what the parts of a state are called; `words`, `json`: a state for people and for programs

mod debt;
mod fields;
mod holds;
mod json;
mod next;
mod snapshot;
mod state;
mod words;

pub use debt::Debt;
pub use holds::HoldsOfKey;
pub use next::{NextDecision, NextError};
pub use snapshot::InspectedSnapshot;
pub use state::{InspectedState, UnreadableState};
