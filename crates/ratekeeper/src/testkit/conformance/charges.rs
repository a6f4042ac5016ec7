//! Charges of several keys that are judged together: what is over, what stays, what is told.

use super::bench::Bench;
use super::charge_walks::charge_walk;
use crate::port::{Charge, ChargeAction, ChargeForce, Judgment, Request, Whole};
use crate::{Cost, Key, Nanos, Plan, Quota, Rules, StoreErrorKind};

/// Plans that are charged: every algorithm, several rules, rules in shadow, another unit, and the same rule with another limit.
const CHARGED: [(&str, &[&str]); 12] = [
    ("6/m fixed grid", &[]),
    ("9 per 10s fixed; 20/m fixed grid", &[]),
    ("a=5/s burst 9; b=20/m", &[]),
    ("5/s burst 12 bucket", &[]),
    ("3/s leaky", &[]),
    ("8 per 10s sliding", &[]),
    ("5 per 3s log", &[]),
    ("a=4/s leaky; b=10 per 7s log; c=40/m burst 15", &[]),
    ("4/s; 12/m bucket", &["2/s", "6/m fixed"]),
    ("10/m fixed calendar", &["3 per 7s sliding", "4/m log"]),
    ("6/m; 40 tokens/m bucket", &[]),
    ("9/m fixed grid", &[]),
];

/// Examines charges, if the store has any.
pub(super) async fn check(bench: &Bench<'_>) {
    let plan = plan(0);
    match bench.store.charge(&[charge("charges/any", &plan, 1, ChargeAction::Count)], Whole::Open).await {
        Err(error) => return assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}"),
        Ok(judgment) => assert!(judgment.passes, "{judgment:?}"),
    }
    what_is_counted_counts_in_any_case(bench).await;
    what_is_ignored_is_charged_with_the_whole(bench).await;
    several_refuse_together(bench).await;
    a_rule_of_another_name_has_a_count_of_its_own(bench).await;
    bad_input_charges_nobody(bench).await;
    if bench.equal_keys {
        one_key_is_charged_on_top_of_itself(bench).await;
    }
    let plans: Vec<Plan> = (0..CHARGED.len()).map(self::plan).collect();
    let rules: Vec<Rules<'_>> = plans.iter().map(Rules::Plan).collect();
    for (index, rules) in rules.iter().enumerate() {
        charge_walk(bench, &[*rules], &format!("charges/plan {index}"), 400 + index as u64).await;
    }
    for seed in 0..4 {
        charge_walk(bench, &rules, &format!("charges/all {seed}"), 430 + seed).await;
    }
    let quotas = ["5/s burst 9", "4/s bucket", "7/m fixed grid", "6 per 10s log"];
    for (text, seed) in quotas.into_iter().zip(440..) {
        let quota: Quota = text.parse().expect("a quota of the suite");
        charge_walk(bench, &[Rules::Quota(&quota)], &format!("charges/quota {text}"), seed).await;
    }
}

fn plan(index: usize) -> Plan {
    let (limits, shadow) = CHARGED[index];
    // The first and the last are one plan, whose limit was changed.
    let name = format!("charged{}", if index == CHARGED.len() - 1 { 0 } else { index });
    Plan::with_shadow(&name, limits.split(';'), shadow.iter().copied()).expect("a plan of the suite")
}

fn limit(text: &str) -> Plan {
    Plan::parse("worked", text).expect("a plan of the suite")
}

/// A charge that refuses the whole if it is over.
fn charge<'a>(key: &'a str, plan: &'a Plan, cost: u64, action: ChargeAction) -> Charge<'a> {
    let key = Key::new(key).expect("a key of the suite");
    let request = Request::new(key, Rules::Plan(plan), Cost::new(cost));
    Charge { request, action, force: ChargeForce::Alone }
}

async fn judge(bench: &Bench<'_>, charges: &[Charge<'_>], whole: Whole) -> Judgment {
    bench.store.charge(charges, whole).await.expect("an answer")
}

/// Returns whether each is over, and what it has left.
fn told(judgment: &Judgment) -> Vec<(bool, u64)> {
    judgment.each.iter().map(|told| (!told.decision.allowed, told.decision.remaining)).collect()
}

