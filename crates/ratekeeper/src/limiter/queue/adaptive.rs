//! Concurrency limits that find themselves, from how what they let through has ended.
//!
//! Both rules move once per round trip, not once per answer: an answer tells of the limit under which its request was
//! sent. Both grow only while the limit is in use: a limit that nothing pushes against does not creep.

use super::permit_outcome::PermitOutcome;
use crate::Timestamp;

/// How a concurrency limit moves by itself.
///
/// ```
/// use ratekeeper::limiter::{Adaptive, Concurrency, PermitOutcome};
/// let upstream = Concurrency::builder("10 concurrent".parse()?)
///     .adaptive(Adaptive::aimd().backoff(0.5).bounds(1, 200))
///     .build()?;
/// upstream.try_acquire().unwrap().finish(PermitOutcome::Overload);
/// assert_eq!(upstream.limit(), 5);
/// # Ok::<(), ratekeeper::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a rule moves nothing until a limit is built with it"]
pub struct Adaptive {
    rule: AdaptiveRule,
    backoff: f64,
    min: u64,
    max: u64,
}

#[derive(Clone, Copy, Debug)]
enum AdaptiveRule {
    Aimd,
    Gradient(Gradient),
}

impl Adaptive {
    /// Returns additive increase, multiplicative decrease: one more per round trip while all goes well, a share less for
    /// each round trip with an [`PermitOutcome::Overload`]. For a far side that says when it has had enough.
    pub fn aimd() -> Self {
        Adaptive { rule: AdaptiveRule::Aimd, backoff: 0.9, min: 1, max: 1_000 }
    }

    /// Returns a rule that follows the time that requests take: once they take longer than an idle far side would, they queue there, and
    /// the limit shrinks in proportion. Overloads shrink it as in [`aimd`](Adaptive::aimd). For a far side that gets
    /// slow rather than refuse.
    ///
    /// What an idle far side takes is measured every 50 round trips, at half of the limit for about one of them: a
    /// remembered minimum would outlive a change, and a moving average would learn the queue by heart.
    pub fn gradient() -> Self {
        Adaptive { rule: AdaptiveRule::Gradient(Gradient::default()), ..Adaptive::aimd() }
    }

    /// Sets what remains of the limit after an overload, cut to 0.1 to 0.99. The default is 0.9.
    pub fn backoff(mut self, share: f64) -> Self {
        self.backoff = if share.is_finite() { share.clamp(0.1, 0.99) } else { 0.9 };
        self
    }

    /// Sets the least and the greatest limit. The default is 1 to 1,000.
    pub fn bounds(mut self, min: u64, max: u64) -> Self {
        self.min = min.max(1);
        self.max = max.max(self.min);
        self
    }

    /// Returns a limit that moves by this rule, from `initial`.
    pub(crate) fn begin(self, initial: u64) -> AdaptiveLimit {
        let round = Round::at(Timestamp::MIN);
        let initial = whole_to_float(initial.clamp(self.min, self.max));
        AdaptiveLimit { adaptive: self, limit: initial, backed_off: Timestamp::MIN, round }
    }
}

/// A limit that moves by itself, and what it has learned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdaptiveLimit {
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

impl AdaptiveLimit {
    /// Returns the limit as it is now: half of it while an idle far side is measured.
    pub(crate) fn limit(&self) -> u64 {
        let limit = match &self.adaptive.rule {
            AdaptiveRule::Gradient(Gradient { probe: Some(_), .. }) => self.limit / 2.0,
            _ => self.limit,
        };
        float_to_whole(limit).clamp(self.adaptive.min, self.adaptive.max)
    }

    /// Learns from one that was sent at `sent` and has ended now, with `in_flight` under way including itself.
    pub(crate) fn learn(&mut self, sent: Timestamp, outcome: PermitOutcome, in_flight: u64, now: Timestamp) {
        match outcome {
            PermitOutcome::Ignored => {}
            PermitOutcome::Overload if sent >= self.backed_off => {
                self.set(self.limit * self.adaptive.backoff);
                self.backed_off = now;
                self.round = Round::at(now);
            }
            PermitOutcome::Overload => {}
            PermitOutcome::Success => self.succeed(sent, in_flight, now),
        }
    }

    fn succeed(&mut self, sent: Timestamp, in_flight: u64, now: Timestamp) {
        let took = whole_to_float(now.since(sent).as_nanos()).max(1.0);
        if let AdaptiveRule::Gradient(gradient) = &mut self.adaptive.rule
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
            AdaptiveRule::Aimd if in_use => self.set(self.limit + 1.0),
            AdaptiveRule::Aimd => {}
            AdaptiveRule::Gradient(gradient) => {
                let limit = gradient.follow(self.limit, total / answers, in_use);
                let answers = (self.limit / 4.0).max(1.0);
                gradient.probe_if_due(now, answers);
                self.set(limit);
            }
        }
    }

    /// Goes on from another limit, cut to the bounds, and returns it. What was sent before speaks of the old one.
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

#[expect(clippy::cast_precision_loss, reason = "limits and round trips: a double is more than enough")]
fn whole_to_float(whole: u64) -> f64 {
    whole as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped by the caller")]
fn float_to_whole(float: f64) -> u64 {
    float as u64
}
