//! The Go service's own cases of limits: 16 to 23, 28, 30 to 32, 34, 36, 37.

use ratekeeper_server::rls::{LimitUnit, RlsSettings};

use crate::rls_service::fixtures::{ANOTHER, EXAMPLE, SHARED};
use crate::rls_service::support::World;

fn usual(files: &[(&str, &str)]) -> World {
    World::new(files, RlsSettings::default())
}

/// Case 16.
#[test]
fn one_hit_of_fifty_a_second() {
    let answer = usual(&ANOTHER).answer("basic: key1=foo");
    let status = &answer.statuses[0];
    let limit = status.current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit, &*limit.name), (50, Some(LimitUnit::Second), ""));
    assert_eq!((status.limit_remaining, status.until_reset), (49, Some(1)));
}

/// Case 17.
#[test]
fn refused_hits_count() {
    let world = usual(&ANOTHER);
    for (number, told) in world.ask_times("another: key2=r", 25).iter().enumerate() {
        let expected =
            if number < 20 { format!("OK: OK {}", 19 - number) } else { "OVER: OVER 0".to_owned() };
        assert_eq!(*told, expected, "request {number}");
    }
    let counts = world.counted("another.key2");
    assert_eq!((counts.total_hits, counts.over_limit), (25, 5));
    assert_eq!(world.answer("another: key2=r").statuses[0].until_reset, Some(40), "when the window ends");
    world.advance(40);
    assert_eq!(world.ask("another: key2=r"), "OK: OK 19");
}

/// Cases 18 and 19.
#[test]
fn one_descriptor_refuses_and_the_others_count_or_do_not() {
    let world = usual(&ANOTHER);
    for (number, told) in world.ask_times("another: key2=r + key3=r", 15).iter().enumerate() {
        let expected = match number {
            0..10 => format!("OK: OK {}, OK {}", 19 - number, 9 - number),
            _ => format!("OVER: OK {}, OVER 0", 19 - number),
        };
        assert_eq!(*told, expected, "request {number}");
    }
    let ignoring = RlsSettings { over: ratekeeper::port::ChargeAction::Ignore, ..RlsSettings::default() };
    let world = World::new(&ANOTHER, ignoring);
    for (number, told) in world.ask_times("another: key2=r + key3=r", 15).iter().enumerate() {
        let expected = match number {
            0..10 => format!("OK: OK {}, OK {}", 19 - number, 9 - number),
            _ => "OVER: OK 10, OVER 0".to_owned(),
        };
        assert_eq!(*told, expected, "request {number}, ignoring");
    }
}

/// Case 20.
#[test]
fn the_reset_comes_nearer() {
    let world = usual(&ANOTHER);
    let reset = || world.answer("another: key4=x").statuses[0].until_reset.unwrap();
    let first = reset();
    world.advance(2);
    assert_eq!((first, reset()), (6_400, 6_398));
}

/// Case 21.
#[test]
fn values_share_a_counter_if_the_rule_says_so() {
    let world = usual(&SHARED);
    let domain = "share-threshold-test";
    world.ask_times(&format!("{domain}: files=files/a.pdf"), 10);
    assert_eq!(world.ask(&format!("{domain}: files=files/b.csv")), "OVER: OVER 0");
    for file in 0..10 {
        let request = format!("{domain}: files_no_share=files_no_share/{file}");
        assert_eq!(world.ask(&request), "OK: OK 9", "{file}");
    }
}

/// Case 22: the count before, the hits, and what is told and counted then.
#[test]
fn hits_are_split_over_the_thresholds() {
    for (limit, before, hits, told, [over, near, within]) in [
        ("20/s", 2, 3, "OK: OK 15", [0, 0, 3]),
        ("20/s", 16, 3, "OK: OK 1", [0, 3, 3]),
        ("20/s", 19, 3, "OVER: OVER 0", [2, 1, 0]),
        ("20/s", 15, 7, "OVER: OVER 0", [2, 4, 0]),
        ("8/s", 5, 2, "OK: OK 1", [0, 1, 2]),
        ("10/s", 27, 3, "OVER: OVER 0", [3, 0, 0]),
        ("15/h", 10, 1, "OK: OK 4", [0, 0, 1]),
        ("15/h", 12, 1, "OK: OK 2", [0, 1, 1]),
        ("15/h", 15, 1, "OVER: OVER 0", [1, 0, 0]),
    ] {
        let (count, unit) = limit.split_once('/').unwrap();
        let unit = if unit == "s" { "second" } else { "hour" };
        let rule = format!("{{key: k, rate_limit: {{unit: {unit}, requests_per_unit: {count}}}}}");
        let world = World::of(&rule, RlsSettings::default());
        world.ask(&format!("d: k=v @{before}"));
        let earlier = world.counted("d.k");
        assert_eq!(world.ask(&format!("d#{hits}: k=v")), told, "{limit}, {before} before, {hits} hits");
        let now = world.counted("d.k");
        let counted = [
            now.over_limit - earlier.over_limit,
            now.near_limit - earlier.near_limit,
            now.within_limit - earlier.within_limit,
        ];
        assert_eq!(counted, [over, near, within], "{limit}, {before} before, {hits} hits");
        assert_eq!(now.total_hits - earlier.total_hits, hits);
    }
}

