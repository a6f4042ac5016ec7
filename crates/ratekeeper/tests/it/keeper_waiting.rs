//! `keeper.acquire(…).within(…)`: first come, first served over any store, and nothing is lost when somebody leaves.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use ratekeeper::keeper::KeeperError;
use ratekeeper::port::{Observer, Request};
use ratekeeper::{
    Charged, Cost, Decision, FailureMode, Keeper, Key, MemoryStore, Nanos, Plan, Quota, Reason, Registry,
    Rules, Ruling, StoreErrorKind,
};
use test_support::fake_store::{FakeStore, Trip, Verb};
use test_support::wait;
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, sleep};

const PATIENT: Duration = Duration::from_secs(3_600);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A remote store.
fn late(there: Duration, back: Duration) -> FakeStore {
    FakeStore::over(MemoryStore::builder().keep_keys(true).build()).delays(there, back)
}

fn plans(text: &str) -> Registry {
    Registry::new([Plan::parse("plan", text).unwrap()])
}

/// A keeper over memory and one over a store elsewhere.
fn keepers(text: &str) -> [Keeper; 2] {
    let elsewhere = late(millis(3), millis(4));
    [Keeper::new(MemoryStore::default(), plans(text)), Keeper::new(elsewhere, plans(text))]
}

/// Lets every task that is ready run, without time passing.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Waits for this much in a task of its own.
fn wait_for(keeper: &Keeper, cost: u64) -> JoinHandle<Result<Ruling, KeeperError>> {
    let keeper = keeper.clone();
    tokio::spawn(async move { keeper.acquire("key", "plan", cost).within(PATIENT).await })
}

