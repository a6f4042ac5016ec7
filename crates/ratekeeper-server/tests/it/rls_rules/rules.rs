//! What a rule can say beyond the Go service.

use ratekeeper::port::ChargeAction;
use ratekeeper::{FailureMode, Plan};
use ratekeeper_server::rls::{LimitPlan, Limited, RlsSettings, RuleLimit};

use crate::rls_rules::support::{find, mistakes, parse, parse_all, plan, told};

fn file(fields: &str) -> String {
    format!("domain: d\ndescriptors:\n  - key: k\n    {fields}\n")
}

fn limited(text: &str, settings: &RlsSettings) -> Limited {
    let config = parse_all(&[text], settings).unwrap();
    match &find(&config, "d", "(k=v)").unwrap().rule.limit {
        RuleLimit::Limited(limited) => limited.clone(),
        other => panic!("{other}"),
    }
}

#[test]
fn rules_become_plans() {
    for (limit, expected, is_told) in [
        ("unit: second, requests_per_unit: 5", "second=5/s fixed grid", "5 SECOND d.k"),
        (
            "unit: second, requests_per_unit: 4294967295",
            "second=4294967295/s fixed grid",
            "4294967295 SECOND d.k",
        ),
        ("unit: minute, requests_per_unit: 5", "minute=5/m fixed grid", "5 MINUTE d.k"),
        ("unit: hour, requests_per_unit: 5", "hour=5/h fixed grid", "5 HOUR d.k"),
        ("unit: day, requests_per_unit: 5, algorithm: fixed", "day=5/day fixed grid", "5 DAY d.k"),
        ("unit: week, requests_per_unit: 5", "week=5/week fixed grid", "5 WEEK d.k"),
        ("unit: month, requests_per_unit: 5", "month=5 per 30day fixed grid", "5 MONTH d.k"),
        ("unit: year, requests_per_unit: 5", "year=5 per 365day fixed grid", "5 YEAR d.k"),
        (
            "unit: minute, requests_per_unit: 100, algorithm: gcra, burst: 20",
            "minute-gcra=100/m burst 20",
            "100 MINUTE d.k",
        ),
        ("unit: minute, requests_per_unit: 9, algorithm: bucket", "minute-bucket=9/m bucket", "9 MINUTE d.k"),
        (
            "unit: minute, requests_per_unit: 9, algorithm: leaky, burst: 3",
            "minute-leaky=9/m burst 3 leaky",
            "9 MINUTE d.k",
        ),
        (
            "unit: minute, requests_per_unit: 9, algorithm: sliding",
            "minute-sliding=9/m sliding",
            "9 MINUTE d.k",
        ),
        ("unit: minute, requests_per_unit: 9, algorithm: log", "minute-log=9/m log", "9 MINUTE d.k"),
        (
            "unit: minute, unit_multiplier: 5, requests_per_unit: 10",
            "5-minute=10 per 5m fixed grid",
            "10 - d.k",
        ),
        (
            "unit: second, unit_multiplier: 60, requests_per_unit: 10",
            "60-second=10/m fixed grid",
            "10 MINUTE d.k",
        ),
        (
            "unit: minute, unit_multiplier: 1, requests_per_unit: 10",
            "minute=10/m fixed grid",
            "10 MINUTE d.k",
        ),
        (
            "unit: month, requests_per_unit: 7, calendar: UTC",
            "month-calendar=7/month fixed calendar",
            "7 MONTH d.k",
        ),
        (
            "limit: 10/s burst 20; 250/day fixed grid",
            "per-s=10/s burst 20; per-day=250/day fixed grid",
            "10/s burst 20; 250/day fixed grid d.k",
        ),
        ("plan: gold", "plan gold", "plan gold d.k"),
    ] {
        let config = parse(&file(&format!("rate_limit: {{{limit}}}")));
        let found = find(&config, "d", "(k=v)").unwrap();
        assert_eq!(plan(&found), expected, "{limit}");
        assert_eq!(told(&config, "d", "(k=v)"), is_told, "{limit}");
    }
}

#[test]
fn a_limit_in_shadow_stands_beside_the_one_that_counts() {
    let config =
        parse(&file("rate_limit: {unit: second, requests_per_unit: 9}\n    shadow: {limit: 5/s; 100/day}"));
    let found = find(&config, "d", "(k=v)").unwrap();
    let RuleLimit::Limited(limited) = &found.rule.limit else { panic!("no limit") };
    assert_eq!(limited.plan.to_string(), "9/s fixed grid; in shadow 5/s; in shadow 100/day");
    assert_eq!(plan(&found), "second=9/s fixed grid; shadow-per-s=5/s; shadow-per-day=100/day");
    assert_eq!(limited.over, Some(ChargeAction::Count), "by the rule that binds");
}

