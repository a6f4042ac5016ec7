//! A store that is slow, fails, hangs or answers late, as a test tells it to.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ratekeeper::port::{
    Answer, Charge, Grant, HoldChange, HoldOutcome, HoldRequest, Judgment, Request, Standing, Store, Whole,
};
use ratekeeper::{Charged, Cost, Decision, MemoryStore, StoreError, StoreErrorKind};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

/// A [`Store`] in front of another one, by default a [`MemoryStore`] of its own. Clones share everything.
///
/// Every verb takes the same way, so that what a test sets applies to all of them. A batch is one call of `acquire` for each of its
/// requests.
///
/// By default answers are ready at once, as those of a store in memory. With [`later`](FakeStore::later), and while answers take
/// time, are held back or never come, nothing happens before the answer is polled, as with a remote store.
///
/// ```no_run
/// # use std::time::Duration;
/// # use ratekeeper::{MemoryStore, StoreErrorKind};
/// # use test_support::fake_store::{FakeStore, Fate, Trip, Verb};
/// // A remote store, in tokio's paused time: 3 ms until it decides, 4 ms until the caller gets the answer.
/// let store = FakeStore::new().delays(Duration::from_millis(3), Duration::from_millis(4));
/// // A store in memory with a clock of its own, whose answers are never ready at once.
/// let other = FakeStore::over(MemoryStore::builder().keep_keys(true).build()).later();
///
/// store.fail(StoreErrorKind::Unreachable); // every call fails, after the way there
/// store.freeze(); // no call is answered
/// store.recover();
/// store.hold_answers(&[Verb::Acquire]); // decided, but not delivered…
/// store.release(1); // …before the test says so
/// assert_eq!((store.calls(Verb::Acquire), store.most_on_the_way()), (3, 2));
///
/// // What becomes of each call, by its verb, key, cost and the calls on the way.
/// let slow_looks = FakeStore::new().later().script(|call| match call.verb {
///     Verb::Peek => Trip { there: Duration::from_millis(50), ..Trip::default() },
///     Verb::Refund => Trip { fate: Fate::FailsAfter(StoreErrorKind::Timeout), ..Trip::default() },
///     _ => Trip::default(),
/// });
/// ```
#[derive(Clone)]
pub struct FakeStore(Arc<Parts>);

struct Parts {
    inner: Arc<dyn Store>,
    state: Mutex<State>,
    gate: Semaphore,
    tallies: [Tally; VERBS],
}

#[derive(Default)]
struct State {
    answers_later: bool,
    held: &'static [Verb],
    forgets_ages: bool,
    /// What becomes of every call, unless it is `Answered`.
    health: Fate,
    script: Option<Box<Script>>,
    usual: Trip,
    next: u64,
    on_the_way: Vec<OnTheWay>,
    most_on_the_way: usize,
}

type Script = dyn FnMut(&Call<'_>) -> Trip + Send;

/// What is counted of each verb.
#[derive(Default)]
struct Tally {
    calls: AtomicU64,
    decided: AtomicU64,
    told: AtomicU64,
}

/// A method of [`Store`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Acquire,
    AcquireUpTo,
    Peek,
    AcquireEach,
    PeekEach,
    Debit,
    Charge,
    Hold,
    ChangeHold,
    Refund,
    Reset,
    Forget,
}

const VERBS: usize = Verb::Forget as usize + 1;

/// A call that reaches the store.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub verb: Verb,
    /// The key, or what the keys of a `forget` start with; of several charges, the first one's.
    pub key: &'a [u8],
    /// The cost of a request; otherwise 0.
    pub cost: u64,
    /// A number that no other call of this store has.
    pub number: u64,
    /// The other calls that are on the way.
    pub others: &'a [OnTheWay],
}

/// A call that was not answered yet.
#[derive(Clone, Debug)]
pub struct OnTheWay {
    pub number: u64,
    pub verb: Verb,
    pub key: Vec<u8>,
    pub since: Instant,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trip {
    /// How long it takes until the store decides.
    pub there: Duration,
    /// How long the answer takes from there to the caller.
    pub back: Duration,
    /// How often the future yields before the store decides, by whatever executor it is polled.
    pub turns: u32,
    pub fate: Fate,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    #[default]
    Answered,
    /// The store is not asked.
    Fails(StoreErrorKind),
    /// The store has decided, and the caller gets an error.
    FailsAfter(StoreErrorKind),
    /// The store is not asked, and the caller gets no answer.
    Silent,
    /// The store has decided, and the caller gets no answer.
    SilentAfter,
}

impl FakeStore {
    #[expect(clippy::new_without_default, reason = "`over` is the other one")]
    pub fn new() -> Self {
        FakeStore::over(MemoryStore::default())
    }

