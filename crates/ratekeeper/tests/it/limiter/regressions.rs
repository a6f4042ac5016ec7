//! Bugs that were found by reading; each test is named after what went wrong.

use std::sync::{Arc, OnceLock};
use std::thread;

use ratekeeper::limiter::{
    AcquireErrorKind, Concurrency, Inherit, Keyed, LeakyQueue, Limiter, Part, SetQuotaError, Ticks,
};
use ratekeeper::store::OnFull;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Cost, Nanos, Quota, Reason, Timestamp, all};
use tokio::time::Instant;

use test_support::wait::PATIENCE;

use crate::limiter::support::{ONE, advance, failure, failure_and_retry, limiter, ms, poll, since};

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
    drop(all![Part::from(&slots).cost(Cost::ZERO)].unwrap().try_acquire(ONE).unwrap());
    assert_eq!(slots.in_flight(), 1);
    assert!(slots.try_acquire().is_err());
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn more_permits_than_there_are_were_waited_for_for_ever() {
    let slots = Concurrency::new(2).unwrap();
    let five = all![Part::from(&slots).cost(Cost::new(5))].unwrap();
    let refusal = five.try_acquire(ONE).unwrap_err();
    assert_eq!(refusal.reason, Reason::NeverFits);
    assert_eq!(failure(five.acquire(ONE).await), AcquireErrorKind::NeverFits);

    let two = all![Part::from(&slots).cost(Cost::new(2))].unwrap();
    let held = slots.try_acquire().unwrap();
    let mut waiter = two.acquire(ONE);
    assert!(poll(&mut waiter).is_pending());
    slots.set_limit(1).unwrap();
    assert_eq!(failure(waiter.await), AcquireErrorKind::NeverFits);
    drop(held);
}

