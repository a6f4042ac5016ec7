//! What is drawn: quotas of every algorithm, costs about the capacity, moves of the clock about the edges.

use std::time::Duration;

use proptest::prelude::*;
use ratekeeper::{Algorithm, Anchor, Calendar, CalendarUnit, Nanos, Quota, Timestamp, Zone};

use super::{Key, NOON, TICK, before};

/// Every algorithm that stored state decides, with every anchor.
pub(crate) fn algorithms() -> Vec<Algorithm> {
    let calendar = |unit| Algorithm::FixedWindow(Anchor::Calendar(Calendar::new(unit, Zone::UTC)));
    vec![
        Algorithm::Gcra,
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
        Algorithm::FIXED,
        Algorithm::FixedWindow(Anchor::Grid),
        calendar(CalendarUnit::Minute),
        calendar(CalendarUnit::Week),
        calendar(CalendarUnit::Month),
        calendar(CalendarUnit::Year),
    ]
}

/// A quota of one algorithm: few enough to count, over any period from nanoseconds to weeks.
pub(crate) fn quota_of(algorithm: Algorithm) -> BoxedStrategy<Quota> {
    let period = prop_oneof![
        1_u64..60,
        Just(1_000_000),
        Just(60_000_000_000),
        Just(86_400_000_000_000),
        1_u64..5_000_000_000,
        Just(1 << 52),
    ];
    // Only debits come to a log's bound: one that they do come to, or none.
    let spare_entries = prop_oneof![0_u64..=2, Just(60_000)];
    (1_u64..=12, period, 1_u64..=12, spare_entries)
        .prop_map(move |(count, period, burst, spare)| {
            // In a window there may be more than its length has nanoseconds.
            let count = if algorithm.counts_in_windows() { count } else { count.min(period) };
            let (period, burst) = match algorithm {
                Algorithm::FixedWindow(Anchor::Calendar(calendar)) => (calendar.unit().nominal(), count),
                Algorithm::FixedWindow(_) | Algorithm::SlidingWindow | Algorithm::SlidingLog => {
                    (Nanos::from_nanos(period), count)
                }
                _ => (Nanos::from_nanos(period), burst),
            };
            let bound = u32::try_from(count + spare).unwrap();
            let quota = Quota::per(count, Duration::from(period)).burst(burst).algorithm(algorithm);
            quota.log_bound(bound).build().unwrap()
        })
        .boxed()
}

/// A quota of any algorithm.
pub(crate) fn quota() -> impl Strategy<Value = Quota> {
    prop::sample::select(algorithms()).prop_flat_map(quota_of)
}

/// A quota whose arithmetic is on integers, so that everything can be asked of it exactly.
pub(crate) fn quota_of_integers() -> impl Strategy<Value = Quota> {
    let exact = |algorithm: &Algorithm| !matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket);
    prop::sample::select(algorithms().into_iter().filter(exact).collect::<Vec<_>>()).prop_flat_map(quota_of)
}

/// Costs that a small quota may or may not have room for.
pub(crate) fn cost() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(1_u64), 4 => 1_u64..=13, 1 => Just(0_u64)]
}

/// What is debited: now and then more than any bound.
pub(crate) fn debit() -> impl Strategy<Value = u64> {
    prop_oneof![6 => cost(), 2 => 10_u64..=40, 1 => any::<u64>()]
}

/// An instant to start from: ordinary, before the epoch, or on an edge of the calendar.
pub(crate) fn start() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        Just(NOON),
        Just(Timestamp::EPOCH),
        Just(Timestamp::from_nanos(-1)),
        Just(Timestamp::from_secs(1_709_251_200)),
        (-2_000_000_000_000_000_000_i64..2_000_000_000_000_000_000).prop_map(Timestamp::from_nanos),
    ]
}

/// A span of time in a quota's own measures: so many emissions, periods or refills, and a nanosecond more or less.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    measure: u8,
    times: u64,
    /// In 1/256 of the measure.
    part: u8,
    off: i8,
}

