//! Bugs that were found by reading; each test is named after what went wrong.

use std::task::Poll;

use ratekeeper::limiter::{AcquireError, Concurrency, Inherit, LeakyQueue, Limiter, Part, Ticks};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Cost, Nanos, Reason, Timestamp, all};

use crate::support::{ONE, ms, poll};

fn clock() -> FakeClock {
    FakeClock::at(Timestamp::from_secs(1_000))
}

fn at(clock: &FakeClock, quota: &str) -> Limiter {
    Limiter::builder(quota.parse().unwrap()).clock(clock.clone()).build().unwrap()
}

#[test]
fn a_part_of_three_permits_gave_back_one() {
    let slots = Concurrency::new(3).unwrap();
    let three = all![Part::from(&slots).cost(Cost::new(3))].unwrap();
    for _ in 0..2 {
        let granted = three.try_acquire(ONE).unwrap();
        assert_eq!(slots.in_flight(), 3);
        drop(granted);
        assert_eq!(slots.in_flight(), 0);
    }
    drop(three.acquire(ONE).wait().unwrap());
    assert_eq!(slots.in_flight(), 0);
}

#[test]
fn a_part_that_took_no_permit_gave_back_somebody_elses() {
    let slots = Concurrency::new(1).unwrap();
    let held = slots.try_acquire().unwrap();
    drop(all![Part::from(&slots).cost(Cost::PEEK)].unwrap().try_acquire(ONE).unwrap());
    assert_eq!(slots.in_flight(), 1);
    assert!(slots.try_acquire().is_none());
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn more_permits_than_there_are_were_waited_for_for_ever() {
    let slots = Concurrency::new(2).unwrap();
    let five = all![Part::from(&slots).cost(Cost::new(5))].unwrap();
    let refusal = five.try_acquire(ONE).unwrap_err();
    assert_eq!(refusal.refused().next().unwrap().1.reason, Reason::NeverFits);
    let mut waiter = five.acquire(ONE);
    assert!(matches!(poll(&mut waiter), Poll::Ready(Err(AcquireError::NeverFits))));

    let two = all![Part::from(&slots).cost(Cost::new(2))].unwrap();
    let held = slots.try_acquire().unwrap();
    let mut waiter = two.acquire(ONE);
    assert!(poll(&mut waiter).is_pending());
    slots.set_limit(1).unwrap();
    assert!(matches!(poll(&mut waiter), Poll::Ready(Err(AcquireError::NeverFits))));
    drop(held);
}

#[test]
fn a_cancelled_reservation_of_nothing_counted_below_zero() {
    let limiter = at(&clock(), "10/s");
    drop(limiter.reserve(Cost::PEEK).unwrap());
    let statistics = limiter.statistics();
    assert_eq!((statistics.acquired, statistics.cancelled), (0, 0));
    limiter.reserve(Cost::PEEK).unwrap().settle(Cost::new(3));
    assert_eq!(limiter.peek(ONE).remaining, 7);
}

#[tokio::test(start_paused = true)]
async fn a_failed_reservation_said_it_was_ready_and_was_settled_for_nothing() {
    let clock = clock();
    let limiter = at(&clock, "10/s burst 10");
    assert!(limiter.try_acquire(Cost::new(10)).allowed);
    let (mut polled, unpolled) =
        (limiter.reserve(Cost::new(8)).unwrap(), limiter.reserve(Cost::new(8)).unwrap());
    limiter.set_quota("10/s burst 4".parse().unwrap(), Inherit::Keep).unwrap();
    for _ in 0..2 {
        assert_eq!(polled.ready().await, Err(AcquireError::NeverFits));
        assert_eq!(polled.ready_in(), None);
    }
    polled.settle(Cost::new(2));
    unpolled.settle(Cost::new(1));
    clock.advance(Nanos::from_millis(400));
    assert_eq!(limiter.try_acquire(ONE).remaining, 0, "three of the four that came in were owed");
    assert!(!limiter.try_acquire(ONE).allowed);
}

#[test]
fn a_cancelled_reservation_gave_back_what_had_leaked() {
    for quota in ["10/s burst 10", "10/s burst 10 bucket", "10/s burst 10 leaky"] {
        let clock = clock();
        let limiter = at(&clock, quota);
        let reservation = limiter.reserve(Cost::new(10)).unwrap();
        clock.advance(Nanos::from_secs(1));
        assert!(limiter.try_acquire(Cost::new(10)).allowed, "{quota}");
        drop(reservation);
        assert!(!limiter.try_acquire(ONE).allowed, "{quota}: it had leaked");

        // What has not leaked comes back: 7.5 of 10, of which others have taken 2.
        let limiter = at(&clock, quota);
        let reservation = limiter.reserve(Cost::new(10)).unwrap();
        clock.advance(Nanos::from_millis(250));
        assert!(limiter.try_acquire(Cost::new(2)).allowed, "{quota}");
        drop(reservation);
        assert!(limiter.try_acquire(Cost::new(8)).allowed, "{quota}");
        assert!(!limiter.try_acquire(ONE).allowed, "{quota}");

        // Cancelled at once, in any order: all of it.
        let limiter = at(&clock, quota);
        let (one, other) = (limiter.reserve(Cost::new(4)).unwrap(), limiter.reserve(Cost::new(6)).unwrap());
        drop(other);
        drop(one);
        assert!(limiter.try_acquire(Cost::new(10)).allowed, "{quota}");
    }
}

#[test]
fn a_cancelled_reservation_of_ticks_gave_back_what_had_come_in_again() {
    let clock = clock();
    let ticks =
        Limiter::ticking_builder(Ticks::bucket(4, 2, ms(1_000))).clock(clock.clone()).build().unwrap();
    let reservation = ticks.reserve(Cost::new(4)).unwrap();
    clock.advance(Nanos::from_secs(2));
    assert!(ticks.try_acquire(Cost::new(4)).allowed);
    drop(reservation);
    assert!(!ticks.try_acquire(ONE).allowed);
}

#[tokio::test(start_paused = true)]
async fn an_uncollected_grant_gave_back_what_had_leaked() {
    let clock = clock();
    let limiter = at(&clock, "10/s burst 10");
    assert!(limiter.try_acquire(Cost::new(10)).allowed);
    let mut waiter = limiter.acquire(Cost::new(10));
    assert!(poll(&mut waiter).is_pending());
    clock.advance(Nanos::from_secs(1));
    assert!(!limiter.try_acquire(ONE).allowed, "granted, and not taken up");
    clock.advance(Nanos::from_secs(1));
    assert!(limiter.try_acquire(Cost::new(10)).allowed);
    drop(waiter);
    assert!(!limiter.try_acquire(ONE).allowed);

    let line = LeakyQueue::with_clock("1/s".parse().unwrap(), 4, clock.clone()).unwrap();
    assert!(line.try_acquire().allowed);
    let mut waiter = line.acquire();
    assert!(poll(&mut waiter).is_pending());
    clock.advance(Nanos::from_secs(1));
    assert_eq!(line.statistics().queue_depth, 1);
    assert!(line.try_acquire().allowed, "it lets the waiter go first");
    clock.advance(Nanos::from_secs(2));
    assert!(line.try_acquire().allowed);
    let places = line.statistics().available;
    drop(waiter);
    assert_eq!(line.statistics().available, places);
}
