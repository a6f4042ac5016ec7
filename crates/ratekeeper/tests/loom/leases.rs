//! Every interleaving that loom can reach of: spending from a lease, waiting for a call, its landing, the end of a lease, a
//! reset, giving up and giving back.
//!
//! `cargo xtask test` runs it, or: `RUSTFLAGS="--cfg loom" cargo test --release -p ratekeeper --test loom_leases`.
//!
//! There is no runtime here: a call is made by whoever needs it, and what nobody waits for is not asked ahead.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::{Condvar, Mutex};
use loom::thread;
use ratekeeper::port::{Answer, Clock, Grant, Request, Store};
use ratekeeper::store::Leased;
use ratekeeper::{Charged, Cost, Decision, Key, Nanos, Plan, Rules, StoreError, StoreErrorKind, Timestamp};

/// Stands still until it is told.
#[derive(Clone, Debug, Default)]
struct Hand(Arc<AtomicI64>);

impl Hand {
    fn advance(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000) + Nanos::from_millis(self.0.load(Ordering::SeqCst).cast_unsigned())
    }
}

/// The store behind: so many tokens, of which none comes back by itself. Not modelled: what is looked at is before it.
#[derive(Debug)]
struct Source {
    tokens: AtomicU64,
    /// What calls for many brought, what was given back of it, and what single requests brought.
    granted: AtomicU64,
    returned: AtomicU64,
    plain: AtomicU64,
    /// Others have a turn before it answers.
    answers_later: bool,
    /// It answers calls for many no more.
    fails: AtomicBool,
}

impl Source {
    fn new(tokens: u64, answers_later: bool) -> Self {
        let zero = || AtomicU64::new(0);
        let (granted, returned, plain) = (zero(), zero(), zero());
        let fails = AtomicBool::new(false);
        Source { tokens: AtomicU64::new(tokens), granted, returned, plain, answers_later, fails }
    }

    fn take(&self, least: u64, most: u64) -> u64 {
        let granted = self.tokens.load(Ordering::SeqCst).min(most);
        let granted = if granted < least { 0 } else { granted };
        self.tokens.fetch_sub(granted, Ordering::SeqCst);
        granted
    }

    fn decide(&self, is_allowed: bool) -> Decision {
        let (limit, left) = (1_000, self.tokens.load(Ordering::SeqCst));
        match is_allowed {
            true => Decision::allow(limit, left, Nanos::from_secs(1)).charged(Timestamp::from_secs(1)),
            false => Decision::deny(limit, left, Some(Nanos::from_secs(1)), Nanos::from_secs(1)),
        }
    }

    fn answer<'a, T: Send + 'a>(
        &'a self,
        answer: impl FnOnce() -> Result<T, StoreError> + Send + 'a,
    ) -> Answer<'a, T> {
        if !self.answers_later {
            return Answer::ready(answer());
        }
        Answer::later(async move {
            let mut had_a_turn = false;
            std::future::poll_fn(|context: &mut Context<'_>| {
                if std::mem::replace(&mut had_a_turn, true) {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
            answer()
        })
    }
}

impl Store for Source {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.answer(move || {
            let taken = self.take(request.cost.get(), request.cost.get());
            self.plain.fetch_add(taken, Ordering::SeqCst);
            Ok(self.decide(taken > 0))
        })
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        self.answer(move || {
            if self.fails.load(Ordering::SeqCst) {
                return Err(StoreError::new(StoreErrorKind::Unreachable, "away"));
            }
            let granted = self.take(request.cost.get(), most.get());
            self.granted.fetch_add(granted, Ordering::SeqCst);
            Ok(Grant {
                granted: Cost::new(granted),
                decision: self.decide(granted > 0),
                at: Timestamp::from_secs(1),
                ends: None,
                next: self.decide(self.tokens.load(Ordering::SeqCst) > 0),
            })
        })
    }

    fn peek<'a>(&'a self, _: Request<'a>) -> Answer<'a, Decision> {
        self.answer(|| Ok(self.decide(true)))
    }

    fn refund<'a>(&'a self, request: Request<'a>, _: Charged) -> Answer<'a, Decision> {
        self.answer(move || {
            self.returned.fetch_add(request.cost.get(), Ordering::SeqCst);
            self.tokens.fetch_add(request.cost.get(), Ordering::SeqCst);
            Ok(self.decide(true))
        })
    }

