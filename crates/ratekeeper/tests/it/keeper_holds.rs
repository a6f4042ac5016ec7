//! Holds through the keeper: the guard, the line of those who wait for a place, and stores that fail.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratekeeper::keeper::KeeperError;
use ratekeeper::port::{HoldId, HoldOutcome, HoldState, Observer};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{
    Amounts, FailureMode, Hold, Keeper, Key, MemoryStore, Nanos, Plan, Reason, Registry, StoreErrorKind,
    Timestamp,
};
use test_support::fake_store::{FakeStore, Fate, Trip, Verb};
use tokio::time::{Instant, sleep};

const PATIENT: Duration = Duration::from_secs(3_600);

fn plan(text: &str) -> Plan {
    Plan::parse("llm", text).unwrap()
}

/// A remote store.
fn late() -> FakeStore {
    FakeStore::new().delays(Duration::from_millis(3), Duration::from_millis(4))
}

fn in_memory(text: &str) -> Keeper {
    Keeper::new(MemoryStore::default(), Registry::new([plan(text)]))
}

/// A keeper over memory and one over a store elsewhere.
fn keepers(text: &str) -> [Keeper; 2] {
    [in_memory(text), Keeper::new(late(), Registry::new([plan(text)]))]
}

/// Returns what is left of each rule.
async fn left(keeper: &Keeper) -> Vec<u64> {
    let ruling = keeper.peek("k", "llm", &[("tokens", 0)]).await.unwrap();
    ruling.each().map(|(_, _, said)| said.remaining).collect()
}

/// Lets every task that is ready run, without time passing.
async fn settle_down() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_worked_table() {
    let clock = FakeClock::at(Timestamp::from_secs(1_000));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let plans = Registry::new([plan("60/m; 100 tokens/m burst 100 bucket; 2 concurrent")]);
    let keeper = Keeper::new(store, plans);
    let error = keeper.acquire("k", "llm", 1).await.unwrap_err();
    assert_eq!(error.to_string(), "plan: `llm`; it counts what is in flight: use hold");
    let error = keeper.hold("k", "llm", 1).await.unwrap_err();
    assert_eq!(error.to_string(), "tokens: missing; `llm` counts tokens: say how many, or set `assume`");

    let tokens = async |hold: &Hold| hold.each().nth(1).unwrap().2.remaining;
    let first = keeper.hold("k", "llm", &[("tokens", 58)]).await.unwrap();
    assert_eq!((first.allowed, tokens(&first).await), (true, 42));
    let second = keeper.hold("k", "llm", &[("tokens", 40)]).await.unwrap();
    assert_eq!((second.allowed, tokens(&second).await), (true, 2));
    let denied = keeper.hold("k", "llm", &[("tokens", 1)]).await.unwrap();
    assert!(!denied.allowed && denied.id().is_none());
    assert_eq!(denied.rule().unwrap().name(), &"concurrent");
    assert_eq!((denied.retry_after, denied.reason), (None, Reason::AtCapacity));

    let settled = first.settle(&[("tokens", 80)]).await.unwrap();
    let standing = settled.standing.unwrap();
    assert_eq!((settled.state, standing.decision.remaining), (HoldState::Settled, 0));
    let owing = keeper.hold("k", "llm", &[("tokens", 1)]).await.unwrap();
    assert_eq!(owing.rule().unwrap().name(), &"tokens-per-m");
    assert_eq!(owing.retry_after, Some(Nanos::from_millis(12_600)));

    let id = second.leave().unwrap();
    let cancelled = keeper.cancel("k", id).await.unwrap();
    assert_eq!(
        (cancelled.state, cancelled.standing.as_ref().unwrap().each[1].remaining),
        (HoldState::Cancelled, 20)
    );
    let again = keeper.cancel("k", id).await.unwrap();
    assert_eq!(again, cancelled);
    assert_eq!(
        keeper.settle("k", id, &[("tokens", 1)]).await.unwrap().state,
        HoldState::Cancelled,
        "it was cancelled"
    );

    let third = keeper.hold("k", "llm", &[("tokens", 20)]).await.unwrap();
    assert_eq!((third.allowed, tokens(&third).await), (true, 0));
    clock.advance(Nanos::from_secs(61));
    let id = third.leave().unwrap();
    assert_eq!(keeper.settle("k", id, &[("tokens", 1)]).await.unwrap(), HoldOutcome::GONE);
}

