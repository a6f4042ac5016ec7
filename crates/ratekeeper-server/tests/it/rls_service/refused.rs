//! What is no request, and how much a request may have.

use futures_util::FutureExt;
use ratekeeper::{Keeper, MemoryStore, Registry};
use ratekeeper_server::rls::{
    RateLimitService, RlsDescriptor, RlsEntry, RlsErrorKind, RlsRequest, RlsSettings,
};

use crate::rls_service::support::{World, asked};

const RULE: &str = "{key: k, rate_limit: {unit: minute, requests_per_unit: 5}}";

#[test]
fn errors_have_the_words_of_the_go_service() {
    let world = World::of(RULE, RlsSettings::default());
    let refused = |request: &RlsRequest| {
        let error = world.try_ask(request).unwrap_err();
        (error.kind(), error.to_string())
    };
    let empty = RlsRequest { domain: String::new(), ..asked("d: k=v") };
    assert_eq!(refused(&empty), (RlsErrorKind::Request, "rate limit domain must not be empty".to_owned()));
    let none = RlsRequest { descriptors: Vec::new(), ..asked("d: k=v") };
    assert_eq!(
        refused(&none),
        (RlsErrorKind::Request, "rate limit descriptor list must not be empty".to_owned())
    );
    let many = RlsRequest { descriptors: vec![RlsDescriptor::default(); 257], ..asked("d: k=v") };
    let expected = "descriptors: 257; a request has at most 256".to_owned();
    assert_eq!(refused(&many), (RlsErrorKind::Request, expected));
    let mut deep = asked("d: k=v + k=v");
    deep.descriptors[1].entries = vec![RlsEntry::default(); 65];
    let expected = "descriptors[1].entries: 65; a descriptor has at most 64".to_owned();
    assert_eq!(refused(&deep), (RlsErrorKind::Request, expected));
    let reading = world.service.read_counts();
    assert_eq!((reading.service_error, reading.redis_error), (4, 0));
    assert!(reading.rules.is_empty(), "nothing was charged");
    let most =
        RlsRequest { descriptors: vec![asked("d: k=v").descriptors[0].clone(); 256], ..asked("d: k=v") };
    assert_eq!(world.try_ask(&most).unwrap().statuses.len(), 256);
}

#[test]
fn nothing_is_loaded_at_first() {
    let service = RateLimitService::new(RlsSettings::default());
    let keeper = Keeper::new(MemoryStore::default(), Registry::default());
    let request = asked("d: k=v");
    let ask = || service.should_rate_limit(&keeper, &request, None).now_or_never().unwrap();
    let error = ask().unwrap_err();
    let expected = (RlsErrorKind::Configuration, "no rate limit configuration loaded".to_owned());
    assert_eq!((error.kind(), error.to_string()), expected);
    service.load_failed();
    assert!(ask().is_err() && service.config().is_none());
    service.load(Default::default());
    assert_eq!(ask().unwrap().statuses.len(), 1, "an empty configuration is a good one");
    let reading = service.read_counts();
    assert_eq!((reading.config_load_success, reading.config_load_error, reading.service_error), (1, 1, 2));
    assert!(reading.loaded_at.is_some());
}

/// More than any store can count is over, and not an error that Envoy lets pass.
#[test]
fn more_hits_than_can_be_counted_are_over() {
    let rules =
        format!("{RULE}, {{key: g, rate_limit: {{unit: minute, requests_per_unit: 5, algorithm: gcra}}}}");
    let world = World::of(&rules, RlsSettings::default());
    for request in ["d: k=v @18446744073709551615", "d: g=v @18446744073709551615"] {
        assert_eq!(world.ask_times(request, 2), ["OVER: OVER 0"; 2], "{request}");
    }
    let most = World::of(
        "{key: k, rate_limit: {unit: second, requests_per_unit: 4294967295}}",
        RlsSettings::default(),
    );
    assert_eq!(most.ask("d: k=v @4294967295"), "OK: OK 0");
    assert_eq!(most.ask("d: k=v"), "OVER: OVER 0");
}

/// A key that is longer than a key can be is still one of its own.
#[test]
fn long_values_are_limited() {
    let world = World::of(RULE, RlsSettings::default());
    let (long, other) = ("x".repeat(50_000), format!("{}y", "x".repeat(49_999)));
    assert_eq!(world.ask(&format!("d: k={long} @5")), "OK: OK 0");
    assert_eq!(world.ask(&format!("d: k={long}")), "OVER: OVER 0");
    assert_eq!(world.ask(&format!("d: k={other}")), "OK: OK 4");
}