    fn reset<'a>(&'a self, _: Request<'a>) -> Answer<'a, u64> {
        self.answer(|| Ok(1))
    }
}

/// Whether somebody who waits was woken. Loom's `park` forgets who was woken before they came to it.
#[derive(Default)]
struct Bell {
    rang: Mutex<bool>,
    rings: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rang.lock().unwrap() = true;
        self.rings.notify_one();
    }
}

/// Waits as a task does: only a waker wakes it. Loom says if nobody does.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let mut future: Pin<&mut _> = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let mut rang = bell.rang.lock().unwrap();
        while !std::mem::take(&mut *rang) {
            rang = bell.rings.wait(rang).unwrap();
        }
    }
}

/// One instance, whose key has been asked for often enough to be leased.
struct Shared {
    leased: Leased<Source>,
    plan: Plan,
    clock: Hand,
    /// What was handed out.
    admitted: AtomicU64,
}

impl Shared {
    /// The fourth request takes four; so many more are spent of it.
    fn new(source: Source, spent: u64) -> Arc<Self> {
        let (clock, plan) = (Hand::default(), Plan::parse("api", "10/s burst 1000").unwrap());
        let shared = Shared {
            leased: Leased::new(source).keys(4).clock(clock.clone()),
            plan: plan.lease("500ms".parse().unwrap()).unwrap(),
            clock,
            admitted: AtomicU64::new(0),
        };
        (0..4 + spent).for_each(|_| assert!(shared.ask(1).unwrap()));
        Arc::new(shared)
    }

    fn request(&self, cost: u64) -> Request<'_> {
        Request::new(Key::new("hot").unwrap(), Rules::Plan(&self.plan), Cost::new(cost))
    }

    /// Waits for the answer, and tells whether it is allowed.
    fn ask(&self, cost: u64) -> Result<bool, StoreError> {
        let decision = block_on(self.leased.acquire(self.request(cost)))?;
        self.admitted.fetch_add(if decision.allowed { cost } else { 0 }, Ordering::SeqCst);
        Ok(decision.allowed)
    }

    /// Asks, looks once whether there is an answer, and gives up if there is none.
    fn ask_and_give_up(&self, cost: u64) {
        let mut answer = self.leased.acquire(self.request(cost));
        let told = Pin::new(&mut answer).poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(decision) = told {
            self.admitted.fetch_add(if decision.unwrap().allowed { cost } else { 0 }, Ordering::SeqCst);
        }
    }

    /// Everything that was granted is somewhere, and was handed out once: all of it, unless somebody gave up.
    fn check(&self, gave_up: u64) {
        let (counts, source) = (self.leased.statistics(), self.leased.inner());
        let [granted, returned, plain] =
            [&source.granted, &source.returned, &source.plain].map(|count| count.load(Ordering::SeqCst));
        assert_eq!(counts.spent + counts.left + counts.returned + counts.burnt, granted, "{counts:?}");
        assert!(counts.returned <= returned, "{counts:?}");
        let (admitted, paid) = (self.admitted.load(Ordering::SeqCst), counts.spent + plain);
        assert!(admitted <= paid && paid <= admitted + gave_up, "{admitted}, {plain} plain: {counts:?}");
    }
}

fn both<A: Send + 'static>(
    shared: &Arc<Shared>,
    other: impl FnOnce(&Shared) -> A + 'static,
    mine: impl FnOnce(&Shared),
) -> A {
    let thread = {
        let shared = Arc::clone(shared);
        thread::spawn(move || other(&shared))
    };
    mine(shared);
    thread.join().unwrap()
}

/// Two spend what is there, and whoever finds too little takes more.
#[test]
fn what_is_held_is_spent_once() {
    for answers_later in [false, true] {
        loom::model(move || {
            let shared = Shared::new(Source::new(100, answers_later), 1);
            let ask_twice = |shared: &Shared| (0..2).for_each(|_| assert!(shared.ask(1).unwrap()));
            both(&shared, ask_twice, ask_twice);
            shared.check(0);
            assert_eq!(shared.admitted.load(Ordering::SeqCst), 9);
        });
    }
}

