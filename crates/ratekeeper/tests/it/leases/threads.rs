//! More threads than cores ask through one instance, by real clocks: every token that was granted is counted once, and no
//! span of time holds more than is promised. How much is leased, returned or burnt depends on the machine, and is not asserted here:
//! the model and the tests in virtual time do that.

use std::pin::{Pin, pin};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use ratekeeper::Plan;
use ratekeeper::port::Store;
use ratekeeper::store::{LeaseStatistics, Leased};

use super::far_store::{leased_plan, request};
use test_support::fake_store::{FakeStore, Trip, Verb};
use test_support::spans::{Stamp, worst_span};
use test_support::wait::PATIENCE;

const RATE: u64 = 4_000;
const BURST: u64 = 1_000;
const LIFE: Duration = Duration::from_millis(20);
/// On what are often two cores.
const THREADS: usize = 12;
/// How long nobody asks while much is held, in milliseconds: for less than a life, and for more.
const RESTS: [u64; 5] = [50, 10, 30, 55, 15];
/// How often each asks in a row: few, because on a busy machine every turn of another thread takes milliseconds.
const STORM: u64 = 80;

/// A store that answers at once, or after others had their turn.
fn store(answers_later: bool) -> FakeStore {
    match answers_later {
        false => FakeStore::new(),
        true => FakeStore::new().later().script(|_| Trip { turns: 2, ..Trip::default() }),
    }
}

/// What a crowd was admitted, one by one, and in all.
#[derive(Debug, Default)]
struct Admitted {
    stamps: Vec<Stamp>,
    cost: u64,
}

/// One of many who ask the same instance.
struct Asker {
    leased: Arc<Leased<FakeStore>>,
    plan: Arc<Plan>,
    start: Instant,
    number: usize,
    admitted: Admitted,
}

impl Asker {
    fn nanos(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap()
    }

    async fn ask(&mut self, cost: u64) {
        let before = self.nanos();
        let decision = self.leased.acquire(request(&self.plan, cost)).await.unwrap();
        if decision.allowed {
            let stamp = Stamp { before, after: self.nanos() };
            self.admitted.stamps.extend(std::iter::repeat_n(stamp, usize::try_from(cost).unwrap()));
            self.admitted.cost += cost;
        }
    }

    /// Round by round: the quota becomes whole, one makes the instance hold as much as it may, nobody asks for a while, and
    /// then all ask for whatever they get.
    async fn run(mut self, meet: impl AsyncFn(), rest: impl AsyncFn(Duration)) -> Admitted {
        for millis in RESTS {
            rest(Duration::from_millis(1_000 * BURST / RATE)).await;
            meet().await;
            if self.number == 0 {
                // What never passes counts as demand. A key is leased from its fourth request on.
                for cost in [1, 1, 1, BURST + 1, 1] {
                    self.ask(cost).await;
                }
            }
            meet().await;
            rest(Duration::from_millis(millis)).await;
            meet().await;
            let begin = self.number as u64;
            for asked in begin..begin + STORM {
                // Some ask for several at once.
                self.ask(if asked % 32 == 0 { 1 + asked / 32 % 5 } else { 1 }).await;
                if asked % 64 == 0 {
                    rest(Duration::ZERO).await;
                }
            }
            meet().await;
        }
        self.admitted
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits as a task does, without a runtime.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future: Pin<&mut _> = pin!(future);
    let begun = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park_timeout(PATIENCE);
        assert!(begun.elapsed() < PATIENCE, "somebody waits for ever");
    }
}

fn instance(answers_later: bool) -> (Arc<Leased<FakeStore>>, impl Fn(usize) -> Asker) {
    let leased = Arc::new(Leased::new(store(answers_later)).keys(4));
    let plan = Arc::new(leased_plan(&format!("{RATE}/s burst {BURST}"), "20ms"));
    assert_eq!(plan.leasing().unwrap().life.as_duration(), LIFE);
    let start = Instant::now();
    let asker = {
        let leased = Arc::clone(&leased);
        move |number| {
            let (leased, plan) = (Arc::clone(&leased), Arc::clone(&plan));
            Asker { leased, plan, start, number, admitted: Admitted::default() }
        }
    };
    (leased, asker)
}

