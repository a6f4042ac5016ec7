//! The denial cache: the same answers as without it, and far fewer questions.

use std::task::Poll;

use proptest::prelude::*;
use ratekeeper::port::{Answer, Grant, Request, Store};
use ratekeeper::store::DenialCache;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Charged, Cost, Decision, Key, MemoryStore, Nanos, Plan, Quota, Reason, Rules, Timestamp};
use test_support::cases::config;
use test_support::fake_store::{FakeStore, Verb};

fn clock() -> FakeClock {
    FakeClock::at(Timestamp::from_nanos(1_761_884_055_342_794_596))
}

fn memory(clock: &FakeClock) -> MemoryStore {
    MemoryStore::builder().clock(clock.clone()).build()
}

fn counted(clock: &FakeClock) -> FakeStore {
    FakeStore::over(memory(clock))
}

/// Decides when it is asked, and delivers an answer when the test says so.
fn slow(clock: &FakeClock) -> FakeStore {
    let slow = counted(clock);
    slow.hold_answers(&[Verb::Acquire, Verb::AcquireUpTo]);
    slow
}

const PLANS: [&str; 10] = [
    "10/m burst 5",
    "100/s",
    "5/s burst 12 bucket",
    "3/s leaky",
    "6 per 10s fixed",
    "9/minute fixed calendar",
    "8 per 10s sliding",
    "5 per 3s log",
    "a=5/s bucket; b=30/m fixed; c=12 per 20s sliding",
    "a=4/s leaky; b=10 per 7s log; c=40/m burst 15",
];

#[derive(Clone, Debug)]
enum Step {
    Acquire(u64),
    UpTo(u64, u64),
    Many(Vec<u64>),
    Peek(u64),
    Refund(u64),
    Reset,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let cost = || prop_oneof![4 => Just(1u64), 1 => Just(0), 3 => 2..7u64, 1 => Just(1_000_000)];
    let step = prop_oneof![
        12 => cost().prop_map(Step::Acquire),
        2 => (cost(), cost()).prop_map(|(least, most)| Step::UpTo(least, most)),
        2 => prop::collection::vec(cost(), 0..6).prop_map(Step::Many),
        1 => cost().prop_map(Step::Peek),
        1 => (1..3u64).prop_map(Step::Refund),
        1 => Just(Step::Reset),
        4 => (0..200_000_000u64).prop_map(Step::Wait),
        2 => (0..4_000_000_000u64).prop_map(Step::Wait),
    ];
    prop::collection::vec((0..2usize, step), 1..100)
}

/// Allowed alike; refused alike for as long. Floating-point algorithms round a wait that counts down by itself and
/// one that is computed anew differently, by a nanosecond.
fn alike(with: Decision, without: Decision, cost: u64) -> Result<(), TestCaseError> {
    prop_assert_eq!(with.allowed, without.allowed, "{:?} {:?}", with, without);
    prop_assert_eq!((with.rule, with.limit, with.reason), (without.rule, without.limit, without.reason));
    let wait = |decision: Decision| decision.retry_after.map(Nanos::as_nanos);
    match (wait(with), wait(without)) {
        (Some(one), Some(other)) => prop_assert!(one.abs_diff(other) <= 1, "{:?} {:?}", with, without),
        (one, other) => prop_assert_eq!(one, other),
    }
    prop_assert!(with.reset_after.as_nanos().abs_diff(without.reset_after.as_nanos()) <= 1);
    if cost == 1 || with.allowed {
        prop_assert_eq!(with.remaining, without.remaining);
    }
    Ok(())
}

/// What one more would be told: alike, but that of what was refused for a larger cost and has been waited for since, the cache
/// knows only that one at least is left.
fn alike_after(with: Decision, without: Decision) -> Result<(), TestCaseError> {
    prop_assert_eq!(with.allowed, without.allowed, "{:?} {:?}", with, without);
    prop_assert!(with.remaining <= without.remaining, "{:?} {:?}", with, without);
    if !with.allowed {
        alike(with, without, 1)?;
    }
    Ok(())
}

fn now<T>(answer: Answer<'_, T>) -> T {
    let mut answer = std::pin::pin!(answer);
    match answer.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(answer) => answer.unwrap(),
        Poll::Pending => panic!("a store in memory answers at once"),
    }
}

