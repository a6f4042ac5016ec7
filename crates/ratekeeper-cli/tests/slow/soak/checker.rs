//! The invariants. A checker is told what was seen from outside in a second, and says what cannot be.
//!
//! It starts nothing and asks nobody, so that its own tests can show it every breach.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::soak::judged::{
    ADMITTED, DESCRIPTORS, DIED, ERROR, GROWTH, HELD_AT_ONCE, HELD_BACK, JudgedCounts, LONGEST, MEMORY,
    METRICS, P99, PANICKED, PROMISE, SILENCE, SNAPSHOT_AGE, STATS, THREADS,
};
use crate::soak::law::{Law, worst_span};
use crate::soak::seen::{HeldSpan, Outcome, Reading, Seen};
use crate::soak::timeline::{Nanos, SECOND};

/// How long admissions are looked at again: in every span up to this length.
pub(crate) const HORIZON: Nanos = 30 * SECOND;

/// How long a good client may get no decision after everything is well: three seconds by
/// docs/guide/distributed.md, and as much again for two busy cores.
pub(crate) const MOST_SILENCE: Nanos = 7 * SECOND;

/// The longest that a reply may take while nothing is wrong, and what all but one of a hundred take at most.
const MOST_LATENCY: Duration = Duration::from_secs(2);
const MOST_P99: Duration = Duration::from_millis(250);
/// So many replies make a hundredth of them mean something.
const LEAST_REPLIES: u64 = 1_000;

/// Memory that is no file's, of one server.
const MOST_MEMORY: u64 = 160 << 20;
/// Memory is compared over times of this length, by the least in each: what is taken for a while is given back in it. In the
/// first of a process it warms up.
const GROWTH_SPAN: Nanos = 30 * SECOND;
/// How much it may have grown since, at once and in every minute: a leak passes the first, and then the second. What deaf
/// clients took is given back to the system late: troughs were seen to differ by 11 MiB, up and down.
const MOST_GROWTH: u64 = 16 << 20;
const MOST_GROWTH_A_MINUTE: u64 = 1 << 20;

/// Descriptors beside those of clients: files, listeners, connections of two loops to up to nine servers of Redis.
const OWN_DESCRIPTORS: u64 = 96;
/// Threads of one server, with two loops.
const MOST_THREADS: u64 = 32;

/// Over how long it is looked at whether a limit gives what it has to give.
const FLOW_SPAN: Nanos = 3 * SECOND;
/// How long after a refusal that is: what was admitted at the same time has been answered by then.
const FLOW_LATER: Nanos = SECOND;

/// For how long before the server may not have been disturbed if `/v1/stats` is to be as new as it says.
const STATS_CALM: Nanos = 5 * SECOND;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Violation {
    pub(crate) invariant: &'static str,
    pub(crate) figures: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.figures)
    }
}

/// How far a bound was used, at worst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) value: f64,
    pub(crate) bound: f64,
}

/// Looks at one turn.
#[derive(Debug)]
pub(crate) struct Checker {
    laws: Vec<Law>,
    instances: usize,
    /// How many places of the plan that is held there are.
    places: usize,
    /// Whether there are bounds by the clock on the wall: of replies, of silence, of the age of a file.
    is_timed: bool,
    latency: Histogram<u64>,
    /// Of each process, by its instance.
    troughs: BTreeMap<usize, Troughs>,
    violations: Vec<Violation>,
    /// The worst use of each bound.
    pub(crate) usages: BTreeMap<String, Usage>,
    /// How often each invariant was judged.
    pub(crate) judged: JudgedCounts,
}

/// The least memory of a process in each span of its life; the largest number where nobody looked.
#[derive(Debug, Default)]
struct Troughs {
    age: Nanos,
    spans: Vec<u64>,
}

impl Troughs {
    /// Adds a reading. If a span is over by it: what the process had when it had warmed up, what it has now, and the most
    /// that it may have.
    fn add(&mut self, age: Nanos, memory: u64) -> Option<(u64, u64, u64)> {
        if age < self.age {
            *self = Troughs::default();
        }
        self.age = age;
        let span = usize::try_from(age / GROWTH_SPAN).unwrap();
        let is_new = span >= self.spans.len();
        let over = if is_new { self.compare() } else { None };
        if is_new {
            self.spans.resize(span + 1, u64::MAX);
        }
        self.spans[span] = self.spans[span].min(memory);
        over
    }

