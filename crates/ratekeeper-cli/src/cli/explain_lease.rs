//! What the lease of a plan means, for people and for programs.

use ratekeeper::{Algorithm, Leasing, Nanos, Plan, Rule};
use serde_json::{Value, json};

/// An instance asks for one hot key so often during a lease.
const CALLS_PER_LIFE: u64 = 4;

/// The lease of a plan, as `check` explains it.
#[derive(Debug)]
pub(super) struct ExplainedLease<'a> {
    /// The plan as it is acquired: rules in flight that are only tried do not count.
    plan: &'a Plan,
}

impl<'a> ExplainedLease<'a> {
    /// Returns what there is to explain; nothing of a plan that has no lease.
    pub(super) fn of(plan: &'a Plan) -> Option<Self> {
        let acquired = plan.to_acquire().map_or(plan, |acquired| acquired);
        (!plan.lease_setting().is_off()).then_some(ExplainedLease { plan: acquired })
    }

    /// Returns why there is never a lease, if so; and whose fault it is if there are several rules.
    pub(super) fn why_not(&self) -> Option<String> {
        let why = self.plan.not_leased()?;
        let is_why = |rule: &&Rule| Leasing::of_rule(self.plan.lease_setting(), rule) == Err(why);
        let because = self.plan.rules().iter().find(is_why).filter(|_| self.plan.rules().len() > 1);
        Some(match because {
            Some(rule) => format!("never leased, because of rule `{}`: {why}", rule.name()),
            None => format!("never leased: {why}"),
        })
    }

    /// Returns what a lease means under one rule, of which `rate` is the rate as text.
    pub(super) fn of_rule(&self, rule: &Rule, rate: &str) -> Vec<String> {
        let Some((leasing, excess)) = self.excess(rule) else { return Vec::new() };
        let burst = rule.quota().burst();
        let beside = match excess {
            0 => "nothing beside the quota".to_owned(),
            _ => format!(
                "at most {excess} beside the quota ({} % of the burst) in any span",
                percent(excess, burst)
            ),
        };
        let (life, calls) = (time(leasing.life), calls(leasing.life));
        let bound =
            format!("lease {life}: {beside}; about {calls} calls a second for each instance and hot key");
        let exact = exact_burst(rule, excess)
            .map(|exact| format!("who needs {burst} + {rate} to the letter writes `burst {exact}`"));
        [Some(bound), exact].into_iter().flatten().collect()
    }

    /// Returns what the plan's lease comes to, as an object; null if there is none.
    pub(super) fn to_json(&self) -> Value {
        self.plan.leasing().map_or(Value::Null, |leasing| {
            json!({
                "life_ns": leasing.life.as_nanos(),
                "most": leasing.most,
                "gives_back": leasing.gives_back,
                "calls_per_second": calls(leasing.life).parse::<f64>().ok(),
            })
        })
    }

    /// Returns the bound of one rule, as an object; null if it is never leased.
    pub(super) fn rule_json(&self, rule: &Rule) -> Value {
        self.excess(rule).map_or(
            Value::Null,
            |(_, excess)| json!({ "beside": excess, "exact_burst": exact_burst(rule, excess) }),
        )
    }

    /// Returns what the plan's lease comes to, and how much beside its quota the rule may admit.
    fn excess(&self, rule: &Rule) -> Option<(Leasing, u64)> {
        let leasing = self.plan.leasing()?;
        let is_acquired = self.plan.rules().iter().any(|other| other.name() == rule.name());
        is_acquired.then(|| (leasing, leasing.excess(rule.quota())))
    }
}

/// Returns the burst with which the rule admits no more than it would without leases; none of a window, which has no burst
/// of its own.
fn exact_burst(rule: &Rule, excess: u64) -> Option<u64> {
    let has_burst =
        matches!(rule.quota().algorithm(), Algorithm::Gcra | Algorithm::TokenBucket | Algorithm::LeakyBucket);
    has_burst.then(|| rule.quota().burst().saturating_sub(excess))
}

/// Returns the share in percent, rounded up to a tenth.
fn percent(part: u64, whole: u64) -> String {
    let tenths = (u128::from(part) * 1_000).div_ceil(u128::from(whole.max(1)));
    decimal(tenths)
}

/// Returns how often an instance asks in a second, rounded up to a whole number, or to a tenth below one.
fn calls(life: Nanos) -> String {
    let tenths = (CALLS_PER_LIFE * 10_000_000_000).div_ceil(life.as_nanos().max(1));
    let whole = if tenths < 10 { tenths } else { tenths.div_ceil(10) * 10 };
    decimal(whole.into())
}

/// Returns a time as `100 ms`, rounded to a tenth.
fn time(life: Nanos) -> String {
    let tenths = (u128::from(life.as_nanos()) + 50_000) / 100_000;
    format!("{} ms", decimal(tenths))
}

fn decimal(tenths: u128) -> String {
    match tenths % 10 {
        0 => (tenths / 10).to_string(),
        tenth => format!("{}.{tenth}", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(limits: &str, lease: &str) -> Vec<String> {
        let plan = Plan::parse("api", limits).unwrap().lease(lease.parse().unwrap()).unwrap();
        let lease = ExplainedLease::of(&plan).unwrap();
        let rules = plan.rules().iter().flat_map(|rule| lease.of_rule(rule, "R"));
        lease.why_not().into_iter().chain(rules).collect()
    }

    #[test]
    fn numbers_are_rounded_against_us() {
        assert_eq!(
            explained("100000/s", "10%"),
            [
                "lease 100 ms: at most 10000 beside the quota (10 % of the burst) in any span; about 40 calls a second \
                 for each instance and hot key",
                "who needs 100000 + R to the letter writes `burst 90000`"
            ]
        );
        let slow = explained("60/m", "10s");
        assert!(slow[0].starts_with("lease 10000 ms: at most 10 beside the quota (16.7 % of the burst)"));
        assert!(slow[0].contains("; about 0.4 calls a second"), "{}", slow[0]);
        let odd = explained("100/s burst 33", "10%");
        assert!(
            odd[0].starts_with("lease 33 ms: at most 4 beside the quota (12.2 % of the burst)"),
            "{odd:?}"
        );
        assert!(odd[0].contains("; about 122 calls a second"), "{odd:?}");
        let large = explained("1000000000/h burst 1000000000", "1%");
        assert!(large[0].contains("at most 138889 beside the quota (0.1 % of the burst)"), "{large:?}");
    }

    #[test]
    fn a_window_has_no_burst_to_lower() {
        let fixed = explained("1000/s fixed", "10%");
        assert_eq!(fixed.len(), 1);
        assert!(fixed[0].starts_with("lease 100 ms: nothing beside the quota; about 40"), "{fixed:?}");
        let sliding = explained("1000/s sliding", "10%");
        assert_eq!(sliding.len(), 1);
        assert!(sliding[0].starts_with("lease 100 ms: at most 100 beside the quota (10 %"), "{sliding:?}");
    }

    #[test]
    fn what_is_never_leased_says_why_and_by_which_rule() {
        assert_eq!(explained("1000/s log", "10%"), ["never leased: the log is exact"]);
        assert_eq!(
            explained("a=1000/s; b=10/s", "10%"),
            ["never leased, because of rule `b`: the burst is 10; a lease needs at least 32"]
        );
        assert!(ExplainedLease::of(&Plan::parse("api", "1000/s").unwrap()).is_none());
    }
}
