//! Many requests in one call: by the keeper as if they came one by one, by a store with different keys at once.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use ratekeeper::keeper::{HeldTo, KeeperError, OnMissingPlan};
use ratekeeper::port::{Answer, Grant, Observer, Request, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{
    Charged, Cost, Decision, FailureMode, Keeper, Key, MemoryStore, Plan, Quota, Registry, Rules, StoreError,
    StoreErrorKind, Timestamp,
};
use test_support::cases::each_seed;
use test_support::fake_store::{FakeStore, Fate, Trip, Verb};

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

impl Manner {
    fn is_ready(self) -> bool {
        matches!(self, Manner::Memory | Manner::AtOnce)
    }
}

/// A store whose answers to `acquire` depend on the key and how often it was asked for, whatever else is asked.
fn fickle(manner: Manner) -> FakeStore {
    let mut asked: HashMap<Vec<u8>, u64> = HashMap::new();
    let store = FakeStore::over(memory()).script(move |call| {
        if call.verb != Verb::Acquire {
            return Trip::default();
        }
        let count = asked.entry(call.key.to_vec()).or_default();
        *count += 1;
        let mut hasher = DefaultHasher::new();
        (call.key, *count).hash(&mut hasher);
        let draw = hasher.finish();
        let fate = match draw % 8 {
            _ if matches!(manner, Manner::Memory | Manner::Slow) => Fate::Answered,
            0 => Fate::Fails(StoreErrorKind::Timeout),
            1 => Fate::Fails(StoreErrorKind::Contended),
            2 => Fate::Fails(StoreErrorKind::Unsupported),
            _ => Fate::Answered,
        };
        let turns = if manner.is_ready() { 0 } else { (draw % 5) as u32 };
        Trip { turns, fate, ..Trip::default() }
    });
    if manner.is_ready() { store } else { store.later() }
}

/// The same store, with a batch of its own instead of the default's.
#[derive(Debug)]
struct Batching(FakeStore, Manner);

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
        if self.1 != Manner::Whole {
            into.extend(requests.iter().map(|request| self.acquire(*request).now().unwrap()));
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
        self.0.lock().unwrap().failed.push((text_of(error), answer));
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
        Manner::Later => (Arc::new(fickle(manner)), Arc::new(fickle(Manner::Slow))),
        _ => (Arc::new(Batching(fickle(manner), manner)), Arc::new(memory())),
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

fn text_of(error: &StoreError) -> String {
    format!("{}: {error}", error.kind().as_str())
}

async fn in_one_call(observed: &Observed, wanted: &[Wanted]) -> Vec<Result<Decision, String>> {
    let found = Found::of(observed, wanted);
    // What is there already stays.
    let mut answers = vec![Ok(Decision::allow(77, 7, ratekeeper::Nanos::ZERO))];
    let Ok(()) = observed.keeper.acquire_many(&found.requests(), &mut answers).await;
    assert_eq!(answers.remove(0).unwrap().limit, 77);
    answers.into_iter().map(|answer| answer.map_err(|error| text_of(&error))).collect()
}

async fn resolved_one_by_one(observed: &Observed, wanted: &[Wanted]) -> Vec<Result<Decision, String>> {
    let found = Found::of(observed, wanted);
    let mut answers = Vec::new();
    for request in found.requests() {
        answers.push(observed.keeper.acquire_resolved(request).await.map_err(|error| text_of(&error)));
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
            Err(KeeperError::Store(error)) => Err(text_of(&error)),
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
    let (store, local) = (FakeStore::new(), fickle(Manner::Slow));
    store.fail(StoreErrorKind::Timeout);
    let keeper = Keeper::new(store, Registry::default()).local_store(local.clone());
    let request = |key| Request::new(Key::new(key).unwrap(), Rules::Plan(&plan), Cost::ONE);
    // Some of them answer when they are first polled.
    for key in ["a", "b", "c", "d", "e", "f"] {
        local.take_calls();
        assert!(keeper.acquire_resolved(request(key)).now().is_err());
        assert_eq!(local.all_calls(), 0);
        let decision = keeper.acquire_resolved(request(key)).await.unwrap();
        assert_eq!((decision.allowed, decision.remaining), (true, 2));
    }
}

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(test);
}

/// The same answers, and the same reports to observers, whether requests come in one call or one by one, by name or resolved.
#[test]
fn a_batch_is_decided_as_if_its_requests_came_one_by_one() {
    each_seed(24, |seed| {
        for manner in [Manner::Memory, Manner::AtOnce, Manner::Later] {
            for mode in MODES {
                block_on(decide_alike(manner, mode, seed));
            }
        }
    });
}

async fn decide_alike(manner: Manner, mode: FailureMode, seed: u64) {
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

/// If a batch fails as a whole, every request of it without an answer yet has failed.
#[test]
fn a_store_that_fails_as_a_whole_has_failed_all_that_are_left() {
    each_seed(120, |seed| MODES.into_iter().for_each(|mode| block_on(fail_as_a_whole(mode, seed))));
}

async fn fail_as_a_whole(mode: FailureMode, seed: u64) {
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

/// Asks for these keys in one batch. Whenever the batch cannot go on, exactly so many calls are on the way, of different keys;
/// then they are answered. Calls of the key `failing` fail.
async fn asked(
    together: usize,
    failing: Option<&'static [u8]>,
    keys: &[&str],
) -> Vec<Result<bool, StoreErrorKind>> {
    let store = FakeStore::new().later().script(move |call| {
        assert!(call.others.iter().all(|other| other.key != call.key), "one after another");
        let fails = failing == Some(call.key);
        let fate = if fails { Fate::FailsAfter(StoreErrorKind::Timeout) } else { Fate::Answered };
        Trip { fate, ..Trip::default() }
    });
    store.hold_answers(&[Verb::Acquire]);
    let keeper = Keeper::new(store.clone(), Registry::default());
    let quota: Quota = "2/h".parse().unwrap();
    let requests: Vec<_> = keys
        .iter()
        .map(|key| Request::new(Key::new(*key).unwrap(), Rules::Quota(&quota), Cost::ONE))
        .collect();
    let mut answers = Vec::new();
    {
        let mut batch = std::pin::pin!(keeper.acquire_many(&requests, &mut answers));
        for _ in 0..keys.len() / together {
            assert!(is_pending(&mut batch).await, "it waits for answers");
            assert_eq!(store.on_the_way().len(), together);
            store.release(together);
        }
        let Ok(()) = batch.await;
    }
    let told = answers.into_iter().map(|answer| answer.map(|decision| decision.allowed));
    told.map(|answer| answer.map_err(|error| error.kind())).collect()
}

/// Polls once, and returns true if it is not ready.
async fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    std::future::poll_fn(|context| Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending()))
        .await
}

#[tokio::test(start_paused = true)]
async fn different_keys_are_asked_together_and_one_key_in_order() {
    let keys = ["a", "b", "c", "a", "b", "c", "c", "b", "a"];
    let allowed = asked(3, None, &keys).await;
    assert_eq!(allowed, [true, true, true, true, true, true, false, false, false].map(Ok));
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_does_not_fail_the_others() {
    let keys = ["a", "b", "a", "b", "a", "b"];
    let told = asked(2, Some(b"b"), &keys).await;
    let failed = Err(StoreErrorKind::Timeout);
    assert_eq!(told, [Ok(true), failed, Ok(true), failed, Ok(false), failed], "charged once each, and told");
}