    /// The last span with the first after the warming up.
    fn compare(&self) -> Option<(u64, u64, u64)> {
        let (first, last) = (*self.spans.get(1)?, *self.spans.last()?);
        let spans = u64::try_from(self.spans.len() - 2).unwrap();
        if spans == 0 || first == u64::MAX || last == u64::MAX {
            return None;
        }
        let most = MOST_GROWTH + MOST_GROWTH_A_MINUTE * spans * (GROWTH_SPAN / SECOND) / 60;
        Some((first, last, most))
    }
}

impl Checker {
    pub(crate) fn new(laws: Vec<Law>, instances: usize, places: usize, is_timed: bool) -> Self {
        Checker {
            laws,
            instances,
            places,
            is_timed,
            latency: Histogram::new_with_bounds(1, 60_000_000, 3).unwrap(),
            troughs: BTreeMap::new(),
            violations: Vec::new(),
            usages: BTreeMap::new(),
            judged: JudgedCounts::default(),
        }
    }

    /// Looks at one more second. Returns what cannot be.
    pub(crate) fn second(&mut self, seen: &Seen<'_>) -> Vec<Violation> {
        self.limits(seen);
        self.flows(seen);
        self.places(seen);
        self.clients(seen);
        for reading in seen.readings {
            self.process(reading);
            self.sums(seen, reading);
        }
        std::mem::take(&mut self.violations)
    }

    /// Notes how far a bound was used; beyond it, the invariant does not hold.
    fn hold(
        &mut self,
        invariant: &'static str,
        what: &str,
        value: f64,
        bound: f64,
        figures: impl FnOnce() -> String,
    ) {
        let name = if what.is_empty() { invariant.to_owned() } else { format!("{invariant} ({what})") };
        let usage = self.usages.entry(name).or_insert(Usage { value, bound });
        if value / bound > usage.value / usage.bound {
            *usage = Usage { value, bound };
        }
        if value > bound {
            self.violations.push(Violation { invariant, figures: figures() });
        }
    }

    /// The same of a bound by the clock on the wall, where there are such.
    fn hold_time(
        &mut self,
        invariant: &'static str,
        value: f64,
        bound: f64,
        figures: impl FnOnce() -> String,
    ) {
        self.judged.add(invariant, self.is_timed);
        if self.is_timed {
            self.hold(invariant, "", value, bound, figures);
        }
    }

    /// Of no key more is admitted in any span than its law and what happened allow.
    fn limits(&mut self, seen: &Seen<'_>) {
        for (law, admitted) in self.laws.clone().iter().zip(seen.admitted) {
            let since = seen.now.saturating_sub(SECOND + SECOND / 2);
            let Some(worst) = worst_span(law, admitted, since, seen.timeline, self.instances) else {
                continue;
            };
            self.judged.add(ADMITTED, true);
            if worst.most > worst.calm {
                self.judged.add(ADMITTED, false);
            }
            self.hold(ADMITTED, law.name, worst.admitted as f64, worst.most as f64, || {
                format!(
                    "`{}`: {} admitted from {:.3} s to {:.3} s, at most {} may be",
                    law.name,
                    worst.admitted,
                    worst.begin as f64 / SECOND as f64,
                    worst.end as f64 / SECOND as f64,
                    worst.most
                )
            });
        }
    }