#[tokio::test(start_paused = true)]
async fn who_comes_first_is_served_first() {
    for keeper in keepers("10/s burst 1") {
        let served = Arc::new(Mutex::new(Vec::new()));
        let began = Instant::now();
        let mut tasks = Vec::new();
        for number in 0..40_u64 {
            let (keeper, served) = (keeper.clone(), Arc::clone(&served));
            tasks.push(tokio::spawn(async move {
                let ruling = keeper.acquire("key", "plan", 1).within(PATIENT).await.unwrap();
                assert!(ruling.allowed && ruling.charged().is_some());
                served.lock().unwrap().push((number, began.elapsed()));
            }));
            // Each is in line before the next comes, also at a store elsewhere.
            sleep(millis(8)).await;
        }
        for task in tasks {
            task.await.unwrap();
        }
        let served = served.lock().unwrap();
        let order: Vec<u64> = served.iter().map(|(number, _)| *number).collect();
        assert_eq!(order, (0..40).collect::<Vec<_>>());
        for (before, after) in served.iter().zip(&served[1..]) {
            let gap = after.1 - before.1;
            assert!((millis(92)..=millis(130)).contains(&gap), "as fast as the rate and no faster: {gap:?}");
        }
        assert_eq!(keeper.queue_depth("key", "plan"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn who_cannot_be_in_time_is_refused_at_once_and_told_when_to_come_back() {
    for keeper in keepers("10/s burst 1") {
        assert!(keeper.acquire("key", "plan", 1).await.unwrap().allowed);
        let waiting: Vec<_> = (0..3).map(|_| wait_for(&keeper, 1)).collect();
        sleep(millis(20)).await;
        assert_eq!(keeper.queue_depth("key", "plan"), 3);
        let began = Instant::now();
        let refused = keeper.acquire("key", "plan", 1).within(millis(200)).await.unwrap();
        assert!(began.elapsed() < millis(20), "at once: {:?}", began.elapsed());
        assert!(!refused.allowed && refused.charged().is_none() && refused.granted() == Cost::new(0));
        let retry = refused.retry_after.unwrap().as_duration();
        assert!((millis(360)..=millis(400)).contains(&retry), "behind three others: {retry:?}");
        let never = keeper.acquire("key", "plan", 2).within(PATIENT).await.unwrap();
        assert_eq!((never.allowed, never.retry_after, never.reason), (false, None, Reason::NeverFits));
        assert!(keeper.acquire("other", "plan", 1).within(PATIENT).await.unwrap().allowed, "another line");
        for one in waiting {
            assert!(one.await.unwrap().unwrap().allowed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_line_has_no_place() {
    for keeper in keepers("10/s burst 1") {
        assert!(keeper.acquire("key", "plan", 1).await.unwrap().allowed);
        let wait = |keeper: Keeper| async move {
            keeper.acquire("key", "plan", 1).within(PATIENT).places(2).await.unwrap().allowed
        };
        let waiting = [tokio::spawn(wait(keeper.clone())), tokio::spawn(wait(keeper.clone()))];
        sleep(millis(20)).await;
        let began = Instant::now();
        assert!(!wait(keeper.clone()).await);
        assert!(began.elapsed() < millis(20));
        assert!(!keeper.acquire("key", "plan", 1).within(PATIENT).places(0).await.unwrap().allowed);
        for one in waiting {
            assert!(one.await.unwrap());
        }
    }
}

/// Also not in a batch, nor for a part of what they want.
#[tokio::test(start_paused = true)]
async fn who_does_not_wait_does_not_overtake() {
    for keeper in keepers("10/s burst 2") {
        assert!(keeper.acquire("key", "plan", 2).await.unwrap().allowed);
        let waiting = wait_for(&keeper, 2);
        sleep(millis(120)).await;
        let overtaking = keeper.acquire("key", "plan", 1).await.unwrap();
        assert_eq!((overtaking.allowed, overtaking.reason), (false, Reason::Queued), "there is room for one");
        assert_eq!(keeper.acquire_up_to("key", "plan", 1).await.unwrap().granted(), Cost::new(0));
        let nothing = keeper.acquire("key", "plan", 0).await.unwrap();
        assert!(nothing.allowed, "who wants nothing overtakes nobody");
        let plan = keeper.plans().find("plan").unwrap();
        let request = |key| Request::new(Key::new(key).unwrap(), Rules::Plan(&plan), Cost::ONE);
        let requests = [request("key"), request("other"), request("key")];
        let mut answers = Vec::new();
        let Ok(()) = keeper.acquire_many(&requests, &mut answers).await;
        let Ok(()) = keeper.acquire_many(&requests[..1], &mut answers).await;
        let reasons: Vec<Reason> = answers.into_iter().map(|answer| answer.unwrap().reason).collect();
        assert_eq!(reasons, [Reason::Queued, Reason::WithinQuota, Reason::Queued, Reason::Queued]);
        assert_eq!(keeper.acquire_resolved(request("key")).await.unwrap().reason, Reason::Queued);
        assert!(keeper.acquire_resolved(request("another")).await.unwrap().allowed);
        assert!(waiting.await.unwrap().unwrap().allowed);
        advance(millis(150)).await;
        assert!(keeper.acquire("key", "plan", 1).await.unwrap().allowed, "nobody waits any more");
    }
}

/// A newcomer whose look at the store came back faster used to get ahead.
#[tokio::test(start_paused = true)]
async fn who_comes_first_is_served_first_though_the_store_answers_later() {
    let store = FakeStore::new().later().script(|call| {
        let there = if call.verb == Verb::Peek && call.cost == 2 { millis(51) } else { millis(1) };
        Trip { there, back: millis(1), ..Trip::default() }
    });
    let keeper = Keeper::new(store, plans("10/s burst 2"));
    assert!(keeper.acquire("key", "plan", 2).await.unwrap().allowed);
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    // The first has the line to itself; the second's look takes a while, and the third comes meanwhile.
    for (name, cost) in [("first", 1), ("second", 2), ("third", 1)] {
        let (keeper, served) = (keeper.clone(), Arc::clone(&served));
        tasks.push(tokio::spawn(async move {
            assert!(keeper.acquire("key", "plan", cost).within(PATIENT).await.unwrap().allowed);
            served.lock().unwrap().push(name);
        }));
        sleep(millis(10)).await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), ["first", "second", "third"]);
}

/// The first slept on for as long as the store had said, and those who do not wait were refused for as long.
#[tokio::test(start_paused = true)]
async fn what_is_given_back_wakes_the_first_in_line() {
    type Undo = fn(Keeper, Charged) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
    let undo: [Undo; 3] = [
        |keeper, charged| {
            Box::pin(async move { assert!(keeper.refund("key", "plan", 1, charged).await.is_ok()) })
        },
        |keeper, _| Box::pin(async move { assert!(keeper.reset("key", &["other", "plan"]).await.is_ok()) }),
        |keeper, _| Box::pin(async move { assert!(keeper.forget(b"k").await.is_ok()) }),
    ];
    for (case, undo) in undo.into_iter().enumerate() {
        let memory = MemoryStore::builder().keep_keys(true).build();
        let elsewhere = late(millis(3), millis(4));
        let both = ["1/h burst 1 fixed", "1/h"];
        let plans = Registry::new([
            Plan::parse("plan", both[case % 2]).unwrap(),
            Plan::parse("other", "1/h").unwrap(),
        ]);
        for keeper in [Keeper::new(memory, plans.clone()), Keeper::new(elsewhere, plans)] {
            let charged = keeper.acquire("key", "plan", 1).await.unwrap().charged().unwrap();
            let waiting = wait_for(&keeper, 1);
            sleep(millis(50)).await;
            assert_eq!(keeper.queue_depth("key", "plan"), 1, "case {case}");
            let began = Instant::now();
            undo(keeper.clone(), charged).await;
            assert!(waiting.await.unwrap().unwrap().allowed);
            assert!(began.elapsed() < millis(50), "case {case}: {:?}", began.elapsed());
            assert_eq!(keeper.queue_depth("key", "plan"), 0);
        }
    }
}

/// It was refused by the word of a store that nobody could ask.
#[tokio::test(start_paused = true)]
async fn an_open_plan_is_open_to_those_who_do_not_wait_too() {
    let store = late(millis(1), millis(1));
    let plan = Plan::parse("plan", "1/h").unwrap().on_store_error(FailureMode::Open);
    let keeper = Keeper::new(store.clone(), Registry::new([plan]));
    assert!(keeper.acquire("key", "plan", 1).await.unwrap().allowed);
    let waiting = wait_for(&keeper, 1);
    sleep(millis(10)).await;
    store.fail(StoreErrorKind::Unreachable);
    let ruling = keeper.acquire("key", "plan", 1).await.unwrap();
    assert_eq!((ruling.allowed, ruling.reason, ruling.granted()), (true, Reason::FailOpen, Cost::ONE));
    assert_eq!(keeper.acquire_up_to("key", "plan", 3).await.unwrap().granted(), Cost::new(3));
    let behind = keeper.acquire("key", "plan", 1).within(PATIENT).await.unwrap();
    assert_eq!((behind.allowed, behind.reason), (true, Reason::FailOpen));
    waiting.abort();
}

/// A cost of zero is a question, which takes nothing from those who wait; it was refused.
#[tokio::test(start_paused = true)]
async fn who_wants_nothing_overtakes_nobody() {
    for keeper in keepers("10/s burst 2") {
        assert!(keeper.acquire("key", "plan", 2).await.unwrap().allowed);
        let waiting = wait_for(&keeper, 2);
        sleep(millis(20)).await;
        assert!(keeper.acquire("key", "plan", 0).await.unwrap().allowed);
        assert!(keeper.acquire_up_to("key", "plan", 0).await.unwrap().allowed);
        let began = Instant::now();
        assert!(keeper.acquire("key", "plan", 0).within(PATIENT).await.unwrap().allowed);
        assert!(began.elapsed() < millis(20));
        let plan = keeper.plans().find("plan").unwrap();
        let request = Request::new(Key::new("key").unwrap(), Rules::Plan(&plan), Cost::ZERO);
        let mut answers = Vec::new();
        let Ok(()) = keeper.acquire_many(&[request; 2], &mut answers).await;
        assert!(answers.into_iter().all(|answer| answer.unwrap().allowed));
        assert!(keeper.acquire_resolved(request).await.unwrap().allowed);
        assert!(waiting.await.unwrap().unwrap().allowed);
    }
}

/// One who waited, for whatever key, had every batch asked for one request after another.
#[tokio::test(start_paused = true)]
async fn a_batch_is_asked_at_once_though_somebody_waits() {
    let keeper = Keeper::new(late(millis(3), millis(4)), plans("1/h"));
    assert!(keeper.acquire("key", "plan", 1).await.unwrap().allowed);
    let waiting = wait_for(&keeper, 1);
    sleep(millis(20)).await;
    assert_eq!(keeper.queue_depth("key", "plan"), 1);
    let plan = keeper.plans().find("plan").unwrap();
    let names: Vec<String> = (0..50).map(|number| format!("key:{number}")).collect();
    let request = |name| Request::new(Key::new(name).unwrap(), Rules::Plan(&plan), Cost::ONE);
    let mut requests: Vec<_> = names.iter().map(String::as_str).map(request).collect();
    requests.push(request("key"));
    let (began, mut answers) = (Instant::now(), Vec::new());
    let Ok(()) = keeper.acquire_many(&requests, &mut answers).await;
    assert!(began.elapsed() < millis(20), "{:?}", began.elapsed());
    let allowed = answers.into_iter().map(|answer| answer.unwrap().allowed);
    assert_eq!(allowed.collect::<Vec<_>>(), [vec![true; 50], vec![false]].concat());
    waiting.abort();
}

/// A quota of the request's own has a line too, which is not the plan's.
#[tokio::test(start_paused = true)]
async fn quotas_of_requests_wait_in_lines_of_their_own() {
    let keeper = Keeper::new(MemoryStore::default(), plans("10/s burst 1"));
    let quota: Quota = "10/s burst 1".parse().unwrap();
    assert!(keeper.acquire("key", &quota, 1).await.unwrap().allowed);
    let waiting = {
        let keeper = keeper.clone();
        tokio::spawn(async move { keeper.acquire("key", &quota, 1).within(PATIENT).await.unwrap().allowed })
    };
    settle().await;
    assert_eq!((keeper.queue_depth("key", &quota), keeper.queue_depth("key", "plan")), (1, 0));
    let began = Instant::now();
    let behind = keeper.acquire("key", &quota, 1).within(millis(150)).await.unwrap();
    assert_eq!(behind.retry_after, Some(Nanos::from_millis(200)), "one ahead");
    assert!(keeper.acquire("key", "plan", 1).within(PATIENT).await.unwrap().allowed);
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(waiting.await.unwrap());
}

/// Told of each request once, in the end.
#[tokio::test(start_paused = true)]
async fn observers_hear_of_a_request_once() {
    #[derive(Clone, Debug, Default)]
    struct Count(Arc<[AtomicU64; 2]>);
    impl Observer for Count {
        fn decided(&self, _: &Request<'_>, decision: &Decision) {
            self.0[usize::from(decision.allowed)].fetch_add(1, Ordering::Relaxed);
        }
    }
    for keeper in keepers("10/s burst 1") {
        let count = Count::default();
        let keeper = keeper.observer(count.clone());
        let waiting: Vec<_> = (0..10)
            .map(|number| {
                let (keeper, patience) = (keeper.clone(), if number < 8 { PATIENT } else { millis(50) });
                tokio::spawn(async move {
                    keeper.acquire("key", "plan", 1).within(patience).await.unwrap().allowed
                })
            })
            .collect();
        let mut allowed = 0;
        for one in waiting {
            allowed += u64::from(one.await.unwrap());
        }
        let told = [0, 1].map(|index: usize| count.0[index].load(Ordering::Relaxed));
        assert_eq!(told, [10 - allowed, allowed]);
    }
}

/// Whoever leaves, at whatever instant, gives way to the next, and what the store has taken for nobody is given back.
#[tokio::test(start_paused = true)]
async fn nothing_is_lost_in_a_storm_of_those_who_leave() {
    let mut random = 7_u64;
    let mut draw = move |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for (round, keeper) in (0..6).flat_map(|_| keepers("100/s bucket burst 20; all=1000/h fixed")).enumerate()
    {
        let collected = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for _ in 0..400 {
            let (keeper, collected) = (keeper.clone(), Arc::clone(&collected));
            let (leaves, patience) = (draw(2) == 0, millis(draw(4_000)));
            let stays = millis(draw(600));
            tasks.push(tokio::spawn(async move {
                let waits = keeper.acquire("key", "plan", 1).within(patience);
                let ruling = match leaves {
                    true => tokio::time::timeout(stays, waits).await.ok(),
                    false => Some(waits.await),
                };
                if ruling.is_some_and(|ruling| ruling.unwrap().allowed) {
                    collected.fetch_add(1, Ordering::Relaxed);
                }
            }));
            if draw(3) == 0 {
                advance(millis(draw(9))).await;
            }
        }
        for task in tasks {
            task.await.unwrap();
        }
        // What was on its way comes back.
        sleep(millis(100)).await;
        assert_eq!(keeper.queue_depth("key", "plan"), 0);
        let left = keeper.acquire_up_to("key", "plan", 0).await.unwrap();
        assert!(left.allowed);
        sleep(Duration::from_secs(60)).await;
        let mut rest = 0;
        loop {
            let more = keeper.acquire_up_to("key", "plan", 1_000).await.unwrap();
            if !more.allowed {
                break;
            }
            rest += more.granted().get();
            sleep(Duration::from_secs(60)).await;
        }
        let collected = collected.load(Ordering::Relaxed);
        assert_eq!(collected + rest, 1_000, "round {round}: {collected} were collected");
        assert!(collected > 50, "round {round}: {collected}");
    }
}

/// A store that fails is answered for while somebody waits, as the plan says.
#[tokio::test(start_paused = true)]
async fn failure_modes_hold_for_those_who_wait() {
    for mode in [FailureMode::Open, FailureMode::Closed, FailureMode::Error, FailureMode::Local] {
        let store = late(millis(1), millis(1));
        let plan = Plan::parse("plan", "10/s burst 1").unwrap().on_store_error(mode);
        let keeper = Keeper::new(store.clone(), Registry::new([plan]));
        assert!(keeper.acquire("key", "plan", 1).await.unwrap().allowed);
        let waiting: Vec<_> = (0..3).map(|_| wait_for(&keeper, 1)).collect();
        sleep(millis(10)).await;
        store.fail(StoreErrorKind::Unreachable);
        let began = Instant::now();
        for one in waiting {
            let ruling = one.await.unwrap();
            match mode {
                FailureMode::Open => assert_eq!(ruling.unwrap().reason, Reason::FailOpen),
                FailureMode::Closed => assert_eq!(ruling.unwrap().reason, Reason::FailClosed),
                FailureMode::Error => assert!(ruling.unwrap_err().is_transient()),
                FailureMode::Local => assert!(ruling.unwrap().allowed, "by the local store, in turn"),
            }
        }
        let took = began.elapsed();
        let expected =
            if mode == FailureMode::Local { millis(280)..=millis(330) } else { millis(80)..=millis(110) };
        assert!(expected.contains(&took), "{mode:?}: {took:?}");
    }
}

/// Several runtimes and threads without one wait in the same line; some runtimes are dropped while their tasks wait.
#[test]
fn nobody_is_forgotten_among_several_runtimes() {
    for keeper in keepers("2000/s burst 1") {
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let keeper = keeper.clone();
                thread::spawn(move || {
                    let wait = move |keeper: Keeper| async move {
                        let ruling = keeper.acquire("key", "plan", 1).within(PATIENT).await.unwrap();
                        assert!(ruling.allowed);
                    };
                    for round in 0..25 {
                        let runtime =
                            tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                        // Left behind, as many as finish.
                        runtime.block_on(async {
                            for _ in 0..3 {
                                tokio::spawn(wait(keeper.clone()));
                            }
                            if (round + number) % 3 > 0 {
                                wait(keeper.clone()).await;
                            } else {
                                tokio::task::yield_now().await;
                            }
                        });
                    }
                })
            })
            .collect();
        wait::until("everybody was served", || threads.iter().all(|thread| thread.is_finished()));
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(keeper.queue_depth("key", "plan"), 0);
    }
}

/// Over a store in memory nobody needs a runtime.
#[test]
fn a_thread_without_a_runtime_waits_too() {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let keeper = Keeper::new(MemoryStore::default(), plans("100/s burst 1"));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    for _ in 0..5 {
        let mut waiting = pin!(keeper.acquire("key", "plan", 1).within(PATIENT).into_future());
        let ruling = loop {
            match waiting.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(ruling) => break ruling.unwrap(),
                Poll::Pending => thread::park(),
            }
        };
        assert!(ruling.allowed);
    }
}

/// What passes at once is there at once.
#[test]
fn what_passes_at_once_is_ready() {
    let keeper = Keeper::new(MemoryStore::default(), plans("2/h burst 2"));
    let ask = || keeper.acquire("key", "plan", 1).within(millis(5)).now().unwrap();
    assert!(ask().unwrap().allowed);
    assert!(ask().unwrap().allowed);
    assert!(!ask().unwrap().allowed, "half an hour is longer than it waits");
    assert!(keeper.acquire("key", "none", 1).within(PATIENT).now().unwrap().is_err());
}

/// A `select!` makes a future of every branch before it polls the first: the cost was taken then, for nobody.
#[tokio::test]
async fn who_is_never_polled_takes_nothing() {
    let keeper = Keeper::new(MemoryStore::default(), plans("2/h burst 2"));
    for _ in 0..3 {
        tokio::select! {
            biased;
            () = std::future::ready(()) => {}
            _ = keeper.acquire("key", "plan", 1) => unreachable!("the first is ready"),
            _ = keeper.acquire("key", "plan", 1).within(PATIENT) => unreachable!("the first is ready"),
        }
    }
    assert_eq!(keeper.peek("key", "plan", 1).await.unwrap().remaining, 2);
}
