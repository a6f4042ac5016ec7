//! What is counted, remembered and logged while the server runs.
//!
//! ```text
//! metrics        requests, per transport and loop    plan_metrics   decisions per plan and rule, store failures
//! sketch         the keys that are denied most       failure_log    why the store fails, without flooding the log
//! readiness      whether the store answers           pressure       whether the store in memory is full
//! reload_counts  how reloads went                    log_lines      lines that clients can cause over and over
//! hold_counts    what became of holds                decision_times how long decisions took
//! snapshot_counts how snapshots went                 failure_answers what failure modes have answered, per plan
//! denial_log     a few denials a second              front_counts   what is counted in front of a remote store
//! event_log      what happened to the server lately  recent         what was asked lately, by sample
//! recorder       what one event loop gathers of that
//! ```

mod decision_times;
mod denial_log;
mod event_log;
mod failure_answers;
mod failure_log;
mod front_counts;
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
mod snapshot_counts;

pub(crate) use decision_times::{BUCKETS, TimesReading, part_of};
pub(crate) use denial_log::DenialLog;
pub use event_log::{EventKind, EventLevel, EventLog};
pub(crate) use failure_log::store_hint;
pub use front_counts::FrontCounts;
pub(crate) use log_lines::{LogThrottle, epoch_millis, one_line, shown_key};
pub(crate) use metrics::{DeniedKey, ServerMetrics, TransportMetrics, TransportReading};
pub(crate) use plan_metrics::{PlanMetrics, PlanRuleReading};
pub(crate) use pressure::{RefusedKeys, StorePressure};
pub(crate) use readiness::{ProbeReading, Readiness};
pub(crate) use recent::{RecordedRequests, RecordedWindow, TICK_MILLIS};
pub(crate) use recorder::AskedRequest;
pub use reload_counts::ReloadCounts;
pub use snapshot_counts::SnapshotCounts;
pub(crate) use snapshot_counts::SnapshotReading;
