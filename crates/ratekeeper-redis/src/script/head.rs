//! What stands before the rules of a script: the time, the script's own numbers, and functions for what is rare.

use ratekeeper::Nanos;
use ratekeeper::algorithm::SLACK;
use ratekeeper::state::{NamedStates, Record};

use super::kind::RuleKind;
use super::section::{Section, part};
use super::shape::ScriptShape;
use crate::encoding::Encoding;

/// Where a script's time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptTime {
    /// The server's clock.
    Server,
    /// The last argument of the call: for tests.
    Given,
}

/// Returns what stands before the rules of a script of this shape, as far as their text needs it.
pub(super) fn head(time: ScriptTime, shape: &ScriptShape, body: &str) -> String {
    let groups = shape.groups();
    let has = |encoding| groups.iter().any(|group| group.encoding == encoding);
    let has_log = groups.iter().any(|group| group.rules.iter().any(|rule| rule.kind == RuleKind::SlidingLog));
    let mut head = lean(match time {
        ScriptTime::Server => part!("time_server"),
        ScriptTime::Given => part!("time_given"),
    });
    let library = |parts: &[(bool, &str)]| -> String {
        parts.iter().filter(|part| part.0).map(|part| lean(part.1)).collect()
    };
    let parts = [
        (true, part!("number")),
        (true, part!("product")),
        (has(Encoding::Ascii), part!("ascii")),
        (has(Encoding::Binary), part!("binary")),
    ];
    if body.contains("rare()") {
        head.push_str("local function rare()\n");
        head.push_str(&bounds());
        head.push_str(&library(&parts));
        head.push_str("return { integer = integer, decimal = decimal, times = times,\n");
        head.push_str(
            "quotient = quotient, product_is_less = product_is_less, sliding_most = sliding_most,\n",
        );
        if has(Encoding::Ascii) {
            head.push_str(
                "decimal_double = decimal_double, names_of = names_of, split = split, join = join,\n",
            );
        }
        if has(Encoding::Binary) {
            head.push_str("pack_integer = pack_integer, unpack_integer = unpack_integer,\n");
            head.push_str("pack_micros = pack_micros, unpack_micros = unpack_micros,\n");
            head.push_str("contents_of = contents_of, make_room = make_room,\n");
        }
        head.push_str("least = least, LAST_HIGH = LAST_HIGH, LAST_LOW = LAST_LOW }\nend\n");
    }
    if has_log {
        head.push_str(&bounds());
        let words: &[&str] = if has(Encoding::Binary) { &["binary"] } else { &[] };
        head.push_str(&library(&[(true, part!("number")), (has(Encoding::Binary), part!("binary"))]));
        head.push_str(&lean(&Section::Functions.of(RuleKind::SlidingLog, words)));
    }
    if body.contains("overdue()") {
        head.push_str("local function overdue()\n");
        head.push_str(&lean(part!("holds")));
        head.push_str("return lapse, forget\nend\n");
    }
    if body.contains("SLACK_HIGH") {
        head.push_str(&format!("local SLACK_HIGH, SLACK_LOW = {}, 0\n", slack_seconds()));
    }
    if body.contains("END_HIGH") {
        // From now to the last instant, 2^63 - 1 nanoseconds.
        head.push_str("local END_HIGH, END_LOW = 9223372036 - NOW_HIGH, 854775807 - NOW_LOW\n");
        head.push_str("if END_LOW < 0 then END_HIGH, END_LOW = END_HIGH - 1, END_LOW + 1000000000 end\n");
    }
    if body.contains("UTMOST_HIGH") {
        // The largest count that can be written down: 2^63 - 1.
        head.push_str("local UTMOST_HIGH, UTMOST_LOW = 9223372036, 854775807\n");
    }
    if body.contains("NOW_UPPER") {
        head.push_str(NOW_IN_WORDS);
    }
    head
}

/// Now in nanoseconds, as two words of 32 bits.
const NOW_IN_WORDS: &str = "local NOW_UPPER, NOW_LOWER
do
local rest = NOW_HIGH % 65536
local product = (NOW_HIGH - rest) / 65536 * 1000000000
local word = product % 65536
local lower = word * 65536 + rest * 1000000000 + NOW_LOW
NOW_LOWER = lower % 4294967296
NOW_UPPER = (product - word) / 65536 + (lower - NOW_LOWER) / 4294967296
end
";

/// Returns the line of Lua that declares the engine's own bounds.
fn bounds() -> String {
    let (names, others) = (Record::MAX_NAMES, NamedStates::MAX_OTHERS);
    format!("local SLACK, MOST_NAMES, MOST_OTHERS = {}, {names}, {others}\n", slack_seconds())
}

fn slack_seconds() -> u64 {
    const SECOND: Nanos = Nanos::from_secs(1);
    const { assert!(SLACK.as_nanos().is_multiple_of(SECOND.as_nanos()), "the scripts add whole seconds") };
    SLACK.as_nanos() / SECOND.as_nanos()
}

/// Returns a text without its comments and empty lines: what a server has to keep.
fn lean(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("--") && !line.trim().is_empty());
    lines.flat_map(|line| [line.trim_start(), "\n"]).collect()
}
