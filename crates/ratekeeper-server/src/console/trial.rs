//! A limit, tried on what was recorded.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ratekeeper::port::{Clock, Request, Store};
use ratekeeper::{Cost, Key, MemoryStore, Plan, Reason, Rules, Timestamp};
use serde::Serialize;

use crate::engine::Engine;
use crate::watch::{RecordedRequests, RecordedWindow, TICK_MILLIS};

/// The most rules of a limit that is tried.
const MOST_RULES: usize = 4;
/// The most bytes that a trial takes for states of keys.
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// Seconds of one step of the answer.
const STEP: u32 = 10;
/// Ticks of one step.
const STEP_TICKS: u32 = STEP * 1_000 / 100;
/// Requests of one entry that are decided one by one if they cost more than one each; of more, as many are allowed as their
/// cost together pays for.
const ONE_BY_ONE: u32 = 256;
/// The longest that a trial takes.
const LONGEST: Duration = Duration::from_secs(5);
/// After so many entries it is looked whether somebody still waits for the answer.
const LOOK_EVERY: usize = 64;

/// What a limit would have denied.
#[derive(Debug, Serialize)]
pub(crate) struct TrialReport {
    limit: String,
    plan: Option<String>,
    requests: u64,
    denied: u64,
    was_denied: u64,
    keys: usize,
    keys_denied: usize,
    from: u64,
    until: u64,
    sampled: SampledKeys,
    step_s: u32,
    asked: Vec<u64>,
    would_deny: Vec<u64>,
    was_deny: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct SampledKeys {
    keys_one_in: u64,
    resolution_ms: u64,
}

/// Why a limit was not tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TrialError {
    /// The text is no limit that can be tried: what is wrong with it.
    Limit(String),
    /// There is no plan of that name.
    UnknownPlan,
    /// Nobody waits for the answer any more.
    GivenUp,
}

impl fmt::Display for TrialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrialError::Limit(problem) => write!(f, "limit: {problem}"),
            TrialError::UnknownPlan => f.write_str("plan: there is no plan of that name"),
            TrialError::GivenUp => f.write_str("nobody waits for the answer any more"),
        }
    }
}

/// A clock that shows the time of the record.
#[derive(Debug, Default)]
struct RecordClock(AtomicU64);

impl RecordClock {
    fn set(&self, millis: u64) {
        self.0.store(millis, Ordering::Relaxed);
    }
}

impl Clock for RecordClock {
    fn now(&self) -> Timestamp {
        let nanos = self.0.load(Ordering::Relaxed).saturating_mul(1_000_000);
        Timestamp::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
    }
}

/// Tries a limit on what was recorded of the last 15 minutes, or on what of it was asked under this plan. Takes as long as
/// tens of thousands of decisions, and where requests cost more than one each, as long as millions of them; but no longer than
/// some seconds, and not after `is_given_up` returns true.
///
/// # Errors
///
/// The limit cannot be tried, there is no such plan, or it was given up.
pub(crate) fn try_limit(
    engine: &Engine,
    limit: &str,
    plan: Option<&str>,
    is_given_up: impl Fn() -> bool,
) -> Result<TrialReport, TrialError> {
    use ratekeeper::port::Plans;
    let tried = parse(limit)?;
    // Rules of a file for Envoy are asked for under a plan that no registry has.
    if plan.is_some_and(|name| engine.registry().find(name).is_none() && name != "rls") {
        return Err(TrialError::UnknownPlan);
    }
    let window = engine.metrics().recorded(plan);
    let mut report = TrialReport::of(limit, plan, &window);
    let clock = Arc::new(RecordClock::default());
    let store = MemoryStore::builder().max_bytes(MOST_BYTES).clock(Arc::clone(&clock)).build();
    let (mut keys, mut denied_keys) = (HashSet::new(), HashSet::new());
    let ends = Instant::now() + LONGEST;
    for (number, entry) in window.entries.iter().enumerate() {
        if number % LOOK_EVERY == 0 {
            if is_given_up() {
                return Err(TrialError::GivenUp);
            }
            if Instant::now() >= ends {
                let problem = format!("`{limit}`; it takes more than {LONGEST:?} to try; use fewer rules");
                return Err(TrialError::Limit(problem));
            }
        }
        clock.set(window.millis(entry.tick));
        let denied = u64::from(denied(&store, &tried, entry)?);
        keys.insert(entry.key);
        if denied > 0 {
            denied_keys.insert(entry.key);
        }
        report.add(entry, window.from, denied);
    }
    (report.keys, report.keys_denied) = (keys.len(), denied_keys.len());
    Ok(report)
}

