//! Header fields and bodies: case 24, and ours.

use ratekeeper::Timestamp;
use ratekeeper_server::rls::{RlsAnswer, RlsHeaders, RlsSettings};

use crate::rls_service::support::World;

fn plain(limit: &str, remaining: &str, reset: &str) -> RlsSettings {
    let headers = RlsHeaders::Plain {
        limit: limit.to_owned(),
        remaining: remaining.to_owned(),
        reset: reset.to_owned(),
    };
    RlsSettings { headers, ..RlsSettings::default() }
}

fn fields(answer: &RlsAnswer) -> Vec<String> {
    answer.response_headers.iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

const RULES: &str = "
    {key: a, rate_limit: {unit: minute, requests_per_unit: 10}},
    {key: b, rate_limit: {unit: hour, requests_per_unit: 20, name: per-user}},
    {key: soft, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}},
    {key: banned, rate_limit: {unit: day, requests_per_unit: 0}}";

/// Case 24.
#[test]
fn plain_fields_tell_of_the_one_that_decides() {
    let world = World::of(RULES, plain("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"));
    world.clock.set(Timestamp::from_secs(2222));
    world.ask("d: a=v @10");
    let over = world.answer("d: a=v + b=v");
    assert_eq!(fields(&over), ["RateLimit-Limit: 10", "RateLimit-Remaining: 0", "RateLimit-Reset: 58"]);
    let within = world.answer("d: b=v + a=w @2 + none=v");
    assert_eq!(fields(&within)[..2], ["RateLimit-Limit: 10", "RateLimit-Remaining: 8"], "the least left");
    world.ask("d: soft=v @2");
    let hard = world.answer("d: a=v + soft=v");
    assert_eq!(fields(&hard)[0], "RateLimit-Limit: 10", "what refuses by itself comes before quota rules");
    assert!(fields(&world.answer("d: none=v")).is_empty(), "nothing to tell of");
    let named = World::of(RULES, plain("x-limit", "x-left", "x-reset"));
    assert_eq!(fields(&named.answer("d: b=v")), ["x-limit: 20", "x-left: 19", "x-reset: 2800"]);
}

#[test]
fn ietf_fields_tell_of_all() {
    let settings =
        RlsSettings { headers: RlsHeaders::Ietf, has_problem_body: true, ..RlsSettings::default() };
    let world = World::of(RULES, settings);
    let within = world.answer("d: a=v + none=v + b=v + a=w");
    let expected = [
        r#"RateLimit-Policy: "minute";q=10;w=60, "per-user";q=20;w=3600, "minute-2";q=10;w=60"#,
        r#"RateLimit: "minute";r=9;t=40, "per-user";r=19;t=2800, "minute-2";r=9;t=40"#,
    ];
    assert_eq!(fields(&within), expected);
    assert!(within.body.is_empty());
    world.ask("d: a=v @9");
    let over = world.answer("d: a=v + b=v + banned=v");
    let expected = [
        r#"RateLimit-Policy: "minute";q=10;w=60, "per-user";q=20;w=3600, "day";q=0;w=86400"#,
        r#"RateLimit: "minute";r=0;t=40, "per-user";r=18;t=2800, "day";r=0;t=6400"#,
        "Retry-After: 6400",
        "Content-Type: application/problem+json",
    ];
    assert_eq!(fields(&over), expected);
    let body: serde_json::Value = serde_json::from_slice(&over.body).unwrap();
    assert_eq!(body["status"], 429);
    assert_eq!(body["violated-policies"], serde_json::json!(["minute", "day"]));
    assert!(fields(&world.answer("d: none=v")).is_empty());
}

/// After so many seconds, this very request passes.
#[test]
fn retry_after_is_exact_where_quota_rules_take_part() {
    let rules = "
        {key: hard, rate_limit: {unit: minute, requests_per_unit: 1, over: ignore}},
        {key: soon, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1, over: ignore}},
        {key: late, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1, over: ignore}}";
    let settings =
        RlsSettings { headers: RlsHeaders::Ietf, has_problem_body: true, ..RlsSettings::default() };
    for (request, waits, violated) in [
        // One of the quota rules has room, so that the other refuses nothing.
        ("d: hard=v + late=v + soon=w", 40, &["minute"][..]),
        ("d: soon=v + late=v", 2800, &["hour", "day"]),
        ("d: hard=v + soon=v + late=v", 2800, &["minute", "hour", "day"]),
    ] {
        let world = World::of(rules, settings.clone());
        world.ask("d: hard=v + soon=v + late=v");
        let over = world.answer(request);
        assert!(fields(&over).contains(&format!("Retry-After: {waits}")), "{request}: {:?}", fields(&over));
        let body: serde_json::Value = serde_json::from_slice(&over.body).unwrap();
        assert_eq!(body["violated-policies"], serde_json::json!(violated), "{request}");
        world.advance(waits - 1);
        assert!(world.ask(request).starts_with("OVER"), "{request}: not before");
        world.advance(1);
        assert!(world.ask(request).starts_with("OK"), "{request}: then");
    }
}