    /// Whoever is refused is so because others got what there was: nobody is locked out. However few ask, and however busy
    /// the machine is: what was not taken is still there.
    fn flows(&mut self, seen: &Seen<'_>) {
        let until = seen.now.saturating_sub(FLOW_LATER);
        let since = until.saturating_sub(SECOND);
        for (law, (refused, admitted)) in self.laws.clone().iter().zip(seen.refused.iter().zip(seen.admitted))
        {
            let Some(flow) = law.flow() else { continue };
            let new: Vec<(Nanos, Nanos)> =
                refused.iter().filter(|(_, answered)| (since..until).contains(answered)).copied().collect();
            if new.is_empty() {
                continue;
            }
            let is_held_up = |(sent, answered): &(Nanos, Nanos)| {
                let begin = sent.checked_sub(FLOW_SPAN);
                begin.is_none_or(|begin| seen.timeline.is_held_up(begin, *answered, self.instances == 1))
            };
            let last = new.into_iter().filter(|call| !is_held_up(call)).max();
            self.judged.add(HELD_BACK, last.is_some());
            let Some((sent, answered)) = last else { continue };
            let begin = sent - FLOW_SPAN;
            let due = flow * FLOW_SPAN / SECOND;
            let got = admitted.iter().filter(|one| one.after >= begin && one.before <= answered);
            let got: u64 = got.map(|one| one.cost).sum();
            // As a bound from above: half of what was due, for the limit may have changed, and what was got at its ends is
            // not known to the moment.
            self.hold(HELD_BACK, law.name, due as f64 / 2.0, (got as f64).max(0.1), || {
                format!(
                    "`{}`: refused at {:.3} s, and only {got} were admitted in the {} s before, {due} were due",
                    law.name,
                    sent as f64 / SECOND as f64,
                    FLOW_SPAN / SECOND
                )
            });
        }
    }

    /// No more is held at once than there are places.
    fn places(&mut self, seen: &Seen<'_>) {
        let forgotten = |span: &HeldSpan| seen.timeline.effects(span.from, span.to).next().is_some();
        let held: Vec<HeldSpan> = seen.holds.iter().filter(|span| !forgotten(span)).copied().collect();
        // The most is reached when one begins.
        let at =
            |instant: Nanos| held.iter().filter(|span| span.from <= instant && instant < span.to).count();
        let most = held.iter().map(|span| at(span.from)).max().unwrap_or(0);
        let places = self.places;
        if !seen.holds.is_empty() {
            self.judged.add(HELD_AT_ONCE, !held.is_empty());
        }
        self.hold(HELD_AT_ONCE, "", most as f64, places as f64, || {
            format!("{most} held at once, {places} places")
        });
    }

    /// Good clients get decisions, and soon.
    fn clients(&mut self, seen: &Seen<'_>) {
        for sample in seen.samples {
            let is_disturbed = seen.timeline.is_disturbed(sample.instance, sample.sent, sample.answered);
            self.judged.add(ERROR, !is_disturbed);
            if is_disturbed {
                continue;
            }
            let at = sample.sent as f64 / SECOND as f64;
            let (instance, client) = (sample.instance, sample.client);
            match &sample.outcome {
                Outcome::Decided => {
                    let took = Duration::from_nanos(sample.answered - sample.sent);
                    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                    self.latency.saturating_record(micros.max(1));
                    self.hold_time(LONGEST, took.as_secs_f64(), MOST_LATENCY.as_secs_f64(), || {
                        format!("client {client} of instance {instance} waited {took:?} at {at:.2} s")
                    });
                }
                Outcome::Failed(why) | Outcome::Lost(why) => self.violations.push(Violation {
                    invariant: ERROR,
                    figures: format!("client {client} of instance {instance} at {at:.2} s: {why}"),
                }),
                Outcome::Broken(why) => self.violations.push(Violation {
                    invariant: PROMISE,
                    figures: format!("client {client} of instance {instance} at {at:.2} s: {why}"),
                }),
            }
        }
        if self.latency.len() >= LEAST_REPLIES {
            let p99 = Duration::from_micros(self.latency.value_at_quantile(0.99));
            self.hold_time(P99, p99.as_secs_f64(), MOST_P99.as_secs_f64(), || {
                format!("{p99:?} is the 99th percentile")
            });
        }
        for (client, (instance, decided)) in seen.last_decided.iter().enumerate() {
            let since = seen.timeline.last_disturbance(*instance, seen.now).max(*decided);
            let silence = seen.now.saturating_sub(since);
            let (took, most) = (silence as f64 / SECOND as f64, MOST_SILENCE as f64 / SECOND as f64);
            self.hold_time(SILENCE, took, most, || {
                format!(
                    "client {client} of instance {instance} has got no decision for {} ms",
                    silence / 1_000_000
                )
            });
        }
    }

