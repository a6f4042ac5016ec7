//! What a reload changes: plans, rules, and settings that only a restart changes.

use std::collections::{BTreeMap, BTreeSet};

use ratekeeper::{Plan, Quota, Rule};
use toml::{Table, Value};

/// Lines about single rules that one reload logs at the most.
const MOST_LINES: usize = 50;

/// Rules that a summary tells of at the most.
const MOST_DETAILS: usize = 10;

/// What is different between two lists of plans.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PlanChanges {
    pub(super) added: Vec<String>,
    pub(super) removed: Vec<String>,
    pub(super) changed: Vec<String>,
    pub(super) details: Vec<RuleChange>,
}

/// One line about a plan that changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RuleChange {
    pub(super) plan: String,
    pub(super) rule: String,
    pub(super) was: String,
    pub(super) now: String,
    /// What becomes of the states.
    pub(super) effect: &'static str,
    /// True if callers may get more than either limit allows, or are refused what neither would have refused.
    pub(super) warns: bool,
}

const KEPT: &str = "rule changed: its states are kept";
const ALGORITHM: &str = "rule changed to another algorithm: its states start fresh, in memory and over Redis; \
                         every key has its whole limit once more";
const LENGTH: &str = "rule changed the length of its windows: a key's count is kept while the shorter of both \
                      windows lasts, and then starts fresh";
const ANCHOR: &str = "rule changed where its windows begin: a key's count is kept only if it began in the window \
                      that is now the current one, and otherwise starts fresh";
const ADDED: &str = "rule added: it starts fresh for every key";
const REMOVED: &str = "rule removed";
const RENAMED: &str = "rule added while others of its plan went: states are found by name, so it starts fresh for \
                       every key; keep the old name to keep its states";
const MODE: &str = "plan changed what it answers when the store fails";
const UNIT: &str = "rule counts another unit: its states are kept, and what was used of the old unit counts as \
                    used of the new one; give it another name to start fresh";
const BINDS: &str = "rule is no longer in shadow: it denies from now on, and what it has counted counts";
const SHADOW: &str = "rule is in shadow: it no longer denies, and goes on counting";
const ASSUMED: &str = "plan changed what it assumes of units that a request does not name";
const LAPSE: &str =
    "plan changed what becomes of estimates whose lease runs out: that counts for holds from now on";
const LEASE: &str = "plan changed how long tokens may be kept ahead: what is held ends when it would have";

impl PlanChanges {
    /// What must be done to `old` to get `new`.
    pub(super) fn between(old: &[Plan], new: &[Plan]) -> Self {
        let by_name = |plans: &[Plan]| -> BTreeMap<String, Plan> {
            plans.iter().map(|plan| (plan.name().to_string(), plan.clone())).collect()
        };
        let (old, new) = (by_name(old), by_name(new));
        let mut changes = PlanChanges {
            added: new.keys().filter(|name| !old.contains_key(*name)).cloned().collect(),
            ..PlanChanges::default()
        };
        for (name, was) in old {
            match new.get(&name) {
                None => changes.removed.push(name),
                Some(now) if *now != was => {
                    changes.rules(&was, now);
                    changes.changed.push(name);
                }
                Some(_) => {}
            }
        }
        changes
    }

