//! Many threads on one limiter, with the real clock: in any span of wall time they get no more than one caller would.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper::limiter::{Keyed, LeakyQueue, Limiter, Ticks};
use ratekeeper::{Cost, Quota};

use crate::bound::{ALGORITHMS, Admission, Bound, at_most, breach};
use crate::crowd::{Findings, SIZES, crowd};
use crate::support::ms;

/// How long each of them is under fire.
const FIRE: Duration = Duration::from_millis(40);

/// More than any of the quotas admits at once.
const LEAST_CALLS: usize = 1_000;

/// Fires at it from many threads, and tells who was admitted.
fn fire(threads: usize, ask: impl Fn() -> bool + Sync) -> Vec<Admission> {
    crowd(threads, FIRE, LEAST_CALLS, |_, _| u64::from(ask()))
}

#[test]
fn no_span_of_wall_time_has_more_than_the_quota() {
    let refills =
        ["20 per 1ms", "30 per 5ms", "100/s burst 10", "1000/s burst 100", "10 per 20ms", "60/m burst 5"];
    let mut findings = Findings::default();
    let mut sizes = SIZES.into_iter().cycle();
    for refill in refills {
        for algorithm in ALGORITHMS {
            // Windows have no burst of their own.
            let has_burst = matches!(algorithm, "gcra" | "bucket" | "leaky");
            let refill = if has_burst { refill } else { refill.split(" burst").next().unwrap() };
            let quota: Quota = format!("{refill} {algorithm}").parse().unwrap();
            let threads = sizes.next().unwrap();
            let limiter = Limiter::new(quota).unwrap();
            let admitted = fire(threads, || limiter.try_acquire(Cost::ONE).allowed);
            findings.check(&format!("{quota}, {threads} threads"), &[Bound::of(&quota)], &admitted);
            assert_eq!(limiter.statistics().acquired, admitted.len() as u64, "{quota}: each counts once");
        }
    }
    findings.none();
}

#[test]
fn a_thousand_a_second_from_any_number_of_threads() {
    let quota: Quota = "1000/s burst 100".parse().unwrap();
    let mut findings = Findings::default();
    for threads in SIZES {
        let keyed: Keyed<u32> = Keyed::new(quota).unwrap();
        let admitted = fire(threads, || keyed.try_acquire(&7, 1).allowed);
        findings.check(&format!("one key, {threads} threads"), &[Bound::of(&quota)], &admitted);
    }
    findings.none();
}

#[test]
fn some_wait_some_do_not_and_some_look_at_it() {
    let quota: Quota = "1000/s burst 100".parse().unwrap();
    let mut findings = Findings::default();
    for threads in SIZES {
        let limiter = Limiter::new(quota).unwrap();
        let turn = AtomicU64::new(0);
        // Waiting takes the state to the queue and back, a thousand times.
        let admitted = fire(threads, || match turn.fetch_add(1, Ordering::Relaxed) % 5 {
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
        });
        findings.check(&format!("all sorts, {threads} threads"), &[Bound::of(&quota)], &admitted);
        assert_eq!(limiter.statistics().queue_depth, 0);
        assert_eq!(limiter.statistics().acquired, admitted.len() as u64);
    }
    findings.none();
}

#[test]
fn ticks_and_a_line_admit_no_more_either() {
    /// Holds it to the most that one caller is admitted in a span.
    fn check(what: &str, threads: usize, ask: impl Fn() -> bool + Sync, most: impl Fn(u64) -> u64) {
        // Who waits in a line asks only so often: as long as it takes, and no more.
        let admitted = crowd(threads, FIRE, 1, |_, _| u64::from(ask()));
        assert!(!admitted.is_empty(), "{what}, {threads} threads: nobody was admitted");
        if let Some(breach) = breach(&admitted, |span| most(at_most(span))) {
            panic!("{what}, {threads} threads: {breach}");
        }
    }
    for threads in SIZES {
        let ticks = Limiter::ticking(Ticks::bucket(20, 5, ms(2))).unwrap();
        check("ticks", threads, || ticks.try_acquire(1).allowed, |span| 20 + 5 * (span / 2_000_000 + 1));
        let window = Limiter::ticking(Ticks::window(20, ms(4))).unwrap();
        let ask = || window.try_acquire(1).allowed;
        check("a window of ticks", threads, ask, |span| 20 * (span / 4_000_000 + 2));
        let line = || LeakyQueue::new("1000/s".parse().unwrap(), 10).unwrap();
        let asked = line();
        check("a line", threads, || asked.try_acquire().allowed, |span| 11 + span.div_ceil(1_000_000));
        let waited = line();
        let wait = || waited.acquire().within(ms(3)).wait().is_ok();
        check("a line that is waited in", threads, wait, |span| 1 + span.div_ceil(1_000_000));
    }
}
