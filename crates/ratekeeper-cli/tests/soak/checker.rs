//! The invariants. A checker is told what was seen from outside in a second, and says what cannot be.
//!
//! It starts nothing and asks nobody, so that its own tests can show it every breach.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::bound::Admission;
use crate::law::{Law, worst_span};
use crate::timeline::{Nanos, SECOND, Timeline};

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
/// When a server has warmed up, and how much it may have grown since.
const WARM: (Nanos, Nanos) = (10 * SECOND, 25 * SECOND);
const MOST_GROWTH: u64 = 24 << 20;

/// Descriptors beside those of clients: files, listeners, connections of two loops to up to nine servers of Redis.
const OWN_DESCRIPTORS: u64 = 96;
/// Threads of one server, with two loops.
const MOST_THREADS: u64 = 32;

/// Over how long it is looked at whether a limit gives what it has to give.
const FLOW_SPAN: Nanos = 3 * SECOND;
/// How long before that nothing may have happened: whoever stepped back has caught up by then.
const FLOW_CALM: Nanos = 8 * SECOND;

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The store decided it.
    Decided,
    /// The failure mode did, or the server answered with an error.
    Failed(String),
    /// There was no answer: the connection was lost, or none could be made, or it took too long.
    Lost(String),
    /// It was refused, though it came when it had been told to.
    Broken(String),
}

/// One request of a good client.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) instance: usize,
    pub(crate) client: usize,
    pub(crate) sent: Nanos,
    pub(crate) answered: Nanos,
    pub(crate) outcome: Outcome,
}

/// A hold, as its client knows it: live for certain from the answer to when it was ended, or its lease was over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldSpan {
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
}

/// What clients and the server have counted since the server was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Answers that clients had before the server was asked.
    pub(crate) answered: u64,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// Requests that clients had sent after it had answered.
    pub(crate) asked: u64,
    /// What `/metrics` says: allowed, denied, errors.
    pub(crate) metrics: [u64; 3],
    /// What `/v1/stats` said before and after that: it is as old as a second.
    pub(crate) stats: [u64; 3],
}

/// What was seen of one server from outside.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) instance: usize,
    /// How old the process is.
    pub(crate) age: Nanos,
    pub(crate) memory: u64,
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
    /// Connections of clients, good and bad.
    pub(crate) clients: u64,
    /// Whether it ended without being killed.
    pub(crate) has_died: bool,
    /// Whether it said that something panicked.
    pub(crate) has_panicked: bool,
    pub(crate) sums: Option<Sums>,
    /// How old the file of state was when the server was killed, and how old it may have been.
    pub(crate) snapshot_age: Option<(Nanos, Nanos)>,
}

/// What was seen until now; what was new in this second is apart.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) now: Nanos,
    pub(crate) timeline: &'a Timeline,
    /// Of every law, what was admitted within the horizon, and when it was asked for.
    pub(crate) admitted: &'a [Vec<Admission>],
    pub(crate) asked: &'a [Vec<Nanos>],
    pub(crate) holds: &'a [HeldSpan],
    /// New requests.
    pub(crate) samples: &'a [Sample],
    /// When each client had its last decision; none of clients whose server is not there.
    pub(crate) last_decided: &'a [(usize, Nanos)],
    pub(crate) readings: &'a [Reading],
}

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
    latency: Histogram<u64>,
    /// The most memory of each process while it warmed up.
    warm: BTreeMap<usize, u64>,
    violations: Vec<Violation>,
    /// The worst use of each bound.
    pub(crate) usages: BTreeMap<String, Usage>,
}