    fn rules(&mut self, was: &Plan, now: &Plan) {
        let find =
            |plan: &Plan, rule: &Rule| plan.rules().iter().find(|other| other.name() == rule.name()).cloned();
        let gone: Vec<_> = was.rules().iter().filter(|rule| find(now, rule).is_none()).collect();
        let mut tell = |rule: &str, was: String, now_is: String, effect| {
            let warns = matches!(effect, ALGORITHM | LENGTH | ANCHOR | RENAMED | UNIT);
            let plan = now.name().to_string();
            self.details.push(RuleChange { plan, rule: rule.to_owned(), was, now: now_is, effect, warns });
        };
        if was.failure_mode() != now.failure_mode() {
            tell("", was.failure_mode().word().to_owned(), now.failure_mode().word().to_owned(), MODE);
        }
        if was.assumed() != now.assumed() {
            tell("", assumed(was), assumed(now), ASSUMED);
        }
        if was.lapse() != now.lapse() {
            tell("", was.lapse().word().to_owned(), now.lapse().word().to_owned(), LAPSE);
        }
        if was.lease_setting() != now.lease_setting() {
            tell("", was.lease_setting().to_string(), now.lease_setting().to_string(), LEASE);
        }
        for rule in &gone {
            tell(rule.name().as_str(), rule.to_string(), String::new(), REMOVED);
        }
        for rule in now.rules() {
            let (name, text) = (rule.name().as_str(), rule.to_string());
            let Some(old) = find(was, rule) else {
                let effect = if gone.is_empty() { ADDED } else { RENAMED };
                tell(name, String::new(), text, effect);
                continue;
            };
            if old.unit() != rule.unit() {
                tell(name, old.to_string(), text.clone(), UNIT);
            }
            if old.is_shadow() != rule.is_shadow() {
                let effect = if rule.is_shadow() { SHADOW } else { BINDS };
                tell(name, old.to_string(), text.clone(), effect);
            }
            if old.quota() != rule.quota() {
                tell(name, old.to_string(), text, effect(old.quota(), rule.quota()));
            }
        }
    }

    /// Returns true if something changes that callers may notice in a way that nobody meant.
    pub(super) fn warns(&self) -> bool {
        !self.removed.is_empty() || self.details.iter().any(|detail| detail.warns)
    }

    /// Returns what changes, in one line.
    pub(super) fn summary(&self) -> String {
        let mut parts = Vec::new();
        for (word, names) in [("removed", &self.removed), ("added", &self.added), ("changed", &self.changed)]
        {
            if !names.is_empty() {
                parts.push(format!("{word} {}", shown(names)));
            }
        }
        if parts.is_empty() {
            return "nothing has changed".to_owned();
        }
        for RuleChange { plan, rule, was, now, .. } in self.details.iter().take(MOST_DETAILS) {
            let of = if rule.is_empty() { plan.clone() } else { format!("{plan} {rule}") };
            parts.push(match (was.as_str(), now.as_str()) {
                ("", now) => format!("{of} is {now}"),
                (was, "") => format!("{of} was {was}"),
                (was, now) => format!("{of} from {was} to {now}"),
            });
        }
        if let Some(more) = self.details.len().checked_sub(MOST_DETAILS).filter(|more| *more > 0) {
            parts.push(format!("and {more} rules more"));
        }
        parts.join("; ")
    }

    /// Logs what changes: one line for all plans, and one for each rule that changed.
    pub(super) fn log(&self) {
        if !self.removed.is_empty() {
            let plans = shown(&self.removed);
            tracing::warn!(plans, "plans removed: requests that name them are refused");
        }
        if !self.added.is_empty() {
            tracing::info!(plans = shown(&self.added), "plans added");
        }
        if !self.changed.is_empty() {
            tracing::info!(plans = shown(&self.changed), "plans changed");
        }
        // Warnings come first: they must not be among what is left out.
        let (warnings, kept): (Vec<_>, Vec<_>) = self.details.iter().partition(|detail| detail.warns);
        for RuleChange { plan, rule, was, now, effect, warns } in
            warnings.iter().chain(&kept).take(MOST_LINES)
        {
            if *warns {
                tracing::warn!(plan, rule, was, now, "{effect}");
            } else {
                tracing::info!(plan, rule, was, now, "{effect}");
            }
        }
        if let Some(more) = self.details.len().checked_sub(MOST_LINES).filter(|more| *more > 0) {
            tracing::info!(more, "more rules changed than are told");
        }
    }
}

