//! From what a response says to what the next request does.

use std::time::Duration;

use http::StatusCode;

use crate::headers::{QuotaUnit, ServerLimit, ServerLimits};

/// Without a word from the server, how long a client stays away after it was refused.
const UNTOLD: Duration = Duration::from_secs(1);

/// Words at the end of a limit's name that say how long its window is, and not what it counts.
const WINDOWS: [&str; 6] = ["second", "minute", "hour", "day", "month", "year"];

/// What follows from a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lesson {
    /// Nothing is sent for this long.
    pub(super) pause: Option<Duration>,
    /// No more than so many are sent within this time.
    pub(super) budget: Option<(u64, Duration)>,
    /// What is left of other units.
    pub(super) units: Vec<UnitLesson>,
}

/// What is left of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnitLesson {
    pub(super) unit: String,
    pub(super) limit: Option<u64>,
    pub(super) remaining: u64,
    pub(super) reset: Duration,
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted<'a> {
    Requests,
    /// What is in flight, of which no more is sent later.
    InFlight,
    Unit(&'a str),
}

/// Returns what follows from a response. A cached one teaches nothing: its numbers are old.
pub(super) fn learn(status: StatusCode, limits: &ServerLimits) -> Lesson {
    let refused = is_refusal(status);
    if limits.cached {
        return Lesson { pause: refused.then_some(UNTOLD), ..Lesson::default() };
    }
    // `Retry-After` wins over everything: a server that says both knows which it means.
    if let Some(wait) = limits.retry_after.filter(|_| refused) {
        return Lesson { pause: Some(wait), ..Lesson::default() };
    }
    let mut budget = None;
    let mut units: Vec<UnitLesson> = Vec::new();
    for limit in &limits.limits {
        let (Some(remaining), Some(reset)) = (limit.remaining, reset(limit, limits)) else { continue };
        match counted(limit, limits) {
            Counted::InFlight => {}
            Counted::Requests => {
                if budget.is_none_or(|known| is_scarcer((remaining, reset), known)) {
                    budget = Some((remaining, reset));
                }
            }
            Counted::Unit(unit) => {
                let new = UnitLesson { unit: unit.to_owned(), limit: limit.limit, remaining, reset };
                match units.iter_mut().find(|known| known.unit == unit) {
                    None => units.push(new),
                    Some(known) if is_scarcer((remaining, reset), (known.remaining, known.reset)) => {
                        *known = new
                    }
                    Some(_) => {}
                }
            }
        }
    }
    let pause = match budget {
        _ if !refused => None,
        Some((0, reset)) => Some(reset),
        _ => Some(UNTOLD),
    };
    Lesson { pause, budget, units }
}

/// Checks what follows from a response, whatever it says: for tests and for fuzzing.
#[cfg(any(test, fuzzing))]
pub(crate) fn check_lesson(status: StatusCode, limits: &ServerLimits) {
    let lesson = learn(status, limits);
    assert_eq!(lesson.pause.is_some(), is_refusal(status), "who was refused pauses, and nobody else");
    assert!(lesson.units.len() <= limits.limits.len());
    let is_twice =
        |unit: &UnitLesson| lesson.units.iter().filter(|other| other.unit == unit.unit).count() > 1;
    assert!(!lesson.units.iter().any(is_twice), "{:?}", lesson.units);
}

/// Returns true of a limit that is hit before another; of two that are hit together, the one that lasts longer.
fn is_scarcer(new: (u64, Duration), known: (u64, Duration)) -> bool {
    new.0 < known.0 || new.0 == known.0 && new.1 > known.1
}

/// Returns what a limit counts: what its policy says, or else what its name does. Servers that count tokens call their limits
/// so: `tokens`, `input-tokens`, `tokens-minute`.
fn counted<'a>(limit: &'a ServerLimit, limits: &'a ServerLimits) -> Counted<'a> {
    let Some(name) = limit.name.as_deref() else { return Counted::Requests };
    let policy = limits.policies.iter().find(|policy| policy.name.as_deref() == Some(name));
    match policy.map(|policy| &policy.unit) {
        Some(QuotaUnit::ConcurrentRequests) => return Counted::InFlight,
        Some(QuotaUnit::Other(unit)) if unit.starts_with("concurrent") => return Counted::InFlight,
        Some(unit) if *unit != QuotaUnit::Requests => return Counted::Unit(unit.as_str()),
        _ => {}
    }
    let unit =
        name.rsplit_once('-').filter(|(_, last)| WINDOWS.contains(last)).map_or(name, |(unit, _)| unit);
    match unit.split(['-', '_']).any(|word| word == "tokens") {
        true => Counted::Unit(unit),
        false => Counted::Requests,
    }
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
        assert_eq!(of(429, both), Lesson { pause: Some(7 * SECOND), ..Lesson::default() });
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
    fn units_are_told_apart() {
        let unit = |unit: &str, limit, remaining, reset| UnitLesson {
            unit: unit.to_owned(),
            limit,
            remaining,
            reset,
        };
        let ms = Duration::from_millis;
        let openai = "x-ratelimit-limit-requests: 60\nx-ratelimit-remaining-requests: 59\nx-ratelimit-reset-requests: 1s\n\
                      x-ratelimit-limit-tokens: 150000\nx-ratelimit-remaining-tokens: 7\nx-ratelimit-reset-tokens: 6m0s\n";
        let lesson = of(200, openai);
        assert_eq!(lesson.budget, Some((59, SECOND)), "seven tokens are not seven requests");
        assert_eq!(lesson.units, [unit("tokens", Some(150_000), 7, 360 * SECOND)]);
        let seconds = "x-ratelimit-remaining-tokens: 7\nx-ratelimit-reset-tokens: 2.5\n";
        assert_eq!(of(200, seconds).units, [unit("tokens", None, 7, ms(2_500))]);
        let anthropic = "date: Tue, 01 Jul 2025 12:00:00 GMT\nanthropic-ratelimit-input-tokens-limit: 50\n\
                         anthropic-ratelimit-input-tokens-remaining: 0\n\
                         anthropic-ratelimit-input-tokens-reset: 2025-07-01T12:00:30Z\n";
        assert_eq!(of(200, anthropic).units, [unit("input-tokens", Some(50), 0, 30 * SECOND)]);
        let ietf = "ratelimit-policy: \"a\";q=9;w=60, \"b\";q=90;w=60;qu=\"tokens\", \"c\";q=2;qu=\"concurrent-requests\"\n\
                    ratelimit: \"a\";r=8;t=6, \"b\";r=5;t=9, \"c\";r=0;t=1\n";
        let lesson = of(200, ietf);
        assert_eq!(lesson.budget, Some((8, 6 * SECOND)));
        assert_eq!(lesson.units, [unit("tokens", Some(90), 5, 9 * SECOND)]);
        let two = "x-ratelimit-limit-tokens-minute: 50\nx-ratelimit-remaining-tokens-minute: 9\n\
                   x-ratelimit-limit-tokens-day: 500\nx-ratelimit-remaining-tokens-day: 4\n";
        assert_eq!(of(200, two).units, [unit("tokens", Some(500), 4, 86_400 * SECOND)], "the scarcest");
        assert_eq!(
            of(429, "x-ratelimit-remaining-tokens: 5\nx-ratelimit-reset-tokens: 9s\n").pause,
            Some(UNTOLD)
        );
    }

    #[test]
    fn a_cache_teaches_nothing() {
        assert_eq!(of(200, "age: 60\nratelimit: \"a\";r=0;t=90\n"), Lesson::default());
    }
}
