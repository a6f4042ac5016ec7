//! Replays a trace against policies, in the time that the trace tells: nothing waits.
//!
//! The engine's own algorithms decide, at the times that the lines tell; a clock is never read. Memory grows with the
//! keys, not with the lines.
//!
//! - [`trace`]: lines to entries; `lines`: bytes to lines; [`TraceSource`]: where they come from
//! - [`SimulatedPolicy`]: a quota or a plan, and what it decided; [`ShadowRule`]: a rule of it that only counts;
//!   `plan_states`: the states of rules that count different units; [`TraceKeys`]: who asked
//! - [`Timeline`], `peak`: what is remembered of time; [`TraceOverview`]: what is remembered of the trace
//! - [`Replay`]: all of it together; [`suggest()`]: the smallest quota that would do
//! - [`ReplaySummary`], [`write_decision`], [`chart`]: what it amounts to; `numbers`: numbers for people

pub mod chart;
mod decision_line;
#[cfg(any(test, fuzzing))]
mod exercise;
mod keys;
mod lines;
mod numbers;
mod overview;
mod peak;
mod plan_states;
mod policy;
mod progress;
mod replay;
mod replay_error;
mod shadow_rule;
mod source;
mod suggest;
mod summary;
mod timeline;
pub mod trace;

pub use decision_line::write_decision;
#[cfg(any(test, fuzzing))]
pub(crate) use exercise::exercise_trace;
pub use keys::TraceKeys;
pub use overview::{RecordedAnswers, SkippedLines, TraceOverview};
pub use policy::{PolicyError, SimulatedPolicy};
pub use replay::Replay;
pub use replay_error::ReplayError;
pub use shadow_rule::ShadowRule;
pub use source::TraceSource;
pub use suggest::{DeniedShare, DeniedShareError, SuggestError, Suggestion, suggest};
pub use summary::ReplaySummary;
pub use timeline::{Timeline, TimelineBucket};
