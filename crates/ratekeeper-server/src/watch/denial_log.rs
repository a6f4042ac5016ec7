//! A log of denials: a few of them a second, spread over the second, whatever the load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ratekeeper::Decision;
use ratekeeper::port::{Observer, Request};

/// Bytes of a key that are logged.
const MOST_OF_A_KEY: usize = 128;

/// An observer of the keeper that logs denials, at most so many a second.
#[derive(Debug)]
pub(crate) struct DenialLog {
    started: Instant,
    /// Between two lines.
    pause: Duration,
    /// When the next line is due, in nanoseconds since the start.
    next: AtomicU64,
    /// Denials since the last line that have none.
    skipped: AtomicU64,
}

impl DenialLog {
    /// Returns a log of this many lines a second, at least one.
    pub(crate) fn new(lines_per_second: u32) -> Self {
        DenialLog {
            started: Instant::now(),
            pause: Duration::from_secs(1) / lines_per_second.max(1),
            next: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        }
    }

    /// Returns how many denials had no line since the last one, if another line is due; counts this one if not.
    fn is_due(&self, now: Duration) -> Option<u64> {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (now, next) = (nanos(now), self.next.load(Ordering::Relaxed));
        let after = now.saturating_add(nanos(self.pause));
        let is_mine = now >= next
            && self.next.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_mine {
            return Some(self.skipped.swap(0, Ordering::Relaxed));
        }
        self.skipped.fetch_add(1, Ordering::Relaxed);
        None
    }

    #[cold]
    fn log(&self, request: &Request<'_>, decision: &Decision) {
        let Some(skipped) = self.is_due(self.started.elapsed()) else { return };
        let key = request.key.as_bytes();
        let key = String::from_utf8_lossy(&key[..key.len().min(MOST_OF_A_KEY)]);
        let bound = request.rules.at(decision.rule.into());
        let (plan, rule) = match bound {
            Some((plan, rule)) => (plan.name().as_str(), rule.name().as_str()),
            None => ("-", "-"),
        };
        let retry_after = decision.retry_after.map(Duration::from);
        tracing::info!(
            key = &*key,
            plan,
            rule,
            cost = request.cost.get(),
            limit = decision.limit,
            reason = decision.reason.as_str(),
            ?retry_after,
            skipped,
            "denied: a request"
        );
    }
}

impl Observer for DenialLog {
    #[inline]
    fn decided(&self, request: &Request<'_>, decision: &Decision) {
        if !decision.allowed {
            self.log(request, decision);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_spread_and_the_others_counted() {
        let log = DenialLog::new(4);
        let at = Duration::from_millis;
        assert_eq!(log.is_due(at(0)), Some(0));
        assert!((0..100).all(|_| log.is_due(at(249)).is_none()));
        assert_eq!(log.is_due(at(250)), Some(100));
        assert_eq!(log.is_due(at(499)), None);
        // A silence does not make up for a burst.
        assert_eq!((log.is_due(at(9_000)), log.is_due(at(9_000))), (Some(1), None));
    }
}
