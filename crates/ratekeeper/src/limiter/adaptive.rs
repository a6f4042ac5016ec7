//! Concurrency limits that find themselves, from how what they let through has ended.
//!
//! Both rules move once per round trip, not once per answer: an answer tells of the limit under which its request was
//! sent. Both grow only while the limit is in use: a limit that nothing pushes against does not creep.

use super::desk::Desk;
use super::permit::Outcome;
use super::tank::Contents;
use crate::Timestamp;

/// How a limit moves.
///
/// ```
/// use ratekeeper::limiter::adaptive::Adaptive;
/// use ratekeeper::limiter::{Concurrency, Outcome};
/// let upstream = Concurrency::builder("10 concurrent".parse()?)
///     .adaptive(Adaptive::aimd().backoff(0.5).bounds(1, 200))
///     .build()?;
/// upstream.try_acquire().unwrap().finish(Outcome::Overload);
/// assert_eq!(upstream.limit(), 5);
/// # Ok::<(), ratekeeper::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a rule moves nothing until a limit is built with it"]
pub struct Adaptive {
    rule: Rule,
    backoff: f64,
    min: u64,
    max: u64,
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    Aimd,
    Gradient(Gradient),
}

impl Adaptive {
    /// Additive increase, multiplicative decrease: one more per round trip while all goes well, a share less for
    /// each round trip with an [`Outcome::Overload`]. For a far side that says when it has had enough.
    pub fn aimd() -> Self {
        Adaptive { rule: Rule::Aimd, backoff: 0.9, min: 1, max: 1_000 }
    }

    /// Follows the time that requests take: once they take longer than an idle far side would, they queue there, and
    /// the limit shrinks in proportion. Overloads shrink it as in [`aimd`](Adaptive::aimd). For a far side that gets
    /// slow rather than refuse.
    ///
    /// What an idle far side takes is measured every 50 round trips, at half of the limit for about one of them: a
    /// remembered minimum would outlive a change, and a moving average would learn the queue by heart.
    pub fn gradient() -> Self {
        Adaptive { rule: Rule::Gradient(Gradient::default()), ..Adaptive::aimd() }
    }

    /// What remains of the limit after an overload, between 0.1 and 0.99; 0.9 unless said otherwise.
    pub fn backoff(mut self, share: f64) -> Self {
        self.backoff = if share.is_finite() { share.clamp(0.1, 0.99) } else { 0.9 };
        self
    }

    /// Where the limit stays; 1 to 1,000 unless said otherwise.
    pub fn bounds(mut self, min: u64, max: u64) -> Self {
        self.min = min.max(1);
        self.max = max.max(self.min);
        self
    }

    pub(crate) fn begin(self, initial: u64) -> Limit {
        let round = Round::at(Timestamp::MIN);
        let initial = whole_to_float(initial.clamp(self.min, self.max));
        Limit { adaptive: self, limit: initial, backed_off: Timestamp::MIN, round }
    }
}

/// A limit and what it has learned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    adaptive: Adaptive,
    limit: f64,
    /// Requests sent before this tell of a limit that has been lowered since.
    backed_off: Timestamp,
    round: Round,
}

/// What the answers to requests that were sent since `began` say. Those that were sent before speak of another limit.
#[derive(Clone, Copy, Debug)]
struct Round {
    began: Timestamp,
    /// Nanoseconds, of all answers together.
    total: f64,
    answers: f64,
    /// The most that were in flight.
    peak: u64,
}

impl Round {
    fn at(began: Timestamp) -> Self {
        Round { began, total: 0.0, answers: 0.0, peak: 0 }
    }
}

impl Limit {
    pub(crate) fn limit(&self) -> u64 {
        let limit = match &self.adaptive.rule {
            Rule::Gradient(Gradient { probe: Some(_), .. }) => self.limit / 2.0,
            _ => self.limit,
        };
        float_to_whole(limit).clamp(self.adaptive.min, self.adaptive.max)
    }

    /// One that was sent at `sent`, with `in_flight` under way including itself, has ended.
    pub(crate) fn learn(&mut self, sent: Timestamp, outcome: Outcome, in_flight: u64, now: Timestamp) {
        match outcome {
            Outcome::Ignored => {}
            Outcome::Overload if sent >= self.backed_off => {
                self.set(self.limit * self.adaptive.backoff);
                self.backed_off = now;
                self.round = Round::at(now);
            }
            Outcome::Overload => {}
            Outcome::Success => self.succeed(sent, in_flight, now),
        }
    }

