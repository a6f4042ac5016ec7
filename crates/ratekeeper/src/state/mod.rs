//! What a store remembers of a key, and how it is written down.
//!
//! | file | what |
//! |---|---|
//! | [`Record`], [`RecordPart`] | the states of a whole plan, under one key |
//! | [`RuleStates`], [`NamedStates`] | the states of rules by name, as one text |
//! | `rules` | from the states of rules to a record, and back, by position |
//! | [`ascii`] | a record as text; `float`: its doubles as Go writes them |
//! | [`binary`] | the state of one rule as the fields of a hash |
//! | `storable` | what either can hold |

pub mod ascii;
pub mod binary;
mod error;
mod float;
mod named;
mod part;
mod part_text;
mod record;
mod rule_states;
mod rules;
mod shared;
mod storable;
mod storage_key;

pub use error::{OnUnreadable, StateError, StateErrorKind};
pub use named::NamedStates;
pub use part::{NamedWindow, NamedWindows, RecordPart};
pub use record::Record;
pub use rule_states::RuleStates;
pub use rules::Replaced;
pub use shared::{is_live, shared_name};
pub use storage_key::StorageKey;
