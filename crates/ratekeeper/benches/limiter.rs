//! What a decision and a waiter cost, beside governor's: `cargo bench -p ratekeeper --bench limiter`.
//!
//! Rounds are interleaved, so that whatever else the machine does hits all alike; medians are printed.
#![cfg(not(loom))]
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_precision_loss, missing_docs)]

use std::future::Future;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Instant;

use ratekeeper::TokioClock;
use ratekeeper::port::Clock;
use ratekeeper::{Cost, Limiter, MonotonicClock};

const ROUNDS: usize = 401;
const CALLS: u32 = 20_000;
/// Allows everything, as in a service that is not overloaded: a billion a second.
const OPEN: &str = "1000000000/s";

type Contender = (&'static str, Box<dyn FnMut()>);

fn nanos_per_call(work: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

fn contender(name: &'static str, mut call: impl FnMut() + 'static) -> Contender {
    (name, Box::new(move || (0..CALLS).for_each(|_| call())))
}

fn limiter(text: &str) -> Limiter {
    Limiter::new(text.parse().unwrap()).unwrap()
}

fn contenders() -> Vec<Contender> {
    let governor =
        governor::RateLimiter::direct(governor::Quota::per_second(NonZeroU32::new(1_000_000_000).unwrap()));
    let gcra = limiter(OPEN);
    let tokio = Limiter::builder(OPEN.parse().unwrap()).clock(TokioClock).build().unwrap();
    let bucket = limiter("1000000000/s bucket");
    let window = limiter("1000000000/s fixed");
    let waits = limiter(OPEN);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    vec![
        contender("governor direct check()", move || {
            let _ = black_box(governor.check());
        }),
        contender("Limiter gcra, default clock", move || {
            black_box(gcra.try_acquire(black_box(Cost::ONE)));
        }),
        contender("Limiter gcra, TokioClock", move || {
            black_box(tokio.try_acquire(black_box(Cost::ONE)));
        }),
        contender("Limiter token bucket (locked)", move || {
            black_box(bucket.try_acquire(black_box(Cost::ONE)));
        }),
        contender("Limiter fixed window (locked)", move || {
            black_box(window.try_acquire(black_box(Cost::ONE)));
        }),
        (
            "Limiter gcra acquire().await, free",
            Box::new(move || {
                runtime.block_on(async {
                    for _ in 0..CALLS {
                        black_box(waits.acquire(black_box(Cost::ONE)).await.unwrap());
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

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn main() {
    let mut contenders = contenders();
    let mut times = vec![Vec::with_capacity(ROUNDS); contenders.len()];
    for _ in 0..ROUNDS {
        for ((_, work), times) in contenders.iter_mut().zip(&mut times) {
            times.push(nanos_per_call(work));
        }
    }
    // On a machine that does other things too, the least is what the code takes and the median what it got.
    let least: Vec<f64> = times.iter().map(|times| times.iter().copied().fold(f64::MAX, f64::min)).collect();
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    println!("| one thread, uncontended | median ns | × governor | least ns | × governor |");
    println!("|---|---|---|---|---|");
    for (((name, _), time), least_time) in contenders.iter().zip(&medians).zip(&least) {
        let (of_median, of_least) = (time / medians[0], least_time / least[0]);
        println!("| {name} | {time:.1} | {of_median:.2} | {least_time:.1} | {of_least:.2} |");
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
