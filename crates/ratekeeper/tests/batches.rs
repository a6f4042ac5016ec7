//! Many requests in one call: by the keeper as if they came one by one, by a store with different keys at once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratekeeper::keeper::{HeldTo, KeeperError, OnMissingPlan};
use ratekeeper::port::{Answer, Grant, Observer, Request, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{
    Charged, Cost, Decision, FailureMode, Keeper, Key, MemoryStore, Plan, Quota, Registry, Rules, StoreError,
    StoreErrorKind, Timestamp,
};
use tokio::sync::Barrier;

const MODES: [FailureMode; 4] =
    [FailureMode::Open, FailureMode::Local, FailureMode::Closed, FailureMode::Error];

fn memory() -> MemoryStore {
    MemoryStore::builder().clock(FakeClock::at(Timestamp::from_secs(1_761_884_055))).build()
}

/// How a store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// At once, and never fails.
    Memory,
    /// At once, and fails at times.
    AtOnce,
    /// After a while that differs by key, and fails at times.
    Later,
    /// As `Later`, and never fails.
    Slow,
    /// As `Later`, and fails what is left of a batch after some of it.
    Whole,
}

/// A store whose answers depend on the key and how often that was asked for, whatever else is asked.
#[derive(Debug)]
struct Fickle {
    inner: MemoryStore,
    manner: Manner,
    asked: Mutex<HashMap<Vec<u8>, u64>>,
}

impl Fickle {
    fn new(manner: Manner) -> Self {
        Fickle { inner: memory(), manner, asked: Mutex::default() }
    }

    /// A number that tells what becomes of this question.
    fn draw(&self, key: Key<'_>) -> u64 {
        let mut asked = self.asked.lock().unwrap();
        let count = asked.entry(key.as_bytes().to_vec()).or_default();
        *count += 1;
        let mut hasher = DefaultHasher::new();
        (key.as_bytes(), *count).hash(&mut hasher);
        hasher.finish()
    }

    fn decide(&self, request: Request<'_>, draw: u64) -> Result<Decision, StoreError> {
        let kind = match draw % 8 {
            _ if matches!(self.manner, Manner::Memory | Manner::Slow) => None,
            0 => Some(StoreErrorKind::Timeout),
            1 => Some(StoreErrorKind::Contended),
            2 => Some(StoreErrorKind::Unsupported),
            _ => None,
        };
        match kind {
            Some(kind) => Err(StoreError::new(kind, format!("{kind:?} of {}", request.key))),
            None => self.inner.acquire(request).now().unwrap(),
        }
    }
}

impl Store for Fickle {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        if matches!(self.manner, Manner::Memory | Manner::AtOnce) {
            return Answer::ready(self.decide(request, self.draw(request.key)));
        }
        Answer::later(async move {
            let draw = self.draw(request.key);
            for _ in 0..draw % 5 {
                tokio::task::yield_now().await;
            }
            self.decide(request, draw)
        })
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        self.inner.acquire_up_to(request, most)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.inner.peek(request)
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        self.inner.refund(request, charged)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        self.inner.reset(request)
    }
}

/// The same store, with a batch of its own instead of the default's.
#[derive(Debug)]
struct Batching(Fickle);

impl Store for Batching {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.0.acquire(request)
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        self.0.acquire_up_to(request, most)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.0.peek(request)
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        self.0.refund(request, charged)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        self.0.reset(request)
    }

    fn acquire_many<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &'a mut Vec<Result<Decision, StoreError>>,
    ) -> Answer<'a, ()> {
        if self.0.manner != Manner::Whole {
            into.extend(requests.iter().map(|request| self.0.decide(*request, self.0.draw(request.key))));
            return Answer::ready(Ok(()));
        }
        Answer::later(async move {
            for request in requests {
                into.push(Ok(self.acquire(*request).await?));
            }
            Ok(())
        })
    }
}

/// A store that fails at once.
#[derive(Debug)]
struct Down;

impl Down {
    fn fail<'a, T>(&self) -> Answer<'a, T> {
        Answer::ready(Err(StoreError::new(StoreErrorKind::Timeout, "down")))
    }
}

