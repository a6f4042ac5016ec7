//! What is drawn: quotas of every algorithm from the smallest to the largest, plans of several, and what happens.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use ratekeeper::{Algorithm, Anchor, Calendar, CalendarUnit, Quota, Timestamp, Zone};

/// Every algorithm that stored state decides, with every anchor.
pub(crate) fn algorithm() -> impl Strategy<Value = Algorithm> {
    let calendar = |unit, zone| Algorithm::FixedWindow(Anchor::Calendar(Calendar::new(unit, zone)));
    let berlin = Zone::named("Europe/Berlin").unwrap();
    prop_oneof![
        3 => Just(Algorithm::Gcra),
        3 => Just(Algorithm::TokenBucket),
        3 => Just(Algorithm::LeakyBucket),
        3 => Just(Algorithm::SlidingWindow),
        3 => Just(Algorithm::SlidingLog),
        2 => Just(Algorithm::FIXED),
        2 => Just(Algorithm::FixedWindow(Anchor::Grid)),
        1 => Just(calendar(CalendarUnit::Minute, Zone::UTC)),
        1 => Just(calendar(CalendarUnit::Day, berlin)),
        1 => Just(calendar(CalendarUnit::Month, berlin)),
    ]
}

/// A quota of this algorithm.
pub(crate) fn quota_of(algorithm: Algorithm) -> BoxedStrategy<Quota> {
    let count = prop_oneof![
        6 => 1_u64..=12,
        2 => 1_u64..=100_000,
        1 => Just(1 << 53),
        1 => (1_u64 << 52)..=Quota::MAX_COUNT,
    ];
    let period = prop_oneof![
        4 => 1_000_u64..5_000_000_000,
        4 => prop::sample::select(vec![
            1_000_000, 1_000_000_000, 7_000_000_000, 60_000_000_000, 3_600_000_000_000, 86_400_000_000_000,
        ]),
        1 => 1_u64..1_000,
        1 => (1_u64 << 52)..=Quota::MAX_SPAN.as_nanos(),
    ];
    let quota =
        (count.clone(), period, count).prop_filter_map("a quota that can be honoured", move |drawn| {
            let (count, period, burst) = drawn;
            let (period, burst) = match algorithm {
                Algorithm::FixedWindow(Anchor::Calendar(calendar)) => {
                    (calendar.unit().nominal().as_nanos(), count)
                }
                Algorithm::FixedWindow(_) | Algorithm::SlidingWindow => (period, count),
                Algorithm::SlidingLog => (period, count % 40 + 1),
                _ => (period, burst),
            };
            let count = if algorithm == Algorithm::SlidingLog { burst } else { count };
            Quota::per(count, Duration::from_nanos(period)).burst(burst).algorithm(algorithm).build().ok()
        });
    quota.boxed()
}

/// The rules of one plan: for each the quota it starts with and the one it may be changed to.
pub(crate) fn rules() -> impl Strategy<Value = Vec<(Quota, Quota)>> {
    let rule = algorithm().prop_flat_map(|algorithm| (quota_of(algorithm), quota_of(algorithm))).boxed();
    prop_oneof![3 => prop::collection::vec(rule.clone(), 1..=1), 2 => prop::collection::vec(rule, 2..=5)]
}

/// Which rules of a plan are in shadow, and whether they count different units.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DrawnSides {
    /// A bit for each rule, by its number.
    pub(crate) shadow: u16,
    pub(crate) units: bool,
}

pub(crate) fn sides() -> impl Strategy<Value = DrawnSides> {
    let shadow = prop_oneof![2 => Just(0), 1 => Just(u16::MAX), 3 => any::<u16>()];
    (shadow, any::<bool>()).prop_map(|(shadow, units)| DrawnSides { shadow, units })
}

/// A cost, in parts of a capacity or in units.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DrawnCost {
    Units(u64),
    /// In 1/16 of the smallest burst, and so many more or less.
    Part(u64, i64),
}

impl DrawnCost {
    pub(crate) fn of(self, burst: u64) -> u64 {
        match self {
            DrawnCost::Units(units) => units,
            DrawnCost::Part(part, more) => (burst / 16).saturating_mul(part).saturating_add_signed(more),
        }
    }
}

