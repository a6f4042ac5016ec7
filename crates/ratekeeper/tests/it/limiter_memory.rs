//! What waiting costs in memory, and that not waiting costs none.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use allocation_counter::measure;
use ratekeeper::limiter::{Acquire, Concurrency};
use ratekeeper::{Cost, Limiter};

const MANY: usize = 100_000;

fn is_pending(acquire: &mut Acquire<'_>) -> bool {
    Pin::new(acquire).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[test]
fn a_free_limiter_allocates_nothing_and_needs_no_runtime() {
    for quota in ["1000000/s", "1000000/s bucket", "1000000/s leaky", "1000000/s fixed", "1000000/s sliding"]
    {
        let limiter = Limiter::new(quota.parse().unwrap()).unwrap();
        let permits = Concurrency::new(1).unwrap();
        let allocated = measure(|| {
            for _ in 0..100 {
                // Polled outside of any runtime: had it touched a timer, there would be none.
                assert!(!is_pending(&mut limiter.acquire(Cost::ONE)));
                assert!(limiter.acquire(Cost::ONE).wait().is_ok());
                assert!(limiter.try_acquire(Cost::ONE).allowed);
                assert!(permits.try_acquire().is_ok());
            }
        });
        assert_eq!(allocated.count_total, 0, "{quota}");
    }
}

/// The room to count by thread, and nothing else: each limiter used to ask the system anew how many cores there are, which reads
/// and parses files.
#[test]
fn a_second_thread_allocates_once() {
    let ask = |limiter: &Limiter| assert!(limiter.try_acquire(Cost::ONE).allowed);
    let limiters = [(); 2].map(|()| Limiter::new("9/s".parse().unwrap()).unwrap());
    limiters.iter().for_each(ask);
    let second = || {
        // The first time, the thread gets its number, and the process looks at its cores.
        ask(&limiters[0]);
        let allocated = measure(|| ask(&limiters[1]));
        assert_eq!(measure(|| ask(&limiters[1])).count_total, 0);
        allocated.count_total
    };
    assert_eq!(std::thread::scope(|scope| scope.spawn(second).join().unwrap()), 1);
}

#[test]
fn a_waiter_takes_less_than_200_bytes() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let limiter = Limiter::new("1/s burst 1".parse().unwrap()).unwrap();
        assert!(limiter.try_acquire(Cost::ONE).allowed);
        let mut waiters = Vec::new();
        let allocated = measure(|| {
            waiters.reserve_exact(MANY);
            waiters.extend((0..MANY).map(|_| limiter.acquire(Cost::ONE)));
            assert!(waiters.iter_mut().all(is_pending));
        });
        let each = allocated.bytes_current / i64::try_from(MANY).unwrap();
        assert!(each < 200, "{each} bytes for the future and its slot in the queue");
    });
}
