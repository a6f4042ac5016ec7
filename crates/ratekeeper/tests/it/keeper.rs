//! The keeper: which plans, which answer when the store fails, and who is told.

use std::sync::{Arc, Mutex};

use ratekeeper::keeper::{HeldTo, KeeperError, OnMissingPlan};
use ratekeeper::port::{Observer, Request};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{
    Charged, Cost, Decision, FailureMode, Keeper, Key, MemoryStore, Plan, Quota, Reason, Registry,
    StoreError, StoreErrorKind, Timestamp,
};
use test_support::fake_store::FakeStore;

fn plan(name: &str, text: &str) -> Plan {
    Plan::parse(name, text).unwrap()
}

fn key(name: &str) -> Key<'_> {
    Key::new(name).unwrap()
}

fn store() -> MemoryStore {
    MemoryStore::builder().clock(FakeClock::at(Timestamp::from_secs(1_761_884_055))).build()
}

fn down(kind: StoreErrorKind) -> FakeStore {
    let store = FakeStore::over(store());
    store.fail(kind);
    store
}

/// Writes down what it is told, and then panics.
#[derive(Clone, Debug, Default)]
struct Nervous(Arc<Mutex<Vec<String>>>);

impl Nervous {
    fn hears(&self, news: String) {
        self.0.lock().unwrap().push(news);
        std::panic::resume_unwind(Box::new("an observer must not matter"));
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

impl Observer for Nervous {
    fn decided(&self, request: &Request<'_>, decision: &Decision) {
        self.hears(format!("{} {}", request.key, decision.reason.as_str()));
    }

    fn store_failed(&self, error: &StoreError, answer: Option<&Decision>) {
        self.hears(format!("{} {:?}", error.kind().as_str(), answer.map(|answer| answer.allowed)));
    }

    fn plan_missing(&self, name: &str) {
        self.hears(format!("no {name}"));
    }
}

#[tokio::test]
async fn several_plans_are_one_decision() {
    let plans = Registry::new([plan("gold", "10/h"), plan("daily", "cap=3/day fixed")]);
    let keeper = Keeper::new(store(), plans);
    for remaining in [2, 1, 0] {
        let ruling = keeper.acquire(key("user"), &["gold", "daily"], Cost::ONE).await.unwrap();
        assert_eq!((ruling.allowed, ruling.remaining, ruling.limit), (true, remaining, 3));
        let bound = (ruling.plan().unwrap().name().as_str(), ruling.rule().unwrap().name().as_str());
        assert_eq!(bound, ("daily", "cap"));
    }
    let denied = keeper.acquire(key("user"), &["gold", "daily"], Cost::ONE).await.unwrap();
    assert!(!denied.allowed);
    let gold = keeper.peek(key("user"), "gold", Cost::ONE).await.unwrap();
    assert_eq!(gold.remaining, 7, "the denial by one plan did not burn the other");
    let grant = keeper.acquire_up_to(key("user"), "gold", Cost::new(100)).await.unwrap();
    assert_eq!(grant.granted(), Cost::new(7));
    let back = keeper.refund(key("user"), "gold", Cost::new(2), Charged::NOW).await.unwrap();
    assert_eq!(back.remaining, 2);
    assert_eq!(keeper.reset(key("user"), &["gold", "daily"]).await.unwrap(), 2);
    assert_eq!(keeper.peek(key("user"), "gold", Cost::ONE).await.unwrap().remaining, 10);
}

#[tokio::test]
async fn a_quota_needs_no_plan() {
    let keeper = Keeper::new(store(), Registry::default());
    let quota: Quota = "1/h".parse().unwrap();
    assert!(keeper.acquire(key("user"), &quota, Cost::ONE).await.unwrap().allowed);
    let denied = keeper.acquire(key("user"), &quota, Cost::ONE).await.unwrap();
    assert!(!denied.allowed && denied.rule().is_none());
}

#[tokio::test]
async fn plans_are_exchanged_and_state_stays() {
    let plans = Registry::new([plan("gold", "10/h")]);
    let keeper = Keeper::new(store(), plans.clone());
    assert_eq!(keeper.acquire(key("user"), "gold", Cost::new(8)).await.unwrap().remaining, 2);
    plans.replace([plan("gold", "10/h burst 5"), plan("silver", "1/h")]);
    let ruling = keeper.acquire(key("user"), "gold", Cost::ONE).await.unwrap();
    assert!(!ruling.allowed, "a reload never refills: {ruling:?}");
    assert!(keeper.acquire(key("user"), "silver", Cost::ONE).await.unwrap().allowed);
    let names: Vec<String> = plans.all().iter().map(|plan| plan.name().to_string()).collect();
    assert_eq!(names, ["gold", "silver"]);
}

#[tokio::test]
async fn a_missing_plan_is_dealt_with_as_told() {
    let keeper = |policy| Keeper::new(store(), Registry::new([plan("gold", "1/h")])).on_missing_plan(policy);
    let ask = async |policy, plans: &'static [&'static str]| {
        keeper(policy).acquire(key("user"), HeldTo::Plans(plans), Cost::ONE).await
    };
    let unknown = ask(OnMissingPlan::Fail, &["gold", "lead"]).await.unwrap_err();
    assert_eq!(unknown.to_string(), "plan: `lead`; there is no plan of that name");
    let skipped = ask(OnMissingPlan::Skip, &["lead", "gold"]).await.unwrap();
    assert_eq!((skipped.allowed, skipped.remaining), (true, 0));
    assert!(ask(OnMissingPlan::Skip, &["lead"]).await.unwrap().allowed, "nothing to be held to");
    assert!(ask(OnMissingPlan::RequireOne, &["lead", "gold"]).await.unwrap().allowed);
    assert!(matches!(ask(OnMissingPlan::RequireOne, &["lead"]).await, Err(KeeperError::NoPlan)));
    assert!(matches!(ask(OnMissingPlan::Skip, &[]).await, Err(KeeperError::NoPlan)));
    let single = keeper(OnMissingPlan::Fail).acquire(key("user"), "le\nad", Cost::ONE).await.unwrap_err();
    assert_eq!(single.to_string(), r"plan: `le\nad`; there is no plan of that name");
    let twice = ask(OnMissingPlan::Fail, &["gold", "gold"]).await.unwrap_err();
    assert_eq!(twice.to_string(), "plan: `gold` twice; name each plan once");
    let many = ask(OnMissingPlan::Skip, &["x"; 9]).await.unwrap_err();
    assert_eq!(many.to_string(), "plans: 9; a request is held to at most 8");
}

#[tokio::test]
async fn each_failure_mode_answers_as_it_says() {
    let modes = [FailureMode::Open, FailureMode::Closed, FailureMode::Local, FailureMode::Error];
    let plans = modes.map(|mode| plan(mode.word(), "2/h").on_store_error(mode));
    let flaky = down(StoreErrorKind::Timeout);
    let keeper = Keeper::new(flaky.clone(), Registry::new(plans));
    let ask = async |held_to: &str| keeper.acquire(key("user"), held_to, Cost::ONE).await;

    let open = ask("open").await.unwrap();
    assert_eq!((open.allowed, open.reason, open.limit), (true, Reason::FailOpen, 2));
    let closed = ask("closed").await.unwrap();
    assert_eq!((closed.allowed, closed.reason), (false, Reason::FailClosed));
    let local: Vec<bool> =
        [ask("local").await, ask("local").await, ask("local").await].map(|it| it.unwrap().allowed).into();
    assert_eq!(local, [true, true, false], "the store in memory decides");
    let error = ask("error").await.unwrap_err();
    assert!(error.is_transient() && error.to_string() == "it is down");
    let strictest = keeper.acquire(key("user"), &["open", "closed"], Cost::ONE).await.unwrap();
    assert_eq!(strictest.reason, Reason::FailClosed, "the strictest of several plans");
    let grant = keeper.acquire_up_to(key("user"), "open", Cost::new(5)).await.unwrap();
    assert_eq!(grant.granted(), Cost::new(5));
    assert!(keeper.reset(key("user"), "open").await.is_err(), "nothing was forgotten, whatever the mode");

    flaky.recover();
    let back = ask("local").await.unwrap();
    assert_eq!((back.allowed, back.remaining), (true, 1), "the real store is back, with its own state");
}

/// What a store cannot do, and state that it cannot read, is no reason to let everybody pass.
#[tokio::test]
async fn not_every_error_is_a_failure_to_be_open_about() {
    let keeper = |kind| {
        let plans = Registry::new([plan("open", "2/h").on_store_error(FailureMode::Open)]);
        Keeper::new(down(kind), plans).on_missing_plan(OnMissingPlan::Skip)
    };
    for kind in [StoreErrorKind::Unsupported, StoreErrorKind::Unreadable] {
        assert!(!keeper(kind).acquire(key("user"), "open", Cost::ONE).await.unwrap_err().is_transient());
    }
    let contended = keeper(StoreErrorKind::Contended).acquire(key("user"), "open", Cost::ONE).await.unwrap();
    assert_eq!((contended.allowed, contended.reason), (false, Reason::FailClosed), "others took it all");
    let unsupported = keeper(StoreErrorKind::Unsupported);
    let held_to_nothing = unsupported.acquire(key("user"), "lead", Cost::ONE).await.unwrap();
    assert!(held_to_nothing.allowed, "the store is not even asked");
    let refund = keeper(StoreErrorKind::Timeout).refund(key("user"), "open", Cost::ONE, Charged::NOW).await;
    assert!(refund.unwrap_err().is_transient(), "nothing was given back");
}

#[tokio::test]
async fn observers_are_told_and_change_nothing() {
    let nervous = Nervous::default();
    let flaky = down(StoreErrorKind::Timeout);
    let keeper = Keeper::new(flaky.clone(), Registry::new([plan("gold", "1/h")]))
        .on_missing_plan(OnMissingPlan::Skip)
        .observer(nervous.clone())
        .observer(nervous.clone());
    assert!(keeper.acquire(key("user"), &["lead", "gold"], Cost::ONE).await.unwrap().allowed);
    let twice =
        |news: &[&str]| news.iter().flat_map(|news| [news.to_string(), news.to_string()]).collect::<Vec<_>>();
    assert_eq!(nervous.heard(), twice(&["no lead", "timeout Some(true)", "user fail_open"]));
    flaky.recover();
    assert!(keeper.acquire(key("user"), "gold", Cost::ONE).await.unwrap().allowed);
    assert!(!keeper.acquire(key("user"), "gold", Cost::ONE).await.unwrap().allowed);
    keeper.peek(key("user"), "gold", Cost::ONE).await.unwrap();
    keeper.refund(key("user"), "lead", Cost::ZERO, Charged::NOW).await.unwrap();
    assert_eq!(nervous.heard().last().map(String::as_str), Some("no lead"), "a peek is no decision");
    keeper.reset(key("user"), "gold").await.unwrap();
    keeper.acquire(key("user"), "gold", Cost::ONE).await.unwrap();
    keeper.acquire_up_to(key("user"), "gold", Cost::ONE).await.unwrap();
    assert_eq!(nervous.heard(), twice(&["user within_quota", "user quota_exceeded"]));
}

/// What the fallback admitted was given back to the store when that was there again: so much more passed.
#[tokio::test]
async fn what_the_store_never_took_is_not_given_back_to_it() {
    let flaky = down(StoreErrorKind::Timeout);
    let plans = Registry::new([
        plan("open", "5/h fixed").on_store_error(FailureMode::Open),
        plan("local", "5/h fixed").on_store_error(FailureMode::Local),
    ]);
    let keeper = Keeper::new(flaky.clone(), plans);
    let open = keeper.acquire("user", "open", 5).await.unwrap();
    assert_eq!((open.allowed, open.charged()), (true, None), "nobody took anything");
    let local = keeper.acquire("user", "local", 5).await.unwrap();
    let charged = local.charged().expect("the local store took it");
    assert_eq!(
        local.charged_at(),
        None,
        "an instant of the local store's, of which the real one knows nothing"
    );
    flaky.recover();
    let real = keeper.acquire("user", "local", 5).await.unwrap();
    assert!(real.allowed && real.charged().is_some());
    keeper.refund("user", "local", 5, charged).await.unwrap();
    assert!(
        !keeper.acquire("user", "local", 1).await.unwrap().allowed,
        "the real store took it, and keeps it"
    );
    // And the other way round: what the real store took does not fill the local one.
    flaky.fail(StoreErrorKind::Timeout);
    assert!(keeper.acquire("user", "local", 5).await.unwrap().allowed, "the local store has it back");
    assert!(keeper.refund("user", "local", 5, real.charged().unwrap()).await.unwrap_err().is_transient());
    assert!(!keeper.acquire("user", "local", 1).await.unwrap().allowed);
}

/// All keys that start alike, in the store and in the one that stands in for it, are fresh again.
#[tokio::test]
async fn keys_are_forgotten_by_how_they_start() {
    let plans = Registry::new([plan("free", "1/h").on_store_error(FailureMode::Local)]);
    let store = MemoryStore::builder().keep_keys(true).build();
    let flaky = FakeStore::over(store);
    let keeper = Keeper::new(flaky.clone(), plans);
    // By the store, and by the keeper's own while that one is away.
    let ask = async |key: &str, is_down| {
        if is_down {
            flaky.fail(StoreErrorKind::Unreachable)
        } else {
            flaky.recover()
        }
        keeper.acquire(key, "free", 1).await.unwrap().allowed
    };
    for key in ["user:1", "user:2", "other"] {
        let allowed = [ask(key, false).await, ask(key, true).await, ask(key, true).await];
        assert_eq!(allowed, [true, true, false], "{key}");
    }
    flaky.recover();
    assert_eq!(keeper.forget(b"user:").await.unwrap(), 2);
    for (key, is_fresh) in [("user:1", true), ("user:2", true), ("other", false)] {
        assert_eq!([ask(key, false).await, ask(key, true).await], [is_fresh; 2], "{key}");
    }
    let keeper = Keeper::new(MemoryStore::default(), Registry::default());
    let error = keeper.forget(b"user:").await.unwrap_err().to_string();
    assert!(error.contains("keep_keys(true)"), "{error}");
}