#[test]
fn what_is_over_and_a_store_that_fails() {
    let usual = RlsSettings::default();
    let set = RlsSettings {
        over: ChargeAction::Ignore,
        on_store_error: FailureMode::Closed,
        ..RlsSettings::default()
    };
    let fixed = "unit: day, requests_per_unit: 1";
    let of = |limit: &str, settings: &RlsSettings| {
        let limited = limited(&file(&format!("rate_limit: {{{limit}}}")), settings);
        (limited.over, limited.on_store_error)
    };
    let (count, ignore) = (Some(ChargeAction::Count), Some(ChargeAction::Ignore));
    assert_eq!(of(fixed, &usual), (count, FailureMode::Error));
    assert_eq!(of(fixed, &set), (ignore, FailureMode::Closed));
    assert_eq!(
        of(&format!("{fixed}, over: ignore, on_store_error: open"), &usual),
        (ignore, FailureMode::Open)
    );
    assert_eq!(
        of(&format!("{fixed}, over: count, on_store_error: local"), &set),
        (count, FailureMode::Local)
    );
    assert_eq!(of(&format!("{fixed}, algorithm: gcra"), &usual).0, ignore);
    assert_eq!(of(&format!("{fixed}, algorithm: gcra, over: count"), &usual).0, count);
    assert_eq!(of("limit: 10/m fixed; 100/day fixed grid", &usual).0, count, "all are fixed windows");
    assert_eq!(of("limit: 10/m; 100/day fixed grid", &usual).0, ignore);
    assert_eq!(of("plan: gold", &usual), (None, FailureMode::Error), "the plan is known when it is asked");
    assert_eq!(of("plan: gold, over: ignore, on_store_error: closed", &usual), (ignore, FailureMode::Closed));
    let own = limited(&file(&format!("rate_limit: {{{fixed}, on_store_error: open}}")), &usual);
    let LimitPlan::Own(plan) = &own.plan else { panic!("no plan") };
    assert_eq!(plan.failure_mode(), FailureMode::Open);
}

#[test]
fn bans_and_what_is_unlimited() {
    let config = parse(&file("rate_limit: {unit: minute, requests_per_unit: 0, algorithm: gcra, burst: 3}"));
    assert_eq!(told(&config, "d", "(k=v)"), "0 MINUTE d.k");
    assert_eq!(plan(&find(&config, "d", "(k=v)").unwrap()), "nothing may pass (0 in a minute)");
}

