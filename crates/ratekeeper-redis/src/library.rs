//! The scripts, composed of their parts on first use.

use std::sync::OnceLock;

use ratekeeper::algorithm::{SLACK, Tenancy};
use ratekeeper::state::{NamedStates, Record};
use ratekeeper::{Algorithm, Anchor, Nanos, Plan, Quota};

use crate::encoding::Encoding;
use crate::script::Script;

/// A part of a script.
macro_rules! part {
    ($name:literal) => {
        include_str!(concat!("../scripts/", $name, ".lua"))
    };
}

/// The longest grid that the script divides time into by itself: a step of the division must stay below 2^53.
const LONGEST_GRID: Nanos = Nanos::from_secs(9_000);

/// Where a script's time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimePart {
    /// The server.
    Server,
    /// The last argument: for tests.
    Given,
}

/// What the script does with a quota: the algorithm's letter, and the bit that stands for its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Gcra,
    TokenBucket,
    LeakyBucket,
    /// Windows that begin with the first request.
    Window,
    /// Windows on a grid that the script knows.
    Grid,
    /// Windows whose edges are sent.
    Edges,
    SlidingWindow,
    SlidingLog,
}

impl Kind {
    /// The kind of a quota; none for concurrency, which no stored state decides.
    pub(crate) fn of(quota: &Quota) -> Option<Self> {
        Some(match quota.algorithm() {
            Algorithm::Gcra => Kind::Gcra,
            Algorithm::TokenBucket => Kind::TokenBucket,
            Algorithm::LeakyBucket => Kind::LeakyBucket,
            Algorithm::FixedWindow(Anchor::FirstRequest) => Kind::Window,
            Algorithm::FixedWindow(Anchor::Grid) if quota.period() <= LONGEST_GRID => Kind::Grid,
            Algorithm::FixedWindow(_) => Kind::Edges,
            Algorithm::SlidingWindow => Kind::SlidingWindow,
            Algorithm::SlidingLog => Kind::SlidingLog,
            _ => return None,
        })
    }

    /// How the script is told.
    pub(crate) fn letter(self) -> u8 {
        match self {
            Kind::Gcra => b'g',
            Kind::TokenBucket => b't',
            Kind::LeakyBucket => b'l',
            Kind::Window => b'f',
            Kind::Grid => b'm',
            Kind::Edges => b'w',
            Kind::SlidingWindow => b's',
            Kind::SlidingLog => b'o',
        }
    }

    const fn bit(self) -> u16 {
        match self {
            Kind::Gcra => 1,
            Kind::TokenBucket => 2,
            Kind::LeakyBucket => 4,
            Kind::Window | Kind::Grid | Kind::Edges => 8,
            Kind::SlidingWindow => 16,
            Kind::SlidingLog => 32,
        }
    }
}

/// Which parts a script needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts(u16);

impl Parts {
    const ASCII: u16 = 64;
    const BINARY: u16 = 128;
    const BINARY_SHARED: u16 = 256;
    const ALL: usize = 512;

    /// Adds what a rule needs.
    pub(crate) fn need(&mut self, kind: Kind, encoding: Encoding, tenancy: Tenancy) {
        self.0 |= kind.bit();
        self.0 |= match (encoding, tenancy) {
            (Encoding::Ascii, _) => Self::ASCII,
            (Encoding::Binary, Tenancy::Own) => Self::BINARY,
            (Encoding::Binary, Tenancy::Shared) => Self::BINARY | Self::BINARY_SHARED,
        };
    }

    fn has(self, bits: u16) -> bool {
        self.0 & bits != 0
    }
}

/// Every script there is, composed when it is first needed. A server keeps only those that were used.
#[derive(Debug)]
pub(crate) struct Library {
    time: TimePart,
    decide: Box<[OnceLock<Script>]>,
    /// By the number of rules of a plan.
    express: [OnceLock<Script>; Plan::MAX_RULES + 1],
    /// For one quota that a request brings.
    express_shared: OnceLock<Script>,
    replace: Script,
    compare_and_set: Script,
    permits: Script,
    inspect: Script,
}

impl Library {
    /// Scripts that go by this time.
    pub(crate) fn new(time: TimePart) -> Self {
        Library {
            time,
            decide: (0..Parts::ALL).map(|_| OnceLock::new()).collect(),
            express: [const { OnceLock::new() }; Plan::MAX_RULES + 1],
            express_shared: OnceLock::new(),
            replace: Script::composed(&[part!("replace")]),
            compare_and_set: Script::composed(&[part!("compare_and_set")]),
            permits: Script::composed(&[part!("permits")]),
            inspect: Script::composed(&[part!("inspect")]),
        }
    }

