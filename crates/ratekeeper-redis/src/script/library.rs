//! The scripts, composed of their parts on first use.

use std::sync::OnceLock;

use ratekeeper::algorithm::{SLACK, Tenancy};
use ratekeeper::state::{NamedStates, Record};
use ratekeeper::{Nanos, Plan};

use super::kind::RuleKind;
use super::source::Script;
use crate::encoding::Encoding;

/// The text of a part, by the name of its file.
macro_rules! part {
    ($name:literal) => {
        include_str!(concat!("../../scripts/", $name, ".lua"))
    };
}

/// Where a script's time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptTime {
    /// The server's clock.
    Server,
    /// The last argument of the call: for tests.
    Given,
}

/// The set of parts that a script is composed of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScriptParts(u16);

impl ScriptParts {
    const ASCII: u16 = 64;
    const BINARY: u16 = 128;
    const BINARY_SHARED: u16 = 256;
    const ALL: usize = 512;

    /// Adds the parts that a rule needs.
    pub(crate) fn need(&mut self, kind: RuleKind, encoding: Encoding, tenancy: Tenancy) {
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

/// Every script there is, each composed when it is first needed. A server keeps only those that were used.
#[derive(Debug)]
pub(crate) struct ScriptLibrary {
    time: ScriptTime,
    decide: Box<[OnceLock<Script>]>,
    /// By the number of rules of a plan.
    express: [OnceLock<Script>; Plan::MAX_RULES + 1],
    /// For one quota that a request brings.
    express_shared: OnceLock<Script>,
    /// Replaces a state, if it is still what was read.
    pub(crate) replace: Script,
    /// Sets a value, if it is still what was read.
    pub(crate) compare_and_set: Script,
    /// Takes, renews, counts and gives back permits.
    pub(crate) permits: Script,
    /// Reads whatever is under a key.
    pub(crate) inspect: Script,
}

impl ScriptLibrary {
    /// Returns a library whose scripts go by this time.
    pub(crate) fn new(time: ScriptTime) -> Self {
        ScriptLibrary {
            time,
            decide: (0..ScriptParts::ALL).map(|_| OnceLock::new()).collect(),
            express: [const { OnceLock::new() }; Plan::MAX_RULES + 1],
            express_shared: OnceLock::new(),
            replace: Script::composed(&[part!("replace")]),
            compare_and_set: Script::composed(&[part!("compare_and_set")]),
            permits: Script::composed(&[part!("permits")]),
            inspect: Script::composed(&[part!("inspect")]),
        }
    }

    /// Returns the script that decides rules of these kinds.
    pub(crate) fn decide(&self, parts: ScriptParts) -> &Script {
        self.decide[usize::from(parts.0)].get_or_init(|| compose(self.time, parts))
    }

    /// Returns the script for the common case: one key, `rules` rules that are all GCRA, in ASCII. None if a plan cannot
    /// have that many rules.
    pub(crate) fn express(&self, rules: usize, tenancy: Tenancy) -> Option<&Script> {
        let script = match tenancy {
            Tenancy::Own => self.express.get(rules).filter(|_| rules > 0)?,
            Tenancy::Shared => Some(&self.express_shared).filter(|_| rules == 1)?,
        };
        Some(script.get_or_init(|| Script::composed(&[time_part(self.time), &unrolled(rules, tenancy)])))
    }
}

fn compose(time: ScriptTime, parts: ScriptParts) -> Script {
    let numbers = engine_numbers();
    let mut texts = vec![&*numbers, part!("prelude"), part!("number"), time_part(time), part!("lifetime")];
    let windows = RuleKind::Window.bit() | RuleKind::SlidingWindow.bit() | RuleKind::SlidingLog.bit();
    let needed = [
        (windows, part!("tenancy")),
        (RuleKind::Gcra.bit() | RuleKind::SlidingWindow.bit(), part!("product")),
        (RuleKind::TokenBucket.bit() | RuleKind::LeakyBucket.bit(), part!("flow")),
        (RuleKind::Gcra.bit(), part!("gcra")),
        (RuleKind::TokenBucket.bit(), part!("token_bucket")),
        (RuleKind::LeakyBucket.bit(), part!("leaky_bucket")),
        (RuleKind::Window.bit(), part!("fixed_window")),
        (RuleKind::SlidingWindow.bit(), part!("sliding_window")),
        (RuleKind::SlidingLog.bit(), part!("sliding_log")),
        (ScriptParts::ASCII, part!("ascii")),
        (ScriptParts::BINARY, part!("binary")),
        (ScriptParts::BINARY_SHARED, part!("binary_shared")),
    ];
    texts.extend(needed.iter().filter(|(bits, _)| parts.has(*bits)).map(|(_, text)| *text));
    texts.push(part!("decide"));
    Script::composed(&texts)
}

/// Returns the line of Lua that declares the engine's own bounds.
fn engine_numbers() -> String {
    const SECOND: Nanos = Nanos::from_secs(1);
    const { assert!(SLACK.as_nanos().is_multiple_of(SECOND.as_nanos()), "the scripts add whole seconds") };
    let slack = SLACK.as_nanos() / SECOND.as_nanos();
    let (names, others) = (Record::MAX_NAMES, NamedStates::MAX_OTHERS);
    format!("local SLACK, MOST_NAMES, MOST_OTHERS = {slack}, {names}, {others}\n")
}

fn time_part(time: ScriptTime) -> &'static str {
    match time {
        ScriptTime::Server => part!("time_server"),
        ScriptTime::Given => part!("time_given"),
    }
}

/// Returns `scripts/express.lua` unrolled for `rules` rules: loops and tables would cost more than what they go over.
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

/// Splits a text at the parenthesis that closes the one just before the text.
fn balanced(text: &str) -> (&str, &str) {
    let mut depth = 1;
    let close = text.find(|character| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        depth == 0
    });
    close.map_or((text, ""), |at| (&text[..at], &text[at + 1..]))
}
