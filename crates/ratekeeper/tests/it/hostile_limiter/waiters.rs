//! Many waiters: when one of them leaves, what the others are told stays right.

use std::time::Duration;

use ratekeeper::limiter::{AcquireErrorKind, Keyed, LimiterKind};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Cost, Nanos, Reason};

use crate::hostile_limiter::support::{at, clock, poll};

const ONE: Cost = Cost::ONE;
const MANY: usize = 100_000;

#[test]
fn after_any_waiter_left_denials_and_deadlines_count_those_that_stay() {
    for quota in [
        "1/s burst 1",
        "1/s burst 1 bucket",
        "1/s leaky",
        "1 per 1s fixed",
        "1 per 1s sliding",
        "1 per 1s log",
    ] {
        let limiter = at(&clock(), quota);
        assert!(limiter.try_acquire(ONE).allowed);
        let mut waiting: Vec<_> = (0..MANY).map(|_| Some(limiter.acquire(ONE))).collect();
        assert!(waiting.iter_mut().flatten().all(|waiter| poll(waiter).is_pending()));
        for number in 0..100 {
            waiting[number * 997].take();
            let refused = limiter.try_acquire(ONE);
            assert_eq!(refused.reason, Reason::Queued);
            let seconds = refused.retry_after.unwrap().ceil_secs();
            let waiting = (MANY - number) as u64;
            // For windows it is an estimate, never too late: at most a slot too early.
            assert!((waiting - 2..=waiting + 1).contains(&seconds), "{quota}: {seconds} s, {waiting} wait");
        }
        // The same for a deadline that must be foreseen.
        for number in 0..100 {
            waiting[number * 991 + 1].take();
            assert!(poll(&mut limiter.acquire(ONE).within(Duration::from_secs(5))).is_ready());
        }
    }
}

#[test]
fn reservations_that_are_not_awaited_are_queued_and_leave() {
    let limiter = at(&clock(), "1/s burst 1");
    assert!(limiter.try_acquire(ONE).allowed);
    let mut waiting: Vec<_> = (0..MANY).map(|_| Some(limiter.reserve(ONE).unwrap())).collect();
    for number in 0..100 {
        waiting[number * 997].take();
        let denied = limiter.try_acquire(ONE);
        let seconds = denied.retry_after.unwrap().ceil_secs();
        assert_eq!((denied.reason, seconds), (Reason::Queued, (MANY - number) as u64));
    }
}

#[test]
fn a_key_that_was_given_back_to_by_its_handle_was_not_forgotten_for_hours() {
    let full = || {
        let clock = clock();
        let builder = Keyed::<u32>::builder("2/day".parse().unwrap()).max_keys(1).clock(clock.clone());
        (builder.build().unwrap(), clock)
    };
    let goes = |keyed: Keyed<u32>, clock: FakeClock, how: &str| {
        clock.advance(Nanos::from_millis(1));
        assert!(keyed.try_acquire(&2, ONE).allowed, "{how}: the first key is as good as fresh");
    };
    for how in ["cancelled", "settled", "refunded", "reset", "not taken up", "many times"] {
        let (keyed, clock) = full();
        let handle = keyed.limiter(&1).unwrap();
        let reservation = handle.reserve(ONE).unwrap();
        // A new key makes it look, and it finds that the other lasts for half a day.
        assert_eq!(keyed.try_acquire(&2, ONE).reason, Reason::StoreFull);
        match how {
            "cancelled" => drop(reservation),
            "settled" => reservation.settle(Cost::ZERO),
            "refunded" => {
                reservation.settle(ONE);
                handle.refund(ONE);
            }
            "reset" => {
                reservation.settle(ONE);
                handle.reset();
            }
            "not taken up" => {
                reservation.settle(Cost::new(2));
                let waiting = handle.reserve(ONE).unwrap();
                clock.advance(Nanos::from_secs(86_400));
                assert_eq!(waiting.ready_in(), Some(Nanos::ZERO));
                assert_eq!(keyed.try_acquire(&2, ONE).reason, Reason::StoreFull);
                drop(waiting);
            }
            _ => {
                reservation.settle(Cost::ZERO);
                for _ in 0..1_000 {
                    assert_eq!(keyed.try_acquire(&2, ONE).reason, Reason::StoreFull, "it is held");
                    assert!(handle.try_acquire(ONE).allowed);
                    assert_eq!(keyed.try_acquire(&2, ONE).reason, Reason::StoreFull);
                    handle.refund(ONE);
                }
            }
        }
        drop(handle);
        goes(keyed, clock, how);
    }
}

#[test]
fn a_full_table_tells_when_a_key_may_go() {
    let clock = clock();
    let keyed =
        Keyed::<u32>::builder("2/m".parse().unwrap()).max_keys(1).clock(clock.clone()).build().unwrap();
    assert!(keyed.try_acquire(&1, 2).allowed);
    assert!(!keyed.try_acquire(&2, 1).allowed);
    let error = keyed.acquire(&2, 1).wait().unwrap_err();
    assert_eq!((error.kind(), error.limiter()), (AcquireErrorKind::TooManyKeys, LimiterKind::Keyed));
    let wait = error.retry_after().unwrap();
    assert_eq!(wait, Nanos::from_secs(60));
    clock.advance(wait);
    assert!(keyed.try_acquire(&2, 1).allowed);
}