/// What a window counts counts beyond its limit; a look is over only then; what is given back was counted just now.
async fn what_is_counted_counts_in_any_case(bench: &Bench<'_>) {
    let plan = limit("3 per 10s fixed");
    let count = |cost| [charge("charges/counted", &plan, cost, ChargeAction::Count)];
    let look = count(0);
    let fresh = judge(bench, &look, Whole::Open).await;
    let [first] = &fresh.each[..] else { panic!("one answer to one charge: {fresh:?}") };
    assert_eq!((first.decision.allowed, first.decision.remaining, first.left_before), (true, 3, 3));
    assert_eq!(first.decision.reset_after, Nanos::from_secs(10), "the end of a window that is empty");
    assert_eq!(first.decision.charged_at(), None);
    let now = (bench.now)();
    let two = judge(bench, &count(2), Whole::Open).await;
    assert_eq!((told(&two), two.each[0].left_before), (vec![(false, 1)], 3));
    assert_eq!(two.each[0].decision.charged_at(), Some(now));
    assert!(judge(bench, &count(1), Whole::Open).await.passes);
    assert_eq!(told(&judge(bench, &look, Whole::Open).await), [(false, 0)], "used up is not in debt");
    let over = judge(bench, &count(2), Whole::Open).await;
    assert_eq!((over.passes, told(&over)), (false, vec![(true, 0)]));
    assert_eq!(over.each[0].decision.retry_after, Some(Nanos::from_secs(10)));
    assert_eq!(over.each[0].decision.charged_at(), Some(now), "it was counted all the same");
    let owing = judge(bench, &look, Whole::Open).await;
    assert_eq!((owing.passes, told(&owing)), (false, vec![(true, 0)]));
    assert_eq!(owing.each[0].decision.retry_after, Some(Nanos::from_secs(10)), "when the debt is paid");
    let back = [charge("charges/counted", &plan, 3, ChargeAction::GiveBack)];
    let given = judge(bench, &back, Whole::Open).await;
    assert_eq!((given.passes, told(&given), given.each[0].left_before), (true, vec![(false, 1)], 0));
    let never = judge(bench, &count(4), Whole::Passes).await;
    assert_eq!((never.passes, told(&never)), (true, vec![(true, 0)]));
    assert_eq!(never.each[0].decision.retry_after, None, "more than there ever is");
}

/// A whole that is refused takes nothing of what is ignored then, not of those that pass either.
async fn what_is_ignored_is_charged_with_the_whole(bench: &Bench<'_>) {
    let (wide, narrow) = (limit("5/m"), limit("1/m"));
    let both = [
        charge("charges/ignored/wide", &wide, 1, ChargeAction::Ignore),
        charge("charges/ignored/narrow", &narrow, 1, ChargeAction::Ignore),
    ];
    let first = judge(bench, &both, Whole::Open).await;
    assert_eq!((first.passes, told(&first)), (true, vec![(false, 4), (false, 0)]));
    for _ in 0..3 {
        let refused = judge(bench, &both, Whole::Open).await;
        assert_eq!((refused.passes, told(&refused)), (false, vec![(false, 4), (true, 0)]));
        let [wide, narrow] = &refused.each[..] else { panic!("two answers to two charges: {refused:?}") };
        assert_eq!((wide.decision.charged_at(), wide.left_before, narrow.left_before), (None, 4, 0));
        assert_eq!(narrow.decision.retry_after, Some(Nanos::from_secs(60)));
    }
    let known = judge(bench, &both[..1], Whole::Refused).await;
    assert_eq!((known.passes, told(&known)), (false, vec![(false, 4)]), "refused before anybody was asked");
    let shadowed = judge(bench, &both, Whole::Passes).await;
    assert_eq!((shadowed.passes, told(&shadowed)), (true, vec![(false, 3), (true, 0)]));
    let look = [charge("charges/ignored/narrow", &narrow, 0, ChargeAction::Ignore)];
    assert_eq!(told(&judge(bench, &look, Whole::Open).await), [(true, 0)], "one would not pass");
}

