//! From what a response says to what the next request does.

use std::time::Duration;

use http::StatusCode;

use crate::headers::{ServerLimit, ServerLimits};

/// Without a word from the server, how long a client stays away after it was refused.
const UNTOLD: Duration = Duration::from_secs(1);

/// What follows from a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lesson {
    /// Nothing is sent for this long.
    pub(super) pause: Option<Duration>,
    /// No more than so many are sent within this time.
    pub(super) budget: Option<(u64, Duration)>,
}

/// Returns what follows from a response. A cached one teaches nothing: its numbers are old.
pub(super) fn learn(status: StatusCode, limits: &ServerLimits) -> Lesson {
    let refused = is_refusal(status);
    if limits.cached {
        return Lesson { pause: refused.then_some(UNTOLD), budget: None };
    }
    // `Retry-After` wins over everything: a server that says both knows which it means.
    if let Some(wait) = limits.retry_after.filter(|_| refused) {
        return Lesson { pause: Some(wait), budget: None };
    }
    let scarcest = limits.limits.iter().filter_map(|limit| {
        let remaining = limit.remaining?;
        Some((remaining, reset(limit, limits)?))
    });
    // The one that is hit first; of two that are, the one that lasts longer.
    let budget = scarcest.min_by_key(|(remaining, reset)| (*remaining, std::cmp::Reverse(*reset)));
    let pause = match budget {
        _ if !refused => None,
        Some((0, reset)) => Some(reset),
        _ => Some(UNTOLD),
    };
    Lesson { pause, budget }
}

/// Returns true if the server refused because of a limit, or of its load.
pub(super) fn is_refusal(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE
}

/// Returns how long until there is more; the window of the policy of that name, where the server does not tell.
fn reset(limit: &ServerLimit, limits: &ServerLimits) -> Option<Duration> {
    let policy = || limits.policies.iter().find(|policy| policy.name == limit.name)?.window;
    limit.reset.or_else(policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers;
    use std::time::SystemTime;

    const SECOND: Duration = Duration::from_secs(1);

    fn of(status: u16, lines: &str) -> Lesson {
        let limits = headers::parse_lines(lines.as_bytes(), SystemTime::now());
        learn(StatusCode::from_u16(status).unwrap(), &limits)
    }

    #[test]
    fn retry_after_wins() {
        let both = "retry-after: 7\nratelimit: \"a\";r=0;t=90\n";
        assert_eq!(of(429, both), Lesson { pause: Some(7 * SECOND), budget: None });
        assert_eq!(of(503, "retry-after: 7\n").pause, Some(7 * SECOND));
        assert_eq!(of(200, "retry-after: 7\n"), Lesson::default(), "not a refusal");
    }

    #[test]
    fn the_scarcest_limit_counts() {
        let two = "ratelimit: \"a\";r=5;t=9, \"b\";r=2;t=90\n";
        assert_eq!(of(200, two).budget, Some((2, 90 * SECOND)));
        let kong = "x-ratelimit-limit-minute: 20\nx-ratelimit-remaining-minute: 7\n";
        assert_eq!(of(200, kong).budget, Some((7, 60 * SECOND)), "the window stands in for the reset");
        assert_eq!(of(429, "x-ratelimit-remaining: 0\nx-ratelimit-reset: 30\n").pause, Some(30 * SECOND));
        assert_eq!(of(429, "").pause, Some(UNTOLD));
        assert_eq!(of(200, ""), Lesson::default());
    }

    #[test]
    fn a_cache_teaches_nothing() {
        assert_eq!(of(200, "age: 60\nratelimit: \"a\";r=0;t=90\n"), Lesson::default());
    }
}
