//! From what was written to a configuration, or to every mistake in it.
//!
//! ```text
//! report     mistakes and warnings            compiler   descriptors to nodes and rules
//! limit      one limit to what it limits to   names      which rules replace which
//! named      plans of the server that rules name
//! ```

mod compiler;
mod limit;
mod named;
mod names;
mod report;

pub(in crate::rls) use compiler::Compiler;
pub(in crate::rls) use report::Report;