    fn succeed(&mut self, sent: Timestamp, in_flight: u64, now: Timestamp) {
        let took = whole_to_float(now.since(sent).as_nanos()).max(1.0);
        if let Rule::Gradient(gradient) = &mut self.adaptive.rule
            && gradient.measures(sent, took)
        {
            // Whoever is sent until the measurement is over finds the far side emptier than it will be.
            self.round = Round::at(now);
            return;
        }
        if sent < self.round.began {
            return;
        }
        self.round.total += took;
        self.round.answers += 1.0;
        self.round.peak = self.round.peak.max(in_flight);
        // A whole limit of them: answers come in waves, and the first of a wave are the fast ones.
        if self.round.answers < self.limit {
            return;
        }
        let Round { total, answers, peak, .. } = self.round;
        self.round = Round::at(now);
        let in_use = whole_to_float(peak) * 2.0 > self.limit;
        match &mut self.adaptive.rule {
            Rule::Aimd if in_use => self.set(self.limit + 1.0),
            Rule::Aimd => {}
            Rule::Gradient(gradient) => {
                let limit = gradient.follow(self.limit, total / answers, in_use);
                let answers = (self.limit / 4.0).max(1.0);
                gradient.probe_if_due(now, answers);
                self.set(limit);
            }
        }
    }

    /// Goes on from another limit, within the bounds; tells what it is. What was sent before speaks of the old one.
    pub(crate) fn move_to(&mut self, limit: u64, now: Timestamp) -> u64 {
        self.set(whole_to_float(limit));
        self.backed_off = now;
        self.round = Round::at(now);
        self.limit()
    }

    fn set(&mut self, limit: f64) {
        self.limit = limit.clamp(whole_to_float(self.adaptive.min), whole_to_float(self.adaptive.max));
    }
}

/// How often the idle far side is measured, in round trips.
const PROBE_EVERY: u32 = 50;

/// How much of the limit may queue at the far side: without a queue nothing would tell that there is room for more.
const HEADROOM: f64 = 0.1;

/// The gradient rule: `limit · idle / now + headroom`. Under a far side that does `C` at once it settles where
/// `limit = C + headroom`.
#[derive(Clone, Copy, Debug)]
struct Gradient {
    /// Nanoseconds that a request takes when nothing queues, as far as is known.
    idle: f64,
    rounds: u32,
    probe: Option<Probe>,
}

/// A measurement of the idle far side: who is sent from now on is sent into half of the load.
#[derive(Clone, Copy, Debug)]
struct Probe {
    since: Timestamp,
    least: f64,
    answers_left: f64,
}

impl Default for Gradient {
    fn default() -> Self {
        Gradient { idle: f64::INFINITY, rounds: 0, probe: None }
    }
}

impl Gradient {
    /// True if a measurement is under way; the answer is part of it, unless it was sent before.
    fn measures(&mut self, sent: Timestamp, took: f64) -> bool {
        self.idle = self.idle.min(took);
        let Some(probe) = &mut self.probe else { return false };
        if sent >= probe.since {
            probe.least = probe.least.min(took);
            probe.answers_left -= 1.0;
            if probe.answers_left <= 0.0 {
                self.idle = probe.least;
                self.probe = None;
            }
        }
        true
    }

    fn follow(&mut self, limit: f64, took: f64, in_use: bool) -> f64 {
        self.rounds += 1;
        let gradient = (self.idle / took).clamp(0.5, 1.0);
        let next = limit * gradient + (limit * HEADROOM).max(1.0);
        if next > limit && !in_use { limit } else { next }
    }

    fn probe_if_due(&mut self, now: Timestamp, answers: f64) {
        if self.rounds >= PROBE_EVERY {
            self.rounds = 0;
            self.probe = Some(Probe { since: now, least: f64::INFINITY, answers_left: answers });
        }
    }
}

impl Desk {
    /// A permit that was held since `since` comes back: the limit learns how it went.
    pub(crate) fn learn(&mut self, since: Timestamp, outcome: Outcome, now: Timestamp) {
        let (Some(adaptive), Contents::Permits { limit, in_flight }) =
            (&mut self.adaptive, &mut self.tank.contents)
        else {
            return;
        };
        adaptive.learn(since, outcome, *in_flight, now);
        *limit = adaptive.limit();
    }
}