    pub fn over(inner: impl Store + 'static) -> Self {
        FakeStore(Arc::new(Parts {
            inner: Arc::new(inner),
            state: Mutex::default(),
            gate: Semaphore::new(0),
            tallies: Default::default(),
        }))
    }

    /// Has every answer polled before anything happens.
    #[must_use]
    pub fn later(self) -> Self {
        self.state(|state| state.answers_later = true);
        self
    }

    /// Has every call take this long until the store decides, and from there back to the caller.
    #[must_use]
    pub fn delays(self, there: Duration, back: Duration) -> Self {
        self.state(|state| state.usual = Trip { there, back, ..Trip::default() });
        self.later()
    }

    /// Decides what becomes of each call, instead of [`delays`](FakeStore::delays). It must not use this store. Calls that take
    /// time need [`later`](FakeStore::later).
    #[must_use]
    pub fn script(self, script: impl FnMut(&Call<'_>) -> Trip + Send + 'static) -> Self {
        self.state(|state| state.script = Some(Box::new(script)));
        self
    }

    /// Has late refunds given back in full, as if nothing had refilled since the charge.
    #[must_use]
    pub fn forgets_ages(self) -> Self {
        self.state(|state| state.forgets_ages = true);
        self
    }

    /// Fails every call from now on, those on their way there too.
    pub fn fail(&self, kind: StoreErrorKind) {
        self.state(|state| state.health = Fate::Fails(kind));
    }

    /// Answers no call from now on: one that got there while the store was frozen is never answered.
    pub fn freeze(&self) {
        self.state(|state| state.health = Fate::Silent);
    }

    pub fn recover(&self) {
        self.state(|state| state.health = Fate::Answered);
    }

    /// Delivers no answer to these verbs from now on before it is [released](FakeStore::release).
    pub fn hold_answers(&self, verbs: &'static [Verb]) {
        self.state(|state| state.held = verbs);
    }

    /// Delivers so many answers, those that were held first.
    pub fn release(&self, answers: usize) {
        self.0.gate.add_permits(answers);
    }

    /// The store behind, which answers at once and is not counted.
    pub fn inner(&self) -> &dyn Store {
        &*self.0.inner
    }

    pub fn calls(&self, verb: Verb) -> u64 {
        self.0.tallies[verb as usize].calls.load(Ordering::SeqCst)
    }

    pub fn all_calls(&self) -> u64 {
        self.0.tallies.iter().map(|tally| tally.calls.load(Ordering::SeqCst)).sum()
    }

    /// Returns how many calls there were since this was asked last.
    pub fn take_calls(&self) -> u64 {
        self.0.tallies.iter().map(|tally| tally.calls.swap(0, Ordering::SeqCst)).sum()
    }

    /// How much calls of this verb took, or gave back, in the store: of acquires, grants and refunds.
    pub fn decided(&self, verb: Verb) -> u64 {
        self.0.tallies[verb as usize].decided.load(Ordering::SeqCst)
    }

    /// As [`decided`](FakeStore::decided), of the calls whose answers the callers got.
    pub fn told(&self, verb: Verb) -> u64 {
        self.0.tallies[verb as usize].told.load(Ordering::SeqCst)
    }

    pub fn on_the_way(&self) -> Vec<OnTheWay> {
        self.state(|state| state.on_the_way.clone())
    }

    /// The most calls that were on the way at once.
    pub fn most_on_the_way(&self) -> usize {
        self.state(|state| state.most_on_the_way)
    }

    fn state<R>(&self, look: impl FnOnce(&mut State) -> R) -> R {
        look(&mut self.0.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// The one way that every verb takes. `amount` is what an answer has taken.
    fn call<'a, T: Send + 'a>(
        &'a self,
        (verb, key, cost): (Verb, &'a [u8], u64),
        ask: impl FnOnce(&'a dyn Store) -> Answer<'a, T> + Send + 'a,
        amount: impl FnOnce(&T) -> u64 + Send + 'a,
    ) -> Answer<'a, T> {
        let travel = async move {
            let (arrival, Trip { there, back, turns, fate }) = self.arrive(verb, key, cost);
            wait(there).await;
            yield_often(turns).await;
            let health = self.state(|state| state.health);
            let fate = if health == Fate::Answered { fate } else { health };
            match fate {
                Fate::Fails(kind) => return Err(down(kind)),
                Fate::Silent => std::future::pending().await,
                _ => {}
            }
            let answer = ask(self.inner()).await?;
            let amount = amount(&answer);
            arrival.tally().decided.fetch_add(amount, Ordering::SeqCst);
            wait(back).await;
            if self.state(|state| state.held.contains(&verb)) {
                self.0.gate.acquire().await.unwrap().forget();
            }
            match fate {
                Fate::FailsAfter(kind) => return Err(down(kind)),
                Fate::SilentAfter => std::future::pending().await,
                _ => {}
            }
            arrival.tally().told.fetch_add(amount, Ordering::SeqCst);
            Ok(answer)
        };
        let has_to_wait = |state: &mut State| {
            state.answers_later || state.held.contains(&verb) || state.health == Fate::Silent
        };
        if self.state(has_to_wait) {
            return Answer::later(travel);
        }
        let mut travel = Box::pin(travel);
        match travel.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Answer::ready(answer),
            // The store behind has to be awaited.
            Poll::Pending => Answer::later(travel),
        }
    }

    fn arrive(&self, verb: Verb, key: &[u8], cost: u64) -> (Arrival<'_>, Trip) {
        self.0.tallies[verb as usize].calls.fetch_add(1, Ordering::SeqCst);
        self.state(|state| {
            let State { script, usual, next: number, on_the_way, most_on_the_way, .. } = state;
            *number += 1;
            let call = Call { verb, key, cost, number: *number, others: on_the_way };
            let trip = script.as_mut().map_or(*usual, |script| script(&call));
            let key = key.to_vec();
            on_the_way.push(OnTheWay { number: *number, verb, key, since: Instant::now() });
            *most_on_the_way = (*most_on_the_way).max(on_the_way.len());
            (Arrival { store: self, verb, number: *number }, trip)
        })
    }
}

fn down(kind: StoreErrorKind) -> StoreError {
    StoreError::new(kind, "it is down")
}

async fn wait(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}

async fn yield_often(mut turns: u32) {
    std::future::poll_fn(|context| {
        if turns == 0 {
            return Poll::Ready(());
        }
        turns -= 1;
        context.waker().wake_by_ref();
        std::thread::yield_now();
        Poll::Pending
    })
    .await;
}

/// A call, from its arrival until it is answered or dropped.
struct Arrival<'a> {
    store: &'a FakeStore,
    verb: Verb,
    number: u64,
}

impl Arrival<'_> {
    fn tally(&self) -> &Tally {
        &self.store.0.tallies[self.verb as usize]
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.store.state(|state| state.on_the_way.retain(|call| call.number != self.number));
    }
}

impl fmt::Debug for FakeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FakeStore")
    }
}