/// Case 23.
#[test]
fn a_look_is_over_only_beyond_the_limit() {
    let hour = "{key: hour, rate_limit: {unit: hour, requests_per_unit: 10}}";
    let day = "{key: day, rate_limit: {unit: day, requests_per_unit: 10}}";
    let world = World::of(&format!("{hour}, {day}"), RlsSettings::default());
    world.ask("d: hour=v @10 + day=v @12");
    assert_eq!(world.ask("d: hour=v @0"), "OK: OK 0", "all of it is used, and no more");
    world.ask("d: hour=v @1");
    let (before_hour, before_day) = (world.counted("d.hour"), world.counted("d.day"));
    assert_eq!(world.ask("d: hour=v @0 + day=v @1"), "OVER: OVER 0, OVER 0");
    assert_eq!(world.counted("d.hour").total_hits - before_hour.total_hits, 0);
    assert_eq!(world.counted("d.day").total_hits - before_day.total_hits, 1);
}

/// Case 28, and a descriptor without entries.
#[test]
fn each_descriptor_has_a_status() {
    let rules = "{key: k, rate_limit: {unit: minute, requests_per_unit: 10}}, {key: free, rate_limit: {unlimited: true}}";
    let world = World::of(rules, RlsSettings::default());
    let answer = world.answer("d: k=v + other=v + free=v");
    assert_eq!(crate::rls_service::support::told(&answer), "OK: OK 9, –, OK 4294967295");
    let [limited, none, unlimited] = &*answer.statuses else { panic!("three") };
    assert_eq!((limited.until_reset, none.until_reset, unlimited.until_reset), (Some(40), None, None));
    assert!(unlimited.current_limit.is_none());
    assert_eq!(world.ask("d:  + k=v"), "OK: –, OK 8");
}

/// Case 30.
#[test]
fn a_ban_is_replaced() {
    let world = usual(&EXAMPLE);
    assert_eq!(world.ask("rl: foo=f bar=banned"), "OVER: OVER 0");
    let answer = world.answer("rl: foo=f bar=banned");
    let limit = answer.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!(
        (limit.requests_per_unit, limit.unit, &*limit.name),
        (0, Some(LimitUnit::Minute), "banned_limit")
    );
    assert_eq!(answer.statuses[0].until_reset, Some(40));
    let mock = "rl: foo=f bar=banned + source_cluster=proxy destination_cluster=mock";
    assert_eq!(world.ask(mock), "OVER: OVER 0, OK 0");
    let overriding = "rl: foo=f bar=banned + source_cluster=proxy destination_cluster=override";
    assert_eq!(world.ask_times(overriding, 3), ["OK: –, OK 1", "OK: –, OK 0", "OVER: –, OVER 0"]);
}

/// Case 31.
#[test]
fn a_limit_is_replaced_where_the_other_is_found() {
    let world = usual(&EXAMPLE);
    let to = |cluster: &str| {
        format!("rl: foo=m bar=bkthomps + source_cluster=proxy destination_cluster={cluster}")
    };
    let replaced = world.ask_times(&to("bkthomps"), 3);
    assert_eq!(replaced, ["OK: –, OK 1", "OK: –, OK 0", "OVER: –, OVER 0"]);
    assert_eq!(world.ask_times(&to("not_bkthomps"), 2), ["OK: OK 0, –", "OVER: OVER 0, –"]);
    assert_eq!(world.ask(&to("bkthomps")), "OVER: –, OVER 0");
}