    /// A process lives until it is killed, says nothing of a panic, and takes no more and more.
    fn process(&mut self, reading: &Reading) {
        let instance = reading.instance;
        for (is_so, invariant) in [(reading.has_died, DIED), (reading.has_panicked, PANICKED)] {
            self.judged.add(invariant, true);
            if is_so {
                let figures = format!("instance {instance}: see its log");
                self.violations.push(Violation { invariant, figures });
            }
        }
        if let Some((age, most)) = reading.snapshot_age {
            self.hold_time(SNAPSHOT_AGE, age as f64 / 1e9, most as f64 / 1e9, || {
                format!("{} ms old, at most {} ms were promised", age / 1_000_000, most / 1_000_000)
            });
        }
        if reading.memory == 0 {
            return;
        }
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        self.judged.add(MEMORY, true);
        self.hold(MEMORY, "", mib(reading.memory), mib(MOST_MEMORY), || {
            format!("instance {instance} has {:.1} MiB", mib(reading.memory))
        });
        let troughs = self.troughs.entry(instance).or_default();
        if let Some((had, has, most)) = troughs.add(reading.age, reading.memory) {
            self.judged.add(GROWTH, true);
            self.hold(GROWTH, "", mib(has.saturating_sub(had)), mib(most), || {
                let age = reading.age / SECOND;
                format!(
                    "instance {instance} had {:.1} MiB, and has {:.1} MiB after {age} s",
                    mib(had),
                    mib(has)
                )
            });
        }
        let most = OWN_DESCRIPTORS + reading.clients;
        self.judged.add(DESCRIPTORS, true);
        self.hold(DESCRIPTORS, "", reading.descriptors as f64, most as f64, || {
            format!("instance {instance} has {} open, with {} clients", reading.descriptors, reading.clients)
        });
        self.judged.add(THREADS, true);
        self.hold(THREADS, "", reading.threads as f64, MOST_THREADS as f64, || {
            format!("instance {instance} has {}", reading.threads)
        });
    }

    /// What the server has counted is what clients have: every answer, and no more than they asked for. The console tells
    /// of the same counters, some moments before.
    fn sums(&mut self, seen: &Seen<'_>, reading: &Reading) {
        let Some(sums) = reading.sums else { return };
        let [allowed, denied, errors] = sums.metrics;
        let total = allowed + denied + errors;
        let is_right =
            sums.answered <= total && total <= sums.asked && sums.allowed <= allowed && sums.denied <= denied;
        let is_above = sums.stats.iter().zip(sums.metrics).any(|(stats, metrics)| *stats > metrics);
        let is_below = sums.stats.iter().zip(sums.stats_at_least).any(|(stats, least)| *stats < least);
        // One that was frozen shows an old page before it has read its counters again.
        let since = seen.now.saturating_sub(STATS_CALM);
        let is_old = seen.timeline.is_disturbed(reading.instance, since, seen.now);
        let is_compared = sums.is_final || (sums.stats_at_least != [0; 3] && !is_old);
        self.judged.add(METRICS, true);
        self.judged.add(STATS, is_compared);
        let is_stale = is_compared && is_below || sums.is_final && sums.stats != sums.metrics;
        for (is_wrong, invariant) in [(!is_right, METRICS), (is_above || is_stale, STATS)] {
            if is_wrong {
                let figures = format!("instance {}: {sums:?}", reading.instance);
                self.violations.push(Violation { invariant, figures });
            }
        }
    }

    /// The 99th percentile of good replies.
    pub(crate) fn p99(&self) -> Duration {
        Duration::from_micros(self.latency.value_at_quantile(0.99))
    }

