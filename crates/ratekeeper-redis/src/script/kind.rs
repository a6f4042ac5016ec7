//! What a script does with a quota.

use ratekeeper::{Algorithm, Anchor, Nanos, Quota};

use super::verb::ScriptVerb;

/// The longest grid that a script divides time into by itself: a step of the division must stay below 2^53.
const LONGEST_GRID: Nanos = Nanos::from_secs(9_000);

/// The algorithm of a rule as a script knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RuleKind {
    Gcra,
    TokenBucket,
    LeakyBucket,
    /// Windows that begin with the first request.
    Window,
    /// Windows on a grid that the script computes.
    Grid,
    /// Windows whose edges are sent along.
    Edges,
    SlidingWindow,
    SlidingLog,
}

/// A field of a state, as the scripts call it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleField {
    /// The variable that holds it.
    pub(super) variable: &'static str,
    /// The field of a hash that holds it.
    pub(crate) name: &'static str,
    pub(super) form: FieldForm,
}

/// How a field is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldForm {
    Double,
    /// A natural number.
    Count,
    Instant,
    /// An instant that a hash holds in microseconds.
    Micros,
    /// Entries of a log. A hash has one field for how many they are, and one for all of them.
    Entries,
}

impl FieldForm {
    /// Returns true if it is an instant, which a script holds as a span from now.
    pub(super) fn is_instant(self) -> bool {
        matches!(self, FieldForm::Instant | FieldForm::Micros)
    }
}

/// A number that a rule's script takes as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleNumber {
    /// The cost in what the algorithm counts: nanoseconds of GCRA, tokens as a double, units.
    Need,
    /// The emission interval.
    Each,
    Refill,
    /// How far ahead a state of a rule's own may lie: two refills and the slack.
    Reach,
    /// The burst as a double.
    Capacity,
    /// Units per second, a double.
    Rate,
    /// The reach as a double.
    ReachNanos,
    Limit,
    Length,
    /// How many entries a log may have, a double.
    Bound,
    /// The edges of three windows in a row.
    Edge(usize),
}

impl RuleNumber {
    /// Returns the variable that holds it.
    pub(super) fn variable(self) -> &'static str {
        match self {
            RuleNumber::Need => "need",
            RuleNumber::Each => "each",
            RuleNumber::Refill => "refill",
            RuleNumber::Reach | RuleNumber::ReachNanos => "reach",
            RuleNumber::Capacity => "capacity",
            RuleNumber::Rate => "rate",
            RuleNumber::Limit => "limit",
            RuleNumber::Length => "length",
            RuleNumber::Bound => "bound",
            RuleNumber::Edge(0) => "one",
            RuleNumber::Edge(1) => "two",
            RuleNumber::Edge(2) => "three",
            RuleNumber::Edge(_) => "four",
        }
    }
}

impl RuleKind {
    /// Every kind.
    pub(crate) const ALL: [RuleKind; 8] = [
        RuleKind::Gcra,
        RuleKind::TokenBucket,
        RuleKind::LeakyBucket,
        RuleKind::Window,
        RuleKind::Grid,
        RuleKind::Edges,
        RuleKind::SlidingWindow,
        RuleKind::SlidingLog,
    ];

    /// Returns the kind of a quota; none for concurrency, which no stored state decides.
    pub(crate) fn of(quota: &Quota) -> Option<Self> {
        Some(match quota.algorithm() {
            Algorithm::Gcra => RuleKind::Gcra,
            Algorithm::TokenBucket => RuleKind::TokenBucket,
            Algorithm::LeakyBucket => RuleKind::LeakyBucket,
            Algorithm::FixedWindow(Anchor::FirstRequest) => RuleKind::Window,
            Algorithm::FixedWindow(Anchor::Grid) if quota.period() <= LONGEST_GRID => RuleKind::Grid,
            Algorithm::FixedWindow(_) => RuleKind::Edges,
            Algorithm::SlidingWindow => RuleKind::SlidingWindow,
            Algorithm::SlidingLog => RuleKind::SlidingLog,
            _ => return None,
        })
    }

    /// Returns the letter that stands for it in a [shape](super::ScriptShape).
    pub(super) fn letter(self) -> u8 {
        match self {
            RuleKind::Gcra => b'g',
            RuleKind::TokenBucket => b't',
            RuleKind::LeakyBucket => b'l',
            RuleKind::Window => b'f',
            RuleKind::Grid => b'm',
            RuleKind::Edges => b'w',
            RuleKind::SlidingWindow => b's',
            RuleKind::SlidingLog => b'o',
        }
    }