fn about<'a>(verb: Verb, request: Request<'a>) -> (Verb, &'a [u8], u64) {
    (verb, request.key.as_bytes(), request.cost.get())
}

fn nothing<T>(_: &T) -> u64 {
    0
}

impl Store for FakeStore {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        let taken = move |told: &Decision| if told.allowed { request.cost.get() } else { 0 };
        self.call(about(Verb::Acquire, request), move |store| store.acquire(request), taken)
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        let ask = move |store: &'a dyn Store| store.acquire_up_to(request, most);
        self.call(about(Verb::AcquireUpTo, request), ask, |grant| grant.granted.get())
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.call(about(Verb::Peek, request), move |store| store.peek(request), nothing)
    }

    fn acquire_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        let taken = move |told: &Standing| if told.decision.allowed { request.cost.get() } else { 0 };
        self.call(about(Verb::AcquireEach, request), move |store| store.acquire_each(request), taken)
    }

    fn peek_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.call(about(Verb::PeekEach, request), move |store| store.peek_each(request), nothing)
    }

    fn debit<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.call(about(Verb::Debit, request), move |store| store.debit(request), nothing)
    }

    fn charge<'a>(&'a self, charges: &'a [Charge<'a>], whole: Whole) -> Answer<'a, Judgment> {
        let key = charges.first().map_or(&b""[..], |charge| charge.request.key.as_bytes());
        self.call((Verb::Charge, key, 0), move |store| store.charge(charges, whole), nothing)
    }

    fn hold<'a>(&'a self, hold: HoldRequest<'a>) -> Answer<'a, Standing> {
        self.call((Verb::Hold, hold.key.as_bytes(), 0), move |store| store.hold(hold), nothing)
    }

    fn change_hold<'a>(&'a self, change: HoldChange<'a>) -> Answer<'a, HoldOutcome> {
        let about = (Verb::ChangeHold, change.key.as_bytes(), 0);
        self.call(about, move |store| store.change_hold(change), nothing)
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        let charged = if self.state(|state| state.forgets_ages) { Charged::NOW } else { charged };
        let ask = move |store: &'a dyn Store| store.refund(request, charged);
        self.call(about(Verb::Refund, request), ask, move |_| request.cost.get())
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        self.call(about(Verb::Reset, request), move |store| store.reset(request), nothing)
    }

    fn forget<'a>(&'a self, prefix: &'a [u8]) -> Answer<'a, u64> {
        self.call((Verb::Forget, prefix, 0), move |store| store.forget(prefix), nothing)
    }
}
