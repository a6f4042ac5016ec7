//! A store that fails, or does not answer in time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{FailureMode, StoreErrorKind, Timestamp};
use ratekeeper_server::rls::{RlsAnswer, RlsError, RlsErrorKind, RlsSettings};
use test_support::fake_store::FakeStore;

use crate::rls_service::support::{START, World, asked, domain, told};

/// A store that fails at once.
fn down() -> FakeStore {
    let store = FakeStore::new();
    store.fail(StoreErrorKind::Unreachable);
    store
}

/// A store that never answers.
fn silent() -> FakeStore {
    let store = FakeStore::new();
    store.freeze();
    store
}

fn over(store: FakeStore, rules: &str, on_store_error: FailureMode) -> World {
    let clock = Arc::new(FakeClock::at(Timestamp::from_secs(START)));
    let settings = RlsSettings { on_store_error, ..RlsSettings::default() };
    World::over(Arc::new(store), clock, &[("d.yaml", &domain(rules))], settings)
}

const RULES: &str = "
    {key: usual, rate_limit: {unit: minute, requests_per_unit: 5}},
    {key: open, rate_limit: {unit: minute, requests_per_unit: 5, on_store_error: open}},
    {key: closed, rate_limit: {unit: minute, requests_per_unit: 5, on_store_error: closed}},
    {key: local, rate_limit: {unit: minute, requests_per_unit: 2, on_store_error: local}}";

/// An error would let whoever is banned pass.
#[test]
fn a_ban_is_told_without_a_store() {
    let rules = "{key: banned, rate_limit: {unit: minute, requests_per_unit: 0}},
        {key: usual, rate_limit: {unit: minute, requests_per_unit: 5}}";
    let world = over(down(), rules, FailureMode::Error);
    assert_eq!(world.ask("d: banned=v + usual=v"), "OVER: OVER 0, –");
    assert_eq!(world.service.read_counts().redis_error, 1, "and the failure is counted");
    let request = asked("d: banned=v + usual=v");
    let looked = world.service.look(&world.keeper, &request);
    assert!(looked.now_or_never().unwrap().is_err(), "who wants to know how it stands is told");
    assert!(world.try_ask(&asked("d: usual=v")).is_err());
    let silent = over(silent(), rules, FailureMode::Error);
    let answer = within(&silent, "d: banned=v + usual=v", Duration::from_millis(20)).unwrap();
    assert_eq!(told(&answer), "OVER: OVER 0, –", "before the caller goes away");
}

#[test]
fn failure_modes_answer_for_a_store_that_is_down() {
    let world = over(down(), RULES, FailureMode::Error);
    let error = world.try_ask(&asked("d: usual=v")).unwrap_err();
    assert_eq!((error.kind(), &*error.to_string()), (RlsErrorKind::Store, "store: it is down"));
    assert_eq!(world.service.read_counts().redis_error, 1);
    assert_eq!(world.ask("d: open=v"), "OK: –", "nobody knows what is left");
    let closed = world.answer("d: closed=v");
    assert_eq!((&*told(&closed), closed.statuses[0].until_reset), ("OVER: OVER 0", Some(1)));
    assert_eq!(world.ask_times("d: local=v", 3), ["OK: OK 1", "OK: OK 0", "OVER: OVER 0"]);
    assert!(world.try_ask(&asked("d: open=v + usual=v")).is_err(), "the strictest counts");
    assert_eq!((world.counted("d.open").within_limit, world.counted("d.closed").over_limit), (1, 1));
    let open = over(down(), RULES, FailureMode::Open);
    assert_eq!(open.ask("d: usual=v"), "OK: –", "for rules that say nothing");
    let mut brought = asked("d: other=v");
    brought.descriptors[0].limit =
        Some(ratekeeper_server::rls::RlsOverride { requests_per_unit: 1, unit: 2 });
    assert_eq!(told(&open.try_ask(&brought).unwrap()), "OK: –", "and for limits of requests");
}

fn within(world: &World, request: &str, deadline: Duration) -> Result<RlsAnswer, RlsError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let request = asked(request);
    runtime.block_on(async {
        let began = tokio::time::Instant::now();
        let answered = world.service.should_rate_limit(&world.keeper, &request, Some(deadline)).await;
        assert_eq!(began.elapsed(), deadline.mul_f64(0.8), "in time for the caller");
        answered
    })
}

#[test]
fn a_failure_mode_answers_before_the_caller_goes_away() {
    let world = over(silent(), RULES, FailureMode::Error);
    let deadline = Duration::from_millis(20);
    assert_eq!(told(&within(&world, "d: open=v", deadline).unwrap()), "OK: –");
    assert_eq!(told(&within(&world, "d: closed=v", deadline).unwrap()), "OVER: OVER 0");
    assert_eq!(told(&within(&world, "d: local=v", deadline).unwrap()), "OK: OK 1");
    // Where nothing else than an error could be told, the store has all the time that there is.
    let request = asked("d: usual=v");
    let patient = world.service.should_rate_limit(&world.keeper, &request, Some(deadline));
    assert!(patient.now_or_never().is_none());
}