#[test]
fn a_cancelled_reservation_of_nothing_counted_below_zero() {
    let limiter = at(&clock(), "10/s");
    drop(limiter.reserve(Cost::ZERO).unwrap());
    let statistics = limiter.statistics();
    assert_eq!((statistics.acquired, statistics.cancelled), (0, 0));
    limiter.reserve(Cost::ZERO).unwrap().settle(Cost::new(3));
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
        assert_eq!(failure(polled.ready().await), AcquireErrorKind::NeverFits);
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

#[test]
fn a_key_without_room_changed_everybodys_quota() {
    let (keyed, _clock) = full(OnFull::Share);
    let quota = "50/m".parse().unwrap();
    let refused = keyed.set_quota(&2, quota, Inherit::Reset);
    let Err(SetQuotaError::Key(refused)) = refused else { panic!("{refused:?}") };
    assert_eq!(refused.kind(), AcquireErrorKind::TooManyKeys);
    assert_eq!(failure(keyed.limiter(&2)), AcquireErrorKind::TooManyKeys);
    assert_eq!(keyed.try_acquire(&3, ONE).limit, 2);
    keyed.limiter(&1).unwrap().close();
    assert!(keyed.try_acquire(&3, ONE).allowed, "another key's handle is no business of this one");
}

/// Room for one key, and that is taken.
fn full(on_full: OnFull) -> (Keyed<u32>, FakeClock) {
    let clock = clock();
    let builder = Keyed::builder("2/m".parse().unwrap()).max_keys(1).on_full(on_full).clock(clock.clone());
    let keyed = builder.build().unwrap();
    assert!(keyed.try_acquire(&1, Cost::new(2)).allowed);
    (keyed, clock)
}

#[test]
fn a_look_at_a_full_or_closed_table_disagreed_with_taking() {
    let (keyed, clock) = full(OnFull::Refuse);
    assert_eq!(keyed.peek(&2, ONE).reason, Reason::StoreFull);
    clock.advance(Nanos::from_secs(60));
    assert!(keyed.peek(&2, ONE).allowed, "the first can be forgotten by now");
    assert!(keyed.try_acquire(&2, Cost::new(2)).allowed);
    keyed.close();
    assert_eq!(keyed.peek(&3, ONE).reason, Reason::Closed);
    assert_eq!(keyed.try_acquire(&3, ONE).reason, Reason::Closed, "and not that there is no room");

    let (keyed, _clock) = full(OnFull::Share);
    assert!(keyed.try_acquire(&2, Cost::new(2)).allowed);
    assert_eq!((keyed.peek(&3, ONE).allowed, keyed.try_acquire(&3, ONE).allowed), (false, false));
    keyed.refund(&2, ONE);
    assert!(keyed.try_acquire(&3, ONE).allowed, "what one gives back the others may take");
}

#[test]
fn a_callback_that_asked_for_another_key_waited_for_itself_and_one_that_panicked_took_a_place() {
    let itself = Arc::new(OnceLock::<Keyed<u32>>::new());
    let asked = Arc::clone(&itself);
    let keyed = Keyed::builder("2/m".parse::<Quota>().unwrap())
        .quota_of(move |key| {
            if *key == 13 {
                std::panic::resume_unwind(Box::new(()));
            }
            assert!(asked.get().unwrap().statistics(key).is_none(), "its own part of the table");
            "3/m".parse().unwrap()
        })
        .build()
        .unwrap();
    assert!(itself.set(keyed.clone()).is_ok());
    for _ in 0..5 {
        let keyed = keyed.clone();
        assert!(thread::spawn(move || keyed.try_acquire(&13, ONE)).join().is_err());
    }
    assert_eq!(keyed.len(), 0);
    let (done, is_done) = std::sync::mpsc::channel();
    thread::spawn(move || done.send(keyed.try_acquire(&1, ONE).limit));
    assert_eq!(is_done.recv_timeout(PATIENCE), Ok(3));
}

#[test]
fn a_new_quota_for_ticks_did_nothing_but_send_waiters_away() {
    let clock = clock();
    let ticks = Limiter::ticking_builder(Ticks::bucket(4, 2, ms(1_000))).clock(clock).build().unwrap();
    assert!(ticks.try_acquire(Cost::new(4)).allowed);
    let waiting = ticks.reserve(Cost::new(3)).unwrap();
    let refused = ticks.set_quota("1/s".parse().unwrap(), Inherit::Keep);
    assert_eq!(refused, Err(SetQuotaError::NoQuota));
    assert_eq!(waiting.ready_in(), Some(Nanos::from_secs(2)));
}

#[tokio::test(start_paused = true)]
async fn one_that_was_called_in_vain_was_forgotten_until_its_deadline() {
    let (a, b, c) = (limiter("1/s burst 1"), Concurrency::new(1).unwrap(), limiter("1000/s"));
    let (older, younger) = (all![&a, &b].unwrap(), all![&a, &c].unwrap());
    let held = b.try_acquire().unwrap();
    let mut first = older.acquire(ONE);
    assert!(poll(&mut first).is_pending(), "at b: a has room");
    assert!(a.try_acquire(ONE).allowed);
    let mut second = younger.acquire(ONE).within(ms(10_000));
    assert!(poll(&mut second).is_pending(), "at a");
    advance(ms(1_000)).await;
    // The second is called now; but the first, which is older, comes before it.
    drop(held);
    assert!(poll(&mut first).is_ready());
    let start = Instant::now();
    drop(second.await.unwrap());
    assert_eq!(since(start), 1_000);
}

#[cfg(feature = "adaptive")]
#[test]
fn a_limit_set_by_hand_was_forgotten_with_the_next_permit() {
    use ratekeeper::limiter::Adaptive;
    use ratekeeper::limiter::PermitOutcome;
    let builder = Concurrency::builder("10 concurrent".parse().unwrap());
    let upstream = builder.adaptive(Adaptive::aimd().bounds(2, 50)).clock(clock()).build().unwrap();
    upstream.set_limit(30).unwrap();
    upstream.try_acquire().unwrap().finish(PermitOutcome::Success);
    assert_eq!(upstream.limit(), 30);
    upstream.set_limit(100).unwrap();
    assert_eq!(upstream.limit(), 50, "within its bounds");
}

#[test]
fn a_debt_took_a_place_in_the_queue() {
    let builder = Limiter::builder("10/s burst 10".parse().unwrap()).queue(1).clock(clock());
    let limiter = builder.build().unwrap();
    limiter.reserve(ONE).unwrap().settle(Cost::new(15));
    assert_eq!(limiter.statistics().queue_depth, 0);
    let waiting = limiter.reserve(ONE).unwrap();
    assert_eq!(limiter.statistics().queue_depth, 1);
    assert_eq!(failure(limiter.reserve(ONE)), AcquireErrorKind::QueueFull);
    drop(waiting);
}

#[test]
fn a_thread_behind_a_task_of_a_stalled_runtime_waited_for_ever() {
    let limiter = limiter("20/s burst 1");
    assert!(limiter.try_acquire(ONE).allowed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut head = limiter.acquire(ONE);
    // It arms the timer of a runtime that is not driven from then on. (On a very busy machine it may be granted at once.)
    let _ = runtime.block_on(async { poll(&mut head) });
    let (done, is_done) = std::sync::mpsc::channel();
    let other = limiter.clone();
    thread::spawn(move || done.send(other.acquire(ONE).wait().is_ok()));
    assert_eq!(is_done.recv_timeout(PATIENCE), Ok(true));
}

#[test]
fn a_reservation_could_not_be_waited_for_on_a_thread() {
    let limiter = limiter("1000/s burst 1");
    assert!(limiter.try_acquire(ONE).allowed);
    let mut call = limiter.reserve(ONE).unwrap();
    call.ready().wait().unwrap();
    assert_eq!(call.ready_in(), Some(Nanos::ZERO));
    call.settle(ONE);
    assert_eq!(limiter.statistics().acquired, 2);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_could_not_be_given_a_deadline() {
    let limiter = limiter("10/s burst 1");
    assert!(limiter.try_acquire(ONE).allowed);
    let start = Instant::now();
    let (mut first, mut second) = (limiter.reserve(ONE).unwrap(), limiter.reserve(ONE).unwrap());
    let too_late = (AcquireErrorKind::Deadline, Some(200));
    assert_eq!(failure_and_retry(second.ready().within(ms(199)).await), too_late);
    assert_eq!((since(start), second.ready_in()), (0, None));
    assert_eq!((limiter.statistics().queue_depth, limiter.statistics().rejected), (1, 1));
    // In time as far as could be foreseen; but then something is paid first that nobody knew of.
    let mut waiting = first.ready().within(ms(150));
    assert!(poll(&mut waiting).is_pending());
    second.settle(ONE);
    let waited = first.ready().await;
    let too_late = (AcquireErrorKind::Deadline, Some(50));
    assert_eq!((failure_and_retry(waited), since(start)), (too_late, 150));
}

#[tokio::test(start_paused = true)]
async fn a_late_grant_was_forgotten_in_what_the_others_were_told() {
    for quota in ["10/s burst 1", "10/s burst 1 bucket", "10/s burst 1 leaky"] {
        let clock = clock();
        let limiter = at(&clock, quota);
        assert!(limiter.try_acquire(ONE).allowed);
        let waiting = [limiter.reserve(ONE).unwrap(), limiter.reserve(ONE).unwrap()];
        assert_eq!(limiter.try_acquire(ONE).retry_after, Some(Nanos::from_millis(300)), "{quota}");
        clock.advance(Nanos::from_millis(150));
        let told = limiter.try_acquire(ONE).retry_after;
        assert_eq!(told, Some(Nanos::from_millis(200)), "{quota}: the first came 50 ms late");
        drop(waiting);
    }
    // With room for more, what comes in while the first is late is there for the others.
    let clock = clock();
    let limiter = at(&clock, "10/s burst 5");
    assert!(limiter.try_acquire(Cost::new(5)).allowed);
    let waiting = [limiter.reserve(ONE).unwrap(), limiter.reserve(Cost::new(4)).unwrap()];
    assert_eq!(limiter.try_acquire(ONE).retry_after, Some(Nanos::from_millis(600)));
    clock.advance(Nanos::from_millis(150));
    assert_eq!(limiter.try_acquire(ONE).retry_after, Some(Nanos::from_millis(450)));
    drop(waiting);
}
