//! States by the names of their rules: what is read, what is kept, and what is refused.

use ratekeeper::algorithm::{Tenancy, gcra};
use ratekeeper::state::{NamedStates, Record, RuleStates, ascii, shared_name};
use ratekeeper::testkit::fuzz;
use ratekeeper::{Algorithm, Name, Plan, Quota, State, Timestamp};

fn plan(rules: &str) -> Plan {
    Plan::parse("plan", rules).unwrap()
}

fn read(rules: &Plan, text: &str) -> Result<RuleStates, String> {
    let named = rules.rules().iter().map(|rule| (rule.name(), rule.quota()));
    RuleStates::read(text, named, Tenancy::Own).map_err(|error| error.to_string())
}

fn write(rules: &Plan, found: &RuleStates) -> Option<String> {
    let named = rules.rules().iter().zip(&found.states);
    let named = named.map(|(rule, state)| (rule.name(), rule.quota(), state.clone()));
    RuleStates::write(named, &found.others, Tenancy::Own).unwrap()
}

fn brought(quota: &str, text: &str) -> Result<RuleStates, String> {
    let quota: Quota = quota.parse().unwrap();
    let name = shared_name(&quota).unwrap();
    RuleStates::read(text, [(&name, &quota)], Tenancy::Shared).map_err(|error| error.to_string())
}

const WORDS: &str = "81|g=42|1$w=23|1|w|3|5$t=12|8.5|6$l=32|5|7$s=61|7|2|8$o=71|2|9|1|10|3";

#[test]
fn every_strategy_is_found_by_name_in_any_order() {
    let every = plan("o=9/s log; s=9/s sliding; g=9/s; l=9/s leaky; w=9/s fixed; t=9/s bucket");
    let found = read(&every, WORDS).unwrap();
    assert!(found.states.iter().all(Option::is_some) && found.others.is_empty() && !found.is_old);
    let ordered = "81|o=71|2|9|1|10|3$s=61|7|2|8$g=42|1$l=32|5|7$w=23|1|w|3|5$t=12|8.5|6";
    assert_eq!(write(&every, &found).unwrap(), ordered);
    assert_eq!(ascii::encode(&ascii::decode(WORDS).unwrap()), WORDS);
    assert_eq!(ascii::decode(WORDS).unwrap().names().len(), 6);
}

#[test]
fn a_rule_that_is_not_named_is_fresh_and_others_are_kept_as_they_are() {
    let two = plan("new=5/s; g=9/s");
    // Whatever a newer version writes, and in whichever spelling.
    let mut found = read(&two, "81|a=91|what|ever$g=42|1$b=42|+007").unwrap();
    assert_eq!(found.states, [None, Some(State::Gcra(gcra::GcraState { tat: Timestamp::from_nanos(1) }))]);
    assert_eq!(write(&two, &found).unwrap(), "81|g=42|1$a=91|what|ever$b=42|+007");
    // Nothing of one's own, and something of others.
    found.states = vec![None, None];
    assert_eq!(write(&two, &found).unwrap(), "81|a=91|what|ever$b=42|+007");
    assert_eq!(write(&two, &RuleStates::fresh(2)), None);
}

#[test]
fn at_most_sixteen_of_others_are_kept_those_that_came_first() {
    let own = plan("g=9/s");
    let others: Vec<String> = (0..20).map(|number| format!("r{number}=42|{number}")).collect();
    let found = read(&own, &format!("81|{}$g=42|1", others.join("$"))).unwrap();
    assert_eq!(found.others.iter().len(), 20);
    assert_eq!(write(&own, &found).unwrap(), format!("81|g=42|1${}", others[..16].join("$")));
    let many: Vec<String> = (0..33).map(|number| format!("r{number}=42|1")).collect();
    assert!(read(&own, &format!("81|{}", many[..32].join("$"))).is_ok());
    assert!(read(&own, &format!("81|{}", many.join("$"))).is_err());
}

