//! A log of denials: a few of them a second, spread over the second, whatever the load.

use std::time::Duration;

use ratekeeper::Decision;
use ratekeeper::port::{Observer, Request};

use super::log_lines::LogThrottle;

/// Bytes of a key that are logged.
const MOST_OF_A_KEY: usize = 128;

/// An observer of the keeper that logs denials, at most so many a second.
#[derive(Debug)]
pub(crate) struct DenialLog {
    lines: LogThrottle,
}

impl DenialLog {
    /// Returns a log of this many lines a second, at least one.
    pub(crate) fn new(lines_per_second: u32) -> Self {
        DenialLog { lines: LogThrottle::per_second(lines_per_second) }
    }

    #[cold]
    fn log(&self, request: &Request<'_>, decision: &Decision) {
        let Some(skipped) = self.lines.is_due() else { return };
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