/// What a plan assumes: `tokens = 1000`.
fn assumed(plan: &Plan) -> String {
    let assumed = plan.assumed().iter().map(|(unit, cost)| format!("{unit} = {}", cost.get()));
    assumed.collect::<Vec<_>>().join(", ")
}

/// What becomes of a rule's states when its quota changes.
fn effect(was: &Quota, now: &Quota) -> &'static str {
    let (old, new) = (was.algorithm(), now.algorithm());
    if !new.has_states_of(old) {
        ALGORITHM
    } else if old != new {
        ANCHOR
    } else if old.counts_in_windows() && was.period() != now.period() {
        LENGTH
    } else {
        KEPT
    }
}

/// Names side by side, the first of them if there are many.
fn shown(names: &[String]) -> String {
    let first = names.iter().take(MOST_LINES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(MOST_LINES).filter(|more| *more > 0) {
        Some(more) => format!("{first} and {more} more"),
        None => first,
    }
}

/// The tables of a file that a reload changes. Everything else needs a restart.
const RELOADED: [&str; 1] = ["plans"];

/// The settings of a file that need a restart, by their names, as in `transports.http.port`. Values are only compared,
/// and never shown: some are secrets.
pub(super) fn fixed_settings(text: &str) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (name, value) in text.parse::<Table>().unwrap_or_default() {
        if !RELOADED.contains(&name.as_str()) {
            flatten(name, value, &mut found);
        }
    }
    found
}

fn flatten(name: String, value: Value, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Table(table) => {
            table.into_iter().for_each(|(key, value)| flatten(format!("{name}.{key}"), value, found));
        }
        value => drop(found.insert(name, value)),
    }
}

/// The names of the settings that are different, side by side; nothing if there are none.
pub(super) fn differing(running: &BTreeMap<String, Value>, file: &BTreeMap<String, Value>) -> Option<String> {
    let differs = |name: &&String| running.get(*name) != file.get(*name);
    let names: BTreeSet<&String> = running.keys().chain(file.keys()).filter(differs).collect();
    let names: Vec<String> = names.into_iter().cloned().collect();
    (!names.is_empty()).then(|| shown(&names))
}

#[cfg(test)]
mod tests {
    use ratekeeper::OnLapse;

    use super::*;

    fn plan(name: &str, text: &str) -> Plan {
        Plan::parse(name, text).unwrap()
    }

    #[test]
    fn every_way_to_change_a_rule_says_what_becomes_of_its_states() {
        for (was, now, effect, warns) in [
            ("a=10/s", "a=20/s burst 5", KEPT, false),
            ("a=10/s", "a=10/m", KEPT, false),
            ("a=10/s", "a=10/s fixed", ALGORITHM, true),
            ("a=10/s bucket", "a=10/s leaky", ALGORITHM, true),
            ("a=10/h fixed", "a=10/h fixed grid", ANCHOR, true),
            ("a=10/day fixed grid", "a=10/day fixed calendar UTC", ANCHOR, true),
            ("a=10/h fixed", "a=10/m fixed", LENGTH, true),
            ("a=10/h sliding", "a=10/m sliding", LENGTH, true),
            ("a=10/h log", "a=20/h log", KEPT, false),
            ("a=10/s", "a=10/s; b=5/s", ADDED, false),
            ("a=10/s; b=5/s", "a=10/s", REMOVED, false),
            ("a=10/s", "a=10 tokens/s", UNIT, true),
            ("a=8 concurrent", "a=9 concurrent", KEPT, false),
            ("a=8 tokens concurrent", "a=8 concurrent", UNIT, true),
        ] {
            let changes = PlanChanges::between(&[plan("p", was)], &[plan("p", now)]);
            let told: Vec<_> = changes.details.iter().map(|detail| (detail.effect, detail.warns)).collect();
            assert_eq!(told, [(effect, warns)], "{was} to {now}");
            assert_eq!(changes.changed, ["p"]);
        }
        // A rule without a name is called after its period: another period is another rule.
        let changes = PlanChanges::between(&[plan("p", "100/m")], &[plan("p", "100/h")]);
        let told: Vec<_> = changes.details.iter().map(|detail| (&*detail.rule, detail.effect)).collect();
        assert_eq!(told, [("per-m", REMOVED), ("per-h", RENAMED)]);
    }