impl Store for Down {
    fn acquire<'a>(&'a self, _: Request<'a>) -> Answer<'a, Decision> {
        self.fail()
    }

    fn acquire_up_to<'a>(&'a self, _: Request<'a>, _: Cost) -> Answer<'a, Grant> {
        self.fail()
    }

    fn peek<'a>(&'a self, _: Request<'a>) -> Answer<'a, Decision> {
        self.fail()
    }

    fn refund<'a>(&'a self, _: Request<'a>, _: Charged) -> Answer<'a, Decision> {
        self.fail()
    }

    fn reset<'a>(&'a self, _: Request<'a>) -> Answer<'a, u64> {
        self.fail()
    }
}

/// Writes down what it is told.
#[derive(Clone, Debug, Default)]
struct Diary(Arc<Mutex<Pages>>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Pages {
    decided: Vec<(Vec<u8>, Decision)>,
    failed: Vec<(String, Option<Decision>)>,
}

impl Observer for Diary {
    fn decided(&self, request: &Request<'_>, decision: &Decision) {
        self.0.lock().unwrap().decided.push((request.key.as_bytes().to_vec(), *decision));
    }

    fn store_failed(&self, error: &StoreError, answer: Option<&Decision>) {
        // The local store's instant is told or not: only a ruling can say whose it is.
        let answer = answer.map(|answer| answer.charged(Timestamp::MIN));
        self.0.lock().unwrap().failed.push((error.to_string(), answer));
    }
}

struct Observed {
    keeper: Keeper,
    diary: Diary,
}

fn keeper(manner: Manner, mode: FailureMode) -> Observed {
    let plans = MODES.map(|mode| Plan::parse(mode.word(), "3/h; 4/day").unwrap().on_store_error(mode));
    let diary = Diary::default();
    // The store that stands in has to be awaited too, where the other one has.
    let (store, local): (Arc<dyn Store>, Arc<dyn Store>) = match manner {
        Manner::Later => (Arc::new(Fickle::new(manner)), Arc::new(Fickle::new(Manner::Slow))),
        _ => (Arc::new(Batching(Fickle::new(manner))), Arc::new(memory())),
    };
    let keeper = Keeper::new(store, Registry::new(plans))
        .on_missing_plan(OnMissingPlan::Skip)
        .on_store_error(mode)
        .local_store(local)
        .observer(diary.clone());
    Observed { keeper, diary }
}

/// A request by name, to be asked for in both ways.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    key: u64,
    /// A quota of its own, or plans.
    plans: Option<&'static [&'static str]>,
    cost: u64,
}

const HELD_TO: [Option<&[&str]>; 8] = [
    None,
    None,
    Some(&["open"]),
    Some(&["local"]),
    Some(&["closed"]),
    Some(&["error"]),
    Some(&["open", "local"]),
    Some(&["missing"]),
];

fn batch(mut random: u64) -> Vec<Wanted> {
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let (len, keys) = ([0, 1, 2, 7, 40][usize::try_from(draw(5)).unwrap()], 1 + draw(12));
    let mut wanted = || Wanted {
        key: draw(keys),
        plans: HELD_TO[usize::try_from(draw(HELD_TO.len() as u64)).unwrap()],
        cost: draw(3),
    };
    (0..len).map(|_| wanted()).collect()
}

/// What requests by name stand for.
struct Found {
    quota: Quota,
    requests: Vec<(String, Option<FoundPlans>, Cost)>,
}

type FoundPlans = Vec<Arc<Plan>>;

impl Found {
    fn of(observed: &Observed, wanted: &[Wanted]) -> Self {
        let find = |name: &&str| observed.keeper.plans().find(name);
        let requests = wanted.iter().map(|wanted| {
            let plans = wanted.plans.map(|names| names.iter().filter_map(find).collect());
            (format!("key:{}", wanted.key), plans, Cost::new(wanted.cost))
        });
        Found { quota: "5/h".parse().unwrap(), requests: requests.collect() }
    }

    fn requests(&self) -> Vec<Request<'_>> {
        let requests = self.requests.iter().map(|(name, plans, cost)| {
            let rules = match plans.as_deref() {
                None => Rules::Quota(&self.quota),
                Some([only]) => Rules::Plan(only),
                Some(plans) => Rules::Plans(plans),
            };
            Request::new(Key::new(name).unwrap(), rules, *cost)
        });
        requests.collect()
    }
}

