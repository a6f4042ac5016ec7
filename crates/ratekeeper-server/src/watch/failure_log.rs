//! Says why a store fails, without flooding the log.
//!
//! The first failure of each reason is logged at once, with its text. While it goes on failing for that reason, one line
//! for every [interval](INTERVAL) tells how many there were, whatever the load.

use std::time::{Duration, Instant};

use ratekeeper::{StoreError, StoreErrorKind};

use crate::log::one_line;
use crate::store_check::hint;

/// Between two lines about the same reason.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long a reason stays known without a failure: what comes later is another outage.
const QUIET: Duration = Duration::from_secs(60);

/// When each reason was last logged, and what was not logged since.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    /// As many as there are reasons.
    reasons: Vec<(&'static str, Silence)>,
    /// Requests that did not reach the store since the last line, because the breaker was open.
    not_asked: u64,
}

#[derive(Debug)]
struct Silence {
    since: Instant,
    failures: u64,
    last_failure: Instant,
}

/// What one line tells.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    /// With the one that it is about.
    failures: u64,
    not_asked: u64,
    /// True if this reason was logged before, and not long ago.
    is_summary: bool,
}

impl FailureLog {
    /// Logs a failure, or counts it for a later line.
    pub(crate) fn note(&mut self, error: &StoreError) {
        if error.kind() == StoreErrorKind::BreakerOpen {
            // A consequence: why it opened is logged.
            self.not_asked += 1;
            return;
        }
        let (kind, reason) = (error.kind().as_str(), error.reason());
        let Some(Line { failures, not_asked, is_summary }) = self.line(reason, Instant::now()) else {
            return;
        };
        let error = one_line(error);
        if is_summary {
            tracing::warn!(kind, reason, failures, not_asked, error, "store: still fails");
        } else {
            tracing::warn!(kind, reason, not_asked, error, "store: fails");
            if let Some(hint) = hint(reason) {
                tracing::warn!("{hint}");
            }
        }
    }

    /// The line that is due with a failure at this instant.
    fn line(&mut self, reason: &'static str, now: Instant) -> Option<Line> {
        self.reasons.retain(|(_, silence)| now.saturating_duration_since(silence.last_failure) < QUIET);
        let known = self.reasons.iter_mut().find(|(known, _)| *known == reason);
        let (failures, is_summary) = match known {
            None => {
                self.reasons.push((reason, Silence { since: now, failures: 0, last_failure: now }));
                (1, false)
            }
            Some((_, silence)) => {
                silence.failures += 1;
                silence.last_failure = now;
                let quiet = now.saturating_duration_since(silence.since);
                if quiet < INTERVAL {
                    return None;
                }
                silence.since = now;
                (std::mem::take(&mut silence.failures), true)
            }
        };
        Some(Line { failures, not_asked: std::mem::take(&mut self.not_asked), is_summary })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_reason_at_once_and_then_one_line_for_each_interval() {
        let mut log = FailureLog::default();
        let began = Instant::now();
        let first = Line { failures: 1, not_asked: 0, is_summary: false };
        assert_eq!(log.line("out_of_memory", began), Some(first));
        for _ in 0..1_000 {
            assert_eq!(log.line("out_of_memory", began + INTERVAL / 2), None);
        }
        log.not_asked = 7;
        let other = Line { failures: 1, not_asked: 7, is_summary: false };
        assert_eq!(log.line("read_only", began + INTERVAL / 2), Some(other));
        let summary = Line { failures: 1_001, not_asked: 0, is_summary: true };
        assert_eq!(log.line("out_of_memory", began + INTERVAL), Some(summary));
        assert_eq!(log.line("out_of_memory", began + INTERVAL), None);
    }

    #[test]
    fn a_failure_after_a_quiet_time_is_a_new_one() {
        let mut log = FailureLog::default();
        let mut now = Instant::now();
        let first = Line { failures: 1, not_asked: 0, is_summary: false };
        assert_eq!(log.line("read_only", now), Some(first));
        // It goes on, seldom.
        for _ in 0..10 {
            now += QUIET / 2;
            assert!(log.line("read_only", now).unwrap().is_summary);
        }
        now += QUIET;
        let again = Line { failures: 1, not_asked: 0, is_summary: false };
        assert_eq!(log.line("read_only", now), Some(again));
    }
}