/// Case 32.
#[test]
fn one_rule_replaces_several() {
    let world = usual(&EXAMPLE);
    let fake = "source_cluster=proxy destination_cluster=fake";
    let all = world.ask_times(&format!("rl: foo=m bar=bkthomps + {fake} + category=account"), 5);
    let expected =
        ["OK: –, –, OK 3", "OK: –, –, OK 2", "OK: –, –, OK 1", "OK: –, –, OK 0", "OVER: –, –, OVER 0"];
    assert_eq!(all, expected);
    assert_eq!(world.ask_times("rl: foo=2 bar=bkthomps", 2), ["OK: OK 0", "OVER: OVER 0"]);
    let neither = world.ask_times(&format!("rl: foo=3 bar=3 + {fake}"), 3);
    assert_eq!(neither, ["OK: OK 2, OK 1", "OK: OK 1, OK 0", "OVER: OK 0, OVER 0"]);
}

/// Two that replace each other are both dropped; one that is unlimited replaces, too, and is replaced.
#[test]
fn replacing_goes_both_ways() {
    let rules = "
        {key: a, rate_limit: {unit: minute, requests_per_unit: 1, name: a, replaces: [{name: b}]}},
        {key: b, rate_limit: {unit: minute, requests_per_unit: 1, name: b, replaces: [{name: a}]}},
        {key: free, rate_limit: {unlimited: true, name: free, replaces: [{name: c}]}},
        {key: c, rate_limit: {unit: minute, requests_per_unit: 1, name: c}},
        {key: e, rate_limit: {unit: minute, requests_per_unit: 1, replaces: [{name: free}]}}";
    let world = World::of(rules, RlsSettings::default());
    assert_eq!(world.ask_times("d: a=v + b=v", 2), ["OK: –, –"; 2]);
    assert_eq!(world.ask("d: free=v + c=v"), "OK: OK 4294967295, –");
    assert_eq!(world.ask("d: free=v + e=v"), "OK: –, OK 0");
    assert_eq!(world.ask("d: a=v + c=v"), "OK: OK 0, OK 0", "nobody replaces those");
}

/// Case 34.
#[test]
fn looks_and_charges() {
    let world = usual(&EXAMPLE);
    let asked = ["@0", "@1", "@0", "@1", "@0", "@1", "@0"];
    let told = asked.map(|hits| world.ask(&format!("rl: service=service_2 {hits}")));
    assert_eq!(
        told,
        ["OK: OK 2", "OK: OK 1", "OK: OK 1", "OK: OK 0", "OK: OK 0", "OVER: OVER 0", "OVER: OVER 0"]
    );
}

/// Case 36.
#[test]
fn a_rule_in_shadow_is_judged_and_passes() {
    let world = usual(&EXAMPLE);
    let shady = world.ask_times("rl: foo=p baz=shady", 5);
    assert_eq!(shady, ["OK: OK 2", "OK: OK 1", "OK: OK 0", "OK: OK 0", "OK: OK 0"]);
    let counts = world.counted("rl.foo.baz_shady");
    assert_eq!((counts.total_hits, counts.over_limit, counts.shadow_mode), (5, 2, 2));
    assert_eq!(world.answer("rl: foo=p baz=shady").statuses[0].until_reset, Some(40));
    let other = world.ask_times("rl: foo=p baz=not-so-shady", 4);
    assert_eq!(other, ["OK: OK 2", "OK: OK 1", "OK: OK 0", "OVER: OVER 0"]);
    assert_eq!(world.counted("rl.foo.baz_not-so-shady").shadow_mode, 0);
}

/// Case 37.
#[test]
fn details_are_counted_by_value() {
    let world = usual(&EXAMPLE);
    let told = world.ask_times("rl: unspec=unspecified_value", 3);
    assert_eq!(told, ["OK: OK 1", "OK: OK 0", "OVER: OVER 0"]);
    assert_eq!(world.counted("rl.unspec_unspecified_value").over_limit, 1);
    assert!(world.counted("rl.unspec").is_empty());
}

/// Equal descriptors are charged once each, in order.
#[test]
fn equal_descriptors_are_charged_once_each() {
    let world =
        World::of("{key: k, rate_limit: {unit: minute, requests_per_unit: 3}}", RlsSettings::default());
    assert_eq!(world.ask("d: k=v + k=v + k=v + k=v"), "OVER: OK 2, OK 1, OK 0, OVER 0");
    let counts = world.counted("d.k");
    assert_eq!((counts.total_hits, counts.over_limit, counts.within_limit, counts.near_limit), (4, 1, 3, 1));
}
