//! Many threads on one limiter, with the real clock: in no span of wall time are they allowed more than one caller would be.

use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper::limiter::{Keyed, LeakyQueue, Limiter, Ticks};
use ratekeeper::{Cost, Quota};

use crate::hostile_limiter::support::ms;
use test_support::bound::{ALGORITHMS, Admission, Bound, at_most, breach};
use test_support::cases::share;
use test_support::crowd::{Findings, SIZES, crowd};

/// Requests of one attack in a thorough run. Even a share of them is more than any of the quotas allows at once.
const CALLS: u32 = 32_000;

/// Makes this run's share of so many requests from many threads, and returns what was allowed.
fn fire(threads: usize, calls: u32, ask: impl Fn() -> bool + Sync) -> Vec<Admission> {
    crowd(threads, share(calls) as usize, |_, _| u64::from(ask()))
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
            let admitted = fire(threads, CALLS, || limiter.try_acquire(Cost::ONE).allowed);
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
        let admitted = fire(threads, CALLS, || keyed.try_acquire(&7, 1).allowed);
        findings.check(&format!("one key, {threads} threads"), &[Bound::of(&quota)], &admitted);
    }
    findings.none();
}

#[test]
fn waiting_reserving_and_trying_at_once_keep_to_the_quota() {
    let quota: Quota = "1000/s burst 100".parse().unwrap();
    let mut findings = Findings::default();
    for threads in SIZES {
        let limiter = Limiter::new(quota).unwrap();
        let turn = AtomicU64::new(0);
        // Waiting moves the state into the queue and back.
        let admitted = fire(threads, CALLS / 8, || match turn.fetch_add(1, Ordering::Relaxed) % 5 {
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
        // Reservations that were cancelled may have kept others out: there is no minimum.
        findings.check_bounds(&format!("all sorts, {threads} threads"), &[Bound::of(&quota)], &admitted);
        assert_eq!(limiter.statistics().queue_depth, 0);
        assert_eq!(limiter.statistics().acquired, admitted.len() as u64);
    }
    findings.none();
}

#[test]
fn ticks_and_a_line_admit_no_more_either() {
    /// Checks what a crowd is allowed against the most that one caller is allowed in a span.
    fn check(
        what: &str,
        threads: usize,
        calls: u32,
        ask: impl Fn() -> bool + Sync,
        most: impl Fn(u64) -> u64,
    ) {
        let admitted = fire(threads, calls, ask);
        assert!(!admitted.is_empty(), "{what}, {threads} threads: no request was allowed");
        if let Some(breach) = breach(&admitted, |span| most(at_most(span))) {
            panic!("{what}, {threads} threads: {breach}");
        }
    }
    for threads in SIZES {
        let ticks = Limiter::ticking(Ticks::bucket(20, 5, ms(2))).unwrap();
        check(
            "ticks",
            threads,
            CALLS,
            || ticks.try_acquire(1).allowed,
            |span| 20 + 5 * (span / 2_000_000 + 1),
        );
        let window = Limiter::ticking(Ticks::window(20, ms(4))).unwrap();
        let ask = || window.try_acquire(1).allowed;
        check("a window of ticks", threads, CALLS, ask, |span| 20 * (span / 4_000_000 + 2));
        let line = || LeakyQueue::new("1000/s".parse().unwrap(), 10).unwrap();
        let asked = line();
        check("a line", threads, CALLS, || asked.try_acquire().allowed, |span| 11 + span.div_ceil(1_000_000));
        let waited = line();
        let wait = || waited.acquire().within(ms(3)).wait().is_ok();
        check("a line that is waited in", threads, CALLS / 100, wait, |span| 1 + span.div_ceil(1_000_000));
    }
}