pub(crate) fn share() -> impl Strategy<Value = DrawnCost> {
    prop_oneof![
        6 => (0_u64..=4).prop_map(DrawnCost::Units),
        1 => Just(DrawnCost::Units(u64::MAX)),
        1 => any::<u64>().prop_map(DrawnCost::Units),
        5 => (0_u64..=17, -2_i64..=18).prop_map(|(part, more)| DrawnCost::Part(part, more)),
    ]
}

/// A span: so many parts of 1/16 of a rule's period or refill, and so many microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrawnSpan {
    pub(crate) rule: usize,
    pub(crate) refill: bool,
    pub(crate) parts: u64,
    pub(crate) micros: u64,
}

fn span() -> impl Strategy<Value = DrawnSpan> {
    (0_usize..5, any::<bool>(), prop_oneof![3 => 0_u64..=20, 1 => Just(40)], 0_u64..=2)
        .prop_map(|(rule, refill, parts, micros)| DrawnSpan { rule, refill, parts, micros })
}

/// One thing that happens on a walk.
#[derive(Clone, Debug)]
pub(crate) enum WalkStep {
    Take(DrawnCost),
    /// The least and the most.
    TakeUpTo(DrawnCost, DrawnCost),
    Peek(DrawnCost),
    Debit(DrawnCost),
    /// From here on so much of the other units goes with every cost.
    With([DrawnCost; 3]),
    Refund(DrawnCost, ChargeAge),
    Reset,
    Forward(DrawnSpan),
    Back(DrawnSpan),
    /// To the instant that the last denial promised, rounded to the clock, or one unit before it.
    Wait {
        early: bool,
    },
    /// The rules get their other quotas.
    Change,
    /// Another version of the plan takes over.
    Edit(PlanVersion),
}

/// When something was charged that is given back.
#[derive(Clone, Debug)]
pub(crate) enum ChargeAge {
    /// As the store told when it charged something.
    Charge(Index),
    At(DrawnSpan),
    Ago(DrawnSpan),
    Any(i64),
}

fn age() -> impl Strategy<Value = ChargeAge> {
    prop_oneof![
        6 => any::<Index>().prop_map(ChargeAge::Charge),
        2 => span().prop_map(ChargeAge::At),
        3 => span().prop_map(ChargeAge::Ago),
        1 => any::<i64>().prop_map(ChargeAge::Any),
    ]
}

/// Which rules a version of a plan has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlanVersion {
    /// All rules, in order.
    Whole,
    /// In another order, and some are missing.
    Reversed(usize),
    /// Each has the algorithm of the next.
    Shifted,
}

fn version() -> impl Strategy<Value = PlanVersion> {
    prop_oneof![
        2 => Just(PlanVersion::Whole),
        2 => (0_usize..4).prop_map(PlanVersion::Reversed),
        1 => Just(PlanVersion::Shifted),
    ]
}

pub(crate) fn step() -> impl Strategy<Value = WalkStep> {
    prop_oneof![
        8 => share().prop_map(WalkStep::Take),
        3 => (share(), share()).prop_map(|(least, most)| WalkStep::TakeUpTo(least, most)),
        1 => share().prop_map(WalkStep::Peek),
        3 => share().prop_map(WalkStep::Debit),
        2 => [share(), share(), share()].prop_map(WalkStep::With),
        3 => (share(), age()).prop_map(|(share, age)| WalkStep::Refund(share, age)),
        1 => Just(WalkStep::Reset),
        4 => span().prop_map(WalkStep::Forward),
        2 => span().prop_map(WalkStep::Back),
        3 => any::<bool>().prop_map(|early| WalkStep::Wait { early }),
        1 => Just(WalkStep::Change),
        1 => version().prop_map(WalkStep::Edit),
    ]
}

/// An instant that a server's clock may show: whole microseconds, up to some years before the end of time.
pub(crate) fn instant() -> impl Strategy<Value = Timestamp> {
    prop_oneof![Just(1_761_912_000_123_456_i64), Just(0), Just(1_709_251_200_000_000), 0..LAST_MICROS]
        .prop_map(|micros| Timestamp::from_nanos(micros * 1_000))
}

/// Where a server's clock stops here: in the year 2252.
pub(crate) const LAST_MICROS: i64 = 8_900_000_000_000_000;
