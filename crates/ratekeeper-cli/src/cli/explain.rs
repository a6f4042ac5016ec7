//! What a plan means, for people and for programs.

use std::fmt;

use ratekeeper::{Algorithm, OnLapse, Plan, Rule, Unit};
use serde_json::{Map, Value, json};

use super::explain_lease::ExplainedLease;

/// How long calls may well take, in nanoseconds: so much of its rate a rule should let be in flight.
const LONG_CALL: u128 = 60_000_000_000;

/// A plan, as `check` explains it.
#[derive(Debug)]
pub(super) struct ExplainedPlan<'a>(pub(super) &'a Plan);

/// What holds may have of a rate, and what that comes to.
struct HeldTerms {
    /// What may be in flight at most.
    in_flight: u64,
    /// What the rule lets pass at once, and at the edge of two windows twice that.
    at_once: u64,
    /// The rate without its options: `10/s`.
    rate: String,
    /// What a minute of the rate is, if less may be in flight.
    minute: Option<u64>,
}

impl ExplainedPlan<'_> {
    /// Returns what holds may have of a rule; none of one in flight, and of one in shadow, which binds nobody.
    fn held(&self, rule: &Rule) -> Option<HeldTerms> {
        if rule.is_concurrency() || rule.is_shadow() {
            return None;
        }
        let in_flight = self.0.rules().iter().filter(|other| other.is_concurrency() && !other.is_shadow());
        let same_unit = in_flight.filter(|other| other.unit() == rule.unit());
        let least = same_unit.map(|other| other.quota().burst()).min();
        let in_flight = self.0.most_in_flight(rule).or(least)?;
        let quota = rule.quota();
        let windows = matches!(quota.algorithm(), Algorithm::FixedWindow(_) | Algorithm::SlidingWindow);
        let at_once = if windows { quota.burst().saturating_mul(2) } else { quota.burst() };
        let minute = u128::from(quota.count()) * LONG_CALL / u128::from(quota.period().as_nanos().max(1));
        let minute = u64::try_from(minute).unwrap_or(u64::MAX);
        let minute = (in_flight < minute && self.is_held()).then_some(minute);
        Some(HeldTerms { in_flight, at_once, rate: rate(rule), minute })
    }

    /// Returns true if the plan is there to be held: it counts what is in flight, or what is known afterwards.
    fn is_held(&self) -> bool {
        self.0.is_taken_by_holds() || self.0.units().any(|unit| !unit.is_requests())
    }

    /// Returns what a person should know who did not mean it.
    fn warnings(&self) -> Vec<String> {
        let warning = |rule: &Rule| {
            let HeldTerms { in_flight, minute, .. } = self.held(rule)?;
            let (name, minute, unit) = (rule.name(), minute?, rule.unit());
            Some(format!(
                "{name}: {in_flight} in flight are less than a minute of the rate ({minute}), so calls that take long \
                 are limited by what is in flight; allow more by a rule `{minute} {unit} concurrent`"
            ))
        };
        self.0.rules().iter().filter_map(warning).collect()
    }

    /// Returns the plan as an object.
    pub(super) fn to_json(&self) -> Value {
        let plan = self.0;
        let assumed: Map<String, Value> =
            plan.assumed().iter().map(|(unit, cost)| (unit.to_string(), cost.get().into())).collect();
        let lease = ExplainedLease::of(plan);
        json!({
            "name": plan.name().as_str(),
            "on_store_error": plan.failure_mode().word(),
            "on_lapse": plan.lapse().word(),
            "lease": plan.lease_setting().to_string(),
            "leased": lease.as_ref().map(ExplainedLease::to_json),
            "not_leased": lease.as_ref().and_then(ExplainedLease::why_not),
            "shadow": plan.is_shadow(),
            "taken_by": if plan.is_taken_by_holds() { "hold" } else { "acquire" },
            "assume": assumed,
            "rules": plan.rules().iter().map(|rule| self.rule_json(rule)).collect::<Vec<_>>(),
            "warnings": self.warnings(),
        })
    }

    fn rule_json(&self, rule: &Rule) -> Value {
        let held = self.held(rule).map(|HeldTerms { in_flight, at_once, rate, .. }| {
            json!({ "in_flight": in_flight, "at_once": at_once, "rate": rate })
        });
        json!({
            "name": rule.name().as_str(),
            "quota": rule.quota().to_string(),
            "unit": rule.unit().as_str(),
            "shadow": rule.is_shadow(),
            "algorithm": rule.quota().algorithm().word(),
            "burst": rule.quota().burst(),
            "held": held,
            "lease": ExplainedLease::of(self.0).map(|lease| lease.rule_json(rule)),
        })
    }
}