/// One would ask ahead, and cannot without a runtime; another finds too little, and takes that for a call on its way.
#[test]
fn nobody_waits_for_a_call_that_is_not_made() {
    loom::model(|| {
        let shared = Shared::new(Source::new(100, true), 1);
        both(&shared, |shared| assert!(shared.ask(1).unwrap()), |shared| assert!(shared.ask(2).unwrap()));
        shared.check(0);
    });
}

/// Of what is too little for all, each token goes to one of them.
#[test]
fn the_last_tokens_are_handed_out_once() {
    for answers_later in [false, true] {
        loom::model(move || {
            // Three are held and one is there when the two set out.
            let shared = Shared::new(Source::new(8, answers_later), 0);
            let three = |shared: &Shared| shared.ask(3).unwrap();
            let mut mine = false;
            let other = both(&shared, three, |shared| mine = three(shared));
            assert!(!(mine && other), "two were given three of four");
            shared.check(0);
        });
    }
}

/// Somebody waits for the call of one who gives up.
#[test]
fn who_gives_up_leaves_nobody_waiting() {
    loom::model(|| {
        let shared = Shared::new(Source::new(100, true), 3);
        both(&shared, |shared| shared.ask_and_give_up(2), |shared| assert!(shared.ask(2).unwrap()));
        shared.check(2);
        assert!(shared.ask(1).unwrap(), "and the next one does not wait either");
    });
}

/// Everybody who waits hears that the store failed.
#[test]
fn a_failure_is_told_to_all() {
    loom::model(|| {
        let shared = Shared::new(Source::new(100, true), 3);
        shared.leased.inner().fails.store(true, Ordering::SeqCst);
        let kind = |shared: &Shared| shared.ask(1).unwrap_err().kind();
        let other = both(&shared, kind, |shared| assert_eq!(kind(shared), StoreErrorKind::Unreachable));
        assert_eq!(other, StoreErrorKind::Unreachable);
        shared.check(0);
    });
}

/// What was taken before a reset is not handed out after it, and whoever waits for it asks again.
#[test]
fn a_reset_disowns_the_call_on_its_way() {
    loom::model(|| {
        let shared = Shared::new(Source::new(100, true), 3);
        let reset = |shared: &Shared| {
            block_on(shared.leased.reset(shared.request(0))).unwrap();
            // The next is the first of a fresh key: a single request.
            let before = shared.leased.statistics();
            assert_eq!((before.left, before.held), (0, 0), "{before:?}");
        };
        both(&shared, |shared| assert!(shared.ask(2).unwrap()), reset);
        shared.check(0);
    });
}

/// All that is held is given back by one who stops, while another spends it, or waits for more.
#[test]
fn closing_leaves_nobody_waiting() {
    for (spent, cost) in [(0, 2), (3, 2)] {
        loom::model(move || {
            let shared = Shared::new(Source::new(100, true), spent);
            both(
                &shared,
                move |shared| assert!(shared.ask(cost).unwrap()),
                |shared| block_on(shared.leased.close()),
            );
            shared.check(0);
        });
    }
}

/// A lease ends while one spends it and another asks: what is left is given back or lost, and not handed out then.
#[test]
fn what_has_ended_is_not_spent() {
    for answers_later in [false, true] {
        loom::model(move || {
            let shared = Shared::new(Source::new(100, answers_later), 0);
            let end = |shared: &Shared| {
                shared.clock.advance(501);
                assert!(shared.ask(1).unwrap());
            };
            both(&shared, |shared| (0..2).for_each(|_| assert!(shared.ask(1).unwrap())), end);
            shared.check(0);
        });
    }
}

/// Three at once: one waits for the call of another, and a third gives up.
#[test]
fn a_line_of_three_is_served() {
    let mut model = loom::model::Builder::new();
    // Whoever is put aside more often than that has been seen with two threads.
    model.preemption_bound = Some(2);
    model.check(|| {
        let shared = Shared::new(Source::new(100, true), 3);
        let third = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || assert!(shared.ask(1).unwrap()))
        };
        both(&shared, |shared| assert!(shared.ask(3).unwrap()), |shared| shared.ask_and_give_up(1));
        third.join().unwrap();
        shared.check(1);
    });
}
