//! A plan's states as one record, and back.

use ratekeeper::algorithm::{Tenancy, composite, gcra};
use ratekeeper::state::{Record, StateErrorKind, ascii};
use ratekeeper::{Cost, Name, Nanos, Quota, State, Timestamp};

const NOW: Timestamp = Timestamp::from_secs(1_761_884_055);

type Plan = Vec<(Name, Quota)>;

fn plan(rules: &[(&str, &str)]) -> Plan {
    rules.iter().map(|(name, quota)| (name.parse().unwrap(), quota.parse().unwrap())).collect()
}

fn write(plan: &Plan, states: &[Option<State>], now: Timestamp) -> Result<Option<String>, String> {
    let rules = plan.iter().zip(states).map(|((name, quota), state)| (name, quota, state.clone()));
    match Record::from_rules(rules, now) {
        Ok(record) => Ok(record.map(|record| ascii::encode(&record))),
        Err(error) => Err(error.to_string()),
    }
}

fn read(plan: &Plan, text: &str) -> Result<Vec<Option<State>>, String> {
    let record = ascii::decode(text).unwrap();
    record.into_rules(plan.iter().map(|(name, quota)| (name, quota))).map_err(|error| {
        assert_eq!(error.kind(), StateErrorKind::Shape);
        error.to_string()
    })
}

fn charged(plan: &Plan, cost: u64) -> Vec<Option<State>> {
    let rules: Vec<_> = plan.iter().map(|(_, quota)| (*quota, None)).collect();
    let (decision, states) = composite::try_acquire(&rules, Cost::new(cost), NOW, Tenancy::Own).unwrap();
    assert!(decision.allowed);
    states
}

fn everything() -> Plan {
    plan(&[
        ("smooth", "10/s"),
        ("minute", "100/m fixed"),
        ("bucket", "10/s bucket"),
        ("day", "1000/day fixed calendar"),
        ("leaky", "10/s leaky"),
        ("sliding", "10/s sliding"),
        ("log", "10/s log"),
    ])
}

const EVERYTHING: &str = "51|42|1761884055300000000\
    $51|23|2|minute|3|1761884055000000000|day|3|1761868800000000000\
    $51|12|7|1761884055000000000\
    $51|32|3|1761884055000000000\
    $51|61|0|3|1761884055000000000\
    $71|1|1761884055000000000|3";

#[test]
fn a_plan_is_one_record_and_comes_back() {
    let plan = everything();
    let states = charged(&plan, 3);
    let text = write(&plan, &states, NOW).unwrap().unwrap();
    assert_eq!(text, EVERYTHING);
    assert_eq!(read(&plan, &text).unwrap(), states);
}

#[test]
fn a_key_on_which_every_rule_is_fresh_is_no_record() {
    let plan = everything();
    assert_eq!(write(&plan, &vec![None; plan.len()], NOW), Ok(None));
    assert_eq!(write(&Plan::new(), &[], NOW), Ok(None));
}

#[test]
fn fresh_rules_keep_their_place() {
    let plan = everything();
    let mut states = vec![None; plan.len()];
    states[1] = charged(&plan, 3)[1].clone();
    let text = write(&plan, &states, NOW).unwrap().unwrap();
    assert_eq!(
        text,
        "51|42|1761884055000000000\
         $51|23|2|minute|3|1761884055000000000|day|0|1761884055000000000\
         $51|12|10|1761884055000000000\
         $51|32|0|1761884055000000000\
         $51|61|0|0|1761884055000000000\
         $71|0"
    );
    let mut back = read(&plan, &text).unwrap();
    // Whether a TAT has passed is for the time to tell.
    assert_eq!(back[0].take(), Some(State::Gcra(gcra::GcraState { tat: NOW })));
    assert_eq!(back, states);
}

