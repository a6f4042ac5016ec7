//! Units, debits and rules in shadow, as the keeper is asked for them.

use std::sync::{Arc, Mutex};

use ratekeeper::keeper::KeeperError;
use ratekeeper::port::{Observer, Request, Standing};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{
    Amounts, Decision, Keeper, Key, MemoryStore, Nanos, Plan, Reason, Registry, Rule, Ruling, Timestamp,
};

fn keeper(plans: impl IntoIterator<Item = Plan>) -> Keeper {
    let store = MemoryStore::builder().clock(FakeClock::at(Timestamp::from_secs(1_000))).build();
    Keeper::new(store, Registry::new(plans))
}

fn now(attempt: ratekeeper::keeper::Attempt<'_>) -> Result<Ruling, KeeperError> {
    attempt.now().expect("a store in memory")
}

#[test]
fn each_rule_is_charged_what_it_counts() {
    let keeper = keeper([Plan::parse("llm", "60/m; 100 tokens/m burst 100 bucket").unwrap()]);
    let ruling = now(keeper.acquire("k", "llm", &[("tokens", 58)])).unwrap();
    let each: Vec<_> = ruling.each().map(|(_, rule, said)| (rule.unit().as_str(), said.remaining)).collect();
    assert_eq!(each, [("requests", 59), ("tokens", 42)]);
    let refused = now(keeper.acquire("k", "llm", &[("tokens", 80)])).unwrap();
    assert_eq!(refused.rule().unwrap().name(), &"tokens-per-m");
    assert_eq!(refused.retry_after, Some(Nanos::from_millis(22_800)));
    let never = now(keeper.acquire("k", "llm", &[("tokens", 175)])).unwrap();
    assert_eq!((never.retry_after, never.reason), (None, Reason::NeverFits));
    let left = keeper.peek("k", "llm", &[("tokens", 1)]).now().unwrap().unwrap();
    let each: Vec<_> = left.each().map(|(_, _, said)| said.remaining).collect();
    assert_eq!(each, [59, 42], "what was refused has charged nothing");
}

#[test]
fn amounts_that_cannot_be_asked_for_are_errors_and_change_nothing() {
    let llm = Plan::parse("llm", "60/m; 100 tokens/m").unwrap();
    let keeper = keeper([llm.clone(), Plan::parse("flight", "2 concurrent").unwrap()]);
    let error = |plan, amounts: Amounts<'_>| now(keeper.acquire("k", plan, amounts)).unwrap_err().to_string();
    assert_eq!(error("llm", 1.into()), "tokens: missing; `llm` counts tokens: say how many, or set `assume`");
    assert!(error("llm", Amounts::of(&[("tokens", 1), ("bytes", 1)])).contains("requests, tokens"));
    assert_eq!(error("flight", 1.into()), "plan: `flight`; it counts what is in flight: use hold");
    let fresh = keeper.peek("k", "llm", &[("tokens", 0)]).now().unwrap().unwrap();
    assert!(fresh.reset_after.is_zero());
    let assumed = llm.assume("tokens", 7).unwrap();
    let keeper = self::keeper([assumed]);
    let ruling = now(keeper.acquire("k", "llm", 1)).unwrap();
    assert_eq!(ruling.each().nth(1).unwrap().2.remaining, 93);
}

#[derive(Clone, Debug, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Observer for Told {
    fn decided(&self, _: &Request<'_>, decision: &Decision) {
        self.0.lock().unwrap().push(format!("allowed {}", decision.allowed));
    }

    fn would_deny(&self, _: &Request<'_>, plan: &Plan, rule: &Rule) {
        self.0.lock().unwrap().push(format!("{} would deny by {}", plan.name(), rule.name()));
    }

    fn debited(&self, _: Key<'_>, standing: &Standing) {
        self.0.lock().unwrap().push(format!("forgave {}", standing.forgiven));
    }
}

#[test]
fn a_rule_in_shadow_is_told_of_and_never_binds() {
    let told = Told::default();
    let beside = Plan::with_shadow("gold", ["3/m"], ["5/m", "1/h", "1/m"]).unwrap();
    let whole = Plan::parse("try", "1/h").unwrap().shadow();
    let keeper = keeper([beside, whole]).observer(told.clone());
    let plans = ["gold", "try"];
    let rulings: Vec<_> = (0..4).map(|_| now(keeper.acquire("k", &plans[..], 1)).unwrap()).collect();
    let said: Vec<_> = rulings.iter().map(|ruling| (ruling.allowed, ruling.remaining)).collect();
    assert_eq!(said, [(true, 2), (true, 1), (true, 0), (false, 0)]);
    let heard = told.0.lock().unwrap().clone();
    let round = ["allowed true", "gold would deny by per-h", "try would deny by per-h"];
    let expected: Vec<_> =
        ["allowed true"].iter().chain(&round).chain(&round).chain(&["allowed false"]).collect();
    assert!(heard.iter().eq(expected), "{heard:?}");
    let alone = now(keeper.acquire("other", "try", 9)).unwrap();
    assert!(alone.allowed && alone.remaining == u64::MAX, "a plan in shadow always allows");
}

#[test]
fn a_debit_is_never_refused_and_bounded() {
    let told = Told::default();
    let keeper = keeper([Plan::parse("free", "10/m").unwrap()]).observer(told.clone());
    let debit = |cost| keeper.debit("k", "free", cost).now().unwrap().unwrap();
    assert_eq!(debit(4).remaining, 6);
    let owing = debit(9);
    assert_eq!(
        (owing.remaining, owing.retry_after),
        (0, Some(Nanos::from_secs(24))),
        "three owed, and one more"
    );
    let bounded = debit(100);
    assert_eq!(bounded.reset_after, Nanos::from_secs(120), "two refills");
    assert_eq!(told.0.lock().unwrap().as_slice(), ["forgave 0", "forgave 0", "forgave 93"]);
    assert!(!now(keeper.acquire("k", "free", 1)).unwrap().allowed);
}

/// A reload that tries a limit must not refuse what is live.
#[test]
fn what_is_tried_in_shadow_changes_no_answer() {
    let shadow = ["5 tokens/m", "8 concurrent"];
    for plan in [
        Plan::with_shadow("gold", ["3/m"], shadow).unwrap(),
        Plan::parse("gold", "3/m; 8 concurrent").unwrap().shadow(),
        Plan::parse("gold", "8 concurrent").unwrap().shadow(),
    ] {
        let is_limited = !plan.is_shadow();
        let keeper = keeper([plan]);
        let first = now(keeper.acquire("k", "gold", 1)).unwrap();
        assert_eq!((first.allowed, first.remaining == 2), (true, is_limited));
        let debited = keeper.debit("k", "gold", 1).now().unwrap().unwrap();
        assert_eq!(debited.remaining == 1, is_limited);
        assert!(keeper.refund("k", "gold", 1, ratekeeper::Charged::NOW).now().unwrap().is_ok());
        let hold = keeper.hold("k", "gold", 1).now().unwrap().unwrap();
        assert!(hold.allowed, "what can be acquired can be held");
    }
}
