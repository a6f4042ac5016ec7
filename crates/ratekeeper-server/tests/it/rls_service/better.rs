//! Rules that the Go service does not have.

use ratekeeper_server::rls::{LimitUnit, RlsErrorKind, RlsSettings};

use crate::rls_service::support::{World, asked, told};

fn world(rules: &str) -> World {
    World::of(rules, RlsSettings::default())
}

#[test]
fn other_algorithms_are_told_as_they_were_written() {
    let world =
        world("{key: k, rate_limit: {unit: minute, requests_per_unit: 6, algorithm: gcra, burst: 2}}");
    let answer = world.answer("d: k=v");
    let limit = answer.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit), (6, Some(LimitUnit::Minute)));
    assert_eq!(
        (answer.statuses[0].limit_remaining, answer.statuses[0].until_reset),
        (1, Some(10)),
        "until whole"
    );
    world.ask("d: k=v");
    let over = world.answer("d: k=v");
    assert_eq!(
        (&*told(&over), over.statuses[0].until_reset),
        ("OVER: OVER 0", Some(10)),
        "until these hits pass"
    );
    world.advance(10);
    assert_eq!(world.ask("d: k=v"), "OK: OK 0", "refused hits were not charged");
    assert_eq!(world.ask("d: k=v @0"), "OVER: OVER 0", "one hit would be refused now");
    let never = world.answer("d: k=w @3");
    assert_eq!(
        (&*told(&never), never.statuses[0].until_reset),
        ("OVER: OVER 0", Some(1)),
        "never: until whole"
    );
}

#[test]
fn what_is_refused_as_a_whole_charges_nobody_who_ignores() {
    let rules = "
        {key: g, rate_limit: {unit: minute, requests_per_unit: 10, algorithm: gcra}},
        {key: one, rate_limit: {unit: minute, requests_per_unit: 1, algorithm: gcra}},
        {key: count, rate_limit: {unit: minute, requests_per_unit: 10}},
        {key: banned, rate_limit: {unit: minute, requests_per_unit: 0}}";
    let world = world(rules);
    assert_eq!(world.ask("d: g=v + one=v + count=v"), "OK: OK 9, OK 0, OK 9");
    assert_eq!(
        world.ask("d: g=v + one=v + count=v"),
        "OVER: OK 9, OVER 0, OK 8",
        "what counts is charged all the same"
    );
    assert_eq!(world.ask("d: g=v + banned=v"), "OVER: OK 9, OVER 0", "a ban refuses the whole, too");
    assert_eq!(world.ask("d: g=v"), "OK: OK 8");
}

#[test]
fn several_rules_are_one_status() {
    let world = world("{key: k, rate_limit: {limit: '2/s burst 2; 3/m fixed grid; 100 per 30s'}}");
    let answer = world.answer("d: k=v");
    let limit = answer.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!(
        (limit.requests_per_unit, limit.unit, answer.statuses[0].limit_remaining),
        (2, Some(LimitUnit::Second), 1)
    );
    world.ask("d: k=v");
    world.advance(1);
    let answer = world.answer("d: k=v");
    let limit = answer.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!(
        (&*told(&answer), limit.requests_per_unit, limit.unit),
        ("OK: OK 0", 3, Some(LimitUnit::Minute))
    );
    world.advance(1);
    let over = world.answer("d: k=v");
    assert_eq!((&*told(&over), over.statuses[0].until_reset), ("OVER: OVER 0", Some(38)));
}

#[test]
fn a_limit_in_shadow_beside_is_counted_and_never_enforced() {
    let world = world("{key: k, rate_limit: {unit: minute, requests_per_unit: 5}, shadow: {limit: 2/m}}");
    assert_eq!(world.ask_times("d: k=v", 4), ["OK: OK 4", "OK: OK 3", "OK: OK 2", "OK: OK 1"]);
    let counts = world.counted("d.k");
    assert_eq!((counts.total_hits, counts.over_limit, counts.shadow_mode, counts.over_shadow), (4, 0, 0, 2));
}

#[test]
fn a_plan_of_the_server_is_found_at_each_request() {
    let world = world("{key: k, rate_limit: {plan: gold}}");
    let error = world.try_ask(&asked("d: k=v")).unwrap_err();
    let expected = "rule d.k: plan: `gold`; there is no plan of that name";
    assert_eq!((error.kind(), &*error.to_string()), (RlsErrorKind::Configuration, expected));
    world.plans(&[("gold", "2/h")]);
    assert_eq!(world.ask_times("d: k=v", 3), ["OK: OK 1", "OK: OK 0", "OVER: OVER 0"]);
    assert_eq!(world.counted("d.k").over_limit, 1);
    world.plans(&[("gold", "5/h fixed grid")]);
    let answer = world.answer("d: k=v");
    let limit = answer.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit), (5, Some(LimitUnit::Hour)));
    world.plans(&[("gold", "5 tokens/h")]);
    let error = world.try_ask(&asked("d: k=v")).unwrap_err();
    assert_eq!(error.kind(), RlsErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("tokens"), "{error}");
}
