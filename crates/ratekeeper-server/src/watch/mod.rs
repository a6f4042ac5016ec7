//! What is counted, remembered and logged while the server runs.
//!
//! ```text
//! metrics        requests, per transport and loop    plan_metrics   decisions per plan and rule, store failures
//! sketch         the keys that are denied most       failure_log    why the store fails, without flooding the log
//! readiness      whether the store answers           pressure       whether the store in memory is full
//! reload_counts  how reloads went                    log_lines      lines that clients can cause over and over
//! hold_counts    what became of holds                decision_times how long decisions took
//! event_log      what happened to the server lately  failure_answers  what was answered when the store failed
//! recent         what was asked lately, by sample    recorder       what one event loop gathers of that
//! ```

mod decision_times;
mod event_log;
mod failure_answers;
mod failure_log;
mod hold_counts;
mod log_lines;
mod metrics;
mod plan_metrics;
mod pressure;
mod readiness;
mod recent;
mod recorder;
mod reload_counts;
mod sketch;

pub(crate) use decision_times::{BUCKETS, TimesReading};
pub use event_log::{EventKind, EventLevel, EventLog};
pub(crate) use failure_log::store_hint;
pub(crate) use log_lines::{LogThrottle, one_line};
pub(crate) use metrics::{DeniedKey, ServerMetrics, TransportMetrics, TransportReading};
pub(crate) use plan_metrics::{PlanMetrics, RuleReading};
pub(crate) use pressure::{RefusedKeys, StorePressure};
pub(crate) use readiness::{ProbeReading, Readiness};
pub(crate) use recent::{RecordedRequests, RecordedWindow, TICK_MILLIS};
pub(crate) use recorder::AskedRequest;
pub use reload_counts::ReloadCounts;