    /// Returns true for the token bucket and the leaky bucket, whose states are doubles.
    pub(crate) fn is_bucket(self) -> bool {
        matches!(self, RuleKind::TokenBucket | RuleKind::LeakyBucket)
    }

    /// Returns true for fixed windows, whose texts repeat the rule's name.
    pub(crate) fn is_fixed(self) -> bool {
        matches!(self, RuleKind::Window | RuleKind::Grid | RuleKind::Edges)
    }

    /// Returns the strategy and the version with which its text begins.
    pub(crate) fn header(self) -> &'static str {
        match self {
            RuleKind::Gcra => "42",
            RuleKind::TokenBucket => "12",
            RuleKind::LeakyBucket => "32",
            RuleKind::Window | RuleKind::Grid | RuleKind::Edges => "23",
            RuleKind::SlidingWindow => "61",
            RuleKind::SlidingLog => "71",
        }
    }

    /// Returns the fields of its state, in the order in which they are written.
    pub(crate) fn fields(self) -> &'static [RuleField] {
        const fn field(variable: &'static str, name: &'static str, form: FieldForm) -> RuleField {
            RuleField { variable, name, form }
        }
        const GCRA: &[RuleField] = &[field("tat", "tat", FieldForm::Instant)];
        const TOKENS: &[RuleField] =
            &[field("tokens", "t", FieldForm::Double), field("last", "ts", FieldForm::Micros)];
        const LEVEL: &[RuleField] =
            &[field("level", "l", FieldForm::Double), field("last", "ts", FieldForm::Micros)];
        const FIXED: &[RuleField] =
            &[field("count", "c", FieldForm::Count), field("start", "s", FieldForm::Instant)];
        const SLIDING: &[RuleField] = &[
            field("before", "p", FieldForm::Count),
            field("count", "c", FieldForm::Count),
            field("start", "s", FieldForm::Instant),
        ];
        const LOG: &[RuleField] =
            &[field("log", "n", FieldForm::Entries), field("log", "e", FieldForm::Entries)];
        match self {
            RuleKind::Gcra => GCRA,
            RuleKind::TokenBucket => TOKENS,
            RuleKind::LeakyBucket => LEVEL,
            RuleKind::Window | RuleKind::Grid | RuleKind::Edges => FIXED,
            RuleKind::SlidingWindow => SLIDING,
            RuleKind::SlidingLog => LOG,
        }
    }

    /// Returns the numbers that a script of this verb takes for the rule, in their order.
    pub(crate) fn numbers(self, verb: ScriptVerb) -> impl Iterator<Item = RuleNumber> {
        let verb = verb.of_rates();
        use RuleNumber::{Bound, Capacity, Each, Edge, Length, Limit, Need, Rate, Reach, ReachNanos, Refill};
        // What it takes of the cost is the first; the rest describes the quota.
        let numbers: &[RuleNumber] = match self {
            RuleKind::Gcra if verb == ScriptVerb::AcquireUpTo => &[Need, Each, Refill, Reach],
            RuleKind::Gcra => &[Need, Refill, Reach],
            RuleKind::TokenBucket | RuleKind::LeakyBucket => &[Need, Capacity, Rate, ReachNanos],
            RuleKind::SlidingLog if matches!(verb, ScriptVerb::Debit | ScriptVerb::Judge) => {
                &[Need, Limit, Length, Bound]
            }
            RuleKind::Window | RuleKind::Grid | RuleKind::SlidingWindow | RuleKind::SlidingLog => {
                &[Need, Limit, Length]
            }
            RuleKind::Edges => &[Need, Limit, Edge(0), Edge(1), Edge(2), Edge(3)],
        };
        let takes_cost = match verb {
            ScriptVerb::Acquire | ScriptVerb::Debit | ScriptVerb::Judge | ScriptVerb::Refund => true,
            verb => verb == ScriptVerb::Peek && self == RuleKind::SlidingLog,
        };
        let is_taken = verb.views() || self == RuleKind::SlidingLog;
        let numbers = if is_taken { numbers } else { &[] };
        numbers.iter().copied().filter(move |number| *number != Need || takes_cost)
    }

    /// Returns true if a script holds this number as a pair of doubles, `high * 1e9 + low`, and not as one double.
    pub(crate) fn is_pair(self, number: RuleNumber) -> bool {
        match number {
            RuleNumber::Capacity | RuleNumber::Rate | RuleNumber::ReachNanos | RuleNumber::Bound => false,
            RuleNumber::Need => !self.is_bucket(),
            _ => true,
        }
    }
}