impl TrialReport {
    fn of(limit: &str, plan: Option<&str>, window: &RecordedWindow) -> Self {
        let steps = (window.until.saturating_sub(window.from) / STEP_TICKS + 1) as usize;
        TrialReport {
            limit: limit.to_owned(),
            plan: plan.map(str::to_owned),
            requests: 0,
            denied: 0,
            was_denied: 0,
            keys: 0,
            keys_denied: 0,
            from: window.millis(window.from),
            until: window.millis(window.until),
            sampled: SampledKeys { keys_one_in: window.one_in, resolution_ms: TICK_MILLIS },
            step_s: STEP,
            asked: vec![0; steps],
            would_deny: vec![0; steps],
            was_deny: vec![0; steps],
        }
    }

    fn add(&mut self, entry: &RecordedRequests, from: u32, denied: u64) {
        let step = (entry.tick.saturating_sub(from) / STEP_TICKS) as usize;
        let (asked, was) = (u64::from(entry.asked), u64::from(entry.denied));
        self.requests += asked;
        self.denied += denied;
        self.was_denied += was;
        for (list, count) in
            [(&mut self.asked, asked), (&mut self.would_deny, denied), (&mut self.was_deny, was)]
        {
            // An entry of the tick that begins at this instant has no step of its own.
            let last = list.len() - 1;
            list[step.min(last)] += count;
        }
    }
}

/// Returns the limit as a plan.
fn parse(limit: &str) -> Result<Plan, TrialError> {
    let plan = Plan::parse("try", limit).map_err(|error| TrialError::Limit(error.to_string()))?;
    let wrong = |problem: &str| Err(TrialError::Limit(format!("`{limit}`; {problem}")));
    if plan.rules().len() > MOST_RULES {
        return wrong("at most 4 rules can be tried together");
    }
    if !plan.is_plain() {
        return wrong("only rates of requests can be tried, such as 10/s burst 20");
    }
    Ok(plan)
}

