//! The keeper's part: failure modes, observers, those who wait, and what no store is asked about.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratekeeper::keeper::KeeperError;
use ratekeeper::port::{Charge, ChargeAction, ChargeForce, Observer, Request, Store, Whole};
use ratekeeper::store::{Breaker, DenialCache, Guarded};
use ratekeeper::{
    Cost, Decision, FailureMode, Keeper, Key, MemoryStore, Plan, Reason, Registry, Rule, Rules, StoreError,
    StoreErrorKind,
};
use test_support::fake_store::FakeStore;

/// A store that fails, at once or when it is awaited.
fn down(kind: StoreErrorKind, later: bool) -> FakeStore {
    let store = if later { FakeStore::new().later() } else { FakeStore::new() };
    store.fail(kind);
    store
}

/// Writes down what it is told.
#[derive(Clone, Debug, Default)]
struct Ears(Arc<Mutex<Vec<String>>>);

impl Ears {
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Observer for Ears {
    fn decided(&self, request: &Request<'_>, decision: &Decision) {
        self.0.lock().unwrap().push(format!("{} {}", request.key, decision.reason.as_str()));
    }
    fn would_deny(&self, request: &Request<'_>, _: &Plan, rule: &Rule) {
        self.0.lock().unwrap().push(format!("{} would be denied by {}", request.key, rule.name()));
    }
    fn store_failed(&self, error: &StoreError, answer: Option<&Decision>) {
        let answer = answer.map(|answer| answer.reason.as_str());
        self.0.lock().unwrap().push(format!("{} {answer:?}", error.kind().as_str()));
    }
}

fn plan(text: &str, mode: FailureMode) -> Plan {
    Plan::parse("plan", text).unwrap().on_store_error(mode)
}

fn charge<'a>(key: &'a str, plan: &'a Plan, action: ChargeAction, force: ChargeForce) -> Charge<'a> {
    let request = Request::new(Key::new(key).unwrap(), Rules::Plan(plan), Cost::ONE);
    Charge { request, action, force }
}

#[tokio::test(start_paused = true)]
async fn the_strictest_failure_mode_counts_for_all() {
    use FailureMode::{Closed, Error, Local, Open};
    for later in [false, true] {
        let ears = Ears::default();
        let store = down(StoreErrorKind::Timeout, later);
        let keeper = Keeper::new(store, Registry::default()).observer(ears.clone());
        let judged = async |modes: [FailureMode; 2], force, whole| {
            let plans = modes.map(|mode| plan("7/m", mode));
            let charges = [
                charge("a", &plans[0], ChargeAction::Count, force),
                charge("b", &plans[1], ChargeAction::Ignore, force),
                charge("c", &plans[1], ChargeAction::GiveBack, force),
            ];
            let judgment = keeper.charge(&charges, whole).await.map_err(|error| error.to_string())?;
            let each = judgment.each.iter().map(|told| (told.decision.allowed, told.decision.reason));
            assert!(judgment.each.iter().all(|told| told.decision.charged_at().is_none()));
            Ok::<_, String>((judgment.passes, each.collect::<Vec<_>>()))
        };
        let open = vec![(true, Reason::FailOpen); 3];
        let closed = vec![(false, Reason::FailClosed), (false, Reason::FailClosed), (true, Reason::FailOpen)];
        assert_eq!(judged([Open, Open], ChargeForce::Alone, Whole::Open).await, Ok((true, open.clone())));
        assert_eq!(ears.heard(), ["timeout Some(\"fail_open\")", "a fail_open", "b fail_open"]);
        assert_eq!(judged([Open, Open], ChargeForce::Alone, Whole::Refused).await, Ok((false, open)));
        ears.heard();
        assert_eq!(
            judged([Open, Closed], ChargeForce::Alone, Whole::Open).await,
            Ok((false, closed.clone()))
        );
        assert_eq!(ears.heard(), ["timeout Some(\"fail_closed\")", "a fail_closed", "b fail_closed"]);
        assert_eq!(
            judged([Closed, Local], ChargeForce::Never, Whole::Open).await,
            Ok((true, closed.clone()))
        );
        assert_eq!(judged([Closed, Open], ChargeForce::Alone, Whole::Passes).await, Ok((true, closed)));
        ears.heard();
        assert!(
            judged([Closed, Error], ChargeForce::Alone, Whole::Open)
                .await
                .unwrap_err()
                .contains("it is down")
        );
        assert_eq!(ears.heard(), ["timeout None"]);
        let local = judged([Open, Local], ChargeForce::Alone, Whole::Open).await.unwrap();
        assert_eq!(local, (true, vec![(true, Reason::WithinQuota); 3]), "the local store has counted");
        assert_eq!(ears.heard(), ["timeout Some(\"within_quota\")", "a within_quota", "b within_quota"]);
    }
    let store = down(StoreErrorKind::Unsupported, false);
    let plan = plan("7/m", FailureMode::Open);
    let charges = [charge("a", &plan, ChargeAction::Count, ChargeForce::Alone)];
    let error = Keeper::new(store, Registry::default()).charge(&charges, Whole::Open).await.unwrap_err();
    assert!(error.to_string().contains("it is down"), "what it cannot do is no failure: {error}");
}

/// Of charges that take something; of rules in shadow as well. Not of looks, nor of what is given back.
#[tokio::test(start_paused = true)]
async fn observers_are_told_of_what_is_taken() {
    let ears = Ears::default();
    let keepers = [
        Keeper::new(MemoryStore::default(), Registry::default()),
        Keeper::new(FakeStore::new().later(), Registry::default()),
        Keeper::new(Guarded::new(MemoryStore::default(), Breaker::default()), Registry::default()),
        Keeper::new(Arc::new(DenialCache::new(MemoryStore::default())), Registry::default()),
    ];
    for keeper in keepers {
        let keeper = keeper.observer(ears.clone());
        let narrow = Plan::parse("narrow", "1/m").unwrap();
        let tried = Plan::with_shadow("tried", ["9/m"], ["once=1/m fixed"]).unwrap();
        let look = charge("look", &narrow, ChargeAction::Count, ChargeForce::Alone);
        let charges = [
            charge("counted", &tried, ChargeAction::Count, ChargeForce::Alone),
            charge("ignored", &narrow, ChargeAction::Ignore, ChargeForce::Never),
            Charge { request: look.request.at_cost(Cost::ZERO), ..look },
            charge("back", &narrow, ChargeAction::GiveBack, ChargeForce::Alone),
        ];
        assert!(keeper.charge(&charges, Whole::Open).await.unwrap().passes);
        assert_eq!(ears.heard(), ["counted within_quota", "ignored within_quota"]);
        let second = keeper.charge(&charges, Whole::Open).await.unwrap();
        assert!(second.passes);
        assert_eq!(second.each[0].rules.iter().map(|rule| rule.allowed).collect::<Vec<_>>(), [true, false]);
        let heard = ["counted within_quota", "ignored quota_exceeded", "counted would be denied by once"];
        assert_eq!(ears.heard(), heard);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_asked_for_is_an_error() {
    let keeper = Keeper::new(MemoryStore::default(), Registry::default());
    let plans = ["5/m", "2 concurrent", "9 tokens/m"].map(|text| plan(text, FailureMode::Open));
    for bad in &plans[1..] {
        let charges = [
            charge("a", &plans[0], ChargeAction::Count, ChargeForce::Alone),
            charge("b", bad, ChargeAction::Count, ChargeForce::Alone),
        ];
        let error = keeper.charge(&charges, Whole::Open).await.unwrap_err();
        assert!(matches!(error, KeeperError::Amounts(_)), "{error}");
    }
    // Places that are only tried are not taken by charges.
    let tried = Plan::with_shadow("tried", ["5/m"], ["2 concurrent"]).unwrap();
    let charges = [charge("a", &tried, ChargeAction::Count, ChargeForce::Alone); 2];
    let judgment = keeper.charge(&charges, Whole::Open).await.unwrap();
    assert_eq!((judgment.passes, judgment.each[1].decision.remaining), (true, 3));
}

/// What is held to nothing is never over, and no store is asked about it.
#[tokio::test(start_paused = true)]
async fn what_is_held_to_nothing_passes() {
    for keeper in [
        Keeper::new(MemoryStore::default(), Registry::default()),
        Keeper::new(FakeStore::new().later(), Registry::default()),
    ] {
        let narrow = Plan::parse("narrow", "1/m").unwrap();
        let soft = charge("soft", &narrow, ChargeAction::Count, ChargeForce::Together);
        let free = Charge { request: Request { rules: Rules::Plans(&[]), ..soft.request }, ..soft };
        for over in [false, true] {
            let judgment = keeper.charge(&[free, soft], Whole::Open).await.unwrap();
            let told: Vec<bool> = judgment.each.iter().map(|told| told.decision.allowed).collect();
            assert_eq!((judgment.passes, told), (true, vec![true, !over]), "not all of them are over");
            assert_eq!(judgment.each[0].left_before, u64::MAX);
        }
        assert!(!keeper.charge(&[soft], Whole::Open).await.unwrap().passes);
    }
    let keeper = Keeper::new(down(StoreErrorKind::Timeout, false), Registry::default());
    assert!(keeper.charge(&[], Whole::Open).await.unwrap().passes);
    assert!(!keeper.charge(&[], Whole::Refused).await.unwrap().passes);
}

/// A charge does not stand in line, and what it gives back wakes who does.
#[tokio::test(start_paused = true)]
async fn what_is_given_back_wakes_who_waits() {
    let plans = Registry::new([plan("1/h fixed", FailureMode::Error)]);
    let keeper = Keeper::new(MemoryStore::default(), plans.clone());
    let plan = ratekeeper::port::Plans::find(&plans, "plan").unwrap();
    let count = [charge("user", &plan, ChargeAction::Count, ChargeForce::Alone)];
    assert!(keeper.charge(&count, Whole::Open).await.unwrap().passes);
    let waiter = tokio::spawn({
        let keeper = keeper.clone();
        async move { keeper.acquire("user", "plan", 1).within(Duration::from_secs(7_200)).await }
    });
    while keeper.queue_depth("user", "plan") == 0 {
        tokio::task::yield_now().await;
    }
    let begin = tokio::time::Instant::now();
    assert!(!keeper.charge(&count, Whole::Open).await.unwrap().passes, "it did not wait");
    let back = charge("user", &plan, ChargeAction::GiveBack, ChargeForce::Alone);
    let back = [Charge { request: back.request.at_cost(Cost::new(2)), ..back }];
    keeper.charge(&back, Whole::Open).await.unwrap();
    assert!(waiter.await.unwrap().unwrap().allowed);
    assert!(begin.elapsed() < Duration::from_secs(60), "woken, not waited");
}

/// What was given back by a charge is taken by who was refused just now, although the cache knows better.
#[tokio::test(start_paused = true)]
async fn a_cache_of_denials_forgets_what_is_given_back() {
    let store = DenialCache::new(MemoryStore::default());
    let plan = Plan::parse("plan", "1/h").unwrap();
    let count = charge("user", &plan, ChargeAction::Count, ChargeForce::Alone);
    assert!(store.acquire(count.request).await.unwrap().allowed);
    for _ in 0..3 {
        assert!(!store.acquire(count.request).await.unwrap().allowed);
    }
    assert!(store.statistics().answered > 0);
    let back = [Charge { action: ChargeAction::GiveBack, ..count }];
    store.charge(&back, Whole::Refused).await.unwrap();
    assert!(store.acquire(count.request).await.unwrap().allowed);
}
