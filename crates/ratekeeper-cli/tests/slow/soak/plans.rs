//! The plans that are asked for, and what holds of each.

use crate::soak::law::Law;
use crate::soak::schedule::StoreKind;
use crate::soak::timeline::Nanos;

/// A plan under which one key is asked for by everybody: its name, its rules, and what else its section says.
struct SharedPlan {
    name: &'static str,
    limits: &'static [&'static str],
    more: &'static str,
}

const CLOSED: &str = "on_store_error = \"closed\"";

/// Every algorithm, several rules, a lease, every failure mode.
const SHARED: [SharedPlan; 14] = [
    SharedPlan { name: "gcra", limits: &["10/s burst 20"], more: CLOSED },
    SharedPlan { name: "bucket", limits: &["10/s burst 20 bucket"], more: CLOSED },
    SharedPlan { name: "leaky", limits: &["10/s burst 20 leaky"], more: CLOSED },
    SharedPlan { name: "fixed", limits: &["40 per 4s fixed"], more: CLOSED },
    SharedPlan { name: "grid", limits: &["30 per 3s fixed grid"], more: CLOSED },
    SharedPlan { name: "sliding", limits: &["30 per 3s sliding"], more: CLOSED },
    SharedPlan { name: "log", limits: &["30 per 3s log"], more: CLOSED },
    SharedPlan { name: "pair", limits: &["10/s burst 20", "60 per 10s fixed"], more: CLOSED },
    // Used up within seconds, and never to be seen again.
    SharedPlan { name: "daily", limits: &["100/day"], more: CLOSED },
    SharedPlan {
        name: LEASED,
        limits: &["40/s burst 80"],
        more: "on_store_error = \"closed\"\nlease = \"200ms\"",
    },
    SharedPlan { name: REFUNDED, limits: &["10/s burst 20"], more: CLOSED },
    SharedPlan { name: "local", limits: &["5/s burst 10"], more: "on_store_error = \"local\"" },
    SharedPlan { name: OPEN, limits: &["10/s burst 20"], more: "on_store_error = \"open\"" },
    SharedPlan { name: "error", limits: &["10/s burst 20"], more: "on_store_error = \"error\"" },
];

pub(crate) const LEASED: &str = "leased";
pub(crate) const REFUNDED: &str = "refunded";
pub(crate) const OPEN: &str = "open";
/// Its limit is changed by reloads.
pub(crate) const CHANGING: &str = "changing";
const BURST: u64 = 20;
const SMALLER_BURST: u64 = 8;
/// Held and settled.
pub(crate) const HELD: &str = "llm";
/// Asked for as Envoy does.
pub(crate) const ENVOY: &str = "envoy";
/// For keys of nobody else's.
pub(crate) const OWN: &str = "own";
/// For very many keys.
pub(crate) const COLD: &str = "cold";

const LEASE: Nanos = 200_000_000;
/// Tokens at once and in a second, and how many may be held at the same time.
const HELD_TOKENS: (u64, u64) = (400, 200);
pub(crate) const HELD_PLACES: usize = 4;
/// How long something is held if nobody ends it.
pub(crate) const HOLD_LEASE_MS: u64 = 2_000;

/// The limit that is changed.
fn limit(burst: u64) -> String {
    format!("10/s burst {burst}")
}

/// The laws of all shared keys, in the order in which they are counted. The last two are not taken by `acquire`.
pub(crate) fn laws(store: StoreKind) -> Vec<Law> {
    let mut laws: Vec<Law> = SHARED
        .iter()
        .map(|plan| {
            let law = Law::new(plan.name, plan.limits);
            match plan.name {
                LEASED if store != StoreKind::Memory => law.leased(LEASE),
                "local" => law.local(),
                _ => law,
            }
        })
        .collect();
    // The larger of both limits that it has in turn: a change never refills a key (docs/semantics.md §2).
    laws.push(Law::new(CHANGING, &[&limit(BURST)]).lowered(BURST - SMALLER_BURST));
    laws.push(Law::held(HELD, HELD_TOKENS.0, HELD_TOKENS.1));
    laws.push(Law::new(ENVOY, &["20/s fixed"]));
    laws
}

/// What the file of plans says at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Usual,
    /// With another limit of one plan, and one plan more.
    Changed,
    /// With a mistake in its last line.
    Wrong,
}

/// The file of plans.
pub(crate) fn file(version: Version) -> String {
    let mut text = String::new();
    for SharedPlan { name, limits, more } in &SHARED {
        text.push_str(&format!("[plans.{name}]\nlimits = {limits:?}\n{more}\n"));
    }
    let (burst, more) = match version {
        Version::Usual => (BURST, String::new()),
        Version::Changed => (SMALLER_BURST, format!("[plans.new]\nlimits = [\"1/s\"]\n{CLOSED}\n")),
        Version::Wrong => (BURST, "[plans.wrong]\nlimits = [\"1/fortnight\"]\n".to_owned()),
    };
    text.push_str(&format!("[plans.{CHANGING}]\nlimits = [\"{}\"]\n{CLOSED}\n", limit(burst)));
    let (tokens, a_second) = HELD_TOKENS;
    text.push_str(&format!(
        "[plans.{HELD}]\nlimits = [\"{a_second} tokens/s burst {tokens}\", \"{HELD_PLACES} concurrent\"]\n{CLOSED}\n"
    ));
    text.push_str(&format!("[plans.{OWN}]\nlimits = [\"5/s burst 5\"]\n{CLOSED}\n"));
    text.push_str(&format!("[plans.{COLD}]\nlimits = [\"1/s burst 3\", \"20/m fixed\"]\n{CLOSED}\n{more}"));
    text
}

/// The limits for Envoy.
pub(crate) const ENVOY_FILE: &str = "\
domain: soak
descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: 20}
";