/// Everything that was granted is somewhere, and was handed out at most once.
fn check_sums(leased: &Leased<FakeStore>, admitted: &[Admitted]) -> Result<(), String> {
    let (counts, store) = (leased.statistics(), leased.inner());
    let LeaseStatistics { spent, left, returned, burnt, .. } = counts;
    let (granted, plain) = (store.decided(Verb::AcquireUpTo), store.decided(Verb::Acquire));
    let handed_out: u64 = admitted.iter().map(|admitted| admitted.cost).sum();
    if spent + left + returned + burnt != granted {
        return Err(format!("{granted} were granted: {counts:?}"));
    }
    // A caller whose shared call takes longer than a lease lives asks the store itself. What the call brings it then is lost: on a
    // machine that stalls, less is handed out than was taken, and never more.
    if handed_out > spent + plain {
        return Err(format!("{handed_out} were handed out, {plain} of them by the store: {counts:?}"));
    }
    Ok(())
}

fn check_bound(admitted: &[Admitted]) {
    let stamps: Vec<Stamp> = admitted.iter().flat_map(|admitted| admitted.stamps.iter().copied()).collect();
    // Two clocks: a thousandth of a span is far more than they differ, and so are some microseconds of reading them.
    let rate = RATE as f64 * 1.001;
    let worst = worst_span(&stamps, rate).unwrap();
    let bound = BURST as f64 + rate * (LIFE.as_secs_f64() + 20e-6);
    assert!(worst.beside <= bound, "{worst:?}, of {bound}");
}

/// Each thread on its own, without a runtime: calls are made by whoever needs them, and by nobody else.
fn without_a_runtime(answers_later: bool) {
    let (leased, asker) = instance(answers_later);
    let barrier = &Barrier::new(THREADS);
    let admitted: Vec<Admitted> = thread::scope(|scope| {
        let ask = |number| {
            let asker = asker(number);
            let meet = async || {
                barrier.wait();
            };
            let rest = async |span: Duration| {
                let end = Instant::now() + span;
                thread::yield_now();
                while let Some(left) =
                    end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
                {
                    thread::park_timeout(left);
                }
            };
            move || block_on(asker.run(meet, rest))
        };
        let askers: Vec<_> = (0..THREADS).map(|number| scope.spawn(ask(number))).collect();
        askers.into_iter().map(|asker| asker.join().unwrap()).collect()
    });
    // A lease that has lapsed counts nowhere until it is taken away.
    block_on(leased.close());
    check_sums(&leased, &admitted).unwrap();
    check_bound(&admitted);
}

#[test]
fn of_a_store_that_answers_at_once() {
    without_a_runtime(false);
}

#[test]
fn of_a_store_that_answers_later() {
    without_a_runtime(true);
}

/// In a runtime: calls are made ahead by tasks of their own, and what is left is given back by others.
#[test]
fn in_a_runtime_that_asks_ahead() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_time().build().unwrap();
    let (leased, asker) = instance(true);
    let admitted: Vec<Admitted> = runtime.block_on(async {
        let barrier = Arc::new(tokio::sync::Barrier::new(2 * THREADS));
        let ask = |number| {
            let (asker, barrier) = (asker(number), Arc::clone(&barrier));
            let meet = async move || {
                barrier.wait().await;
            };
            let rest = async |span: Duration| {
                let end = Instant::now() + span;
                let mut tick = tokio::time::interval(Duration::from_millis(1));
                tokio::task::yield_now().await;
                while Instant::now() < end {
                    tick.tick().await;
                }
            };
            tokio::spawn(asker.run(meet, rest))
        };
        let askers: Vec<_> = (0..2 * THREADS).map(ask).collect();
        let mut admitted = Vec::new();
        for asker in askers {
            admitted.push(asker.await.unwrap());
        }
        // Calls and returns may still be on their way, and a lease that has lapsed counts nowhere until it is taken away.
        let deadline = Instant::now() + PATIENCE;
        loop {
            leased.close().await;
            match check_sums(&leased, &admitted) {
                Ok(()) => break,
                Err(wrong) => assert!(Instant::now() < deadline, "{wrong}"),
            }
            tokio::task::yield_now().await;
        }
        admitted
    });
    check_bound(&admitted);
}
