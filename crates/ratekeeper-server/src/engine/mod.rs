//! What every transport asks, and what watches over it.
//!
//! ```text
//! engine   the keeper, its plans and its store, and everything that is counted
//! probe    whether the store decides
//! ```

#[expect(clippy::module_inception, reason = "the folder is named after what it holds")]
mod engine;
mod probe;

pub use engine::Engine;
pub(crate) use probe::probe_question;
