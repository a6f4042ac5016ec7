//! Logs why a store fails, without flooding the log.
//!
//! The first failure of each reason is logged at once, with its text. While it goes on failing for that reason, one line
//! for every [interval](INTERVAL) tells how many there were, whatever the load.

use std::time::{Duration, Instant};

use ratekeeper::{StoreError, StoreErrorKind};

use super::log_lines::one_line;

/// Between two lines about the same reason.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long a reason stays known without a failure: what comes later is another outage.
const QUIET: Duration = Duration::from_secs(60);

/// When each reason was last logged, and what was not logged since.
#[derive(Debug, Default)]
pub(super) struct FailureLog {
    /// As many as there are reasons.
    reasons: Vec<(&'static str, ReasonState)>,
    /// Requests that did not reach the store since the last line, because the breaker was open.
    not_asked: u64,
}

#[derive(Debug)]
struct ReasonState {
    since: Instant,
    failures: u64,
    last_failure: Instant,
}

/// The numbers in one line of the log.
#[derive(Debug, PartialEq, Eq)]
struct FailureLine {
    /// Including the failure that the line is about.
    failures: u64,
    not_asked: u64,
    /// True if this reason was logged before, and not long ago.
    is_summary: bool,
}

impl FailureLog {
    /// Logs a failure, or counts it for a later line.
    pub(super) fn note(&mut self, error: &StoreError) {
        if error.kind() == StoreErrorKind::BreakerOpen {
            // A consequence: why it opened is logged.
            self.not_asked += 1;
            return;
        }
        let (kind, reason) = (error.kind().as_str(), error.reason());
        let Some(FailureLine { failures, not_asked, is_summary }) = self.line(reason, Instant::now()) else {
            return;
        };
        let error = one_line(error);
        if is_summary {
            tracing::warn!(kind, reason, failures, not_asked, error, "store: still fails");
        } else {
            tracing::warn!(kind, reason, not_asked, error, "store: fails");
            if let Some(hint) = store_hint(reason) {
                tracing::warn!("{hint}");
            }
        }
    }

    /// Counts a failure at this instant, and returns the line that is due.
    fn line(&mut self, reason: &'static str, now: Instant) -> Option<FailureLine> {
        self.reasons.retain(|(_, state)| now.saturating_duration_since(state.last_failure) < QUIET);
        let known = self.reasons.iter_mut().find(|(known, _)| *known == reason);
        let (failures, is_summary) = match known {
            None => {
                self.reasons.push((reason, ReasonState { since: now, failures: 0, last_failure: now }));
                (1, false)
            }
            Some((_, state)) => {
                state.failures += 1;
                state.last_failure = now;
                let quiet = now.saturating_duration_since(state.since);
                if quiet < INTERVAL {
                    return None;
                }
                state.since = now;
                (std::mem::take(&mut state.failures), true)
            }
        };
        Some(FailureLine { failures, not_asked: std::mem::take(&mut self.not_asked), is_summary })
    }
}

/// Returns what an operator can do about failures of this reason here, if anything.
pub(crate) fn store_hint(reason: &str) -> Option<&'static str> {
    (reason == "timeout").then_some("store: if it is healthy but far away or slow, raise --redis-timeout")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_reason_at_once_and_then_one_line_for_each_interval() {
        let mut log = FailureLog::default();
        let began = Instant::now();
        let first = FailureLine { failures: 1, not_asked: 0, is_summary: false };
        assert_eq!(log.line("out_of_memory", began), Some(first));
        for _ in 0..1_000 {
            assert_eq!(log.line("out_of_memory", began + INTERVAL / 2), None);
        }
        log.not_asked = 7;
        let other = FailureLine { failures: 1, not_asked: 7, is_summary: false };
        assert_eq!(log.line("read_only", began + INTERVAL / 2), Some(other));
        let summary = FailureLine { failures: 1_001, not_asked: 0, is_summary: true };
        assert_eq!(log.line("out_of_memory", began + INTERVAL), Some(summary));
        assert_eq!(log.line("out_of_memory", began + INTERVAL), None);
    }

    #[test]
    fn a_failure_after_a_quiet_time_is_a_new_one() {
        let mut log = FailureLog::default();
        let mut now = Instant::now();
        let first = FailureLine { failures: 1, not_asked: 0, is_summary: false };
        assert_eq!(log.line("read_only", now), Some(first));
        // It goes on, seldom.
        for _ in 0..10 {
            now += QUIET / 2;
            assert!(log.line("read_only", now).unwrap().is_summary);
        }
        now += QUIET;
        let again = FailureLine { failures: 1, not_asked: 0, is_summary: false };
        assert_eq!(log.line("read_only", now), Some(again));
    }
}