#[tokio::test(start_paused = true)]
async fn what_is_dropped_is_cancelled() {
    for keeper in keepers("60/m; 100 tokens/h; 2 concurrent") {
        let hold = keeper.hold("k", "llm", &[("tokens", 30)]).await.unwrap();
        assert_eq!(left(&keeper).await[1..], [70, 1]);
        drop(hold);
        settle_down().await;
        sleep(Duration::from_millis(20)).await;
        assert_eq!(left(&keeper).await[1..], [100, 2]);
        let hold = keeper.hold("k", "llm", &[("tokens", 30)]).await.unwrap();
        assert_eq!(hold.extend(Duration::from_secs(5)).await.unwrap().state, HoldState::Extended);
        hold.settle(&[("tokens", 10)]).await.unwrap();
        assert_eq!(left(&keeper).await[1..], [90, 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn bad_input_is_refused_and_changes_nothing() {
    let keeper = in_memory("60/m; 100 tokens/h; 2 concurrent");
    let tokens = &[("tokens", 1)];
    for lease in [Duration::ZERO, Duration::from_micros(999), Duration::from_secs(365 * 86_400)] {
        let error = keeper.hold("k", "llm", tokens).lease(lease).await.unwrap_err();
        assert!(error.to_string().ends_with("must be 1 ms to 24 h"), "{error}");
    }
    let quota: ratekeeper::Quota = "5/s".parse().unwrap();
    assert!(matches!(keeper.hold("k", &quota, 1).await, Err(KeeperError::HoldWithoutPlan)));
    let hold = keeper.hold("k", "llm", tokens).await.unwrap();
    let id = hold.id().unwrap();
    let error = keeper.settle("k", id, &[("bytes", 1)]).await.unwrap_err();
    assert!(error.to_string().contains("bytes: counted by no rule"), "{error}");
    assert!(keeper.extend("k", id, Duration::ZERO).await.is_err());
    assert_eq!(keeper.settle("other", id, tokens).await.unwrap(), HoldOutcome::GONE, "an id of another key");
    let unknown = HoldId::from_bits(id.bits() ^ 1);
    assert_eq!(keeper.cancel("k", unknown).await.unwrap(), HoldOutcome::GONE);
    assert_eq!(left(&keeper).await, [59, 99, 1], "the one that is held, and nothing else");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_place_gets_it_in_turn() {
    for keeper in keepers("1 concurrent") {
        let held = keeper.hold("k", "llm", 1).await.unwrap();
        assert!(held.allowed);
        let served = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..20_u64 {
            let (keeper, served) = (keeper.clone(), Arc::clone(&served));
            tasks.push(tokio::spawn(async move {
                let hold = keeper.hold("k", "llm", 1).within(PATIENT).await.unwrap();
                assert!(hold.allowed);
                served.lock().unwrap().push(number);
                sleep(Duration::from_millis(10)).await;
                hold.settle(1).await.unwrap();
            }));
            settle_down().await;
        }
        let behind = keeper.hold("k", "llm", 1).await.unwrap();
        assert_eq!((behind.allowed, behind.id()), (false, None), "nobody overtakes");
        drop(behind);
        held.cancel().await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(served.lock().unwrap().iter().copied().eq(0..20));
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_freed_here_is_passed_on_at_once() {
    let keeper = in_memory("1 concurrent");
    let held = keeper.hold("k", "llm", 1).await.unwrap();
    let waiting = tokio::spawn({
        let keeper = keeper.clone();
        async move { keeper.hold("k", "llm", 1).within(PATIENT).await.unwrap().allowed }
    });
    settle_down().await;
    let freed = Instant::now();
    held.cancel().await.unwrap();
    assert!(waiting.await.unwrap());
    assert_eq!(freed.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn patience_ends_and_a_lapsed_lease_frees_a_place() {
    let store = late();
    let keeper = Keeper::new(store.clone(), Registry::new([plan("1 concurrent")]));
    let _gone = keeper.hold("k", "llm", 1).lease(Duration::from_secs(2)).await.unwrap().leave();
    let began = Instant::now();
    let refused = keeper.hold("k", "llm", 1).within(Duration::from_secs(1)).await.unwrap();
    assert_eq!((refused.allowed, refused.reason), (false, Reason::AtCapacity));
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_millis(1_200), "{took:?}");
    let asked = store.all_calls();
    assert!(asked <= 22, "asked {asked} times in a second: not more often than every 50 ms");
    let hold = keeper.hold("k", "llm", 1).within(PATIENT).await.unwrap();
    assert!(hold.allowed, "the lease has run out");
    let never = keeper.hold("k", "llm", &[("concurrent", 2)]).within(PATIENT).await.unwrap();
    assert_eq!((never.allowed, never.reason), (false, Reason::NeverFits), "at once");
}

#[tokio::test(start_paused = true)]
async fn nobody_holds_who_has_left_the_line() {
    let keeper = Keeper::new(late(), Registry::new([plan("1 concurrent")]));
    // Dropped while the store is asked, and holds.
    for millis in 0..12 {
        let asking = keeper.hold("k", "llm", 1).within(PATIENT);
        let _ = tokio::time::timeout(Duration::from_millis(millis), asking).await;
        sleep(Duration::from_millis(50)).await;
        let hold = keeper.hold("k", "llm", 1).await.unwrap();
        assert!(hold.allowed, "left after {millis} ms");
        hold.cancel().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_holds_who_has_stopped_asking() {
    let keeper = Keeper::new(late(), Registry::new([plan("1 concurrent")]));
    for millis in 0..12 {
        let _ = tokio::time::timeout(Duration::from_millis(millis), keeper.hold("k", "llm", 1)).await;
        sleep(Duration::from_millis(50)).await;
        let hold = keeper.hold("k", "llm", 1).await.unwrap();
        assert!(hold.allowed, "left after {millis} ms");
        hold.cancel().await.unwrap();
    }
}

/// It used to be cancelled, so that all came back of which some was spent.
#[tokio::test(start_paused = true)]
async fn what_is_being_settled_when_it_is_dropped_is_settled() {
    for millis in 0..12 {
        let keeper = Keeper::new(late(), Registry::new([plan("100/h; 100 tokens/h; 2 concurrent")]));
        let hold = keeper.hold("k", "llm", &[("tokens", 30)]).await.unwrap();
        let settling = hold.settle(Amounts::new(3, &[("tokens", 10)]));
        let _ = tokio::time::timeout(Duration::from_millis(millis), settling).await;
        sleep(Duration::from_millis(50)).await;
        assert_eq!(left(&keeper).await, [97, 90, 2], "dropped after {millis} ms");
        let hold = keeper.hold("k", "llm", &[("tokens", 30)]).await.unwrap();
        let _ = tokio::time::timeout(Duration::from_millis(millis), hold.cancel()).await;
        sleep(Duration::from_millis(50)).await;
        assert_eq!(left(&keeper).await, [97, 90, 2], "cancelled for {millis} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_down_the_plan_answers() {
    for (mode, allowed) in [
        (FailureMode::Open, Some(true)),
        (FailureMode::Closed, Some(false)),
        (FailureMode::Error, None),
        (FailureMode::Local, Some(true)),
    ] {
        let store = late();
        store.fail(StoreErrorKind::Unreachable);
        let keeper = Keeper::new(store.clone(), Registry::new([plan("1 concurrent").on_store_error(mode)]));
        let held = keeper.hold("k", "llm", 1).await;
        let Some(allowed) = allowed else {
            assert!(held.unwrap_err().is_transient());
            continue;
        };
        let held = held.unwrap();
        assert_eq!(held.allowed, allowed, "{mode:?}");
        let Some(id) = held.id() else { continue };
        if mode == FailureMode::Local {
            assert!(!keeper.hold("k", "llm", 1).await.unwrap().allowed, "the local store has one place, too");
            assert_eq!(held.settle(1).await.unwrap().state, HoldState::Settled, "where it is held");
            continue;
        }
        assert!(keeper.settle("k", id, 1).await.unwrap_err().is_transient());
        store.recover();
        assert_eq!(held.settle(1).await.unwrap(), HoldOutcome::GONE, "it settles to nothing");
    }
}

/// The race of gateways that count afterwards: five concurrent calls spent 663 tokens of 100.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn concurrent_callers_are_admitted_no_more_than_there_is() {
    for _ in 0..50 {
        let keeper = in_memory("60/h; 100 tokens/h; 8 concurrent");
        let calls = [58, 80, 175, 175, 175].map(|tokens| {
            let keeper = keeper.clone();
            tokio::spawn(async move {
                let hold = keeper.hold("k", "llm", &[("tokens", tokens)]).await.unwrap();
                let admitted = if hold.allowed { tokens } else { 0 };
                hold.settle(&[("tokens", admitted)]).await.unwrap();
                admitted
            })
        });
        let mut admitted = 0;
        for call in calls {
            admitted += call.await.unwrap();
        }
        assert!(admitted == 58 || admitted == 80, "{admitted}");
    }
}

/// What has become of holds, as an observer hears it.
#[derive(Clone, Debug, Default)]
struct Heard(Arc<Mutex<Vec<HoldState>>>);

impl Observer for Heard {
    fn hold_changed(&self, _: Key<'_>, _: HoldId, state: HoldState) {
        self.0.lock().unwrap().push(state);
    }
}

#[tokio::test(start_paused = true)]
async fn observers_hear_how_a_guard_has_ended() {
    let plans = || Registry::new([plan("5 concurrent")]);
    let heard = Heard::default();
    for keeper in [Keeper::new(MemoryStore::default(), plans()), Keeper::new(late(), plans())] {
        let keeper = keeper.observer(heard.clone());
        let hold = async || keeper.hold("k", "llm", 1).await.unwrap();
        let first = hold().await;
        first.extend(Duration::from_secs(5)).await.unwrap();
        first.settle(1).await.unwrap();
        hold().await.cancel().await.unwrap();
        hold().await.settle_detached(1);
        sleep(Duration::from_secs(1)).await;
        drop(hold().await);
        sleep(Duration::from_secs(1)).await;
        let states = std::mem::take(&mut *heard.0.lock().unwrap());
        use HoldState::{Cancelled, Extended, Settled};
        assert_eq!(states, [Extended, Settled, Cancelled, Settled, Cancelled]);
    }
}

/// Its places would otherwise be taken until the lease ends, for as long as the outage lasts.
#[tokio::test(start_paused = true)]
async fn what_is_held_locally_is_ended_by_its_id_while_the_store_is_down() {
    let store = late();
    store.fail(StoreErrorKind::Unreachable);
    let plans = Registry::new([plan("1 concurrent").on_store_error(FailureMode::Local)]);
    let keeper = Keeper::new(store, plans);
    for _ in 0..3 {
        let id = keeper.hold("k", "llm", 1).await.unwrap().leave().unwrap();
        assert_eq!(keeper.extend("k", id, Duration::from_secs(9)).await.unwrap().state, HoldState::Extended);
        assert_eq!(keeper.settle("k", id, 1).await.unwrap().state, HoldState::Settled);
    }
    let unknown = HoldId::from_bits(7);
    assert!(keeper.cancel("k", unknown).await.unwrap_err().is_transient(), "it may be one of the store's");
}

/// The store does not know such a hold, and has no failure to report.
#[tokio::test(start_paused = true)]
async fn a_local_hold_ends_by_its_id_after_the_store_has_recovered() {
    let store = late();
    let plans = Registry::new([plan("1 concurrent").on_store_error(FailureMode::Local)]);
    let keeper = Keeper::new(store.clone(), plans);
    store.fail(StoreErrorKind::Unreachable);
    let id = keeper.hold("k", "llm", 1).await.unwrap().leave().unwrap();
    store.recover();
    assert_eq!(keeper.settle("k", id, 1).await.unwrap().state, HoldState::Settled);
}

#[tokio::test(start_paused = true)]
async fn what_each_rule_says_is_told_to_those_who_wait_too() {
    for keeper in keepers("10/s; 100/m") {
        let ruling = keeper.acquire("k", "llm", 1).each().within(PATIENT).await.unwrap();
        let left: Vec<u64> = ruling.each().map(|(_, _, said)| said.remaining).collect();
        assert_eq!(left, [9, 99]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_local_store_without_holds_knows_of_none() {
    let plans = Registry::new([plan("60/m; 2 concurrent")]);
    let keeper = Keeper::new(MemoryStore::default(), plans).local_store(without_holds());
    let unknown = HoldId::from_bits(7);
    assert_eq!(keeper.cancel("k", unknown).await.unwrap(), HoldOutcome::GONE);
    let late = late();
    late.fail(StoreErrorKind::Unreachable);
    let keeper = Keeper::new(late, Registry::new([plan("60/m")])).local_store(without_holds());
    let error = keeper.cancel("k", unknown).await.unwrap_err();
    assert!(error.to_string().contains("it is down"), "{error}");
}

/// A store that refuses holds.
fn without_holds() -> FakeStore {
    FakeStore::new().script(|call| match call.verb {
        Verb::Hold | Verb::ChangeHold => {
            Trip { fate: Fate::Fails(StoreErrorKind::Unsupported), ..Trip::default() }
        }
        _ => Trip::default(),
    })
}

#[derive(Clone, Debug, Default)]
struct CountHeld(Arc<AtomicUsize>);

impl Observer for CountHeld {
    fn held(&self, _: Key<'_>, _: HoldId) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn observers_hear_of_what_is_held_and_of_nothing_else() {
    let (late, held) = (late(), CountHeld::default());
    let open = plan("60/m; 2 concurrent").on_store_error(FailureMode::Open);
    let keeper = Keeper::new(late.clone(), Registry::new([open])).observer(held.clone());
    let hold = keeper.hold("k", "llm", 1).await.unwrap();
    assert!(hold.allowed && held.0.load(Ordering::Relaxed) == 1);
    late.fail(StoreErrorKind::Unreachable);
    let open = keeper.hold("k", "llm", 1).await.unwrap();
    assert!(open.allowed && open.reason == Reason::FailOpen);
    assert_eq!(held.0.load(Ordering::Relaxed), 1, "nobody holds what was let through");
}
