//! Lines of a trace to entries: who asked, when, for how much.
//!
//! - [`TraceFormat`], [`KeyField`]: what the lines look like, and which part of them is the key
//! - [`TraceParser`]: a line to a [`TraceEntry`]; `plain`, `access`, `recorded`: the formats; `date`: the date of an access log
//! - [`LineError`]: what is wrong with a line

mod access;
mod date;
mod entry;
#[cfg(any(test, fuzzing))]
mod exercise;
mod format;
mod line_error;
mod parser;
mod plain;
mod recorded;
#[cfg(any(test, fuzzing))]
mod reference;

pub use entry::{TraceEntry, TracePlans, TraceUnits};
#[cfg(any(test, fuzzing))]
pub(super) use exercise::exercise_line;
pub use format::{KeyField, TraceFormat};
pub use line_error::LineError;
pub use parser::TraceParser;
