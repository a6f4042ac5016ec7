//! What a decision and a waiter cost, beside governor's: `cargo bench -p ratekeeper --bench limiter`.
//!
//! Rounds are interleaved, so that whatever else the machine does hits all alike; medians are printed.
#![cfg(not(loom))]
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Instant;

use ratekeeper::port::Clock;
use ratekeeper::{Cost, Limiter, MonotonicClock, Nanos, Timestamp};

const ROUNDS: usize = 41;
const CALLS: u32 = 200_000;
/// Allows everything, as in a service that is not overloaded: a billion a second.
const OPEN: &str = "1000000000/s";

/// Governor's default clock, for a comparison of all but the clock.
#[derive(Debug)]
struct Quanta(quanta::Clock, u64, Timestamp);

impl Clock for Quanta {
    fn now(&self) -> Timestamp {
        self.2 + Nanos::from_nanos(self.0.delta_as_nanos(self.1, self.0.raw()))
    }
}

fn quanta_clock() -> Quanta {
    let clock = quanta::Clock::new();
    let start = clock.raw();
    Quanta(clock, start, MonotonicClock.now())
}

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
    let quanta = Limiter::builder(OPEN.parse().unwrap()).clock(quanta_clock()).build().unwrap();
    let monotonic = Limiter::builder(OPEN.parse().unwrap()).clock(MonotonicClock).build().unwrap();
    let bucket = limiter("1000000000/s bucket");
    let window = limiter("1000000000/s fixed");
    let waits = limiter(OPEN);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let raw = quanta::Clock::new();
    vec![
        contender("governor direct check()", move || {
            let _ = black_box(governor.check());
        }),
        contender("Limiter gcra, default clock", move || {
            black_box(gcra.try_acquire(black_box(Cost::ONE)));
        }),
        contender("Limiter gcra, MonotonicClock", move || {
            black_box(monotonic.try_acquire(black_box(Cost::ONE)));
        }),
        contender("Limiter gcra, quanta clock", move || {
            black_box(quanta.try_acquire(black_box(Cost::ONE)));
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
        contender("clock alone: quanta", move || {
            black_box(raw.now());
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
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    println!("| one thread, uncontended | ns | × governor |\n|---|---|---|");
    for ((name, _), time) in contenders.iter().zip(&medians) {
        println!("| {name} | {time:.1} | {:.2} |", time / medians[0]);
    }
}
