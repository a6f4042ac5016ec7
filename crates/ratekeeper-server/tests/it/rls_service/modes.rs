//! Modes of rules and of the service: cases 25 to 27, 29, 33, 35; negative hits; limits that requests bring.

use ratekeeper_server::rls::{LimitUnit, RlsOverride, RlsSettings};
use serde_json::json;

use crate::rls_service::fixtures::EXAMPLE;
use crate::rls_service::support::{World, asked, told};

const PAIR: &str = "
    {key: a, rate_limit: {unit: minute, requests_per_unit: 1}},
    {key: b, rate_limit: {unit: minute, requests_per_unit: 2}}";
const QUOTAS: &str = "
    {key: a, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}},
    {key: b, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}";
const MIXED: &str = "
    {key: hard, rate_limit: {unit: minute, requests_per_unit: 1}},
    {key: soft, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}";

fn shadow() -> RlsSettings {
    RlsSettings { is_shadow: true, ..RlsSettings::default() }
}

fn quota() -> RlsSettings {
    RlsSettings { is_quota: true, ..RlsSettings::default() }
}

/// Case 25.
#[test]
fn global_shadow_changes_the_whole_and_leaves_the_statuses() {
    let world = World::of(PAIR, shadow());
    assert_eq!(world.ask_times("d: a=v + b=v", 2), ["OK: OK 0, OK 1", "OK: OVER 0, OK 0"]);
    assert_eq!(world.service.read_counts().global_shadow_mode, 1, "one answer was changed");
    let rules = "
        {key: a, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}},
        {key: b, rate_limit: {unit: minute, requests_per_unit: 1}}";
    let world = World::of(rules, RlsSettings::default());
    assert_eq!(world.ask_times("d: a=v + b=v", 2), ["OK: OK 0, OK 0", "OVER: OK 0, OVER 0"]);
}

/// Case 26.
#[test]
fn a_quota_rule_beside_a_hard_one() {
    let world = World::of(MIXED, RlsSettings::default());
    assert_eq!(world.ask("d: hard=1 + soft=1"), "OK: OK 0, OK 0", "neither");
    assert_eq!(world.ask("d: hard=1 + soft=2"), "OVER: OVER 0, OK 0", "the hard one");
    assert_eq!(world.ask("d: hard=2 + soft=1"), "OVER: OK 0, OVER 0", "all quota rules");
}

/// Case 27.
#[test]
fn quota_rules_refuse_together() {
    let world = World::of(QUOTAS, RlsSettings::default());
    let told = world.ask_times("d: a=v + b=v", 3);
    assert_eq!(told, ["OK: OK 0, OK 1", "OK: OVER 0, OK 0", "OVER: OVER 0, OVER 0"]);
    let world = World::of(QUOTAS, shadow());
    assert_eq!(world.ask_times("d: a=v + b=v", 3)[2], "OK: OVER 0, OVER 0");
    assert_eq!(world.service.read_counts().global_shadow_mode, 1);
}

/// What is OK in any case leaves the other quota rules without force: then they refuse nothing.
#[test]
fn quota_rules_that_cannot_be_over_make_the_others_toothless() {
    let world = World::of(PAIR, quota());
    assert_eq!(
        world.ask_times("d: a=v + other=v", 2),
        ["OK: OK 0, –", "OK: OVER 0, –"],
        "one without a rule"
    );
    assert_eq!(world.ask("d: a=v"), "OVER: OVER 0");
    let rules = "
        {key: a, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}},
        {key: dark, quota_mode: true, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}},
        {key: free, quota_mode: true, rate_limit: {unlimited: true}},
        {key: never, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}";
    let world = World::of(rules, RlsSettings::default());
    assert_eq!(world.ask_times("d: a=1 + dark=1", 2)[1], "OK: OVER 0, OK 0");
    assert_eq!(world.ask_times("d: a=2 + a=3 -1", 2)[1], "OK: OVER 0, OK 1");
    assert_eq!(world.ask_times("d: a=4 + free=v", 2)[1], "OVER: OVER 0, OK 4294967295", "counts for neither");
    assert_eq!(world.ask_times("d: a=5 + never=v", 2), ["OK: OK 0, OVER 0", "OVER: OVER 0, OVER 0"]);
    assert_eq!(world.ask("d: never=v"), "OVER: OVER 0", "a soft ban alone");
    assert_eq!(world.ask("d: never=v + never=w"), "OVER: OVER 0, OVER 0");
}