#[test]
fn what_cannot_stand_beside_each_other() {
    for (fields, expected) in [
        (
            "rate_limit: {unit: day, requests_per_unit: 1, algorithm: gcr}",
            "4: algorithm: `gcr`; one of fixed, gcra",
        ),
        ("rate_limit: {unit: day, requests_per_unit: 1, burst: 5}", "4: burst: 5; a `fixed` limit has none"),
        (
            "rate_limit: {unit: day, requests_per_unit: 1, algorithm: sliding, burst: 5}",
            "4: burst: 5; a `sliding` limit has none",
        ),
        (
            "rate_limit: {unit: day, requests_per_unit: 1, algorithm: gcra, burst: 0}",
            "4: burst: 0; must be at least 1",
        ),
        (
            "rate_limit: {unit: day, requests_per_unit: 1, unit_multiplier: 0}",
            "4: unit_multiplier: 0; must be from 1",
        ),
        ("rate_limit: {unit: year, requests_per_unit: 1, unit_multiplier: 201}", "4: period: "),
        (
            "rate_limit: {unit: day, requests_per_unit: 1, calendar: UTC, unit_multiplier: 2}",
            "4: unit_multiplier: 2; a calendar",
        ),
        (
            "rate_limit: {unit: day, requests_per_unit: 1, calendar: UTC, algorithm: gcra}",
            "4: calendar: `UTC`; for fixed windows only",
        ),
        ("rate_limit: {unit: second, requests_per_unit: 1, calendar: UTC}", "4: calendar: seconds"),
        (
            "rate_limit: {unit: day, requests_per_unit: 1, calendar: Mars/Base}",
            "4: calendar: zone: `Mars/Base`",
        ),
        (
            "rate_limit: {unit: day, requests_per_unit: 1, over: never}",
            "4: over: `never`; `count` or `ignore`",
        ),
        (
            "rate_limit: {unit: day, requests_per_unit: 1, algorithm: log, over: count}",
            "4: over: count; a `log`",
        ),
        (
            "rate_limit: {unit: day, requests_per_unit: 1, on_store_error: fail}",
            "4: on_store_error: `fail`; one of error",
        ),
        ("rate_limit: {unit: day, requests_per_unit: 70000, algorithm: log}", "4: count: 70000"),
        ("rate_limit: {limit: 5/s, unit: day}", "4: `unit` cannot stand beside `limit`"),
        (
            "rate_limit: {limit: 5/s, requests_per_unit: 1}",
            "4: `requests_per_unit` cannot stand beside `limit`",
        ),
        ("rate_limit: {limit: 5/s, unlimited: true}", "4: `unlimited` cannot stand beside `limit`"),
        ("rate_limit: {limit: 5/s, burst: 5}", "4: `burst` cannot stand beside `limit`"),
        ("rate_limit: {limit: 5/s, plan: gold}", "4: `limit` cannot stand beside `plan`"),
        ("rate_limit: {plan: gold, unit: day}", "4: `unit` cannot stand beside `plan`"),
        ("rate_limit: {plan: go ld}", "4: plan: name: `go ld`"),
        ("rate_limit: {limit: 5/dya}", "4: limit: period: `dya`"),
        ("rate_limit: {limit: ''}", "4: limit: rules: none"),
        ("rate_limit: {limit: 8 concurrent}", "4: limit: `8 concurrent` limits what is in flight"),
        ("rate_limit: {limit: 100 tokens/m}", "4: limit: `100 tokens/m` counts tokens"),
        ("rate_limit: {unlimited: true, algorithm: gcra}", "4: `algorithm` cannot stand beside `unlimited`"),
        ("rate_limit: {unlimited: true}\n    shadow: {limit: 5/s}", "5: shadow: `5/s`; what is unlimited"),
        (
            "rate_limit: {unit: day, requests_per_unit: 0}\n    shadow: {limit: 5/s}",
            "5: shadow: `5/s`; a ban",
        ),
        ("rate_limit: {plan: gold}\n    shadow: {limit: 5/s}", "5: shadow: `5/s`; a plan has"),
        ("shadow: {limit: 5/s}", "4: `shadow` stands beside a `rate_limit`"),
        ("rate_limit: {unit: day, requests_per_unit: 1}\n    shadow: {}", "5: `shadow` has no `limit`"),
        (
            "rate_limit: {unit: day, requests_per_unit: 1}\n    shadow: 5/s",
            "5: error loading config file: `shadow: 5/s`; must be a map",
        ),
        (
            "rate_limit: {unit: day, requests_per_unit: 1}\n    shadow: {limit: 5/dya}",
            "5: shadow: period: `dya`",
        ),
        ("algorithm: gcra", "4: `algorithm` does not belong here: it belongs in `rate_limit`"),
    ] {
        let mistakes = mistakes(&file(fields));
        assert!(mistakes.iter().any(|mistake| mistake.starts_with(expected)), "{fields}: {mistakes:?}");
        assert_eq!(mistakes.len(), 1, "{fields}: {mistakes:?}");
    }
}

#[test]
fn plans_that_are_named_are_told_with_their_lines() {
    let config = parse(
        "domain: d\ndescriptors:\n  - {key: a, rate_limit: {plan: gold, over: count}}\n  - {key: b, rate_limit: {unit: day, requests_per_unit: 1}}\n  - {key: c, rate_limit: {plan: free}}\n",
    );
    let named: Vec<String> = config
        .plans_named()
        .map(|plan| plan.finding(format!("{} {:?}", plan.name, plan.limited.over_word())).to_string())
        .collect();
    assert_eq!(named, ["a.yaml:3: gold Some(\"count\")", "a.yaml:5: free None"]);
}

#[test]
fn plans_that_cannot_be_used_are_told() {
    let plans =
        [("gold", "5/s"), ("held", "5/s; 8 concurrent"), ("llm", "100 tokens/m"), ("logged", "5/s log")]
            .map(|(name, text)| (name, Plan::parse(name, text).unwrap()));
    let config = parse(
        "domain: d\ndescriptors:\n  - {key: a, rate_limit: {plan: gold, over: count}}\n  - {key: b, rate_limit: {plan: none}}\n  - {key: c, rate_limit: {plan: held}}\n  - {key: d, rate_limit: {plan: llm}}\n  - {key: e, rate_limit: {plan: logged}}\n  - {key: f, rate_limit: {plan: logged, over: count}}\n",
    );
    let wrong = config.check_plans(|name| plans.iter().find(|(own, _)| *own == name).map(|(_, plan)| plan));
    let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    let expected = [
        "a.yaml:4: plan: `none`; there is no such plan",
        "a.yaml:5: plan: `held`; `8 concurrent` limits what is in flight, which Envoy does not tell the end of",
        "a.yaml:6: plan: `llm`; `100 tokens/m` counts tokens; hits are counted without a unit, as in `100/m`",
        "a.yaml:8: plan: `logged`; it has a `log`, which cannot be in debt: write `over: ignore`",
    ];
    assert_eq!(wrong, expected);
}