    /// The script that decides rules of these kinds.
    pub(crate) fn decide(&self, parts: Parts) -> &Script {
        self.decide[usize::from(parts.0)].get_or_init(|| compose(self.time, parts))
    }

    /// The script for usual requests under so many rules.
    pub(crate) fn express(&self, rules: usize, tenancy: Tenancy) -> Option<&Script> {
        let script = match tenancy {
            Tenancy::Own => self.express.get(rules).filter(|_| rules > 0)?,
            Tenancy::Shared => Some(&self.express_shared).filter(|_| rules == 1)?,
        };
        Some(script.get_or_init(|| Script::composed(&[time_part(self.time), &unrolled(rules, tenancy)])))
    }

    /// The script that replaces a state.
    pub(crate) fn replace(&self) -> &Script {
        &self.replace
    }

    /// The script that sets a value if it is still what was read.
    pub(crate) fn compare_and_set(&self) -> &Script {
        &self.compare_and_set
    }

    /// The script that takes and gives back permits.
    pub(crate) fn permits(&self) -> &Script {
        &self.permits
    }

    /// The script that reads whatever is under a key.
    pub(crate) fn inspect(&self) -> &Script {
        &self.inspect
    }
}

fn compose(time: TimePart, parts: Parts) -> Script {
    let numbers = engine_numbers();
    let mut texts = vec![&*numbers, part!("prelude"), part!("number"), time_part(time), part!("lifetime")];
    let windows = Kind::Window.bit() | Kind::SlidingWindow.bit() | Kind::SlidingLog.bit();
    let needed = [
        (windows, part!("tenancy")),
        (Kind::Gcra.bit() | Kind::SlidingWindow.bit(), part!("product")),
        (Kind::TokenBucket.bit() | Kind::LeakyBucket.bit(), part!("flow")),
        (Kind::Gcra.bit(), part!("gcra")),
        (Kind::TokenBucket.bit(), part!("token_bucket")),
        (Kind::LeakyBucket.bit(), part!("leaky_bucket")),
        (Kind::Window.bit(), part!("fixed_window")),
        (Kind::SlidingWindow.bit(), part!("sliding_window")),
        (Kind::SlidingLog.bit(), part!("sliding_log")),
        (Parts::ASCII, part!("ascii")),
        (Parts::BINARY, part!("binary")),
        (Parts::BINARY_SHARED, part!("binary_shared")),
    ];
    texts.extend(needed.iter().filter(|(bits, _)| parts.has(*bits)).map(|(_, text)| *text));
    texts.push(part!("decide"));
    Script::composed(&texts)
}

/// The engine's numbers that the scripts go by as well.
fn engine_numbers() -> String {
    const SECOND: Nanos = Nanos::from_secs(1);
    const { assert!(SLACK.as_nanos().is_multiple_of(SECOND.as_nanos()), "the scripts add whole seconds") };
    let slack = SLACK.as_nanos() / SECOND.as_nanos();
    let (names, others) = (Record::MAX_NAMES, NamedStates::MAX_OTHERS);
    format!("local SLACK, MOST_NAMES, MOST_OTHERS = {slack}, {names}, {others}\n")
}

fn time_part(time: TimePart) -> &'static str {
    match time {
        TimePart::Server => part!("time_server"),
        TimePart::Given => part!("time_given"),
    }
}

/// `scripts/express.lua` for so many rules: without loops and tables, which cost more than what they go over.
fn unrolled(rules: usize, tenancy: Tenancy) -> String {
    let for_each = |text: &str| -> Vec<String> {
        (1..=rules).map(|rule| text.replace("_N", &format!("_{rule}"))).collect()
    };
    let mut script = String::new();
    for line in part!("express").lines().filter(|line| !line.trim_start().starts_with("--")) {
        let (mut written, mut rest) = (String::new(), line);
        while let Some((before, list)) = rest.split_once("@(") {
            let (list, after) = balanced(list);
            written = written + before + &for_each(list).join(", ");
            rest = after;
        }
        written = written + rest + "\n";
        match written.contains("_N") {
            true => script.extend(for_each(&written)),
            false => script.push_str(&written),
        }
    }
    let slack = match tenancy {
        Tenancy::Own => SLACK.as_nanos().to_string(),
        // Never cut off, however far ahead.
        Tenancy::Shared => "math.huge".into(),
    };
    script.replace("SLACK", &slack)
}

/// What is before the parenthesis that closes the one before, and what is after it.
fn balanced(text: &str) -> (&str, &str) {
    let mut depth = 1;
    let close = text.find(|character| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        depth == 0
    });
    close.map_or((text, ""), |at| (&text[..at], &text[at + 1..]))
}