    #[test]
    fn shadow_what_is_assumed_and_leases_are_told() {
        let told = |was: Plan, now: Plan| {
            let changes = PlanChanges::between(&[was], &[now]);
            assert_eq!(changes.changed, ["p"]);
            let line =
                |detail: RuleChange| (detail.rule, detail.was, detail.now, detail.effect, detail.warns);
            changes.details.into_iter().map(line).collect::<Vec<_>>()
        };
        let line = |rule: &str, was: &str, now: &str, effect| {
            (rule.to_owned(), was.to_owned(), now.to_owned(), effect, false)
        };
        let (binding, both) = (plan("p", "a=5 tokens/s"), plan("p", "a=5 tokens/s; b=9 tokens/s"));
        let shadow = Plan::with_shadow("p", ["a=5 tokens/s"], ["b=9 tokens/s"]).unwrap();
        assert_eq!(told(binding.clone(), shadow.clone()), [line("b", "", "9 tokens/s", ADDED)]);
        assert_eq!(told(shadow.clone(), both.clone()), [line("b", "9 tokens/s", "9 tokens/s", BINDS)]);
        assert_eq!(told(both, shadow), [line("b", "9 tokens/s", "9 tokens/s", SHADOW)]);
        assert_eq!(
            told(binding.clone(), plan("p", "a=6 tokens/s").shadow()),
            [line("a", "5 tokens/s", "6 tokens/s", SHADOW), line("a", "5 tokens/s", "6 tokens/s", KEPT)]
        );
        let assuming = |amount: u64| binding.clone().assume("tokens", amount).unwrap();
        assert_eq!(told(binding.clone(), assuming(7)), [line("", "", "tokens = 7", ASSUMED)]);
        assert_eq!(told(assuming(7), assuming(8)), [line("", "tokens = 7", "tokens = 8", ASSUMED)]);
        let refunding = binding.clone().on_lapse(OnLapse::Refund);
        assert_eq!(told(binding.clone(), refunding), [line("", "keep", "refund", LAPSE)]);
        let leased = binding.clone().lease("10%".parse().unwrap()).unwrap();
        assert_eq!(told(binding, leased), [line("", "off", "10%", LEASE)]);
    }

    #[test]
    fn plans_come_go_and_change() {
        let old = [plan("a", "1/s"), plan("b", "1/s"), plan("c", "1/s")];
        let closed = plan("c", "1/s").on_store_error(ratekeeper::FailureMode::Closed);
        let changes = PlanChanges::between(&old, &[plan("b", "1/s"), closed, plan("d", "1/s")]);
        assert_eq!((changes.added, changes.removed), (vec!["d".to_owned()], vec!["a".to_owned()]));
        assert_eq!(changes.changed, ["c"]);
        assert_eq!((&*changes.details[0].was, &*changes.details[0].now), ("open", "closed"));
        assert_eq!(PlanChanges::between(&old, &old), PlanChanges::default());
    }

    #[test]
    fn settings_are_compared_by_name_wherever_they_stand() {
        let running = fixed_settings("[transports.http]\nport = 1\n[store]\nurl = \"redis://:pw@h\"\n");
        let moved =
            "store = { url = \"redis://:pw@h\" }\n[plans.a]\nlimits = []\n[transports.http]\nport = 1\n";
        assert_eq!(differing(&running, &fixed_settings(moved)), None);
        let changed = fixed_settings("[transports]\nhttp.port = 2\n[server]\nloops = 1\n");
        let told = differing(&running, &changed).unwrap();
        assert_eq!(told, "server.loops, store.url, transports.http.port");
    }
}