/// Case 29.
#[test]
fn metadata_of_those_that_passed_is_merged() {
    let rules = "
        {key: a, rate_limit: {unit: minute, requests_per_unit: 2}, metadata: {name: service_1}},
        {key: b, rate_limit: {unit: minute, requests_per_unit: 1}, metadata: {name: service_2}},
        {key: c, rate_limit: {unit: minute, requests_per_unit: 1}, metadata: {some_other_name: service_3}},
        {key: free, rate_limit: {unlimited: true}, metadata: {free: yes}}";
    let settings = RlsSettings { tells_metadata: true, ..quota() };
    let world = World::of(rules, settings);
    let metadata = |request| world.answer(request).metadata.unwrap()["metadata"].clone();
    assert_eq!(metadata("d: free=v"), json!({"free": true}), "who has no limit passes");
    assert_eq!(metadata("d: a=v + b=v"), json!({"name": "service_1"}), "both pass, the first wins");
    assert_eq!(metadata("d: a=v + b=v"), json!({"name": "service_1"}), "the second is over");
    assert_eq!(metadata("d: b=w + c=v"), json!({"name": "service_2", "some_other_name": "service_3"}));
}

/// Case 33, and all that is told besides.
#[test]
fn metadata_tells_of_the_request_too() {
    let settings = RlsSettings { tells_metadata: true, ..RlsSettings::default() };
    let world = World::new(&EXAMPLE, settings);
    let both = "rl: service=service_1 + service=service_2";
    let metadata = |request: &str| {
        let answer = world.answer(request);
        (told(&answer), answer.metadata.unwrap())
    };
    let named = |name: &str| json!({"service_with_quota": {"name": name}});
    let (told, all) = metadata(both);
    assert_eq!((&*told, &all["metadata"]), ("OK: OK 0, OK 1", &named("service_1")));
    let descriptors = json!([{"entries": ["service=service_1"]}, {"entries": ["service=service_2"]}]);
    assert_eq!(
        (&all["domain"], &all["descriptors"], all.get("hitsAddend")),
        (&json!("rl"), &descriptors, None)
    );
    let (told, all) = metadata(both);
    assert_eq!((&*told, &all["metadata"]), ("OK: OVER 0, OK 0", &named("service_2")));
    let (told, all) = metadata(both);
    assert_eq!((&*told, all.get("metadata")), ("OVER: OVER 0, OVER 0", None));

    let mut request = asked("rl#7: other=a b=c @3");
    request.descriptors[0].limit = Some(RlsOverride { requests_per_unit: 10, unit: 4 });
    let all = world.try_ask(&request).unwrap().metadata.unwrap();
    let expected = json!({
        "domain": "rl",
        "descriptors": [{"entries": ["other=a", "b=c"], "limit": "requests_per_unit:10 unit:DAY", "hitsAddend": 3}],
        "hitsAddend": 7,
    });
    assert_eq!(serde_json::Value::from(all), expected);
    assert!(
        World::new(&EXAMPLE, RlsSettings::default()).answer(both).metadata.is_none(),
        "only if asked for"
    );
}

