//! What answers mean under a lease, and how many calls they cost.

use std::sync::Arc;
use std::time::Duration;

use ratekeeper::port::{Request, Store};
use ratekeeper::store::Leased;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Charged, Cost, Decision, Key, MemoryStore, Nanos, Plan, Reason, Rules, Timestamp};
use test_support::fake_store::Trip;

use super::far_store::{FarStore, Node, leased_plan, request, settle};

const TRIP: Duration = Duration::from_millis(1);

fn node() -> (Arc<MemoryStore>, Node) {
    let shared = Arc::new(MemoryStore::default());
    let node = Node::new(FarStore::new(&shared).taking(TRIP));
    (shared, node)
}

/// Asks for one, evenly spread over a time, and returns how many were allowed.
async fn ask_for(node: &Node, plan: &Plan, per_second: u64, span: Duration) -> u64 {
    let mut allowed = 0;
    let gap = Duration::from_secs(1) / u32::try_from(per_second).unwrap();
    let times = u64::try_from(span.as_nanos() / gap.as_nanos()).unwrap();
    for _ in 0..times {
        allowed += u64::from(node.ask(plan, 1).await.unwrap().allowed);
        tokio::time::advance(gap).await;
    }
    allowed
}

#[tokio::test(start_paused = true)]
async fn a_busy_key_costs_a_few_calls() {
    let (_, node) = node();
    let plan = leased_plan("100000/s", "10%");
    ask_for(&node, &plan, 10_000, Duration::from_millis(200)).await;
    let before = node.far.calls();
    let span = Duration::from_secs(2);
    assert_eq!(ask_for(&node, &plan, 10_000, span).await, 20_000);
    let calls = node.far.calls() - before;
    // Four in the life of a lease, and a fifth more.
    assert!((72..=96).contains(&calls), "{calls} calls in two seconds");
    let counts = node.leased.statistics();
    assert!(counts.by_lease > 21_500, "{counts:?}");
    assert_eq!((counts.short, counts.refused, counts.errors), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_leased_from_its_fourth_request_in_an_aim() {
    let (_, node) = node();
    let plan = leased_plan("100000/s", "10%");
    for asked in 1..=3 {
        node.ask(&plan, 1).await.unwrap();
        assert_eq!(node.far.plain(), asked);
    }
    node.ask(&plan, 1).await.unwrap();
    assert_eq!(node.far.takes(), 1, "the fourth takes four");
    assert_eq!(node.leased.statistics().left, 3);
    for _ in 0..3 {
        assert!(node.leased.acquire(request(&plan, 1)).now().is_ok(), "paid for");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_left_here_is_told_with_what_is_left_there() {
    let (shared, node) = node();
    let plan = leased_plan("10/s burst 1000", "500ms");
    let told: Vec<Decision> = {
        let mut told = Vec::new();
        for _ in 0..8 {
            told.push(node.ask(&plan, 1).await.unwrap());
        }
        told
    };
    let remaining: Vec<u64> = told.iter().map(|decision| decision.remaining).collect();
    assert_eq!(remaining, [999, 998, 997, 996, 995, 994, 993, 992]);
    assert!(told.iter().all(|decision| decision.limit == 1_000 && decision.reason == Reason::WithinQuota));
    assert!(told.iter().all(|decision| decision.charged_at().is_some()));
    let held = node.leased.statistics().left;
    let there = shared.peek(request(&plan, 0)).await.unwrap().remaining;
    assert_eq!(there + held, 992);
    let looked = node.leased.peek(request(&plan, 1)).await.unwrap();
    assert!(looked.allowed && looked.remaining == 992, "{looked:?}");
    assert_eq!(node.leased.statistics().left, held, "a look takes nothing");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_in_the_pause_tells_the_time_after_which_one_passes() {
    let (_, node) = node();
    let plan = leased_plan("1000/s", "10%");
    let mut refused = None;
    for _ in 0..2_000 {
        let decision = node.ask(&plan, 1).await.unwrap();
        if !decision.allowed {
            refused = Some(decision);
            break;
        }
    }
    let calls = node.far.calls();
    let refused = refused.unwrap();
    let again = node.leased.acquire(request(&plan, 1)).now().unwrap().unwrap();
    assert_eq!(
        (again.allowed, again.remaining, again.limit, again.reason),
        (false, 0, 1_000, Reason::QuotaExceeded)
    );
    assert!(refused.retry_after.unwrap() > Nanos::ZERO && again.reset_after > Nanos::from_millis(900));
    let wait = again.retry_after.unwrap();
    assert!(
        (Nanos::from_millis(10)..Nanos::from_millis(40)).contains(&wait),
        "{wait}: half to one and a half aims"
    );
    assert_eq!(node.far.calls(), calls, "nobody was asked");
    tokio::time::advance(wait.as_duration() - Duration::from_nanos(1)).await;
    let early = node.ask(&plan, 1).await.unwrap();
    assert_eq!((early.allowed, early.retry_after), (false, Some(Nanos::from_nanos(1))));
    tokio::time::advance(Duration::from_nanos(1)).await;
    assert!(node.ask(&plan, 1).await.unwrap().allowed);
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_window_is_told_until_its_end_and_asked_for_again_within_the_trust() {
    let (_, node) = node();
    let plan = leased_plan("100 per 1h fixed", "400ms");
    assert_eq!(node.ask_often(&plan, 200).await, 100);
    let refused = node.ask(&plan, 1).await.unwrap();
    assert!(refused.retry_after.unwrap() > Nanos::from_secs(3_590), "{refused:?}");
    let calls = node.far.calls();
    tokio::time::advance(Duration::from_millis(900)).await;
    node.ask(&plan, 1).await.unwrap();
    assert_eq!(node.far.calls(), calls);
    tokio::time::advance(Duration::from_millis(200)).await;
    node.ask(&plan, 1).await.unwrap();
    assert_eq!(node.far.calls(), calls + 1, "others may have given back");
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_ends_the_pause() {
    let (_, node) = node();
    let plan = leased_plan("100 per 1h fixed", "400ms");
    assert_eq!(node.ask_often(&plan, 200).await, 100);
    node.leased.refund(request(&plan, 3), Charged::NOW).await.unwrap();
    assert!(node.ask(&plan, 1).await.unwrap().allowed);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_at_the_end_is_given_back() {
    let (shared, node) = node();
    let plan = leased_plan("10/s burst 1000", "500ms");
    node.ask_often(&plan, 100).await;
    let held = node.leased.statistics().left;
    assert!(held > 20, "{held}");
    let before = shared.peek(request(&plan, 0)).await.unwrap().remaining;
    tokio::time::sleep(Duration::from_millis(600)).await;
    settle().await;
    let counts = node.leased.statistics();
    assert_eq!((counts.left, counts.returned + counts.burnt), (0, held), "{counts:?}");
    let after = shared.peek(request(&plan, 0)).await.unwrap().remaining;
    // Each lease keeps what has refilled in its life, five; six have refilled besides.
    assert!(after >= before + counts.returned && after <= before + held + 7, "{before} {after} {counts:?}");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_stops_gives_back() {
    let (shared, node) = node();
    let plan = leased_plan("10/s burst 1000", "500ms");
    node.ask_often(&plan, 100).await;
    let held = node.leased.statistics().left;
    let before = shared.peek(request(&plan, 0)).await.unwrap().remaining;
    node.leased.close().await;
    let after = shared.peek(request(&plan, 0)).await.unwrap().remaining;
    assert!(after + 12 >= before + held, "{before} and {held} became {after}");
    assert_eq!(node.leased.statistics().left, 0);
}

#[tokio::test(start_paused = true)]
async fn a_reset_forgets_what_is_held_and_what_is_on_its_way() {
    let (_, node) = node();
    let plan = leased_plan("10/s burst 1000", "500ms");
    node.ask_often(&plan, 100).await;
    let (early, key) = (node.clone(), plan.clone());
    // One is on its way.
    let waits = tokio::spawn(async move { early.ask(&key, 120).await });
    settle().await;
    assert_eq!(node.far.in_the_air(), 1);
    let held = node.leased.statistics().left;
    assert_eq!(node.leased.reset(request(&plan, 1)).await.unwrap(), 1);
    let counts = node.leased.statistics();
    assert_eq!((counts.held, counts.left, counts.burnt), (0, 0, held));
    tokio::time::sleep(TRIP * 2).await;
    let landed = node.leased.statistics();
    assert_eq!((landed.held, landed.left), (0, 0), "what it brings is for nobody: {landed:?}");
    assert!(waits.await.unwrap().unwrap().allowed, "who waited has asked alone");
}

#[tokio::test(start_paused = true)]
async fn what_is_held_under_rules_that_were_replaced_is_not_given_back() {
    let (shared, node) = node();
    let (old, new) = (leased_plan("10/s burst 100", "500ms"), leased_plan("10/s burst 100000", "500ms"));
    node.ask_often(&old, 40).await;
    let held = node.leased.statistics().left;
    assert!(held > 5, "{held}: worth giving back");
    // Far ahead of what the old rules can have been: by them, the state would be repaired.
    shared.acquire(request(&new, 50_000)).await.unwrap();
    node.ask_often(&new, 10).await;
    assert_eq!(node.leased.statistics().burnt, held);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = shared.peek(request(&new, 0)).await.unwrap().remaining;
    assert!(after < 50_100, "{after}: nothing was minted");
}

/// Nor if the new rules are not leased.
#[tokio::test(start_paused = true)]
async fn what_is_held_of_a_plan_that_lost_its_lease_is_not_given_back() {
    let (shared, node) = node();
    let old = leased_plan("10/s burst 100", "500ms");
    let new = Plan::parse("api", "10/s burst 100000").unwrap();
    node.ask_often(&old, 40).await;
    let held = node.leased.statistics().left;
    assert!(held > 5, "{held}: worth giving back");
    shared.acquire(request(&new, 50_000)).await.unwrap();
    assert!(node.ask(&new, 1).await.unwrap().allowed);
    assert_eq!(node.leased.statistics().burnt, held);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = shared.peek(request(&new, 0)).await.unwrap().remaining;
    assert!(after < 50_100, "{after}: nothing was minted");
}

#[tokio::test(start_paused = true)]
async fn a_longer_lease_is_another_one() {
    let (_, node) = node();
    node.ask_often(&leased_plan("10/s burst 900", "500ms"), 10).await;
    node.ask_often(&leased_plan("10/s burst 900", "400ms"), 10).await;
    assert_eq!(node.leased.statistics().held, 2);
}

#[tokio::test(start_paused = true)]
async fn a_slow_rule_gets_back_what_a_fast_one_does_not() {
    let (shared, node) = node();
    let plan = leased_plan("100000/s; daily=8000/day fixed", "10%");
    node.ask_often(&plan, 40).await;
    // What was asked for early is there.
    tokio::time::sleep(TRIP * 3).await;
    let held = node.leased.statistics().left;
    assert!(held > 0);
    tokio::time::sleep(Duration::from_millis(200)).await;
    settle().await;
    let counts = node.leased.statistics();
    assert_eq!((counts.left, counts.returned), (0, held), "{counts:?}");
    assert_eq!(shared.peek(request(&plan, 0)).await.unwrap().remaining, 8_000 - 40);
}

#[tokio::test(start_paused = true)]
async fn what_is_here_counts_for_a_larger_cost() {
    let (shared, node) = node();
    let plan = leased_plan("1/s burst 400", "500ms");
    node.ask_often(&plan, 40).await;
    let held = node.leased.statistics().left;
    assert!(held > 2 && held < 48, "{held}");
    // As many are left there as are missing here.
    let there = shared.peek(request(&plan, 0)).await.unwrap().remaining;
    shared.acquire(request(&plan, there - (50 - held))).await.unwrap();
    assert!(node.ask(&plan, 50).await.unwrap().allowed);
    assert!(!node.ask(&plan, 2).await.unwrap().allowed);
}

#[tokio::test(start_paused = true)]
async fn a_huge_cost_is_in_nobodys_way() {
    let (_, node) = node();
    let plan = leased_plan("10/s burst 1000", "500ms");
    node.ask_often(&plan, 100).await;
    let (other, huge) = (node.clone(), plan.clone());
    let asks = tokio::spawn(async move { other.ask(&huge, 1_000_000).await.unwrap() });
    settle().await;
    assert!(node.leased.acquire(request(&plan, 1)).now().is_ok(), "still paid for");
    let told = asks.await.unwrap();
    assert_eq!((told.allowed, told.reason), (false, Reason::NeverFits));
}

#[tokio::test(start_paused = true)]
async fn what_was_paid_for_is_put_back_where_it_was() {
    let (shared, node) = node();
    let plan = leased_plan("1000/s", "10%");
    node.ask_often(&plan, 20).await;
    let taken = node.leased.acquire(request(&plan, 1)).now().unwrap().unwrap();
    tokio::time::sleep(TRIP).await;
    let (before, calls) = (node.leased.statistics().left, node.far.calls());
    tokio::time::advance(Duration::from_millis(20)).await;
    let charged = Charged::at(taken.charged_at().unwrap());
    let refunded = node.leased.refund(request(&plan, 1), charged).await.unwrap();
    assert_eq!((node.leased.statistics().left, node.far.calls()), (before + 1, calls));
    assert!(refunded.allowed && refunded.remaining > 0, "{refunded:?}");
    // Not more than was granted, and not after its end: that is for the store.
    node.leased.refund(request(&plan, 500), charged).await.unwrap();
    tokio::time::advance(Duration::from_millis(100)).await;
    node.leased.refund(request(&plan, 1), charged).await.unwrap();
    assert_eq!((node.leased.statistics().left, node.far.calls()), (0, calls + 2));
    assert!(shared.peek(request(&plan, 0)).await.unwrap().remaining <= 1_000);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_stops_leaves_nobody_waiting() {
    let (_, node) = node();
    let plan = Arc::new(leased_plan("10/s burst 1000", "500ms"));
    node.ask_often(&plan, 3).await;
    let waiting: Vec<_> = (0..10)
        .map(|_| {
            let (node, plan) = (node.clone(), Arc::clone(&plan));
            tokio::spawn(async move { node.ask(&plan, 1).await })
        })
        .collect();
    settle().await;
    assert_eq!(node.far.in_the_air(), 1);
    node.leased.close().await;
    for answer in waiting {
        assert!(answer.await.unwrap().unwrap().allowed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refund_is_not_forgotten_by_a_call_of_before() {
    let (shared, node) = node();
    let plan = leased_plan("100 per 1h fixed", "400ms");
    node.ask_often(&plan, 60).await;
    let there = shared.peek(request(&plan, 0)).await.unwrap().remaining;
    shared.acquire(request(&plan, there)).await.unwrap();
    let left = node.leased.statistics().left;
    node.ask_often(&plan, left).await;
    // Asked for, and refused there; on its way back something is given back.
    let (other, asked) = (node.clone(), plan.clone());
    let refused = tokio::spawn(async move { other.ask(&asked, 1).await.unwrap() });
    tokio::time::sleep(TRIP).await;
    node.leased.refund(request(&plan, 5), Charged::NOW).await.unwrap();
    refused.await.unwrap();
    assert!(node.ask(&plan, 1).await.unwrap().allowed, "no pause");
}

#[tokio::test(start_paused = true)]
async fn a_larger_cost_is_never_half_granted() {
    let (shared, node) = node();
    let plan = leased_plan("10/s burst 100", "500ms");
    node.ask_often(&plan, 60).await;
    let before = shared.peek(request(&plan, 0)).await.unwrap().remaining + node.leased.statistics().left;
    let refused = node.ask(&plan, 90).await.unwrap();
    assert!(!refused.allowed && refused.retry_after.unwrap() > Nanos::from_secs(4), "{refused:?}");
    let after = shared.peek(request(&plan, 0)).await.unwrap().remaining + node.leased.statistics().left;
    assert_eq!(after, before);
    assert!(node.ask(&plan, 1).await.unwrap().allowed, "no pause: something is left");
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_before_somebody_waits() {
    let (_, node) = node();
    let plan = leased_plan("100000/s", "10%");
    for _ in 0..100 {
        drop(node.leased.acquire(request(&plan, 1)));
    }
    settle().await;
    assert_eq!((node.far.calls(), node.leased.statistics().held), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_does_not_take_the_call_along() {
    let (_, node) = node();
    let plan = leased_plan("100000/s", "10%");
    node.ask_often(&plan, 3).await;
    let waits = tokio::time::timeout(TRIP / 4, node.ask(&plan, 1)).await;
    assert!(waits.is_err());
    assert!(node.ask(&plan, 1).await.unwrap().allowed);
    let takes = node.far.takes();
    assert!(takes <= 2, "{takes}: those who wait share a call");
    assert_eq!(node.far.on_the_wire(|wire| wire.most_in_the_air), 1);
}

#[tokio::test(start_paused = true)]
async fn many_are_answered_in_place_and_in_order() {
    let (_, node) = node();
    let plan = leased_plan("10/s burst 1000", "500ms");
    let other = Plan::parse("other", "5/s").unwrap();
    node.ask_often(&plan, 100).await;
    let calls = node.far.calls();
    let hot = request(&plan, 1);
    let cold = Request::new(Key::new("cold").unwrap(), Rules::Plan(&other), Cost::new(2));
    let mut answers = Vec::new();
    node.leased.acquire_many(&[hot, cold, hot, cold, hot, cold], &mut answers).await.unwrap();
    let told: Vec<_> = answers.into_iter().map(|answer| answer.unwrap()).collect();
    assert_eq!([told[0].remaining, told[2].remaining, told[4].remaining], [899, 898, 897]);
    assert_eq!([told[1].remaining, told[3].remaining], [3, 1]);
    assert!(!told[5].allowed);
    assert_eq!(node.far.calls() - calls, 3, "the hot ones were paid for");
}

#[tokio::test(start_paused = true)]
async fn a_store_too_far_away_is_asked_for_each_request() {
    let shared = Arc::new(MemoryStore::default());
    let node = Node::new(FarStore::new(&shared).taking(Duration::from_millis(30)));
    let plan = leased_plan("100000/s", "10%");
    node.ask_often(&plan, 50).await;
    let before = node.far.takes();
    node.ask_often(&plan, 50).await;
    assert_eq!(node.far.takes(), before, "30 ms are more than a quarter of 100 ms");
    node.far.on_the_wire(|wire| wire.usual = Trip::default());
    node.ask_often(&plan, 50).await;
    assert!(node.leased.statistics().by_lease > 30, "{:?}", node.leased.statistics());
}

#[test]
fn without_a_runtime_a_miss_asks_and_waits() {
    // It stands still: no lease ends, however slow the machine is.
    let clock = FakeClock::at(Timestamp::from_secs(1_000));
    let behind = MemoryStore::builder().clock(clock.clone()).build();
    let leased = Leased::new(behind).clock(clock);
    let plan = leased_plan("100000/s", "10%");
    let wait = |answer: ratekeeper::port::Answer<'_, Decision>| {
        let mut answer = answer;
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(&mut answer).poll(&mut context) {
            std::task::Poll::Ready(answer) => answer.unwrap(),
            std::task::Poll::Pending => panic!("a store in memory answers at once"),
        }
    };
    for _ in 0..100 {
        assert!(wait(leased.acquire(request(&plan, 1))).allowed);
    }
    assert!(leased.statistics().by_lease > 60, "{:?}", leased.statistics());
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_keys_displaces_no_busy_one() {
    let shared = Arc::new(MemoryStore::default());
    let far = FarStore::new(&shared);
    let leased = Leased::new(far.store.clone()).keys(4);
    let plan = leased_plan("100000/s", "10%");
    for flood in 0..20_000_u32 {
        let hot = Request::new(Key::new("hot").unwrap(), Rules::Plan(&plan), Cost::ONE);
        assert!(leased.acquire(hot).await.unwrap().allowed);
        let name = flood.to_le_bytes();
        let cold = Request::new(Key::new(&name).unwrap(), Rules::Plan(&plan), Cost::ONE);
        leased.acquire(cold).await.unwrap();
        tokio::time::advance(Duration::from_micros(50)).await;
    }
    let counts = leased.statistics();
    assert_eq!((counts.held, counts.capacity), (1, 4), "{counts:?}");
    assert!(counts.by_lease > 19_500, "{counts:?}");
    assert_eq!(far.plain(), counts.by_store);
}
