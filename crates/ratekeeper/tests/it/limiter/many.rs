//! A hundred thousand who wait for one limiter.

use std::task::Poll;

use ratekeeper::limiter::AcquireErrorKind;
use tokio::time::Instant;

use crate::limiter::support::{ONE, advance, failure, limiter, ms, poll, settle, since};
use test_support::random::Random;

const MANY: usize = 100_000;

#[tokio::test(start_paused = true)]
async fn a_random_half_gives_up_and_nobody_is_delayed() {
    // A thousand a second, a hundred at once: the hundred thousandth would be granted after 100 seconds.
    let limiter = limiter("1000/s burst 100");
    assert!(limiter.try_acquire(100).allowed);
    let start = Instant::now();
    let mut waiters: Vec<_> = (0..MANY).map(|_| limiter.acquire(ONE)).collect();
    assert!(waiters.iter_mut().all(|waiter| poll(waiter).is_pending()));
    settle().await;
    assert_eq!(limiter.statistics().queue_depth, MANY);
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks, 1, "one keeper of time for all of them");

    let mut random = Random::new(1);
    waiters.retain(|_| random.once_in(2));
    let stayed = waiters.len();
    assert_eq!(limiter.statistics().queue_depth, stayed);

    // They are granted in exact order, one every millisecond, as if the others had never come.
    let mut granted = 0;
    while granted < stayed {
        advance(ms(1_000)).await;
        let due = usize::try_from(since(start)).unwrap().min(stayed);
        for waiter in &mut waiters[granted..due] {
            assert!(poll(waiter).is_ready());
        }
        if let Some(next) = waiters.get_mut(due) {
            assert!(poll(next).is_pending());
        }
        granted = due;
    }
    let statistics = limiter.statistics();
    assert_eq!(statistics.acquired, 1 + stayed as u64);
    assert_eq!(statistics.cancelled, (MANY - stayed) as u64);
    assert_eq!((statistics.rejected, statistics.queue_depth), (0, 0));
    settle().await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0, "and then nobody");
}

#[tokio::test(start_paused = true)]
async fn deadlines_of_many_are_foreseen_one_step_each() {
    let limiter = limiter("1000/s burst 1");
    assert!(limiter.try_acquire(ONE).allowed);
    let mut waiters: Vec<_> = (0..MANY).map(|_| limiter.acquire(ONE).within(ms(50_000))).collect();
    let outcomes: Vec<_> = waiters.iter_mut().map(poll).collect();
    let pending = outcomes.iter().filter(|outcome| outcome.is_pending()).count();
    assert_eq!(pending, 50_000, "as many as can be served in fifty seconds");
    for outcome in outcomes.into_iter().skip(50_000) {
        let Poll::Ready(outcome) = outcome else { panic!("one waits that cannot be served in time") };
        assert_eq!(failure(outcome), AcquireErrorKind::Deadline);
    }
}