#[test]
fn a_state_of_another_algorithm_is_given_up_and_told() {
    let changed = plan("g=9/s bucket; w=9/s fixed");
    let found = read(&changed, "81|g=42|1$w=23|1|w|3|5$x=42|2").unwrap();
    assert!(found.states[0].is_none() && found.states[1].is_some());
    let [replaced] = found.replaced.as_slice() else { panic!("{found:?}") };
    assert_eq!((replaced.rule.as_str(), replaced.found), ("g", Algorithm::Gcra));
    assert_eq!(write(&changed, &found).unwrap(), "81|w=23|1|w|3|5$x=42|2");
}

#[test]
fn texts_by_position_are_read() {
    let two = plan("g=9/s; w=9/s fixed");
    let found = read(&two, "51|42|1$23|1|w|3|5").unwrap();
    assert!(found.is_old && found.states.iter().all(Option::is_some));
    assert_eq!(write(&two, &found).unwrap(), "81|g=42|1$w=23|1|w|3|5");
}

/// A text by position was written for a plan that may have been edited since: each state goes to the rule that it fits.
#[test]
fn texts_by_position_are_read_as_far_as_they_fit() {
    let cases = [
        ("g=9/s; w=9/s fixed", "42|1", "81|g=42|1", &[][..]),
        ("w=9/s fixed; g=9/s", "42|1", "81|g=42|1", &[]),
        ("g=9/s", "51|42|1$42|2", "81|g=42|1", &[]),
        ("t=9/s bucket; g=9/s", "51|42|1$12|5|6", "81|t=12|5|6$g=42|1", &[]),
        ("t=9/s bucket; b=9/s leaky", "51|42|1$12|5|6", "81|t=12|5|6", &[("b", Algorithm::Gcra)]),
        ("g=9/s; t=9/s bucket; h=9/s", "51|42|1$42|2", "81|g=42|1$h=42|2", &[]),
        ("w=9/s fixed", "51|42|1$23|2|v|1|2|w|3|5", "81|w=23|1|w|3|5$v=23|1|v|1|2", &[]),
        ("g=9/s bucket; w=9/s fixed", "51|42|1$23|1|w|3|5", "81|w=23|1|w|3|5", &[("g", Algorithm::Gcra)]),
        ("g=9/s; h=9/s", "51|23|1|g|3|5$42|1", "81|g=42|1", &[("g", Algorithm::FIXED)]),
    ];
    for (rules, text, written, replaced) in cases {
        let rules = plan(rules);
        let found = read(&rules, text).unwrap();
        assert!(found.is_old, "{text}");
        assert_eq!(write(&rules, &found).unwrap(), written, "{text}");
        let told: Vec<_> = found.replaced.iter().map(|lost| (lost.rule.as_str(), lost.found)).collect();
        assert_eq!(told, replaced, "{text}");
    }
}

#[test]
fn what_is_refused() {
    let own = plan("g=9/s; w=9/s fixed");
    let cases = [
        ("81|", "rule: ``; a rule's name, a `=` and its state"),
        ("81", "rules: `81`; states by name stand alone"),
        ("81|g", "rule: `g`; a rule's name, a `=` and its state"),
        ("81|g=", "state: ``; a strategy, a version and fields, such as `42|0`"),
        ("81|=42|1", "name: ``; 1 to 64 characters"),
        ("81|a b=42|1", "name: `a b`; 1 to 64 characters"),
        ("81|x=42|1$", "rule: ``; a rule's name, a `=` and its state"),
        ("81|$x=42|1", "rule: ``; a rule's name, a `=` and its state"),
        ("81|x=42|1$x=42|2", "name: `x`; each rule is named once"),
        ("81|x=42| 1", "state: `42| 1`; a strategy, a version and fields"),
        ("81|x=42|1\n", "state: `42|1\\n`; a strategy, a version and fields"),
        ("81|g=42|x", "tat: `x`; nanoseconds since the epoch"),
        ("81|g=81|g=42|1", "rules: `81|g=42|1`; states by name stand alone"),
        ("81|g=51|42|1", "composite: `51|42|1`; two parts"),
        ("81|w=23|1|v|3|5", "windows: `23|1|v|3|5`; one window, of its rule's name"),
        ("81|w=23|2|w|3|5|v|3|5", "windows: `23|2|w|3|5|v|3|5`; one window, of its rule's name"),
        ("82|g=42|1", "version: `2`; states by name are read in version 1"),
    ];
    for (text, message) in cases {
        let error = read(&own, text).expect_err(text);
        assert!(error.starts_with(message), "{text}: {error}");
        fuzz::decode_ascii(text.as_bytes());
    }
}

