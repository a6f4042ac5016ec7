//! What every transport asks, and what watches over it.
//!
//! ```text
//! engine        the keeper, its plans and its store, and everything that is counted
//! probe         whether the store decides
//! fuzz_engine   an engine for fuzzing
//! ```

#[expect(clippy::module_inception, reason = "the folder is named after what it holds")]
mod engine;
#[cfg(any(test, fuzzing))]
mod fuzz_engine;
mod probe;

pub use engine::Engine;
#[cfg(any(test, fuzzing))]
pub(crate) use fuzz_engine::{fuzz_engine, fuzz_tokens};
pub(crate) use probe::probe_question;