impl Span {
    pub(crate) fn under(self, quota: &Quota) -> Nanos {
        let measure = match self.measure {
            0 => quota.emission_interval(),
            1 => quota.period(),
            2 => quota.refill_time(),
            _ => TICK,
        };
        let measure = u128::from(measure.as_nanos());
        let nanos = measure * u128::from(self.times) + measure * u128::from(self.part) / 256;
        let nanos = nanos.saturating_add_signed(self.off.into());
        Nanos::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A span of any measure.
pub(crate) fn span() -> impl Strategy<Value = Span> {
    let part = prop_oneof![2 => Just(0_u8), 1 => any::<u8>()];
    (0_u8..=3, 0_u64..=3, part, -1_i8..=1).prop_map(|(measure, times, part, off)| Span {
        measure,
        times,
        part,
        off,
    })
}

/// What may happen to a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Take(u64),
    /// The least and the most.
    TakeUpTo(u64, u64),
    Debit(u64),
    Peek(u64),
    /// A cost, and how long ago it was charged.
    Refund(u64, Span),
    Reset,
    Forward(Span),
    Back(Span),
    /// To the instant that the last denial promised, or a nanosecond before it.
    Wait {
        early: bool,
    },
}

/// A step of a clock that never steps back.
pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => cost().prop_map(Step::Take),
        1 => (cost(), cost()).prop_map(|(least, most)| Step::TakeUpTo(least, most)),
        1 => debit().prop_map(Step::Debit),
        1 => cost().prop_map(Step::Peek),
        1 => (cost(), span()).prop_map(|(cost, age)| Step::Refund(cost, age)),
        3 => span().prop_map(Step::Forward),
        3 => any::<bool>().prop_map(|early| Step::Wait { early }),
    ]
}

/// A step of any kind.
pub(crate) fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![14 => step(), 2 => span().prop_map(Step::Back), 1 => Just(Step::Reset)]
}

/// Some steps, all forward in time and without refunds: what only ever takes.
pub(crate) fn takes(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => cost().prop_map(Step::Take),
        1 => (cost(), cost()).prop_map(|(least, most)| Step::TakeUpTo(least, most)),
        3 => span().prop_map(Step::Forward),
        3 => any::<bool>().prop_map(|early| Step::Wait { early }),
    ];
    prop::collection::vec(step, 0..most)
}

/// Where a key stands after some steps.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    pub(crate) key: Key,
    pub(crate) now: Timestamp,
    /// What the last denial promised.
    pub(crate) promised: Nanos,
}

impl Walk {
    pub(crate) fn new(quota: Quota, now: Timestamp) -> Self {
        Walk { key: Key::fresh(quota), now, promised: Nanos::ZERO }
    }

    pub(crate) fn through(&mut self, steps: Vec<Step>) {
        for step in steps {
            self.step(step);
        }
    }

    /// Does one step, and tells how much was taken by it.
    pub(crate) fn step(&mut self, step: Step) -> u64 {
        let quota = self.key.quota;
        match step {
            Step::Take(cost) => {
                let decision = self.key.take(cost, self.now);
                self.promised = decision.retry_after.unwrap_or(Nanos::ZERO);
                return if decision.allowed { cost } else { 0 };
            }
            Step::TakeUpTo(least, most) => return self.key.take_up_to(least, most, self.now).0,
            Step::Debit(cost) => {
                let decision = self.key.debit(cost, self.now).0;
                self.promised = decision.retry_after.unwrap_or(Nanos::ZERO);
            }
            Step::Peek(cost) => _ = self.key.peek(cost, self.now),
            Step::Refund(cost, age) => {
                _ = self.key.refund_of(cost, before(self.now, age.under(&quota)), self.now);
            }
            Step::Reset => self.key.state = None,
            Step::Forward(span) => self.now = self.now + span.under(&quota),
            Step::Back(span) => self.now = before(self.now, span.under(&quota)),
            Step::Wait { early } => {
                self.now = self.now + self.promised.saturating_sub(if early { TICK } else { Nanos::ZERO });
                self.promised = Nanos::ZERO;
            }
        }
        0
    }
}

/// A key with a past: steps forward only, ending well before the end of time.
pub(crate) fn walked() -> impl Strategy<Value = Walk> {
    (quota(), start(), prop::collection::vec(step(), 0..12)).prop_map(|(quota, start, steps)| {
        let mut walk = Walk::new(quota, start);
        walk.through(steps);
        walk
    })
}

/// A key with a past in which the clock may have stepped back.
pub(crate) fn stumbled() -> impl Strategy<Value = Walk> {
    (quota(), start(), prop::collection::vec(any_step(), 0..16)).prop_map(|(quota, start, steps)| {
        let mut walk = Walk::new(quota, start);
        walk.through(steps);
        walk
    })
}