#[test]
#[cfg(feature = "timezones")]
fn what_requests_bring_is_called_by_algorithm_length_and_place() {
    let names = [
        ("9/m", "gcra"),
        ("9/m bucket", "bucket"),
        ("9/h leaky", "leaky"),
        ("9/m fixed", "fixed:60000000000"),
        ("9/m fixed grid", "fixed@grid:60000000000"),
        ("9/day fixed calendar", "fixed@UTC:86400000000000"),
        (
            "9/day fixed calendar America/Argentina/Buenos_Aires",
            "fixed@America.Argentina.Buenos_Aires:86400000000000",
        ),
        ("9/h sliding", "sliding:3600000000000"),
        ("9 per 1ms log", "log:1000000"),
    ];
    for (quota, name) in names {
        assert_eq!(shared_name(&quota.parse().unwrap()).unwrap().as_str(), name);
    }
    assert!(shared_name(&"3 concurrent".parse().unwrap()).is_err());
}

/// Alone and without a length it is written as other languages write it, with others by name.
#[test]
fn what_requests_share_is_plain_while_it_can_be() {
    let write = |quota: &str, found: &RuleStates| {
        let quota: Quota = quota.parse().unwrap();
        let name = shared_name(&quota).unwrap();
        let states = [(&name, &quota, found.states[0].clone())];
        RuleStates::write(states, &found.others, Tenancy::Shared).unwrap()
    };
    let alone = brought("9/s", "42|1").unwrap();
    assert!(alone.others.is_empty() && !alone.is_old);
    assert_eq!(write("9/s", &alone).unwrap(), "42|1");
    // Another algorithm asks: it is fresh, and what is there stays.
    let fresh = brought("9/s bucket", "42|1").unwrap();
    assert_eq!(
        (fresh.states.as_slice(), write("9/s bucket", &fresh).unwrap()),
        ([None].as_slice(), "42|1".into())
    );
    let both = brought("9/s bucket", "81|bucket=12|5|6$gcra=42|1").unwrap();
    assert_eq!(write("9/s bucket", &both).unwrap(), "81|bucket=12|5|6$gcra=42|1");
    // By position, from before states had names.
    let old = brought("9/m fixed", "23|1|default|3|5").unwrap();
    assert!(old.is_old && old.replaced.is_empty());
    assert_eq!(write("9/m fixed", &old).unwrap(), "81|fixed:60000000000=23|1|fixed:60000000000|3|5");
    let lost = brought("9/m", "61|1|2|3").unwrap();
    assert_eq!((lost.replaced.len(), lost.states[0].clone()), (1, None), "of which window nobody knows");
}

#[test]
fn a_record_by_name_comes_back() {
    let name = |text: &str| text.parse::<Name>().unwrap();
    let state = State::Gcra(gcra::GcraState { tat: Timestamp::from_nanos(7) });
    let record = Record::by_name(vec![(name("a"), state.clone()), (name("b"), state.clone())]).unwrap();
    assert_eq!(ascii::encode(&record), "81|a=42|7$b=42|7");
    let quota: Quota = "9/s".parse().unwrap();
    let states = record.into_rules([(&name("b"), &quota), (&name("c"), &quota)]).unwrap();
    assert_eq!(states, [Some(state.clone()), None]);
    assert!(Record::by_name(vec![(name("a"), state.clone()), (name("a"), state)]).is_err());
    assert!(Record::by_name(Vec::new()).is_err());
    assert_eq!(NamedStates::decode("42|1").unwrap_err().field(), "strategy");
}
