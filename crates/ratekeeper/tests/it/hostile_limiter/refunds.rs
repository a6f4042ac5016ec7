//! What is given back late must not be admitted twice.

use ratekeeper::limiter::{Inherit, Keyed, LeakyQueue, Limiter, Reservation, Ticks};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Charged, Cost, Nanos};

use crate::hostile_limiter::support::{QUOTAS, at, clock, ms};
use test_support::bound::{Admission, Bound, breach};
use test_support::cases::each_seed;
use test_support::random::Random;

const ONE: Cost = Cost::ONE;

/// How many pass now.
fn drain(limiter: &Limiter) -> u64 {
    (0..100_000).take_while(|_| limiter.try_acquire(ONE).allowed).count() as u64
}

#[test]
fn a_reservation_of_an_earlier_slot_admitted_191() {
    let clock = clock();
    let limiter = at(&clock, "100/s sliding");
    let reservation = limiter.reserve(Cost::new(91)).unwrap();
    clock.advance(Nanos::from_millis(1_999));
    let before = drain(&limiter);
    drop(reservation);
    // A thousandth of the slot before still counts: what was charged in it is all that can be given back.
    let after = drain(&limiter);
    assert!(before + after <= 100, "{before} and {after}");

    let limiter = at(&clock, "100/s sliding");
    let reservation = limiter.reserve(Cost::new(100)).unwrap();
    clock.advance(Nanos::from_millis(2_500));
    assert_eq!(drain(&limiter), 100);
    drop(reservation);
    assert_eq!(drain(&limiter), 0, "its slot is older than the previous one");
}

#[test]
fn a_reservation_took_the_newest_entries_out_of_the_log() {
    let clock = clock();
    let limiter = at(&clock, "100 per 1s log");
    let reservation = limiter.reserve(Cost::new(50)).unwrap();
    clock.advance(Nanos::from_millis(900));
    assert!(limiter.try_acquire(Cost::new(50)).allowed);
    // The fifty of the reservation leave the log, not those that were taken just now.
    clock.advance(Nanos::from_millis(90));
    drop(reservation);
    assert_eq!(drain(&limiter), 50);
    clock.advance(Nanos::from_millis(20));
    assert_eq!(drain(&limiter), 0, "fifty at 900 ms and fifty at 990 ms are within the second");
}

#[test]
fn a_reservation_that_was_cancelled_after_a_reset_minted() {
    for quota in QUOTAS {
        for how in ["drop", "settle"] {
            for reset in ["reset", "set_quota"] {
                let clock = clock();
                let limiter = at(&clock, quota);
                let held: Vec<Reservation> = (0..2).map(|_| limiter.reserve(Cost::new(5)).unwrap()).collect();
                match reset {
                    "reset" => limiter.reset(),
                    _ => limiter.set_quota(quota.parse().unwrap(), Inherit::Reset).unwrap(),
                }
                assert_eq!(drain(&limiter), 10, "{quota}: all of it was forgotten");
                for reservation in held {
                    match how {
                        "drop" => drop(reservation),
                        _ => reservation.settle(Cost::ZERO),
                    }
                    assert_eq!(drain(&limiter), 0, "{quota}, {how} after {reset}: given back twice");
                }
            }
        }
    }
    let clock = clock();
    let ticks =
        Limiter::ticking_builder(Ticks::bucket(10, 1, ms(1_000))).clock(clock.clone()).build().unwrap();
    let held = ticks.reserve(Cost::new(10)).unwrap();
    ticks.reset();
    assert_eq!(drain(&ticks), 10);
    drop(held);
    assert_eq!(drain(&ticks), 0);
}

#[test]
fn a_grant_that_was_not_taken_up_minted_after_a_reset() {
    for quota in QUOTAS {
        let clock = clock();
        let limiter = at(&clock, quota);
        assert!(limiter.try_acquire(Cost::new(10)).allowed);
        let waiting = limiter.reserve(Cost::new(8)).unwrap();
        clock.advance(Nanos::from_secs(30));
        assert_eq!(waiting.ready_in(), Some(Nanos::ZERO), "{quota}");
        limiter.reset();
        assert_eq!(drain(&limiter), 10);
        drop(waiting);
        assert_eq!(drain(&limiter), 0, "{quota}");
    }
}