#[test]
fn a_window_that_was_written_out_empty_begins_with_its_first_request() {
    let plan = plan(&[("smooth", "10/m"), ("window", "10/m fixed")]);
    let states = vec![charged(&plan, 1)[0].clone(), None];
    let text = write(&plan, &states, NOW).unwrap().unwrap();
    let later = NOW + Nanos::from_secs(30);
    let rules: Vec<_> = plan.iter().map(|(_, quota)| *quota).zip(read(&plan, &text).unwrap()).collect();
    let (_, states) = composite::try_acquire(&rules, Cost::ONE, later, Tenancy::Own).unwrap();
    let Some(State::FixedWindow(window)) = &states[1] else { panic!("{states:?}") };
    assert_eq!(window.start, later);
}

#[test]
fn windows_are_found_by_name_in_any_order() {
    let text = "23|2|b|2|5|a|1|5";
    let states = read(&plan(&[("a", "9/m fixed"), ("b", "9/m fixed")]), text).unwrap();
    let counts = states.iter().map(|state| match state {
        Some(State::FixedWindow(window)) => window.count,
        other => panic!("{other:?}"),
    });
    assert_eq!(counts.collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn another_plans_record_is_refused() {
    let remedy = "reset the key or rename the plan";
    for (rules, text, message) in [
        (
            vec![("a", "9/m")],
            "12|1|5",
            format!("rule: `a` written by `bucket`; the rule is decided by `gcra`: {remedy}"),
        ),
        (
            vec![("a", "9/m")],
            "23|1|a|1|5",
            format!("rule: `a` written by `fixed`; the rule is decided by `gcra`: {remedy}"),
        ),
        (
            vec![("a", "9/m fixed")],
            "42|5",
            format!("rule: `a` written by `gcra`; the rule is decided by `fixed`: {remedy}"),
        ),
        (
            vec![("a", "9/m fixed")],
            "23|1|b|1|5",
            format!("rule: `a`; the stored state has none of it: {remedy}"),
        ),
        (
            vec![("a", "9/m"), ("b", "9/h")],
            "42|5",
            format!("rule: `b`; the stored state has none of it: {remedy}"),
        ),
        (
            vec![("a", "9/m fixed"), ("b", "9/h")],
            "23|1|a|1|5",
            format!("rule: `b`; the stored state has none of it: {remedy}"),
        ),
        (
            vec![("a", "9/m")],
            "51|42|5$42|5",
            "state: another `gcra`; no rule is for it: reset the key".into(),
        ),
        (
            vec![("a", "9/m fixed")],
            "23|2|a|1|5|b|1|5",
            "state: a window `b`; no rule is for it: reset the key".into(),
        ),
        (
            vec![("a", "9 concurrent")],
            "42|5",
            "rule: `a`; a concurrency limit is held by permits, not by stored state".into(),
        ),
        (vec![], "42|5", "state: another `gcra`; no rule is for it: reset the key".into()),
    ] {
        assert_eq!(read(&plan(&rules), text).unwrap_err(), message, "{text}");
    }
}

#[test]
fn what_no_record_can_hold_is_refused() {
    let numbered = |n: usize, quota: &str| -> Plan {
        (0..n).map(|i| (i.to_string().parse().unwrap(), quota.parse().unwrap())).collect()
    };
    let windows = numbered(9, "9/m fixed");
    assert_eq!(
        write(&windows, &charged(&windows, 1), NOW).unwrap_err(),
        "windows: 9; one key holds 1 to 8 fixed windows: split the plan"
    );
    let many = numbered(17, "9/m");
    assert!(write(&many, &charged(&many, 1), NOW).unwrap_err().starts_with("parts: 17; "));
    let (gcra, bucket) = (plan(&[("a", "9/m")]), plan(&[("a", "9/m bucket")]));
    assert!(
        write(&bucket, &charged(&gcra, 1), NOW).unwrap_err().starts_with("rule: `a` written by `gcra`; ")
    );
    assert!(write(&plan(&[("a", "9 concurrent")]), &[None], NOW).unwrap_err().contains("held by permits"));
}

#[test]
fn a_lowered_quota_reads_what_a_higher_one_wrote() {
    let text = "12|8|1761884055000000000";
    assert_eq!(read(&plan(&[("a", "5/s bucket")]), text).unwrap(), [None], "8 tokens of 5 are a full bucket");
    assert!(read(&plan(&[("a", "9/s bucket")]), text).unwrap()[0].is_some());
}