/// Returns how many of these requests the limit denies. All of them come at one instant, so those after one that is denied
/// are denied, too.
fn denied(store: &MemoryStore, limit: &Plan, entry: &RecordedRequests) -> Result<u32, TrialError> {
    let bytes = entry.key.to_be_bytes();
    let Ok(key) = Key::new(&bytes) else { return Ok(0) };
    let each = (entry.cost / u64::from(entry.asked.max(1))).max(u64::from(entry.cost > 0));
    let ask = |cost| Request::new(key, Rules::Plan(limit), Cost::new(cost));
    let failed = || TrialError::Limit("it takes too much memory to try".to_owned());
    // Of a cost of one, what is granted together is what is granted one by one.
    if each == 1 || entry.asked > ONE_BY_ONE {
        let whole = each.saturating_mul(entry.asked.into());
        let granted = store
            .acquire_up_to(ask(each), Cost::new(whole))
            .now()
            .ok()
            .and_then(Result::ok)
            .filter(|granted| granted.decision.reason != Reason::StoreFull)
            .ok_or_else(failed)?;
        let allowed = granted.granted.get().checked_div(each).unwrap_or(entry.asked.into());
        return Ok(entry.asked - u32::try_from(allowed).unwrap_or(entry.asked).min(entry.asked));
    }
    for allowed in 0..entry.asked {
        let decision = store.acquire(ask(each)).now().ok().and_then(Result::ok).ok_or_else(failed)?;
        if decision.reason == Reason::StoreFull {
            return Err(failed());
        }
        if !decision.allowed {
            return Ok(entry.asked - allowed);
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use ratekeeper::Registry;

    use super::*;
    use crate::request::RequestLimits;

    fn engine() -> Engine {
        let plans = Registry::new([Plan::parse("free", "1000/s").unwrap()]);
        let engine = Engine::in_memory(MemoryStore::default(), plans, RequestLimits::default());
        engine.metrics().record_requests();
        engine
    }

    fn tried(engine: &Engine, limit: &str, plan: Option<&str>) -> Result<TrialReport, TrialError> {
        try_limit(engine, limit, plan, || false)
    }

    fn ask(engine: &Engine, key: &str, times: usize) {
        ask_cost(engine, key, times, 1);
    }

    fn ask_cost(engine: &Engine, key: &str, times: usize, cost: u64) {
        let counters = engine.metrics().transport("http");
        for _ in 0..times {
            let began = std::time::Instant::now();
            let key = Key::new(key).unwrap();
            let ruling = engine.keeper().acquire(key, "free", 1).now().unwrap().unwrap();
            counters.took(key, cost, &ruling, began);
        }
        // What may still grow is not handed in: the tick must be over.
        let recorded =
            || engine.metrics().recorded(None).entries.iter().map(|entry| entry.asked).sum::<u32>();
        while recorded() as usize != times {
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_a_limit_would_have_denied() {
        let engine = engine();
        ask(&engine, "greedy", 50);
        let report = tried(&engine, "5/h", None).unwrap();
        assert_eq!((report.requests, report.denied, report.was_denied), (50, 45, 0));
        assert_eq!((report.keys, report.keys_denied, report.sampled.keys_one_in), (1, 1, 1));
        assert_eq!(report.asked.iter().sum::<u64>(), 50);
        assert_eq!(report.would_deny.iter().sum::<u64>(), 45);
        let many = tried(&engine, "1000/h; 20/day fixed", Some("free")).unwrap();
        assert_eq!(many.denied, 30);
        let wide = tried(&engine, "1000000/s", None).unwrap();
        assert_eq!((wide.denied, wide.keys_denied), (0, 0));
    }

    #[test]
    fn many_requests_of_one_tick_are_decided_together() {
        let engine = engine();
        ask(&engine, "hot", 1_000);
        let report = tried(&engine, "1/h burst 700", None).unwrap();
        assert_eq!((report.requests, report.denied), (1_000, 300));
    }

    #[test]
    fn requests_of_a_cost_are_decided_one_by_one() {
        let engine = engine();
        ask_cost(&engine, "dear", 10, 4);
        let report = tried(&engine, "10/h", None).unwrap();
        assert_eq!(
            (report.requests, report.denied),
            (10, 8),
            "two of four fit into ten, and the rest is no third"
        );
    }

    #[test]
    fn what_takes_too_much_memory_is_told_and_not_counted_as_denied() {
        let engine = engine();
        ask(&engine, "hot", 1_000);
        let window = engine.metrics().recorded(None);
        let store = MemoryStore::builder().max_keys(2).build();
        let limit = Plan::parse("try", "500/h").unwrap();
        for key in 0..100 {
            let (key, cost) = (format!("other-{key}"), Cost::new(1));
            let request = Request::new(Key::new(&key).unwrap(), Rules::Plan(&limit), cost);
            store.acquire(request).now().unwrap().unwrap();
        }
        for entry in &window.entries {
            let said = denied(&store, &limit, entry).unwrap_err().to_string();
            assert_eq!(said, "limit: it takes too much memory to try");
        }
    }

    #[test]
    fn nobody_tries_on_for_one_who_is_gone() {
        let engine = engine();
        ask(&engine, "k", 1);
        let tried = try_limit(&engine, "1/s", None, || true);
        assert_eq!(tried.unwrap_err(), TrialError::GivenUp);
    }

    #[test]
    fn what_cannot_be_tried_is_told() {
        let engine = engine();
        for (limit, says) in [
            ("", "limit: "),
            ("10/fortnight", "limit: period: `fortnight`"),
            ("2 concurrent", "only rates of requests"),
            ("100 tokens/m", "only rates of requests"),
            ("1/s;2/m;3/h;4/day;5 per 2d", "at most 4 rules"),
        ] {
            let said = tried(&engine, limit, None).unwrap_err().to_string();
            assert!(said.contains(says), "{said} instead of {says}");
        }
        assert_eq!(tried(&engine, "1/s", Some("gone")).unwrap_err(), TrialError::UnknownPlan);
        let nothing = tried(&engine, "1/s", Some("free")).unwrap();
        assert_eq!((nothing.requests, nothing.keys), (0, 0));
    }
}