#[test]
fn a_refund_that_is_told_when_gives_back_what_is_left() {
    let left = [
        ("10 per 10s", 4),
        ("10 per 10s bucket", 4),
        ("10 per 10s leaky", 4),
        ("10 per 10s fixed", 10),
        ("10 per 10s sliding", 10),
        ("10 per 10s log", 10),
    ];
    for (quota, expected) in left {
        let clock = clock();
        let limiter = at(&clock, quota);
        let charged_at = limiter.try_acquire(Cost::new(10)).charged_at().expect("it was charged");
        clock.advance(Nanos::from_secs(6));
        let refilled = drain(&limiter);
        limiter.refund_charged(Cost::new(10), Charged::at(charged_at));
        assert_eq!(drain(&limiter), expected, "{quota}: {refilled} had come in again");
        limiter.reset();
        assert!(limiter.try_acquire(Cost::new(10)).allowed);
        limiter.refund_charged(Cost::new(10), Charged::at(charged_at));
        assert_eq!(drain(&limiter), 0, "{quota}: it was charged before the reset");
    }
    let clock = clock();
    let keyed: Keyed<u32> =
        Keyed::builder("10 per 10s".parse().unwrap()).clock(clock.clone()).build().unwrap();
    assert!(keyed.try_acquire(&1, 10).allowed);
    clock.advance(Nanos::from_secs(6));
    assert!(keyed.try_acquire(&1, 6).allowed);
    keyed.refund_charged(&1, 10, Charged::ago(Nanos::from_secs(6)));
    assert_eq!(keyed.peek(&1, 1).remaining, 4);
    keyed.refund(&1, 6);
    assert_eq!(keyed.peek(&1, 1).remaining, 10, "charged just now");
}

#[test]
fn every_decision_says_when_it_was_charged() {
    let clock = clock();
    for quota in QUOTAS {
        let limiter = at(&clock, quota);
        let now = Some(ratekeeper::port::Clock::now(&clock));
        assert_eq!(limiter.try_acquire(1).charged_at(), now, "{quota}");
        assert_eq!(limiter.acquire(1).wait().unwrap().charged_at(), now, "{quota}");
        assert_eq!(limiter.peek(1).charged_at(), None, "{quota}");
        assert_eq!(limiter.try_acquire(0).charged_at(), None, "{quota}");
        assert_eq!(limiter.try_acquire(10).charged_at(), None, "{quota}: refused");
    }
    let line = LeakyQueue::with_clock("10/s".parse().unwrap(), 4, clock.clone()).unwrap();
    assert!(line.try_acquire().charged_at().is_some());
}

/// Reservations of any age, cancelled or settled in any order, among others who take what they can: what was used in
/// the end, in any span, is no more than one caller would have got.
#[test]
fn with_refunds_of_any_age_no_span_has_more_than_the_quota() {
    each_seed(120, |seed| {
        for quota in QUOTAS {
            let used = random_life(quota, &clock(), &mut Random::new(seed));
            let bound = Bound::of(&quota.parse().unwrap());
            if let Some(breach) = breach(&used, |span| bound.exactly(span)) {
                panic!("{quota}, seed {seed}: {breach}");
            }
        }
    });
}

/// What was used in the end, at the instants at which it was charged.
fn random_life(quota: &str, clock: &FakeClock, dice: &mut Random) -> Vec<Admission> {
    let limiter = at(clock, quota);
    let charge =
        |at: Nanos, cost| Admission { before: at.as_nanos(), after: at.as_nanos(), cost, refunded: None };
    let mut used: Vec<Admission> = Vec::new();
    let mut held: Vec<(usize, Reservation, u64)> = Vec::new();
    let mut now = Nanos::ZERO;
    for _ in 0..80 {
        match dice.below(5) {
            0 => {
                let step = Nanos::from_millis(dice.below(4_000));
                clock.advance(step);
                now = now.saturating_add(step);
            }
            1 => {
                let cost = 1 + dice.below(10);
                if limiter.peek(Cost::new(cost)).allowed {
                    held.push((used.len(), limiter.reserve(Cost::new(cost)).unwrap(), cost));
                    used.push(charge(now, cost));
                }
            }
            2 if !held.is_empty() => {
                let (number, reservation, cost) = held.swap_remove(dice.index(held.len()));
                match dice.below(2) {
                    0 => {
                        drop(reservation);
                        used[number].cost = 0;
                    }
                    _ => {
                        let actual = dice.below(cost + 1);
                        reservation.settle(Cost::new(actual));
                        used[number].cost = actual;
                    }
                }
            }
            _ => {
                let cost = 1 + dice.below(3);
                if limiter.try_acquire(Cost::new(cost)).allowed {
                    used.push(charge(now, cost));
                }
            }
        }
    }
    for (_, reservation, cost) in held {
        reservation.settle(Cost::new(cost));
    }
    used
}