async fn in_one_call(observed: &Observed, wanted: &[Wanted]) -> Vec<Result<Decision, String>> {
    let found = Found::of(observed, wanted);
    // What is there already stays.
    let mut answers = vec![Ok(Decision::allow(77, 7, ratekeeper::Nanos::ZERO))];
    let Ok(()) = observed.keeper.acquire_many(&found.requests(), &mut answers).await;
    assert_eq!(answers.remove(0).unwrap().limit, 77);
    answers.into_iter().map(|answer| answer.map_err(|error| error.to_string())).collect()
}

async fn resolved_one_by_one(observed: &Observed, wanted: &[Wanted]) -> Vec<Result<Decision, String>> {
    let found = Found::of(observed, wanted);
    let mut answers = Vec::new();
    for request in found.requests() {
        answers.push(observed.keeper.acquire_resolved(request).await.map_err(|error| error.to_string()));
    }
    answers
}

async fn one_by_one(observed: &Observed, wanted: &[Wanted]) -> Vec<Result<Decision, String>> {
    let quota: Quota = "5/h".parse().unwrap();
    let mut answers = Vec::new();
    for wanted in wanted {
        let held_to = wanted.plans.map_or(HeldTo::Quota(&quota), HeldTo::Plans);
        let ruling = observed.keeper.acquire(&format!("key:{}", wanted.key), held_to, wanted.cost).await;
        answers.push(match ruling {
            Ok(ruling) => Ok(*ruling.decision()),
            Err(KeeperError::Store(error)) => Err(error.to_string()),
            Err(other) => panic!("{other}"),
        });
    }
    answers
}

/// A breaker that is open fails at once. The store that stands in, if it has to be awaited, used to be asked all the same:
/// whoever found that the answer was not there, and asked again in a future, was charged twice.
#[tokio::test]
async fn what_is_not_ready_has_asked_nobody() {
    let plan = Plan::parse("plan", "3/h").unwrap().on_store_error(FailureMode::Local);
    let (store, local) = (Arc::new(Down), Arc::new(Fickle::new(Manner::Slow)));
    let keeper = Keeper::new(store, Registry::default()).local_store(Arc::clone(&local));
    let request = |key| Request::new(Key::new(key).unwrap(), Rules::Plan(&plan), Cost::ONE);
    // Some of them answer when they are first polled.
    for key in ["a", "b", "c", "d", "e", "f"] {
        assert!(keeper.acquire_resolved(request(key)).now().is_err());
        assert_eq!(local.asked.lock().unwrap().get(key.as_bytes()), None);
        let decision = keeper.acquire_resolved(request(key)).await.unwrap();
        assert_eq!((decision.allowed, decision.remaining), (true, 2));
    }
}

/// The same answers, and the same told, whether requests come in one call or one by one, by name or resolved.
#[tokio::test]
async fn a_batch_is_decided_as_if_its_requests_came_one_by_one() {
    for manner in [Manner::Memory, Manner::AtOnce, Manner::Later] {
        for mode in MODES {
            for seed in 0..100 {
                let [together, resolved, alone] = [(); 3].map(|()| keeper(manner, mode));
                for round in 0..3 {
                    let wanted = batch(seed * 3 + round);
                    let expected = one_by_one(&alone, &wanted).await;
                    let context = || format!("{manner:?}, {mode:?}, {seed}: {wanted:?}");
                    assert_eq!(in_one_call(&together, &wanted).await, expected, "{}", context());
                    assert_eq!(resolved_one_by_one(&resolved, &wanted).await, expected, "{}", context());
                }
                let expected = alone.diary.0.lock().unwrap();
                for heard in [together.diary, resolved.diary] {
                    assert_eq!(*heard.0.lock().unwrap(), *expected, "{manner:?}, {mode:?}, {seed}");
                }
            }
        }
    }
}