impl Checker {
    pub(crate) fn new(laws: Vec<Law>, instances: usize, places: usize) -> Self {
        Checker {
            laws,
            instances,
            places,
            latency: Histogram::new_with_bounds(1, 60_000_000, 3).unwrap(),
            warm: BTreeMap::new(),
            violations: Vec::new(),
            usages: BTreeMap::new(),
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
            self.sums(reading);
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

    /// Of no key more is admitted in any span than its law and what happened allow.
    fn limits(&mut self, seen: &Seen<'_>) {
        for (law, admitted) in self.laws.clone().iter().zip(seen.admitted) {
            let since = seen.now.saturating_sub(SECOND + SECOND / 2);
            let Some(worst) = worst_span(law, admitted, since, seen.timeline, self.instances) else {
                continue;
            };
            self.hold("admitted in a span", law.name, worst.admitted as f64, worst.most as f64, || {
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

    /// A limit that is asked for more than it has gives what it has: nobody is locked out.
    fn flows(&mut self, seen: &Seen<'_>) {
        let begin = seen.now.saturating_sub(FLOW_SPAN);
        if begin < FLOW_CALM || seen.timeline.is_held_up(begin - FLOW_CALM, seen.now) {
            return;
        }
        for (index, law) in self.laws.clone().iter().enumerate() {
            let Some(flow) = law.flow() else { continue };
            let due = flow * FLOW_SPAN / SECOND;
            let asked = seen.asked[index].iter().filter(|at| **at >= begin).count() as u64;
            let admitted: u64 =
                seen.admitted[index].iter().filter(|one| one.before >= begin).map(|one| one.cost).sum();
            if asked < 3 * due {
                continue;
            }
            // As a bound from above: how often more than half of what was due was held back.
            self.hold("held back", law.name, due as f64 / 2.0, (admitted as f64).max(0.1), || {
                format!(
                    "`{}`: {admitted} admitted of {asked} in {} s, {due} were due",
                    law.name,
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
        self.hold("held at once", "", most as f64, places as f64, || {
            format!("{most} held at once, {places} places")
        });
    }

    /// Good clients get decisions, and soon.
    fn clients(&mut self, seen: &Seen<'_>) {
        for sample in seen.samples {
            if seen.timeline.is_disturbed(sample.instance, sample.sent, sample.answered) {
                continue;
            }
            let at = sample.sent as f64 / SECOND as f64;
            let (instance, client) = (sample.instance, sample.client);
            match &sample.outcome {
                Outcome::Decided => {
                    let took = Duration::from_nanos(sample.answered - sample.sent);
                    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                    self.latency.saturating_record(micros.max(1));
                    self.hold("longest reply, s", "", took.as_secs_f64(), MOST_LATENCY.as_secs_f64(), || {
                        format!("client {client} of instance {instance} waited {took:?} at {at:.2} s")
                    });
                }
                Outcome::Failed(why) | Outcome::Lost(why) => self.violations.push(Violation {
                    invariant: "an error while nothing is wrong",
                    figures: format!("client {client} of instance {instance} at {at:.2} s: {why}"),
                }),
                Outcome::Broken(why) => self.violations.push(Violation {
                    invariant: "a promise that was not kept",
                    figures: format!("client {client} of instance {instance} at {at:.2} s: {why}"),
                }),
            }
        }
        if self.latency.len() >= LEAST_REPLIES {
            let p99 = Duration::from_micros(self.latency.value_at_quantile(0.99));
            self.hold("99 of 100 replies, s", "", p99.as_secs_f64(), MOST_P99.as_secs_f64(), || {
                format!("{p99:?} is the 99th percentile")
            });
        }
        for (client, (instance, decided)) in seen.last_decided.iter().enumerate() {
            let since = seen.timeline.last_disturbance(*instance, seen.now).max(*decided);
            let silence = seen.now.saturating_sub(since);
            self.hold(
                "silence, s",
                "",
                silence as f64 / SECOND as f64,
                MOST_SILENCE as f64 / SECOND as f64,
                || {
                    format!(
                        "client {client} of instance {instance} has got no decision for {} ms",
                        silence / 1_000_000
                    )
                },
            );
        }
    }

    /// A process lives until it is killed, says nothing of a panic, and takes no more and more.
    fn process(&mut self, reading: &Reading) {
        let instance = reading.instance;
        let mut never = |is_so: bool, invariant: &'static str, figures: String| {
            if is_so {
                self.violations.push(Violation { invariant, figures });
            }
        };
        never(reading.has_died, "a process ended by itself", format!("instance {instance}"));
        never(reading.has_panicked, "a panic", format!("instance {instance} says so in its log"));
        if let Some((age, most)) = reading.snapshot_age {
            self.hold("age of the snapshot at a kill, s", "", age as f64 / 1e9, most as f64 / 1e9, || {
                format!("{} ms old, at most {} ms were promised", age / 1_000_000, most / 1_000_000)
            });
        }
        if reading.memory == 0 {
            return;
        }
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        self.hold("memory, MiB", "", mib(reading.memory), mib(MOST_MEMORY), || {
            format!("instance {instance} has {:.1} MiB", mib(reading.memory))
        });
        let warm = self.warm.entry(instance).or_insert(0);
        if reading.age < WARM.0 {
            *warm = 0;
        } else if reading.age < WARM.1 {
            *warm = (*warm).max(reading.memory);
        } else if *warm > 0 {
            let (warm, grown) = (*warm, reading.memory.saturating_sub(*warm));
            self.hold("growth of memory, MiB", "", mib(grown), mib(MOST_GROWTH), || {
                format!("instance {instance} had {:.1} MiB and has {:.1} MiB", mib(warm), mib(reading.memory))
            });
        }
        let most = OWN_DESCRIPTORS + reading.clients;
        self.hold("descriptors", "", reading.descriptors as f64, most as f64, || {
            format!("instance {instance} has {} open, with {} clients", reading.descriptors, reading.clients)
        });
        self.hold("threads", "", reading.threads as f64, MOST_THREADS as f64, || {
            format!("instance {instance} has {}", reading.threads)
        });
    }

    /// What the server has counted is what clients have: every answer, and no more than they asked for.
    fn sums(&mut self, reading: &Reading) {
        let Some(sums) = reading.sums else { return };
        let [allowed, denied, errors] = sums.metrics;
        let total = allowed + denied + errors;
        let is_right =
            sums.answered <= total && total <= sums.asked && sums.allowed <= allowed && sums.denied <= denied;
        if !is_right {
            let figures = format!("instance {}: {sums:?}", reading.instance);
            self.violations.push(Violation { invariant: "sums of clients and of /metrics", figures });
        }
        // What the console tells is of the same counters, some moments before.
        if sums.stats.iter().zip(sums.metrics).any(|(stats, metrics)| *stats > metrics) {
            let figures = format!("instance {}: {sums:?}", reading.instance);
            self.violations.push(Violation { invariant: "sums of /v1/stats and of /metrics", figures });
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
    use crate::schedule::Fault;
    use crate::timeline::Effect;

    const MS: Nanos = 1_000_000;

    /// A second in which all is well, to be spoilt.
    #[derive(Clone)]
    struct Good {
        now: Nanos,
        timeline: Timeline,
        admitted: Vec<Vec<Admission>>,
        asked: Vec<Vec<Nanos>>,
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
                admitted: vec![(0..31).map(|n| call(now - 3 * SECOND + n * 96 * MS)).collect()],
                asked: vec![vec![now - SECOND; 100]],
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
                asked: &self.asked,
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
        Checker::new(vec![Law::new("gcra", &["10/s burst 3"])], 1, 2)
    }

    #[test]
    fn a_good_second_is_good() {
        assert_eq!(Good::new().check(), [""; 0]);
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
        let then = bad.now - 9 * SECOND;
        let held_up = bad.with(Fault::NodeFrozen, then, Some(then), Effect::Nothing);
        assert_eq!(held_up.check(), [""; 0], "it may catch up");
        bad.asked[0].truncate(20);
        assert_eq!(bad.check(), [""; 0], "nobody asked for more");
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

    #[test]
    fn a_process_grows_and_grows() {
        let mut checker = checker();
        let mut good = Good::new();
        let mut at = |age: Nanos, memory: u64| {
            (good.readings[0].age, good.readings[0].memory) = (age, memory);
            good.check_by(&mut checker)
        };
        assert_eq!(at(5 * SECOND, 20 << 20), [""; 0]);
        assert_eq!(at(15 * SECOND, 30 << 20), [""; 0], "it warms up");
        assert_eq!(at(60 * SECOND, 50 << 20), [""; 0]);
        assert_eq!(at(90 * SECOND, (54 << 20) + 1), ["growth of memory, MiB"]);
        assert_eq!(at(SECOND, 90 << 20), [""; 0], "another process");
        assert_eq!(at(15 * SECOND, 90 << 20), [""; 0]);
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
        assert_eq!(spoil(|sums| sums.stats = [61, 40, 3]), ["sums of /v1/stats and of /metrics"]);
    }
}
