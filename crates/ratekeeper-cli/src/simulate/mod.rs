//! What a limit would have done: a trace is replayed against policies in virtual time. Nothing waits.
//!
//! The engine's own algorithms decide, at the times that the lines tell; a clock is never read. Memory grows with the
//! keys, not with the lines.
//!
//! - [`trace`]: lines to entries; `lines`: bytes to lines; [`Source`]: where they come from
//! - [`Policy`]: a quota or a plan, and what it decided; `keys`: who asked
//! - `timeline`, `peak`: what is remembered of time; [`Overview`]: what is remembered of the trace
//! - `replay`: all of it together; [`suggest`](mod@suggest): the smallest quota that would do
//! - [`report`], [`chart`]: what it amounts to

pub mod chart;
mod keys;
mod lines;
mod peak;
mod policy;
mod progress;
mod replay;
pub mod report;
mod source;
pub mod suggest;
mod timeline;
pub mod trace;

pub use keys::Keys;
pub use policy::{Policy, PolicyError};
pub use replay::{Overview, Replay, SimulateError, Skipped, retry_after_ms};
pub use source::Source;
pub use timeline::{Bucket, Timeline};
