//! Those who ask together for an exhausted key: the answers of the store, and far fewer questions.

use std::sync::Arc;
use std::time::Duration;

use ratekeeper::port::{Clock, Request, Store};
use ratekeeper::store::DenialCache;
use ratekeeper::{Cost, Decision, Key, Nanos, Quota, Rules, StoreErrorKind, TokioClock};
use test_support::fake_store::FakeStore;

const TRIP: Duration = Duration::from_millis(2);

type Cached = Arc<DenialCache<FakeStore>>;

/// Ten thousand a second: a token is there again after a twentieth of the way to the store and back.
fn quota() -> Quota {
    "10000/s burst 100".parse().unwrap()
}

fn one(quota: &Quota, cost: u64) -> Request<'_> {
    Request::new(Key::new("hot").unwrap(), Rules::Quota(quota), Cost::new(cost))
}

/// A store whose key is exhausted, and known to be.
async fn exhausted() -> (FakeStore, Cached) {
    let far = FakeStore::new().delays(TRIP / 2, TRIP / 2);
    let cached = Arc::new(DenialCache::new(far.clone()));
    let answers: Vec<_> = (0..101).map(|_| ask(&cached)).collect();
    let mut allowed = 0;
    for answer in answers {
        allowed += u64::from(answer.await.unwrap().unwrap().allowed);
    }
    assert_eq!((allowed, far.take_calls(), cached.statistics().too_short), (100, 101, 1));
    far.take_calls();
    (far, cached)
}

fn ask(cached: &Cached) -> tokio::task::JoinHandle<Result<Decision, StoreErrorKind>> {
    let cached = Arc::clone(cached);
    tokio::spawn(async move { cached.acquire(one(&quota(), 1)).await.map_err(|error| error.kind()) })
}

#[tokio::test(start_paused = true)]
async fn a_question_is_asked_for_all_who_wait() {
    let (far, cached) = exhausted().await;
    let begun = TokioClock.now();
    let (mut allowed, mut asked) = (0_u64, 0_u64);
    let mut answers = Vec::new();
    // Fifty thousand a second, five times the rate.
    for _ in 0..200 {
        answers.extend((0..50).map(|_| ask(&cached)));
        asked += 50;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for answer in answers {
        let decision = answer.await.unwrap().unwrap();
        allowed += u64::from(decision.allowed);
        if !decision.allowed {
            assert_eq!(decision.remaining, 0);
            assert!(
                decision.retry_after.is_some_and(|wait| wait <= Nanos::from_nanos(100_000)),
                "{decision:?}"
            );
        }
    }
    let span = TokioClock.now().since(begun).as_nanos();
    let refilled = span / 100_000;
    assert!(
        allowed <= refilled + 1 && allowed * 100 >= refilled * 95,
        "{allowed} of {refilled}, {asked} asked"
    );
    let questions = far.take_calls();
    assert!(questions <= 110, "{questions} questions for {asked} requests in a hundred round trips");
}

#[tokio::test(start_paused = true)]
async fn who_asks_alone_is_told_what_the_store_tells() {
    let (far, cached) = exhausted().await;
    for _ in 0..20 {
        tokio::time::sleep(TRIP).await;
        let before = far.inner().peek(one(&quota(), 1)).await.unwrap().remaining;
        let told = cached.acquire(one(&quota(), 1)).await.unwrap();
        assert!(told.allowed, "what refilled on the way");
        // Ten refill on the way there, and one is taken.
        assert_eq!(told.remaining, (before + 10).min(100) - 1);
        assert!(told.charged_at().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_not_exhausted_lately_is_asked_for_by_each_again() {
    let (far, cached) = exhausted().await;
    tokio::time::sleep(Duration::from_millis(1_001)).await;
    let answers: Vec<_> = (0..20).map(|_| ask(&cached)).collect();
    for answer in answers {
        assert!(answer.await.unwrap().unwrap().allowed);
    }
    assert_eq!(far.take_calls(), 20);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_leaves_the_others_to_ask() {
    let (far, cached) = exhausted().await;
    let first = ask(&cached);
    tokio::time::sleep(TRIP / 4).await;
    let others: Vec<_> = (0..10).map(|_| ask(&cached)).collect();
    tokio::time::sleep(TRIP / 4).await;
    first.abort();
    others[0].abort();
    for other in others.into_iter().skip(1) {
        assert!(other.await.unwrap().is_ok());
    }
    assert!(far.take_calls() <= 3);
    // And one who leads for others, and gives up.
    let (far, cached) = exhausted().await;
    let first = ask(&cached);
    tokio::time::sleep(TRIP / 4).await;
    let others: Vec<_> = (0..10).map(|_| ask(&cached)).collect();
    first.await.unwrap().unwrap();
    tokio::time::sleep(TRIP / 4).await;
    others[0].abort();
    for other in others.into_iter().skip(1) {
        assert!(other.await.unwrap().is_ok());
    }
    assert!(far.take_calls() <= 3);
}

#[tokio::test(start_paused = true)]
async fn everybody_hears_that_the_store_failed() {
    let (far, cached) = exhausted().await;
    far.fail(StoreErrorKind::Unreachable);
    let answers: Vec<_> = (0..10).map(|_| ask(&cached)).collect();
    for answer in answers {
        assert_eq!(answer.await.unwrap().unwrap_err(), StoreErrorKind::Unreachable);
    }
    assert_eq!(far.take_calls(), 2);
    far.recover();
    assert!(cached.acquire(one(&quota(), 1)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_batch_asks_together_and_in_order() {
    let (far, cached) = exhausted().await;
    let (hot, quiet): (Quota, Quota) = (quota(), "5/s".parse().unwrap());
    let cold = Request::new(Key::new("cold").unwrap(), Rules::Quota(&quiet), Cost::new(2));
    let mut requests = vec![one(&hot, 1); 40];
    requests.insert(3, cold);
    requests.insert(9, cold);
    let mut answers = Vec::new();
    cached.acquire_many(&requests, &mut answers).await.unwrap();
    let told: Vec<Decision> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!((told[3].remaining, told[9].remaining), (3, 1));
    let hot: Vec<bool> = told
        .iter()
        .enumerate()
        .filter(|(at, _)| ![3, 9].contains(at))
        .map(|(_, told)| told.allowed)
        .collect();
    let allowed = hot.iter().filter(|allowed| **allowed).count();
    assert!((10..=30).contains(&allowed), "what refilled on the way: {allowed}");
    assert!(hot[..allowed].iter().all(|allowed| *allowed), "the first of them");
    assert_eq!(far.take_calls(), 3);
    // Another cost of the same key among them, and they are asked for one after another.
    let quota = quota();
    let requests = [one(&quota, 1), one(&quota, 2), one(&quota, 1), one(&quota, 1)];
    let mut answers = Vec::new();
    cached.acquire_many(&requests, &mut answers).await.unwrap();
    assert_eq!((answers.len(), far.take_calls()), (4, 4));
}