impl fmt::Display for ExplainedPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.0;
        write!(f, "plan {} (on_store_error: {}", plan.name(), plan.failure_mode().word())?;
        if plan.lapse() != OnLapse::default() {
            write!(f, ", on_lapse: {}", plan.lapse().word())?;
        }
        let lease = ExplainedLease::of(plan);
        if lease.is_some() {
            write!(f, ", lease: {}", plan.lease_setting())?;
        }
        writeln!(f, ")")?;
        if let Some(why) = lease.as_ref().and_then(ExplainedLease::why_not) {
            writeln!(f, "  {why}")?;
        }
        if plan.is_shadow() {
            writeln!(f, "  in shadow: it always allows, and counts what it would have denied")?;
        }
        if plan.is_taken_by_holds() {
            writeln!(f, "  taken by `hold` alone, which ends: it counts what is in flight")?;
        }
        for unit in plan.units().filter(|unit| !unit.is_requests() && **unit != Unit::CONCURRENT) {
            match plan.assumed().iter().find(|(assumed, _)| assumed == unit) {
                Some((_, cost)) => {
                    writeln!(f, "  counts {unit}: {} where a request does not say", cost.get())?
                }
                None => writeln!(f, "  counts {unit}: every request must say how many, or set `assume`")?,
            }
        }
        let width = plan.rules().iter().map(|rule| rule.name().as_str().len()).max().unwrap_or(0).max(12);
        for rule in plan.rules() {
            let (name, quota) = (rule.name(), rule.quota());
            let (word, burst) = (quota.algorithm().word(), quota.burst());
            let unit = if rule.unit().is_requests() { String::new() } else { format!(" {}", rule.unit()) };
            write!(f, "  {name:<width$} {rule}: ")?;
            match rule.is_concurrency() {
                true if *rule.unit() == Unit::CONCURRENT => write!(f, "{burst} in flight")?,
                true => write!(f, "{burst}{unit} in flight")?,
                false => write!(f, "{burst}{unit} at once, by {word}")?,
            }
            writeln!(f, "{}", if rule.is_shadow() { "; in shadow, it never denies" } else { "" })?;
            let indent = "";
            if let Some(HeldTerms { in_flight, at_once, rate, .. }) = self.held(rule) {
                writeln!(
                    f,
                    "  {indent:<width$} held: {in_flight} in flight at most; spent in any span at most {at_once} + {rate} + {in_flight}"
                )?;
            }
            for line in lease.iter().flat_map(|lease| lease.of_rule(rule, &rate(rule))) {
                writeln!(f, "  {indent:<width$} {line}")?;
            }
        }
        self.warnings().iter().try_for_each(|warning| writeln!(f, "  warning: {warning}"))
    }
}

/// Returns the rate of a rule without its options: `100000 tokens/m`.
fn rate(rule: &Rule) -> String {
    let text = rule.to_string();
    // Options follow the period: a word before it is a unit, which may begin like one of them (`logins`).
    let period = text.find('/').or_else(|| text.find(" per ").map(|at| at + " per".len())).unwrap_or(0);
    let options = ["burst", "bucket", "leaky", "fixed", "sliding", "log"];
    let found = options.iter().filter_map(|option| text[period..].find(&format!(" {option}")));
    found.min().map_or(&*text, |end| &text[..period + end]).to_owned()
}