#[expect(clippy::cast_precision_loss, reason = "limits and round trips: a double is more than enough")]
fn whole_to_float(whole: u64) -> f64 {
    whole as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped by the caller")]
fn float_to_whole(float: f64) -> u64 {
    float as u64
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BTreeMap;
    use std::collections::BinaryHeap;

    use super::*;
    use crate::Nanos;
    use crate::limiter::{Concurrency, OwnedPermit};
    use crate::testkit::FakeClock;

    /// A far side of which the optimum is known: it does `workers` at once, each in `service`, and refuses whoever
    /// would be more than `room` inside.
    struct FarSide {
        workers: usize,
        service: Nanos,
        room: usize,
    }

    /// A closed loop: as many are sent as the limit allows, up to the demand.
    struct Simulation {
        clock: FakeClock,
        upstream: Concurrency,
        far_side: FarSide,
        /// When each worker is free again.
        free_at: BinaryHeap<Reverse<Timestamp>>,
        /// Who is inside, by when they will be done.
        inside: BTreeMap<(Timestamp, u64), (OwnedPermit, Outcome)>,
        sent: u64,
        done: u64,
    }

    impl Simulation {
        fn new(adaptive: Adaptive, initial: u64, far_side: FarSide) -> Self {
            let clock = FakeClock::at(Timestamp::from_secs(1_000));
            let builder = Concurrency::builder(crate::Quota::concurrent(initial).build().unwrap());
            let upstream = builder.clock(clock.clone()).adaptive(adaptive).build().unwrap();
            let (free_at, inside) = (BinaryHeap::new(), BTreeMap::new());
            Simulation { clock, upstream, far_side, free_at, inside, sent: 0, done: 0 }
        }

        /// Until `answers` more have come back; the least and the greatest limit in the second half of it.
        fn run(&mut self, answers: u64, demand: usize) -> (u64, u64) {
            use crate::port::Clock;
            let (mut least, mut greatest) = (u64::MAX, 0);
            let end = self.done + answers;
            while self.done < end {
                while self.inside.len() < demand
                    && let Some(permit) = self.upstream.try_acquire_owned()
                {
                    self.send(permit, self.clock.now());
                }
                let ((now, _), (permit, outcome)) = self.inside.pop_first().unwrap();
                self.clock.set(now);
                permit.finish(outcome);
                self.done += 1;
                if self.done > end - answers / 2 {
                    least = least.min(self.upstream.limit());
                    greatest = greatest.max(self.upstream.limit());
                }
            }
            (least, greatest)
        }

        fn send(&mut self, permit: OwnedPermit, now: Timestamp) {
            self.sent += 1;
            if self.inside.len() >= self.far_side.room {
                let refused = now + Nanos::from_millis(1);
                self.inside.insert((refused, self.sent), (permit, Outcome::Overload));
                return;
            }
            // Workers that were taken away go as soon as they are free.
            while self.free_at.len() > self.far_side.workers {
                self.free_at.pop();
            }
            let begins = if self.free_at.len() < self.far_side.workers {
                now
            } else {
                self.free_at.pop().map_or(now, |Reverse(free)| free.max(now))
            };
            let ends = begins + self.far_side.service;
            self.free_at.push(Reverse(ends));
            self.inside.insert((ends, self.sent), (permit, Outcome::Success));
        }
    }

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn aimd_converges_recovers_and_does_not_creep() {
        let far_side = FarSide { workers: 40, service: MS(10), room: 40 };
        let mut simulation = Simulation::new(Adaptive::aimd(), 5, far_side);
        let (least, greatest) = simulation.run(40_000, usize::MAX);
        assert!(least >= 33 && greatest <= 41, "the far side holds 40: {least}..{greatest}");

        simulation.far_side.room = 20;
        let (least, greatest) = simulation.run(40_000, usize::MAX);
        assert!(least >= 15 && greatest <= 21, "it holds 20 now: {least}..{greatest}");

        simulation.far_side.room = 40;
        let (least, greatest) = simulation.run(40_000, usize::MAX);
        assert!(least >= 33 && greatest <= 41, "it holds 40 again: {least}..{greatest}");

        simulation.run(1_000, 4);
        let before = simulation.upstream.limit();
        let (least, greatest) = simulation.run(40_000, 4);
        assert!(
            (least, greatest) == (before, before),
            "nothing pushes against {before}: {least}..{greatest}"
        );
    }

    #[test]
    fn the_gradient_converges_recovers_and_does_not_creep() {
        let far_side = FarSide { workers: 40, service: MS(10), room: usize::MAX };
        let mut simulation = Simulation::new(Adaptive::gradient(), 4, far_side);
        // 40 at once, and a tenth of the limit as headroom: 44. A probe halves it for a moment.
        let near = |(least, greatest): (u64, u64), optimum: u64| {
            let settled = optimum + optimum / 9;
            assert!(
                least >= settled / 2 - 2 && greatest <= settled + 3,
                "optimum {optimum}: {least}..{greatest}"
            );
        };
        near(simulation.run(60_000, usize::MAX), 40);
        assert!(simulation.upstream.limit() >= 20);
        for _ in 0..20 {
            // A long time at the limit, with the queue that it keeps there: that must not be taken for normal.
            near(simulation.run(20_000, usize::MAX), 40);
        }
        simulation.far_side.workers = 10;
        near(simulation.run(60_000, usize::MAX), 10);
        simulation.far_side.workers = 40;
        near(simulation.run(60_000, usize::MAX), 40);
        // Slower, but no fuller: what an idle far side takes is measured anew.
        simulation.far_side.service = MS(25);
        near(simulation.run(60_000, usize::MAX), 40);
    }

    #[test]
    fn the_gradient_finds_its_way_down_and_honours_drops() {
        let far_side = FarSide { workers: 10, service: MS(10), room: usize::MAX };
        let mut simulation = Simulation::new(Adaptive::gradient(), 400, far_side);
        let (_, greatest) = simulation.run(60_000, usize::MAX);
        assert!(greatest <= 14, "began at forty times the optimum: {greatest}");

        let far_side = FarSide { workers: 40, service: MS(10), room: 20 };
        let mut simulation = Simulation::new(Adaptive::gradient(), 4, far_side);
        let (_, greatest) = simulation.run(60_000, usize::MAX);
        assert!(greatest <= 24, "fast, but it refuses more than 20: {greatest}");
    }
}