    /// The longest of them.
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_micros(self.latency.max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::judged::FLOORS;
    use crate::soak::schedule::Fault;
    use crate::soak::seen::{Sample, Sums};
    use crate::soak::timeline::{Effect, Timeline};
    use test_support::bound::Admission;

    const MS: Nanos = 1_000_000;

    /// A second in which all is well, to be spoilt.
    #[derive(Clone)]
    struct Good {
        now: Nanos,
        timeline: Timeline,
        admitted: Vec<Vec<Admission>>,
        refused: Vec<Vec<(Nanos, Nanos)>>,
        holds: Vec<HeldSpan>,
        samples: Vec<Sample>,
        last_decided: Vec<(usize, Nanos)>,
        readings: Vec<Reading>,
    }

    fn sample(sent: Nanos, answered: Nanos, outcome: Outcome) -> Sample {
        Sample { instance: 0, client: 0, sent, answered, outcome }
    }

    fn call(at: Nanos) -> Admission {
        Admission { before: at, after: at + MS, cost: 1, refunded: None }
    }

    impl Good {
        fn new() -> Self {
            let sums = Sums {
                answered: 100,
                allowed: 60,
                denied: 40,
                asked: 110,
                metrics: [62, 41, 2],
                stats: [61, 40, 2],
                stats_at_least: [58, 40, 2],
                is_final: false,
            };
            let reading = Reading {
                age: 30 * SECOND,
                memory: 30 << 20,
                descriptors: 40,
                threads: 9,
                clients: 6,
                sums: Some(sums),
                ..Reading::default()
            };
            let now = 20 * SECOND;
            Good {
                now,
                timeline: Timeline::default(),
                admitted: vec![(0..46).map(|n| call(now - 4_500 * MS + n * 96 * MS)).collect()],
                refused: vec![vec![(now - 1_510 * MS, now - 1_500 * MS)]],
                holds: vec![HeldSpan { from: 0, to: SECOND }, HeldSpan { from: SECOND, to: 2 * SECOND }],
                samples: vec![sample(now - 10 * MS, now - 8 * MS, Outcome::Decided)],
                last_decided: vec![(0, now - 100 * MS)],
                readings: vec![reading],
            }
        }

        fn check(&self) -> Vec<&'static str> {
            self.check_by(&mut checker())
        }

        fn check_by(&self, checker: &mut Checker) -> Vec<&'static str> {
            let seen = Seen {
                now: self.now,
                timeline: &self.timeline,
                admitted: &self.admitted,
                refused: &self.refused,
                holds: &self.holds,
                samples: &self.samples,
                last_decided: &self.last_decided,
                readings: &self.readings,
            };
            checker.second(&seen).iter().map(|violation| violation.invariant).collect()
        }