proptest! {
    #![proptest_config(config(256))]

    /// With the cache in front and nobody giving back behind its back, every answer is that of the store alone.
    #[test]
    fn nobody_can_tell_that_it_is_there(
        which in 0..PLANS.len(), steps in steps(), trust in 0..3_000_000_000u64, capacity in 1..9usize,
    ) {
        let clock = clock();
        let plan = Plan::parse("plan", PLANS[which]).unwrap();
        let without = memory(&clock);
        let with = DenialCache::new(memory(&clock))
            .clock(clock.clone())
            .trust(Nanos::from_nanos(trust))
            .capacity(capacity);
        for (who, step) in steps {
            let key = Key::new(["one", "other"][who]).unwrap();
            let ask = |cost| Request::new(key, Rules::Plan(&plan), Cost::new(cost));
            match step {
                Step::Acquire(cost) => {
                    alike(now(with.acquire(ask(cost))), now(without.acquire(ask(cost))), cost)?;
                }
                Step::UpTo(least, most) => {
                    let most = Cost::new(most);
                    let one = now(with.acquire_up_to(ask(least), most));
                    let other = now(without.acquire_up_to(ask(least), most));
                    prop_assert_eq!((one.granted, one.at), (other.granted, other.at));
                    prop_assert_eq!(one.ends, other.ends);
                    alike(one.decision, other.decision, least)?;
                    alike_after(one.next, other.next)?;
                }
                Step::Many(costs) => {
                    let requests: Vec<_> = costs.iter().map(|cost| ask(*cost)).collect();
                    let (mut one, mut other) = (Vec::new(), Vec::new());
                    now(with.acquire_many(&requests, &mut one));
                    now(without.acquire_many(&requests, &mut other));
                    prop_assert_eq!(one.len(), other.len());
                    for ((one, other), cost) in one.into_iter().zip(other).zip(costs) {
                        alike_in_a_batch(one.unwrap(), other.unwrap(), cost)?;
                    }
                }
                Step::Peek(cost) => {
                    prop_assert_eq!(now(with.peek(ask(cost))), now(without.peek(ask(cost))));
                }
                Step::Refund(cost) => {
                    prop_assert_eq!(now(with.refund(ask(cost), Charged::NOW)), now(without.refund(ask(cost), Charged::NOW)));
                }
                Step::Reset => prop_assert_eq!(now(with.reset(ask(0))), now(without.reset(ask(0)))),
                Step::Wait(nanos) => clock.advance(Nanos::from_nanos(nanos)),
            }
        }
    }
}

/// What a batch takes on the way does not lengthen the waits that were known before it.
fn alike_in_a_batch(with: Decision, without: Decision, cost: u64) -> Result<(), TestCaseError> {
    prop_assert_eq!(with.allowed, without.allowed, "{:?} {:?}", with, without);
    if cost == 1 {
        alike(with, without, cost)?;
    }
    Ok(())
}

#[test]
fn a_flood_on_a_refused_key_hardly_reaches_the_store() {
    let (clock, quota) = (clock(), "10/h".parse::<Quota>().unwrap());
    let counted = counted(&clock);
    let cache = DenialCache::new(counted.clone()).clock(clock.clone());
    let request = Request::new(Key::new("hot").unwrap(), Rules::Quota(&quota), Cost::ONE);
    let allowed = (0..100_000).filter(|_| {
        clock.advance(Nanos::from_nanos(100_000));
        now(cache.acquire(request)).allowed
    });
    assert_eq!(allowed.count(), 10);
    // Ten seconds of it: ten that passed, and one question for every second of trust.
    let asked = counted.take_calls();
    assert!((20..=21).contains(&asked), "{asked} of 100000 questions reached the store");
    assert_eq!(cache.statistics().answered, 100_000 - asked);
}