/// Charges that refuse together do so when all of them are over.
async fn several_refuse_together(bench: &Bench<'_>) {
    let (one, two) = (limit("1/m fixed grid"), limit("2/m fixed grid"));
    let quota = |key, plan, force| Charge { force, ..charge(key, plan, 1, ChargeAction::Count) };
    let both = [
        quota("charges/together/one", &one, ChargeForce::Together),
        quota("charges/together/two", &two, ChargeForce::Together),
        quota("charges/together/shadow", &one, ChargeForce::Never),
    ];
    // Not on the edge of a minute, which comes between.
    let into = (bench.now)().as_nanos().rem_euclid(60_000_000_000).cast_unsigned();
    (bench.advance)(Nanos::from_nanos(60_000_000_000 - into));
    let mut found = Vec::new();
    for _ in 0..3 {
        let judgment = judge(bench, &both, Whole::Open).await;
        found.push((judgment.passes, told(&judgment).into_iter().map(|(over, _)| over).collect::<Vec<_>>()));
    }
    let expected =
        [(true, vec![false, false, false]), (true, vec![true, false, true]), (false, vec![true, true, true])];
    assert_eq!(found, expected);
}

/// Two rules of one plan's name and different names of their own do not share a count, although a request has only one of them.
async fn a_rule_of_another_name_has_a_count_of_its_own(bench: &Bench<'_>) {
    let named = |text| Plan::parse("charged-by-unit", text).expect("a plan of the suite");
    let (minute, hour, wider) =
        (named("minute=2/m fixed"), named("hour=9/h fixed"), named("minute=5/m fixed"));
    let left = async |plan: &Plan| {
        let judgment =
            judge(bench, &[charge("charges/units", plan, 1, ChargeAction::Count)], Whole::Open).await;
        judgment.each[0].decision.remaining
    };
    assert_eq!((left(&minute).await, left(&hour).await), (1, 8));
    assert_eq!((left(&minute).await, left(&hour).await), (0, 7), "the other one was not forgotten");
    assert_eq!(left(&wider).await, 2, "the same count under another limit");
}

/// A charge that makes no sense is an error, and nobody else is charged.
async fn bad_input_charges_nobody(bench: &Bench<'_>) {
    let (good, places) = (limit("5/m fixed"), limit("2 concurrent"));
    let tokens = Plan::parse("worked", "5 tokens/m").expect("a plan of the suite");
    for (bad, remedy) in [(&places, "use hold"), (&tokens, "say how many")] {
        let charges = [
            charge("charges/bad", &good, 1, ChargeAction::Count),
            charge("charges/bad/other", bad, 1, ChargeAction::Count),
        ];
        let error = bench.store.charge(&charges, Whole::Open).await.expect_err("an error");
        assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(remedy), "{error}");
    }
    let look = [charge("charges/bad", &good, 0, ChargeAction::Count)];
    assert_eq!(told(&judge(bench, &look, Whole::Open).await), [(false, 5)]);
}

/// Equal charges are made one after another: what the first takes, the second does not find.
async fn one_key_is_charged_on_top_of_itself(bench: &Bench<'_>) {
    let plan = limit("3/m fixed");
    let count = |cost| charge("charges/twice", &plan, cost, ChargeAction::Count);
    let ignore = |cost| charge("charges/twice", &plan, cost, ChargeAction::Ignore);
    let both = judge(bench, &[count(1), count(1)], Whole::Open).await;
    assert_eq!((both.passes, told(&both)), (true, vec![(false, 2), (false, 1)]));
    // The first of two that are ignored passes, the second does not: so neither is charged, and one is left for either.
    let mixed = judge(bench, &[ignore(1), ignore(1)], Whole::Open).await;
    assert_eq!((mixed.passes, told(&mixed)), (false, vec![(false, 1), (true, 1)]));
    assert_eq!(mixed.each[1].decision.retry_after, Some(Nanos::ZERO), "it would pass by itself");
    // What is counted stays, and is told without what did not.
    let mixed = judge(bench, &[ignore(1), count(1), ignore(1)], Whole::Open).await;
    assert_eq!((mixed.passes, told(&mixed)), (false, vec![(false, 1), (true, 0), (true, 0)]));
    let left: Vec<u64> = mixed.each.iter().map(|told| told.left_before).collect();
    assert_eq!(left, [1, 1, 0]);
}
