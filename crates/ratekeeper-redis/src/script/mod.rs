//! The scripts: their texts, composed of parts, and the calls that run them.
//!
//! ```text
//! source    a script, by its text and its SHA-1      kind      what a script does with a quota
//! call      the keys and arguments of one call       library   every script, composed on first use
//! ```

mod call;
mod kind;
mod library;
mod source;

pub(crate) use call::ScriptCall;
pub(crate) use kind::RuleKind;
pub(crate) use library::{ScriptLibrary, ScriptParts, ScriptTime};
pub(crate) use source::Script;