#[test]
fn what_others_give_back_is_honoured_within_the_trust() {
    let (clock, quota) = (clock(), "1/h".parse::<Quota>().unwrap());
    let counted = counted(&clock);
    let cache = DenialCache::new(counted.clone()).clock(clock.clone());
    let request = Request::new(Key::new("user").unwrap(), Rules::Quota(&quota), Cost::ONE);
    assert!(now(cache.acquire(request)).allowed && !now(cache.acquire(request)).allowed);
    now(counted.inner().reset(request));
    clock.advance(Nanos::from_nanos(999_999_999));
    assert!(!now(cache.acquire(request)).allowed, "not noticed yet");
    clock.advance(Nanos::from_nanos(1));
    assert!(now(cache.acquire(request)).allowed, "a second later it is");

    assert!(!now(cache.acquire(request)).allowed);
    now(counted.inner().reset(request));
    assert!(now(cache.peek(request)).allowed, "who looks sees the store");
    assert!(now(cache.acquire(request)).allowed, "and so does everybody then");
}

/// A refusal that is on its way while something is given back is not remembered.
#[tokio::test]
async fn a_refusal_from_before_a_reset_is_not_remembered_after_it() {
    let (clock, quota) = (clock(), "1/h".parse::<Quota>().unwrap());
    let cache = DenialCache::new(slow(&clock)).clock(clock.clone());
    let request = Request::new(Key::new("user").unwrap(), Rules::Quota(&quota), Cost::ONE);
    assert!(now(cache.inner().inner().acquire(request)).allowed);
    let mut refused = std::pin::pin!(cache.acquire(request));
    let poll = std::future::poll_fn(|context| Poll::Ready(refused.as_mut().poll(context).is_pending())).await;
    assert!(poll, "refused by the store, and on its way");
    assert_eq!(cache.reset(request).await.unwrap(), 1);
    cache.inner().release(1);
    assert!(!refused.await.unwrap().allowed);
    cache.inner().release(1);
    assert!(cache.acquire(request).await.unwrap().allowed, "the reset was ours, and came later");
}

/// A refusal that ended before its answer was there can be repeated to nobody: it is counted, and the store is asked each
/// time. One that only outlives the trust is no such refusal.
#[tokio::test]
async fn refusals_that_end_before_they_are_heard_are_counted() {
    let (clock, quota) = (clock(), "100000/s burst 1".parse::<Quota>().unwrap());
    let cache = DenialCache::new(slow(&clock)).clock(clock.clone());
    let request = Request::new(Key::new("hot").unwrap(), Rules::Quota(&quota), Cost::ONE);
    let refused_after = async |way: u64| {
        now(cache.inner().inner().reset(request));
        assert!(now(cache.inner().inner().acquire(request)).allowed);
        let mut refused = std::pin::pin!(cache.acquire(request));
        std::future::poll_fn(|context| Poll::Ready(refused.as_mut().poll(context).is_pending())).await;
        clock.advance(Nanos::from_nanos(way));
        cache.inner().release(1);
        assert!(!refused.await.unwrap().allowed);
        let statistics = cache.statistics();
        (statistics.held, statistics.too_short)
    };
    assert_eq!(refused_after(10_000).await, (0, 1), "a token is there after 10 µs, and so was the answer");
    assert_eq!(refused_after(1_000_000).await, (0, 2));
    assert_eq!(refused_after(9_999).await, (1, 2), "a nanosecond is left to repeat it");
    assert_eq!(cache.statistics().answered, 0);

    let day: Quota = "1/day".parse().unwrap();
    let wary = DenialCache::new(counted(&clock)).clock(clock.clone()).trust(Nanos::ZERO);
    let request = Request::new(Key::new("slow").unwrap(), Rules::Quota(&day), Cost::ONE);
    assert!(now(wary.acquire(request)).allowed);
    assert!(!now(wary.acquire(request)).allowed);
    assert_eq!(wary.statistics().too_short, 0, "it lasts a day, and nobody trusts it");
}

#[test]
fn other_rules_and_other_costs_are_asked_for() {
    let clock = clock();
    let counted = counted(&clock);
    let cache = DenialCache::new(counted.clone()).clock(clock.clone());
    let key = Key::new("user").unwrap();
    let (small, raised) = ("5/h".parse::<Quota>().unwrap(), "5/h burst 20".parse::<Quota>().unwrap());
    let ask = |quota, cost| now(cache.acquire(Request::new(key, Rules::Quota(quota), Cost::new(cost))));
    assert!(ask(&small, 3).allowed);
    assert!(!ask(&small, 3).allowed);
    assert!(ask(&small, 2).allowed, "a smaller cost may pass");
    assert!(!ask(&small, 1).allowed);
    assert!(ask(&raised, 1).allowed, "a raised quota is honoured at once");
    let never = ask(&small, 6);
    assert_eq!((never.reason, never.retry_after), (Reason::NeverFits, None));
    counted.take_calls();
    assert_eq!(ask(&small, 6).reason, Reason::NeverFits);
    assert_eq!(counted.take_calls(), 0, "what can never pass is remembered too");
}

