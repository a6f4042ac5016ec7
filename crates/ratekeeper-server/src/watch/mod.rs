//! What is counted, remembered and logged while the server runs.
//!
//! ```text
//! metrics        requests, per transport and loop    plan_metrics   decisions per plan and rule, store failures
//! sketch         the keys that are denied most       failure_log    why the store fails, without flooding the log
//! readiness      whether the store answers           pressure       whether the store in memory is full
//! reload_counts  how reloads went                    log_lines      lines that clients can cause over and over
//! hold_counts    what became of holds                decision_times how long decisions took
//! front_counts   what is counted in front of a remote store
//! ```

mod decision_times;
mod failure_log;
mod front_counts;
mod hold_counts;
mod log_lines;
mod metrics;
mod plan_metrics;
mod pressure;
mod readiness;
mod reload_counts;
mod sketch;

pub(crate) use decision_times::{BUCKETS, TimesReading};
pub(crate) use failure_log::store_hint;
pub use front_counts::FrontCounts;
pub(crate) use log_lines::{LogThrottle, one_line};
pub(crate) use metrics::{ServerMetrics, TransportMetrics, TransportReading};
pub(crate) use plan_metrics::PlanMetrics;
pub(crate) use pressure::{RefusedKeys, StorePressure};
pub(crate) use readiness::Readiness;
pub use reload_counts::ReloadCounts;
