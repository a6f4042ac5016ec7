//! What a decision and a waiter cost, beside governor's and leaky-bucket's: `cargo bench --manifest-path compare/Cargo.toml --bench limiter`.
//!
//! Rounds are interleaved, so that whatever else the machine does hits all alike; ratios are those within a round.
#![cfg(not(loom))]
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_precision_loss, missing_docs)]

use std::future::Future;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Barrier;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use ratekeeper::TokioClock;
use ratekeeper::port::Clock;
use ratekeeper::{Cost, Limiter, MonotonicClock};
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 401;
const CALLS: u32 = 20_000;
/// Of the rows with several threads, which take longer to start.
const THREAD_ROUNDS: usize = 41;
const THREAD_CALLS: u32 = 200_000;
/// Allows everything, as in a service that is not overloaded: a billion a second.
const OPEN: &str = "1000000000/s";
/// More tokens than all rounds take.
const PLENTY: usize = 1_000_000_000;
const DAY: Duration = Duration::from_secs(86_400);

type Contender = (&'static str, Box<dyn FnMut()>);

/// One decision, which is written to memory and not copied again; the first is what the others are held against.
type Call = (&'static str, Box<dyn Fn() + Sync>);

/// The processor's time that the work took: what runs beside it does not count.
fn thread_nanos(work: impl FnOnce()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    };
    let start = now();
    work();
    now() - start
}

fn contender(name: &'static str, mut call: impl FnMut() + 'static) -> Contender {
    (name, Box::new(move || (0..CALLS).for_each(|_| call())))
}

fn limiter(text: &str) -> Limiter {
    Limiter::new(text.parse().unwrap()).unwrap()
}

/// leaky-bucket with so many tokens, and one more a day: whatever is there when it begins is all that a run gets. Fair is
/// its default, and takes its lock for every token; unfair tries an atomic operation first.
fn leaky(tokens: usize, fair: bool) -> leaky_bucket::RateLimiter {
    leaky_bucket::RateLimiter::builder().initial(tokens).max(tokens.max(1)).interval(DAY).fair(fair).build()
}

fn contenders() -> Vec<Contender> {
    let governor =
        governor::RateLimiter::direct(governor::Quota::per_second(NonZeroU32::new(1_000_000_000).unwrap()));
    let gcra = limiter(OPEN);
    let tokio = Limiter::builder(OPEN.parse().unwrap()).clock(TokioClock).build().unwrap();
    let bucket = limiter("1000000000/s bucket");
    let window = limiter("1000000000/s fixed");
    let waits = limiter(OPEN);
    let (fair, unfair) = (leaky(PLENTY, true), leaky(PLENTY, false));
    let leaky_waits = leaky(PLENTY, true);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (ours, theirs) = (runtime(), runtime());
    vec![
        contender("governor direct check()", move || {
            black_box(&governor.check());
        }),
        contender("Limiter gcra, default clock", move || {
            black_box(&gcra.try_acquire(black_box(Cost::ONE)));
        }),
        contender("Limiter gcra, TokioClock", move || {
            black_box(&tokio.try_acquire(black_box(Cost::ONE)));
        }),
        contender("Limiter token bucket (locked)", move || {
            black_box(&bucket.try_acquire(black_box(Cost::ONE)));
        }),
        contender("Limiter fixed window (locked)", move || {
            black_box(&window.try_acquire(black_box(Cost::ONE)));
        }),
        (
            "Limiter gcra acquire().await, free",
            Box::new(move || {
                ours.block_on(async {
                    for _ in 0..CALLS {
                        black_box(&waits.acquire(black_box(Cost::ONE)).await.unwrap());
                    }
                });
            }),
        ),
        contender("leaky-bucket try_acquire()", move || {
            assert!(fair.try_acquire(black_box(1)));
        }),
        contender("leaky-bucket try_acquire(), unfair", move || {
            assert!(unfair.try_acquire(black_box(1)));
        }),
        (
            "leaky-bucket acquire().await, free",
            Box::new(move || {
                theirs.block_on(async {
                    for _ in 0..CALLS {
                        leaky_waits.acquire(black_box(1)).await;
                    }
                });
            }),
        ),
        contender("clock alone: std Instant", || {
            black_box(Instant::now());
        }),
        contender("clock alone: MonotonicClock", || {
            black_box(MonotonicClock.now());
        }),
    ]
}

/// Limiters of one a day, which is taken: everything is refused.
fn refusing() -> [Call; 3] {
    let governor = governor::RateLimiter::direct(governor::Quota::with_period(DAY).unwrap());
    let ours = limiter("1/day");
    let drained = leaky(0, true);
    assert!(governor.check().is_ok() && ours.try_acquire(Cost::ONE).allowed);
    let check = move || {
        black_box(&governor.check());
    };
    let try_acquire = move || {
        black_box(&ours.try_acquire(black_box(Cost::ONE)));
    };
    let refuse = move || {
        assert!(!drained.try_acquire(black_box(1)));
    };
    [
        ("governor direct check()", Box::new(check)),
        ("Limiter gcra, default clock", Box::new(try_acquire)),
        ("leaky-bucket try_acquire()", Box::new(refuse)),
    ]
}

/// The time of one call, by so many threads at once.
fn nanos_of_threads(threads: usize, call: &(dyn Fn() + Sync)) -> f64 {
    let barrier = Barrier::new(threads);
    let together: f64 = std::thread::scope(|scope| {
        let work = || {
            barrier.wait();
            thread_nanos(|| (0..THREAD_CALLS).for_each(|_| call()))
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    together / threads as f64 / f64::from(THREAD_CALLS)
}

/// The quartiles and the least of some numbers.
struct Spread {
    least: f64,
    quartiles: [f64; 3],
}

impl Spread {
    fn of(mut numbers: Vec<f64>) -> Self {
        numbers.sort_by(f64::total_cmp);
        let at = |quarter: usize| numbers[(numbers.len() - 1) * quarter / 4];
        Spread { least: at(0), quartiles: [at(1), at(2), at(3)] }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [lower, median, upper] = self.quartiles;
        let decimals = f.precision().unwrap_or(1);
        write!(f, "{median:.decimals$} ({lower:.decimals$}–{upper:.decimals$})")
    }
}

/// Prints the times of all rounds. Ratios are those of each round; the least times are what the code takes on a machine
/// that does other things too, and the medians what it got.
fn print(heading: &str, names: &[&str], times: &[Vec<f64>]) {
    println!("\n| {heading} | median ns (quartiles) | × governor (quartiles) | least ns | × governor |");
    println!("|---|---|---|---|---|");
    let least_of_all = Spread::of(times[0].clone()).least;
    for (name, times_of_it) in names.iter().zip(times) {
        let ratios = times_of_it.iter().zip(&times[0]).map(|(time, theirs)| time / theirs).collect();
        let (spread, ratios) = (Spread::of(times_of_it.clone()), Spread::of(ratios));
        let (least, of_least) = (spread.least, spread.least / least_of_all);
        println!("| {name} | {spread} | {ratios:.2} | {least:.1} | {of_least:.2} |");
    }
}

fn main() {
    // `-- token` runs that row alone, for a profile.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let mut contenders = contenders();
    if !wanted.is_empty() {
        contenders.retain(|(name, _)| wanted.iter().any(|wanted| name.contains(wanted.as_str())));
    }
    let mut times = vec![Vec::with_capacity(ROUNDS); contenders.len()];
    for _ in 0..ROUNDS {
        for ((_, work), times) in contenders.iter_mut().zip(&mut times) {
            times.push(thread_nanos(work) / f64::from(CALLS));
        }
    }
    let names: Vec<&str> = contenders.iter().map(|(name, _)| *name).collect();
    print("allowed, one thread", &names, &times);
    if !wanted.is_empty() {
        return;
    }
    for threads in [1, 2, 4] {
        let contenders = refusing();
        let mut times = vec![Vec::with_capacity(THREAD_ROUNDS); contenders.len()];
        for _ in 0..THREAD_ROUNDS {
            for ((_, call), times) in contenders.iter().zip(&mut times) {
                times.push(nanos_of_threads(threads, &**call));
            }
        }
        let names = contenders.each_ref().map(|(name, _)| *name);
        print(&format!("refused, threads: {threads}"), &names, &times);
    }
    waiters();
}

/// A hundred thousand who wait for one limiter: what each costs to enter, to hold and to leave.
fn waiters() {
    const MANY: usize = 100_000;
    let per = |start: Instant, count: usize| start.elapsed().as_secs_f64() * 1e9 / count as f64;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let limiter = limiter("1000/s burst 100");
        limiter.try_acquire(Cost::new(100));
        let mut waiters = Vec::new();
        let start = Instant::now();
        let allocated = allocation_counter::measure(|| {
            waiters.reserve_exact(MANY);
            waiters.extend((0..MANY).map(|_| limiter.acquire(Cost::ONE)));
            for waiter in &mut waiters {
                let _ = Pin::new(waiter).poll(&mut Context::from_waker(Waker::noop()));
            }
        });
        let enter = per(start, MANY);
        let start = Instant::now();
        let mut number = 0_usize;
        // Any half will do, as long as it is spread over the queue.
        waiters.retain(|_| {
            number += 1;
            (number * 7_919) % 13 < 6
        });
        let leave = per(start, MANY - waiters.len());
        let (start, left, began) = (Instant::now(), waiters.len(), tokio::time::Instant::now());
        for waiter in waiters {
            waiter.await.unwrap();
        }
        let grant = per(start, left);
        let (took, tasks) = (began.elapsed(), runtime_tasks());
        println!("\n| {MANY} waiters, one limiter | |\n|---|---|");
        println!(
            "| bytes each (future and slot) | {} |",
            allocated.bytes_current / i64::try_from(MANY).unwrap()
        );
        println!("| ns to enter, to give up, to be granted | {enter:.0}, {leave:.0}, {grant:.0} |");
        println!("| {left} stayed: paused time until the last | {took:?} (due: {left} ms) |");
        println!("| timers left | {tasks} |");
        println!("| statistics | {:?} |", limiter.statistics());
    });
}

fn runtime_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}
