//! A store that fails while keys are leased.

use std::sync::Arc;
use std::time::Duration;

use ratekeeper::port::Store;
use ratekeeper::{FailureMode, Keeper, MemoryStore, Reason, Registry, StoreErrorKind};

use super::far_store::{FarStore, LOST_BACK, LOST_THERE, Node, leased_plan, request, settle};
use test_support::fake_store::{Fate, Trip};

fn node() -> Node {
    Node::new(FarStore::new(&Arc::new(MemoryStore::default())).taking(Duration::from_millis(1)))
}

fn break_down(node: &Node, fate: Fate) {
    node.far.on_the_wire(|wire| wire.usual.fate = fate);
}

#[tokio::test(start_paused = true)]
async fn what_is_held_is_spent_and_then_the_store_fails() {
    let node = node();
    let plan = leased_plan("10/s burst 1000", "500ms");
    node.ask_often(&plan, 100).await;
    let held = node.leased.statistics().left;
    break_down(&node, LOST_THERE);
    let mut paid = 0;
    let error = loop {
        match node.ask(&plan, 1).await {
            Ok(decision) => {
                assert!(decision.allowed, "no refusal of our own");
                paid += 1;
            }
            Err(error) => break error,
        }
    };
    assert_eq!((paid, error.kind()), (held, StoreErrorKind::Unreachable));
    // Every request tries again.
    let calls = node.far.calls();
    for _ in 0..5 {
        assert!(node.ask(&plan, 1).await.is_err());
    }
    assert_eq!(node.far.calls() - calls, 5);
    break_down(&node, Fate::Answered);
    assert!(node.ask(&plan, 1).await.unwrap().allowed);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_lost_on_its_way_back_is_burnt_and_not_repeated() {
    let node = node();
    let plan = leased_plan("10/s burst 1000", "500ms");
    node.ask_often(&plan, 3).await;
    break_down(&node, LOST_BACK);
    let error = node.ask(&plan, 1).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Timeout);
    assert_eq!(node.leased.statistics().errors, 1);
    break_down(&node, Fate::Answered);
    let next = node.ask(&plan, 1).await.unwrap();
    // Three, then four that nobody heard of, then this one; and what it holds.
    assert_eq!(next.remaining, 1_000 - 8, "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn everybody_who_waits_hears_of_the_failure() {
    let node = node();
    let plan = Arc::new(leased_plan("10/s burst 1000", "500ms"));
    node.ask_often(&plan, 3).await;
    node.far.on_the_wire(|wire| {
        wire.trips.push_back(Trip { there: Duration::from_millis(5), fate: LOST_THERE, ..Trip::default() });
    });
    let waiting: Vec<_> = (0..10)
        .map(|_| {
            let (node, plan) = (node.clone(), Arc::clone(&plan));
            tokio::spawn(async move { node.ask(&plan, 1).await.map_err(|error| error.kind()) })
        })
        .collect();
    settle().await;
    for answer in waiting {
        assert_eq!(answer.await.unwrap().unwrap_err(), StoreErrorKind::Unreachable);
    }
    assert!(node.ask(&plan, 1).await.unwrap().allowed, "and the next one asks again");
}

#[tokio::test(start_paused = true)]
async fn the_failure_mode_of_the_plan_decides() {
    for (mode, allowed, reason) in
        [(FailureMode::Open, true, Reason::FailOpen), (FailureMode::Closed, false, Reason::FailClosed)]
    {
        let node = node();
        let plan = leased_plan("10/s burst 1000", "500ms").on_store_error(mode);
        let keeper = Keeper::new(Arc::clone(&node.leased), Registry::new([plan.clone()]));
        for _ in 0..100 {
            assert!(keeper.acquire("hot", "api", 1).await.unwrap().allowed);
        }
        break_down(&node, LOST_THERE);
        node.leased.close().await;
        let ruling = keeper.acquire("hot", "api", 1).await.unwrap();
        assert_eq!((ruling.allowed, ruling.reason), (allowed, reason));
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_ends_leaves_nobody_waiting() {
    let shared = Arc::new(MemoryStore::default());
    let node = Node::new(FarStore::new(&shared));
    let plan = Arc::new(leased_plan("10/s burst 1000", "500ms"));
    node.ask_often(&plan, 3).await;
    node.far.on_the_wire(|wire| wire.usual.there = Duration::from_secs(60));
    // The call is made by a task of another runtime, which ends before the store answers.
    let (other, asked) = (node.clone(), Arc::clone(&plan));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            tokio::select! {
                biased;
                answer = other.leased.acquire(request(&asked, 1)) => panic!("{answer:?} from a store that is far away"),
                // The call is on its way now.
                () = settle() => {}
            }
        });
    })
    .join()
    .unwrap();
    node.far.on_the_wire(|wire| wire.usual.there = Duration::ZERO);
    assert!(node.ask(&plan, 1).await.unwrap().allowed);
    assert_eq!(node.leased.statistics().errors, 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_comes_back_is_given_up_after_the_life_of_a_lease() {
    let node = node();
    let plan = leased_plan("10/s burst 1000", "500ms");
    node.ask_often(&plan, 3).await;
    // A runtime that stands still, or a store without a timeout.
    node.far.on_the_wire(|wire| {
        wire.trips.push_back(Trip {
            there: Duration::from_secs(3_600),
            fate: Fate::Answered,
            ..Trip::default()
        });
    });
    let begun = tokio::time::Instant::now();
    assert!(node.ask(&plan, 1).await.unwrap().allowed, "asked for alone");
    assert!(begun.elapsed() < Duration::from_millis(510), "{:?}", begun.elapsed());
    let begun = tokio::time::Instant::now();
    assert_eq!(node.ask_often(&plan, 50).await, 50);
    assert!(begun.elapsed() < Duration::from_millis(50), "{:?}: others do not wait for it", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn one_slow_answer_does_not_make_a_store_far_away() {
    let node = node();
    let plan = leased_plan("100000/s", "10%");
    node.ask_often(&plan, 50).await;
    let leg = Duration::from_millis(20);
    node.far.on_the_wire(|wire| wire.trips.push_back(Trip { there: leg, back: leg, ..Trip::default() }));
    let plain = node.leased.statistics().by_store;
    node.ask_often(&plan, 2_000).await;
    assert_eq!(node.leased.statistics().by_store, plain);
}

#[tokio::test(start_paused = true)]
async fn a_line_whose_call_is_given_up_shares_the_next_one() {
    let node = node();
    let plan = Arc::new(leased_plan("10/s burst 1000", "500ms"));
    node.ask_often(&plan, 3).await;
    node.far.on_the_wire(|wire| {
        wire.trips.push_back(Trip {
            there: Duration::from_secs(3_600),
            fate: Fate::Answered,
            ..Trip::default()
        });
    });
    let ask = || {
        let (node, plan) = (node.clone(), Arc::clone(&plan));
        tokio::spawn(async move { node.ask(&plan, 1).await.unwrap().allowed })
    };
    let first = ask();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let others: Vec<_> = (0..100).map(|_| ask()).collect();
    settle().await;
    let calls = node.far.calls();
    assert!(first.await.unwrap());
    for other in others {
        assert!(other.await.unwrap());
    }
    let calls = node.far.calls() - calls;
    assert!(calls <= 4, "{calls} calls for a hundred who waited");
}