/// Case 35.
#[test]
fn token_quotas_look_before_and_charge_after() {
    let world = World::new(&EXAMPLE, RlsSettings { tells_metadata: true, ..RlsSettings::default() });
    let look = || {
        let answer = world.answer("rl: service=service_1 @0 + service=service_2 @0");
        let metadata = answer.metadata.as_ref().unwrap().get("metadata");
        let name =
            metadata.map(|metadata| metadata["service_with_quota"]["name"].as_str().unwrap().to_owned());
        (told(&answer)[..2].to_owned(), name)
    };
    let mut seen = Vec::new();
    for service in ["service_1", "service_1", "service_2", "service_2", "service_2"] {
        seen.push(look());
        world.ask(&format!("rl: service={service}"));
    }
    let names: Vec<_> = seen.iter().map(|(_, name)| name.as_deref().unwrap()).collect();
    assert_eq!(names, ["service_1", "service_1", "service_2", "service_2", "service_2"]);
    assert!(seen.iter().all(|(code, _)| code == "OK"));
    assert_eq!(look(), ("OV".to_owned(), None));
}

#[test]
fn negative_hits_are_given_back_and_always_ok() {
    let world =
        World::of("{key: k, rate_limit: {unit: minute, requests_per_unit: 5}}", RlsSettings::default());
    assert_eq!(world.ask("d: k=v @4"), "OK: OK 1");
    let answer = world.answer("d: k=v -3");
    assert_eq!((&*told(&answer), answer.statuses[0].until_reset), ("OK: OK 4", Some(40)));
    assert_eq!(world.ask("d: k=v -9"), "OK: OK 5", "not below nothing");
    world.ask("d: k=v @9");
    assert_eq!(world.ask("d: k=v -1"), "OK: OK 0", "still beyond the limit, and OK all the same");
    assert_eq!(world.ask("d: k=v @0"), "OVER: OVER 0");
    let counts = world.counted("d.k");
    assert_eq!((counts.total_hits, counts.total_negative_hits), (13, 13));
    let banned =
        World::of("{key: k, rate_limit: {unit: minute, requests_per_unit: 0}}", RlsSettings::default());
    assert_eq!(banned.ask("d: k=v -1"), "OK: OK 0");
    assert_eq!(banned.ask("d: k=v @0"), "OVER: OVER 0", "a look at a ban is over");
    let counts = banned.counted("d.k");
    assert_eq!((counts.total_hits, counts.over_limit, counts.total_negative_hits), (0, 0, 1));
}

/// Case 7, and what becomes of counters.
#[test]
fn a_limit_that_a_request_brings_is_the_rule() {
    let rules = "{key: k, shadow_mode: true, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 5, name: n}}";
    let world = World::of(rules, RlsSettings::default());
    let bring = |request: &str, requests_per_unit, unit| {
        let mut request = asked(request);
        request.descriptors[0].limit = Some(RlsOverride { requests_per_unit, unit });
        world.try_ask(&request).unwrap()
    };
    assert_eq!(world.ask("d: k=v @2"), "OK: OK 3");
    let answer = bring("d: k=v", 10, 4);
    assert_eq!(told(&answer), "OK: OK 7", "the same unit goes on with the counter");
    let limit = answer.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit, &*limit.name), (10, Some(LimitUnit::Day), ""));
    assert_eq!(told(&bring("d: k=v", 42, 3)), "OK: OK 41", "another has its own");
    assert_eq!(told(&bring("d: k=v", 3, 4)), "OVER: OVER 0", "neither shadow nor quota of the rule");
    assert_eq!(told(&bring("d: new=v path=", 1, 7)), "OK: OK 0", "where nothing is found, too");
    assert_eq!(told(&bring("d: k=v", 0, 4)), "OVER: OVER 0", "a ban");
    assert_eq!(told(&bring("other: k=v", 10, 4)), "OK: –", "but not in a domain that there is not");
    assert_eq!(world.counted("d.k_v").total_hits, 4);
    assert_eq!(world.counted("d.new_v.path").total_hits, 1);
    assert_eq!(world.service.read_counts().ignored_limits, 0);
    for unit in [0, 8, -1, i32::MAX] {
        let ignored = bring("d: k=w", 1, unit);
        assert_eq!(ignored.statuses[0].current_limit.as_ref().unwrap().name, "n", "{unit}: the rule counts");
    }
    assert_eq!(world.service.read_counts().ignored_limits, 4);
}
