//! What is counted, across reloads and without end.

use ratekeeper_server::rls::{DomainReading, RlsSettings};

use crate::rls_service::support::{World, domain};

#[test]
fn counts_go_on_across_a_reload_under_names_that_stay() {
    let rules = |count: u32, more: &str| {
        domain(&format!("{{key: k, rate_limit: {{unit: minute, requests_per_unit: {count}}}}}{more}"))
    };
    let world = World::new(&[("d.yaml", &rules(5, ""))], RlsSettings::default());
    world.ask_times("d: k=v", 3);
    world.load(&[("d.yaml", &rules(2, ", {key: l, rate_limit: {unit: day, requests_per_unit: 9}}"))]);
    assert_eq!(world.ask("d: k=v + l=v"), "OVER: OVER 0, OK 8", "and so do the counters of the store");
    assert_eq!((world.counted("d.k").total_hits, world.counted("d.k").over_limit), (4, 1));
    assert_eq!(world.counted("d.l").total_hits, 1);
    world.load(&[("d.yaml", "domain: d")]);
    assert!(world.counted("d.k").is_empty());
    assert_eq!(world.ask("d: k=v"), "OK: –");
    assert_eq!(world.service.read_counts().config_load_success, 3);
}

#[test]
fn what_a_rule_has_counted_is_kept_until_it_comes_back() {
    let rule =
        |key: &str| domain(&format!("{{key: {key}, rate_limit: {{unit: minute, requests_per_unit: 5}}}}"));
    let world = World::new(&[("d.yaml", &rule("k"))], RlsSettings::default());
    let gone = || -> Vec<(String, u64)> {
        let gone = world.service.read_counts().gone;
        gone.iter().map(|(name, reading)| (name.as_str().to_owned(), reading.total_hits)).collect()
    };
    world.ask_times("d: k=v", 3);
    world.load(&[("d.yaml", &rule("l"))]);
    world.ask_times("d: l=v", 1);
    assert_eq!(gone(), [("d.k".to_owned(), 3)]);
    world.load(&[("d.yaml", &rule("never"))]);
    world.load(&[("d.yaml", &rule("other"))]);
    assert_eq!(gone(), [("d.k".to_owned(), 3), ("d.l".to_owned(), 1)], "those that were hit");
    world.load(&[("d.yaml", &rule("k"))]);
    world.ask_times("d: k=v", 2);
    assert_eq!((world.counted("d.k").total_hits, gone()), (5, vec![("d.l".to_owned(), 1)]));
}

#[test]
fn what_finds_nothing_is_counted_by_domain() {
    let world =
        World::of("{key: k, rate_limit: {unit: minute, requests_per_unit: 5}}", RlsSettings::default());
    assert_eq!(world.ask("foo_domain: k=v"), "OK: –");
    world.ask("d: other=v + k=v + more=v");
    let domains = world.service.read_counts().domains;
    let expected = [
        ("d".to_owned(), DomainReading { domain_not_found: 0, rule_not_found: 2 }),
        ("foo_domain".to_owned(), DomainReading { domain_not_found: 1, rule_not_found: 0 }),
    ];
    assert_eq!(domains, expected);
}

/// Whoever asks cannot make series without end: those of the Go service grow until its memory ends.
#[test]
fn series_of_values_are_bounded() {
    let rule = "{key: k, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 5}}";
    let world = World::of(rule, RlsSettings::default());
    for value in 0..10_100 {
        world.ask(&format!("d: k={value}"));
        world.ask(&format!("domain-{value}: k=v"));
    }
    world.ask("d: k=7");
    let reading = world.service.read_counts();
    assert_eq!((reading.rules.len(), reading.domains.len()), (10_001, 10_001));
    assert_eq!(world.counted("d._other").total_hits, 100);
    assert_eq!(world.counted("d.k_7").total_hits, 2, "one that is known goes on");
    let other = reading.domains.iter().find(|(domain, _)| domain == "_other").unwrap();
    assert_eq!(other.1.domain_not_found, 100);
}

/// Long names are not kept: ten thousand domains of a mebibyte would be.
#[test]
fn long_names_have_no_series_of_their_own() {
    let rule = "{key: k, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 5}}";
    let world = World::of(rule, RlsSettings::default());
    let long = "x".repeat(1_000);
    world.ask(&format!("d: k={long}"));
    world.ask(&format!("{long}: k=v"));
    let reading = world.service.read_counts();
    let names: Vec<_> = reading.rules.iter().map(|(name, _)| name.as_str()).collect();
    let domains: Vec<_> = reading.domains.iter().map(|(domain, _)| domain.as_str()).collect();
    assert_eq!((names, domains), (vec!["d._other"], vec!["_other"]));
}

/// Who only looks, to explain or to reset, leaves no trace.
#[test]
fn looks_and_resets_count_nothing() {
    use futures_util::FutureExt;
    let rules = "{key: k, rate_limit: {unit: minute, requests_per_unit: 2}}, {key: g, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: gcra}}";
    let world = World::of(rules, RlsSettings::default());
    let request = crate::rls_service::support::asked("d: k=v + g=v + other=v");
    world.try_ask(&request).unwrap();
    let before = world.service.read_counts();
    let look = || world.service.look(&world.keeper, &request).now_or_never().unwrap().unwrap();
    assert_eq!(crate::rls_service::support::told(&look()), "OK: OK 1, OK 1, –");
    assert_eq!(look(), look());
    let reset = || world.service.reset(&world.keeper, &request).now_or_never().unwrap().unwrap();
    assert_eq!((reset(), reset()), (2, 0));
    assert_eq!(world.service.read_counts(), before);
    assert_eq!(world.ask("d: k=v + g=v"), "OK: OK 1, OK 1");
}