/// A grant is refused like an acquire of its least. Only what is known of one that was refused as a grant tells what comes next.
#[test]
fn a_grant_is_refused_by_its_least() {
    let (clock, quota) = (clock(), "10/h".parse::<Quota>().unwrap());
    let counted = counted(&clock);
    let cache = DenialCache::new(counted.clone()).clock(clock.clone());
    let ask = |cost| Request::new(Key::new("user").unwrap(), Rules::Quota(&quota), Cost::new(cost));
    let up_to = |least, most| now(cache.acquire_up_to(ask(least), Cost::new(most)));
    assert_eq!(up_to(4, 8).granted, Cost::new(8));
    let refused = up_to(4, 8);
    assert_eq!((refused.granted, refused.decision.remaining, refused.next.allowed), (Cost::ZERO, 2, true));
    counted.take_calls();
    clock.advance(Nanos::from_millis(100));
    let again = up_to(4, 1_000);
    let passed = Nanos::from_millis(100);
    let wait = |grant: &Grant| grant.decision.retry_after.unwrap();
    assert_eq!(wait(&again), wait(&refused).saturating_sub(passed));
    assert_eq!((again.at, again.next.remaining), (refused.at + passed, 2));
    assert!(!now(cache.acquire(ask(4))).allowed, "an acquire of as much is refused alike");
    assert_eq!(counted.take_calls(), 0, "nobody was asked");
    assert_eq!(up_to(1, 1_000).granted, Cost::new(2), "a smaller least may pass");
    assert!(!now(cache.acquire(ask(1))).allowed);
    counted.take_calls();
    let one = up_to(1, 5);
    assert_eq!(
        (counted.take_calls(), one.next),
        (1, one.decision),
        "an acquire does not tell what comes next"
    );
    assert_eq!((up_to(1, 9).next, counted.take_calls()), (one.next, 0));
}

#[test]
fn waits_count_down_and_memory_stays_bounded() {
    let clock = clock();
    let cache = DenialCache::new(memory(&clock)).clock(clock.clone()).capacity(16);
    let quota: Quota = "1/h".parse().unwrap();
    for number in 0..1_000 {
        let name = format!("user:{number}");
        let request = Request::new(Key::new(&name).unwrap(), Rules::Quota(&quota), Cost::ONE);
        assert!(now(cache.acquire(request)).allowed && !now(cache.acquire(request)).allowed);
        clock.advance(Nanos::from_millis(5));
        let refused = now(cache.acquire(request));
        assert_eq!(refused.retry_after.map(Nanos::as_nanos), Some(3_600_000_000_000 - 5_000_000));
        assert_eq!(refused.reset_after.as_nanos(), 3_600_000_000_000 - 5_000_000);
    }
    let statistics = cache.statistics();
    assert_eq!((statistics.capacity, statistics.answered), (16, 1_000));
    assert!(statistics.held <= 16, "{statistics:?}");
}

/// Whose keys these are is not known to a memory of refusals: it forgets all, and asks again.
#[tokio::test]
async fn nothing_is_refused_from_before_keys_were_forgotten() {
    let clock = clock();
    let store = DenialCache::new(MemoryStore::builder().keep_keys(true).clock(clock.clone()).build());
    let store = store.clock(clock);
    let quota: Quota = "1/h".parse().unwrap();
    let request = Request::new(Key::new("user:42").unwrap(), Rules::Quota(&quota), Cost::ONE);
    assert!(store.acquire(request).await.unwrap().allowed && !store.acquire(request).await.unwrap().allowed);
    assert!(store.statistics().held > 0);
    assert_eq!(store.forget(b"user").await.unwrap(), 1);
    assert_eq!(store.statistics().held, 0);
    assert!(store.acquire(request).await.unwrap().allowed);
}
