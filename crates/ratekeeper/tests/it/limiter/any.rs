//! What every limiter says and takes alike: costs, refusals, and code that does not care which it is.

use ratekeeper::limiter::{AcquireErrorKind, AnyLimiter, Concurrency, Keyed, LeakyQueue, LimiterKind, Ticks};
use ratekeeper::port::Clock;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Cost, Limiter, Nanos, Reason, Timestamp, all};

use test_support::wait::PATIENCE;

use crate::limiter::support::{ONE, limiter, ms, poll};

/// Costs that are numbers are as good as costs.
#[test]
fn a_number_is_a_cost() {
    let limiter = limiter("10/h");
    assert!(limiter.try_acquire(1).allowed && limiter.try_acquire(Cost::new(2)).allowed);
    let cost = 3;
    limiter.acquire(cost).wait().unwrap();
    limiter.refund(1_u64);
    limiter.reserve(2).unwrap().settle(1);
    assert_eq!(limiter.peek(1).remaining, 4);
}

/// Every refusal says by which sort of limiter, and when to come back; then there is room.
#[test]
fn every_refusal_says_who_and_when() {
    let clock = FakeClock::at(Timestamp::from_secs(1_000_000));
    let of_quota = |quota: &str| Limiter::builder(quota.parse().unwrap()).queue(1).clock(clock.clone());
    let ticks = Limiter::ticking_builder(Ticks::bucket(1, 1, ms(1_000))).queue(1).clock(clock.clone());
    let line = LeakyQueue::with_clock("1/s".parse().unwrap(), 1, clock.clone()).unwrap();
    let slots =
        Concurrency::builder("1 concurrent".parse().unwrap()).queue(1).clock(clock.clone()).build().unwrap();
    let (gcra, fixed) = (of_quota("1/s").build().unwrap(), of_quota("1 per 1s fixed").build().unwrap());
    let ticks = ticks.build().unwrap();
    let limiters: [(&dyn AnyLimiter, LimiterKind, Option<u64>); 5] = [
        (&gcra, LimiterKind::Rate, Some(1)),
        (&fixed, LimiterKind::Rate, Some(1)),
        (&ticks, LimiterKind::Ticks, Some(1)),
        (&line, LimiterKind::LeakyQueue, Some(1)),
        (&slots, LimiterKind::Concurrency, None),
    ];
    for (limiter, kind, seconds) in limiters {
        assert_eq!(limiter.kind(), kind);
        let granted = limiter.try_acquire(ONE).unwrap();
        let mut first = limiter.acquire(ONE);
        assert!(poll(&mut first).is_pending(), "{kind}");
        let full = limiter.acquire(ONE).wait().unwrap_err();
        assert_eq!((full.kind(), full.limiter()), (AcquireErrorKind::QueueFull, kind));
        assert_eq!(full.retry_after().map(Nanos::ceil_secs), seconds, "{kind}");
        let text = format!("{kind} limiter: queue is full: 1 caller is waiting (limit 1)");
        assert!(full.is_transient() && full.to_string().starts_with(&text), "{full}");
        let refusal = limiter.try_acquire(ONE).unwrap_err();
        assert_eq!((refusal.allowed, refusal.reason), (false, Reason::Queued), "{kind}");
        match seconds {
            Some(seconds) => clock.advance(Nanos::from_secs(seconds)),
            None => drop(granted),
        }
        let mut second = limiter.acquire(ONE);
        assert!(poll(&mut second).is_pending(), "{kind}: there is room now");
        drop((first, second));
        limiter.close();
        let closed = limiter.acquire(ONE).wait().unwrap_err();
        assert_eq!(
            (closed.kind(), closed.limiter(), closed.retry_after()),
            (AcquireErrorKind::Closed, kind, None)
        );
        assert!(limiter.is_closed() && !closed.is_transient());
        assert!(limiter.statistics().rejected >= 3, "{kind}");
    }
}

#[test]
fn code_that_does_not_care_takes_any_limiter() {
    fn both_ways<L: AnyLimiter + ?Sized>(limiter: &L) -> u64 {
        let granted = limiter.try_acquire(ONE).unwrap();
        granted.finish(ratekeeper::limiter::PermitOutcome::Success);
        drop(limiter.acquire(ONE).within(PATIENCE).wait().unwrap());
        limiter.statistics().acquired
    }
    let (rate, slots) = (Limiter::new("10/s".parse().unwrap()).unwrap(), Concurrency::new(1).unwrap());
    let keyed: Keyed<String> = Keyed::new("10/s".parse().unwrap()).unwrap();
    let all = all![&rate, &slots].unwrap();
    let boxed: std::sync::Arc<dyn AnyLimiter> = std::sync::Arc::new(all.clone());
    assert_eq!((both_ways(&slots), both_ways(&all), both_ways(&*boxed), both_ways(&boxed)), (2, 2, 4, 6));
    assert_eq!(both_ways(&keyed.limiter("ann").unwrap()), 2);
    assert_eq!(both_ways(&LeakyQueue::new("100/s".parse().unwrap(), 5).unwrap()), 2);
    assert_eq!(slots.in_flight(), 0);
    // Asking takes nothing, not even a permit.
    let asked = all.try_acquire(0).unwrap();
    assert_eq!(slots.in_flight(), 0);
    drop(asked);
    drop(AnyLimiter::try_acquire(&slots, Cost::ZERO).unwrap());
    assert_eq!((slots.in_flight(), rate.statistics().acquired), (0, 6));
}

#[test]
fn who_waited_for_any_limiter_is_told_what_was_decided_and_not_what_is_so_later() {
    let clock = FakeClock::at(Timestamp::from_secs(1_000_000));
    let rate = Limiter::builder("10/s".parse().unwrap()).clock(clock.clone()).build().unwrap();
    let line = LeakyQueue::with_clock("1/s".parse().unwrap(), 1, clock.clone()).unwrap();
    let slots = Concurrency::builder("2 concurrent".parse().unwrap()).clock(clock.clone()).build().unwrap();
    let all = all![&rate, &slots].unwrap();
    for limiter in [&rate as &dyn AnyLimiter, &line, &slots, &all] {
        let granted = limiter.acquire(ONE).wait().unwrap();
        let decision = granted.decision();
        assert_eq!((decision.allowed, decision.charged_at()), (true, Some(clock.now())), "{limiter:?}");
    }
    let (first, second) = (slots.try_acquire().unwrap(), slots.try_acquire().unwrap());
    let mut third = AnyLimiter::acquire(&slots, ONE);
    assert!(poll(&mut third).is_pending());
    drop(first);
    let called_at = clock.now();
    clock.advance(Nanos::from_secs(1));
    let std::task::Poll::Ready(Ok(granted)) = poll(&mut third) else { panic!("there was a permit") };
    assert_eq!((granted.decision().charged_at(), granted.decision().remaining), (Some(called_at), 0));
    drop((second, granted));
    assert_eq!(slots.in_flight(), 0);
}
