//! Many threads on one limiter, with the real clock: in any span of wall time they get no more than one caller would.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ratekeeper::limiter::{Keyed, LeakyQueue, Limiter, Ticks};
use ratekeeper::{Cost, Quota};

use crate::support::ms;

/// How long each of them is under fire.
const FIRE: Duration = Duration::from_millis(40);

/// One that was admitted: when the call began, and when it was answered. Whenever it was decided lies between.
#[derive(Clone, Copy, Debug)]
struct Call {
    asked: u64,
    told: u64,
}

/// Fires at it from many threads, and tells who was admitted.
fn fire(threads: usize, ask: &(dyn Fn() -> bool + Sync)) -> Vec<Call> {
    let begin = Barrier::new(threads);
    let start = Instant::now();
    let nanos = || u64::try_from(start.elapsed().as_nanos()).unwrap();
    let shoot = || {
        begin.wait();
        let mut admitted = Vec::new();
        let end = start.elapsed() + FIRE;
        loop {
            let asked = nanos();
            if ask() {
                admitted.push(Call { asked, told: nanos() });
            }
            if start.elapsed() > end {
                return admitted;
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(shoot)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Checks every span that begins with a call: of those that were asked and told within it, there are at most so many.
fn check(what: &str, calls: &mut [Call], spans: &[u64], most: impl Fn(u64) -> u64) {
    calls.sort_by_key(|call| call.asked);
    for span in spans {
        // The process's clock may be a little off the one that this is measured with.
        let most = most(span + span / 1_000 + 1_000);
        for (first, from) in calls.iter().enumerate() {
            let later = calls[first..].iter().take_while(|call| call.asked <= from.asked + span);
            let within = later.filter(|call| call.told <= from.asked + span).count() as u64;
            assert!(within <= most, "{what}: {within} in {span} ns, at most {most}");
        }
    }
    assert!(!calls.is_empty(), "{what}: nobody was admitted");
}

/// The most that one caller is admitted within a span, by what the text of the quota says.
fn most_in(quota: &Quota, span: u64) -> u64 {
    let (limit, window) = (quota.burst(), quota.period().as_nanos());
    match quota.algorithm().word() {
        "gcra" | "bucket" | "leaky" => {
            let interval = quota.emission_interval().as_nanos();
            limit + span.div_ceil(interval)
        }
        "log" => limit * (span / (window + 1) + 1),
        // A window may begin just before, and another end just after.
        _ => limit * (span / window + 2),
    }
}

const THREADS: [usize; 3] = [2, 16, 64];

#[test]
fn no_span_of_wall_time_has_more_than_the_quota() {
    let refills =
        ["20 per 1ms", "30 per 5ms", "100/s burst 10", "1000/s burst 100", "10 per 20ms", "60/m burst 5"];
    for algorithm in ["", "bucket", "leaky", "fixed", "sliding", "log"] {
        for refill in refills {
            let windowed = matches!(algorithm, "fixed" | "sliding" | "log");
            let Some(text) = (match windowed {
                // Windows have no burst of their own.
                true => refill.split_once(" burst").map_or(Some(refill), |(rate, _)| Some(rate)),
                false => Some(refill),
            }) else {
                continue;
            };
            let text = format!("{text} {algorithm}");
            let quota: Quota = text.trim().parse().unwrap();
            let threads = THREADS[(refill.len() + algorithm.len()) % THREADS.len()];
            let limiter = Limiter::new(quota).unwrap();
            let mut calls = fire(threads, &|| limiter.try_acquire(Cost::ONE).allowed);
            let spans = [
                quota.refill_time().as_nanos() / 4,
                quota.refill_time().as_nanos(),
                quota.period().as_nanos(),
                u64::try_from(FIRE.as_nanos()).unwrap(),
            ];
            check(&format!("{text}, {threads} threads"), &mut calls, &spans, |span| most_in(&quota, span));
            assert_eq!(limiter.statistics().acquired, calls.len() as u64, "{text}: each counts once");
        }
    }
}

#[test]
fn a_thousand_a_second_from_any_number_of_threads() {
    for threads in THREADS {
        let quota: Quota = "1000/s burst 100".parse().unwrap();
        let keyed: Keyed<u32> = Keyed::new(quota).unwrap();
        let mut calls = fire(threads, &|| keyed.try_acquire(&7, 1).allowed);
        let spans = [1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
        check(&format!("one key, {threads} threads"), &mut calls, &spans, |span| most_in(&quota, span));
    }
}

#[test]
fn some_wait_some_do_not_and_some_look_at_it() {
    for threads in THREADS {
        let quota: Quota = "1000/s burst 100".parse().unwrap();
        let limiter = Limiter::new(quota).unwrap();
        let turn = std::sync::atomic::AtomicU64::new(0);
        // Waiting takes the state to the queue and back, a thousand times.
        let ask = || match turn.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 5 {
            0 => limiter.acquire(1).within(ms(2)).wait().is_ok(),
            1 => {
                limiter.statistics();
                false
            }
            2 => {
                drop(limiter.reserve(1));
                false
            }
            _ => limiter.try_acquire(1).allowed,
        };
        let mut calls = fire(threads, &ask);
        let spans = [1_000_000, 10_000_000, 100_000_000];
        check(&format!("all sorts, {threads} threads"), &mut calls, &spans, |span| most_in(&quota, span));
        assert_eq!(limiter.statistics().queue_depth, 0);
        assert_eq!(limiter.statistics().acquired, calls.len() as u64);
    }
}

#[test]
fn ticks_and_a_line_admit_no_more_either() {
    for threads in THREADS {
        let spans = [1_000_000, 5_000_000, 20_000_000];
        let limiter = Limiter::ticking(Ticks::bucket(20, 5, ms(2))).unwrap();
        let mut calls = fire(threads, &|| limiter.try_acquire(1).allowed);
        check("ticks", &mut calls, &spans, |span| 20 + 5 * (span / 2_000_000 + 1));
        let limiter = Limiter::ticking(Ticks::window(20, ms(4))).unwrap();
        let mut calls = fire(threads, &|| limiter.try_acquire(1).allowed);
        check("a window of ticks", &mut calls, &spans, |span| 20 * (span / 4_000_000 + 2));
        let line = LeakyQueue::new("1000/s".parse().unwrap(), 10).unwrap();
        let mut calls = fire(threads, &|| line.try_acquire().allowed);
        check("a line", &mut calls, &spans, |span| 11 + span.div_ceil(1_000_000));
        let line = LeakyQueue::new("1000/s".parse().unwrap(), 10).unwrap();
        let mut calls = fire(threads, &|| line.acquire().within(ms(3)).wait().is_ok());
        check("a line that is waited in", &mut calls, &spans, |span| 1 + span.div_ceil(1_000_000));
    }
}