/// What a store fails as a whole is answered for one by one: every request has an answer.
#[tokio::test]
async fn a_store_that_fails_as_a_whole_has_failed_all_that_are_left() {
    for mode in MODES {
        for seed in 0..300 {
            let observed = keeper(Manner::Whole, mode);
            let wanted = batch(seed);
            let answers = in_one_call(&observed, &wanted).await;
            assert_eq!(answers.len(), wanted.len());
            let pages = observed.diary.0.lock().unwrap();
            let decided: Vec<Decision> = answers.iter().flatten().copied().collect();
            assert_eq!(pages.decided.iter().map(|(_, decision)| *decision).collect::<Vec<_>>(), decided);
            let errors = answers.iter().filter(|answer| answer.is_err()).count();
            assert_eq!(pages.failed.iter().filter(|(_, answer)| answer.is_none()).count(), errors);
        }
    }
}

/// A batch over a store that answers at once needs nobody to wait, whatever it fails.
#[test]
fn a_batch_that_is_answered_at_once_is_ready() {
    let observed = keeper(Manner::AtOnce, FailureMode::Local);
    let quota: Quota = "5/h".parse().unwrap();
    let request = Request::new(Key::new("key").unwrap(), Rules::Quota(&quota), Cost::ONE);
    for many in [1, 2, 50] {
        let mut answers = Vec::new();
        assert!(observed.keeper.acquire_many(&vec![request; many], &mut answers).now().is_ok());
        assert_eq!(answers.len(), many);
    }
    assert!(!observed.diary.0.lock().unwrap().failed.is_empty(), "it failed at times");
}

/// Answers only when so many ask at once, and notes who is on the way.
#[derive(Debug)]
struct Together {
    store: MemoryStore,
    barrier: Barrier,
    on_their_way: Mutex<Vec<Vec<u8>>>,
    fails: Option<&'static [u8]>,
}

impl Together {
    fn new(count: usize, fails: Option<&'static [u8]>) -> Self {
        let barrier = Barrier::new(count);
        Together { store: MemoryStore::default(), barrier, on_their_way: Mutex::default(), fails }
    }
}

impl Store for Together {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        Answer::later(async move {
            let key = request.key.as_bytes();
            {
                let mut others = self.on_their_way.lock().unwrap();
                assert!(!others.iter().any(|other| other == key), "one after another");
                others.push(key.to_vec());
            }
            self.barrier.wait().await;
            self.on_their_way.lock().unwrap().retain(|other| other != key);
            if self.fails == Some(key) {
                return Err(StoreError::new(StoreErrorKind::Timeout, "no answer"));
            }
            self.store.acquire(request).await
        })
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        self.store.acquire_up_to(request, most)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.store.peek(request)
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        self.store.refund(request, charged)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        self.store.reset(request)
    }
}

async fn asked(store: Together, keys: &[&str]) -> Vec<Result<bool, StoreErrorKind>> {
    let keeper = Keeper::new(store, Registry::default());
    let quota: Quota = "2/h".parse().unwrap();
    let requests: Vec<_> = keys
        .iter()
        .map(|key| Request::new(Key::new(*key).unwrap(), Rules::Quota(&quota), Cost::ONE))
        .collect();
    let mut answers = Vec::new();
    let patience = Duration::from_secs(60);
    let outcome = tokio::time::timeout(patience, keeper.acquire_many(&requests, &mut answers)).await;
    let Ok(()) = outcome.expect("so many were never on their way at once");
    let told = answers.into_iter().map(|answer| answer.map(|decision| decision.allowed));
    told.map(|answer| answer.map_err(|error| error.kind())).collect()
}

#[tokio::test(start_paused = true)]
async fn different_keys_are_asked_together_and_one_key_in_order() {
    let keys = ["a", "b", "c", "a", "b", "c", "c", "b", "a"];
    let allowed = asked(Together::new(3, None), &keys).await;
    assert_eq!(allowed, [true, true, true, true, true, true, false, false, false].map(Ok));
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_does_not_fail_the_others() {
    let keys = ["a", "b", "a", "b", "a", "b"];
    let told = asked(Together::new(2, Some(b"b")), &keys).await;
    let failed = Err(StoreErrorKind::Timeout);
    assert_eq!(told, [Ok(true), failed, Ok(true), failed, Ok(false), failed], "charged once each, and told");
}