        fn with(&self, fault: Fault, from: Nanos, to: Option<Nanos>, effect: Effect) -> Good {
            let mut good = self.clone();
            good.timeline.begin(fault, Some(0), from, effect);
            good.timeline.happened.last_mut().unwrap().ended = to;
            good
        }
    }

    fn checker() -> Checker {
        Checker::new(vec![Law::new("gcra", &["10/s burst 3"])], 1, 2, true)
    }

    #[test]
    fn a_good_second_is_good_and_everything_is_judged() {
        let mut checker = checker();
        assert_eq!(Good::new().check_by(&mut checker), [""; 0]);
        for (invariant, _) in FLOORS.into_iter().filter(|(invariant, _)| *invariant != PROMISE) {
            assert_eq!(checker.judged.of(invariant).judged, 1, "{invariant}");
        }
    }

    #[test]
    fn an_excuse_is_counted() {
        let mut checker = checker();
        let good = Good::new();
        let frozen = good.with(Fault::NodeFrozen, good.now - 5 * SECOND, None, Effect::LosesWrites);
        assert_eq!(frozen.check_by(&mut checker), [""; 0]);
        for invariant in [HELD_BACK, ERROR, STATS] {
            let count = checker.judged.of(invariant);
            assert_eq!((count.judged, count.excused), (0, 1), "{invariant}");
        }
        assert_eq!(checker.judged.of(ADMITTED).excused, 1, "its bound was raised");
    }

    #[test]
    fn too_much_is_admitted() {
        let mut bad = Good::new();
        bad.admitted[0].extend([call(bad.now - 50 * MS), call(bad.now - 50 * MS), call(bad.now - 50 * MS)]);
        assert_eq!(bad.check(), ["admitted in a span"]);
        let flushed = bad.now - 60 * MS;
        assert_eq!(bad.with(Fault::DataFlushed, flushed, Some(flushed), Effect::Forgets).check(), [""; 0]);
    }

    #[test]
    fn a_key_is_locked_out() {
        let mut bad = Good::new();
        bad.admitted[0].truncate(4);
        assert_eq!(bad.check(), ["held back"]);
        let then = bad.now - 8 * SECOND;
        let held_up = bad.with(Fault::NodeFrozen, then, Some(then), Effect::Nothing);
        assert_eq!(held_up.check(), [""; 0], "it may catch up");
        let flushed = bad.with(Fault::ScriptsFlushed, then, Some(then), Effect::Nothing);
        assert_eq!(flushed.check(), ["held back"], "that is no excuse");
        bad.refused[0].clear();
        assert_eq!(bad.check(), [""; 0], "nobody was refused");
    }

    #[test]
    fn more_is_held_than_there_are_places() {
        let mut bad = Good::new();
        bad.holds = (0..3).map(|n| HeldSpan { from: n * MS, to: 2 * SECOND }).collect();
        assert_eq!(bad.check(), ["held at once"]);
        assert_eq!(bad.with(Fault::DataFlushed, 2 * MS, Some(3 * MS), Effect::Forgets).check(), [""; 0]);
    }

    #[test]
    fn a_good_client_gets_an_error() {
        for outcome in [Outcome::Failed("fail_closed".to_owned()), Outcome::Lost("reset".to_owned())] {
            let mut bad = Good::new();
            bad.samples.push(sample(bad.now - 9 * MS, bad.now - 8 * MS, outcome));
            assert_eq!(bad.check(), ["an error while nothing is wrong"]);
            let then = bad.now - 3 * SECOND;
            assert_eq!(bad.with(Fault::NodeKilled, then, Some(then), Effect::Nothing).check(), [""; 0]);
            let deaf = bad.with(Fault::DeafClients, then, None, Effect::Nothing);
            assert_eq!(deaf.check(), ["an error while nothing is wrong"], "other clients are no excuse");
            let other = bad.with(Fault::InstanceKilled, then, None, Effect::Nothing);
            assert_eq!(other.check(), [""; 0]);
            let mut elsewhere = other;
            elsewhere.timeline.happened[0].instance = Some(1);
            assert_eq!(elsewhere.check(), ["an error while nothing is wrong"], "nor is another instance");
        }
    }

    #[test]
    fn a_promise_is_broken() {
        let mut bad = Good::new();
        bad.samples.push(sample(bad.now - 9 * MS, bad.now - 8 * MS, Outcome::Broken("denied".to_owned())));
        assert_eq!(bad.check(), ["a promise that was not kept"]);
    }

    #[test]
    fn a_reply_takes_too_long() {
        let mut bad = Good::new();
        bad.samples.push(sample(bad.now - 2 * SECOND - 9 * MS, bad.now - 8 * MS, Outcome::Decided));
        assert_eq!(bad.check(), ["longest reply, s"]);
        let frozen = bad.with(Fault::InstanceFrozen, bad.now - SECOND, None, Effect::Nothing);
        assert_eq!(frozen.check(), [""; 0]);
        bad.timeline.stalls.push((bad.now - 2 * SECOND, bad.now - SECOND));
        assert_eq!(bad.check(), [""; 0], "the machine stood still");
    }

    #[test]
    fn too_many_replies_are_slow() {
        let mut bad = Good::new();
        let slow = sample(bad.now - 300 * MS, bad.now - 8 * MS, Outcome::Decided);
        bad.samples = vec![bad.samples[0].clone(); 1_200];
        bad.samples.extend(vec![slow.clone(); 6]);
        assert_eq!(bad.check(), [""; 0]);
        bad.samples.extend(vec![slow; 20]);
        assert_eq!(bad.check(), ["99 of 100 replies, s"]);
    }

    #[test]
    fn a_client_does_not_come_back() {
        let mut bad = Good::new();
        bad.last_decided[0].1 = bad.now - MOST_SILENCE - MS;
        assert_eq!(bad.check(), ["silence, s"]);
        let frozen = bad.with(Fault::InstanceFrozen, SECOND, Some(bad.now - SECOND), Effect::Nothing);
        assert_eq!(frozen.check(), [""; 0], "it has a while");
    }

    #[test]
    fn a_process_dies_or_panics() {
        let mut bad = Good::new();
        bad.readings[0].has_died = true;
        assert_eq!(bad.check(), ["a process ended by itself"]);
        let mut bad = Good::new();
        bad.readings[0].has_panicked = true;
        assert_eq!(bad.check(), ["a panic"]);
    }

    #[test]
    fn a_process_takes_too_much() {
        let spoil = |spoil: fn(&mut Reading)| {
            let mut bad = Good::new();
            spoil(&mut bad.readings[0]);
            bad.check()
        };
        assert_eq!(spoil(|reading| reading.memory = MOST_MEMORY + 1), ["memory, MiB"]);
        assert_eq!(spoil(|reading| reading.descriptors = OWN_DESCRIPTORS + 7), ["descriptors"]);
        assert_eq!(spoil(|reading| reading.threads = MOST_THREADS + 1), ["threads"]);
        assert_eq!(
            spoil(|reading| reading.snapshot_age = Some((3 * SECOND, 2 * SECOND))),
            ["age of the snapshot at a kill, s"]
        );
    }

    /// What is found if a process has so many MiB in every second of its life.
    fn grown(mib: impl Fn(u64) -> u64) -> Vec<&'static str> {
        let mut checker = checker();
        let mut good = Good::new();
        for age in 1..400 {
            (good.readings[0].age, good.readings[0].memory) = (age * SECOND, mib(age) << 20);
            let found = good.check_by(&mut checker);
            if !found.is_empty() {
                return found;
            }
        }
        assert!(checker.judged.of(GROWTH).judged > 8);
        Vec::new()
    }

    #[test]
    fn a_process_grows_and_grows() {
        assert_eq!(grown(|age| 20 + age.min(30)), [""; 0], "it warms up");
        assert_eq!(grown(|age| 30 + 2 * age / 60), [""; 0]);
        assert_eq!(grown(|age| 30 + 10 * age / 60), ["growth of memory, MiB"]);
        assert_eq!(grown(|age| if age % 30 < 5 { 30 } else { 90 }), [""; 0], "it is given back");
        assert_eq!(grown(|age| if age < 100 { 30 } else { 50 }), ["growth of memory, MiB"]);
        let mut troughs = Troughs::default();
        for (second, memory) in (1..100).map(|age| (age, 30)).chain((1..200).map(|age| (age, 90))) {
            let compared = troughs.add(second * SECOND, memory);
            assert!(compared.is_none_or(|(had, has, _)| had == has), "another process");
        }
    }

    #[test]
    fn sums_do_not_agree() {
        let spoil = |spoil: fn(&mut Sums)| {
            let mut bad = Good::new();
            spoil(bad.readings[0].sums.as_mut().unwrap());
            bad.check()
        };
        let clients = ["sums of clients and of /metrics"];
        assert_eq!(spoil(|sums| sums.metrics = [62, 41, 8]), clients, "more than was asked for");
        assert_eq!(spoil(|sums| sums.answered = 106), clients, "an answer was not counted");
        assert_eq!(spoil(|sums| sums.allowed = 63), clients);
        assert_eq!(spoil(|sums| sums.denied = 42), clients);
        let pages = ["sums of /v1/stats and of /metrics"];
        assert_eq!(spoil(|sums| sums.stats = [61, 40, 3]), pages);
        assert_eq!(spoil(|sums| sums.stats = [57, 40, 2]), pages, "it is older than it may be");
        assert_eq!(spoil(|sums| sums.is_final = true), pages, "it never gets there");
        let agree = |sums: &mut Sums| (sums.is_final, sums.stats) = (true, sums.metrics);
        assert_eq!(spoil(agree), [""; 0]);
    }

    #[test]
    fn without_the_clock_on_the_wall_only_time_is_not_judged() {
        let check = |good: &Good| {
            let laws = vec![Law::new("gcra", &["10/s burst 3"])];
            good.check_by(&mut Checker::new(laws, 1, 2, false))
        };
        let mut slow = Good::new();
        slow.samples.push(sample(slow.now - 9 * SECOND, slow.now - 8 * MS, Outcome::Decided));
        slow.last_decided[0].1 = SECOND;
        slow.readings[0].snapshot_age = Some((9 * SECOND, 2 * SECOND));
        assert_eq!(check(&slow), [""; 0]);
        slow.samples.push(sample(slow.now - 9 * MS, slow.now - 8 * MS, Outcome::Lost("reset".to_owned())));
        slow.readings[0].has_died = true;
        assert_eq!(check(&slow), ["an error while nothing is wrong", "a process ended by itself"]);
    }
}
