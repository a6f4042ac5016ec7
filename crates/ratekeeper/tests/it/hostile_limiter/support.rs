//! Shared helpers.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use ratekeeper::testkit::FakeClock;
use ratekeeper::{Limiter, Timestamp};
use test_support::wait::PATIENCE;

/// Six algorithms, with a limit of ten each and a window or refill of ten seconds.
pub(crate) const QUOTAS: [&str; 6] = [
    "10 per 10s",
    "10 per 10s bucket",
    "10 per 10s leaky",
    "10 per 10s fixed",
    "10 per 10s sliding",
    "10 per 10s log",
];

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn limiter(quota: &str) -> Limiter {
    Limiter::new(quota.parse().unwrap()).unwrap()
}

pub(crate) fn clock() -> FakeClock {
    FakeClock::at(Timestamp::from_secs(1_000_000))
}

pub(crate) fn at(clock: &FakeClock, quota: &str) -> Limiter {
    Limiter::builder(quota.parse().unwrap()).clock(clock.clone()).build().unwrap()
}

/// Does the work on a thread of its own and panics if it hangs.
pub(crate) fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = mpsc::channel();
    let worker = thread::spawn(move || {
        let result = work();
        let _ = done.send(());
        result
    });
    match is_done.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: not done after {PATIENCE:?}"),
        // The work is done or has panicked.
        _ => match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        },
    }
}

/// A runtime of one thread, which has to be driven.
pub(crate) fn current_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

pub(crate) fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

pub(crate) fn multi_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

/// Lets paused time pass, from one timer to the next.
pub(crate) async fn passes(time: Duration) {
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}

/// Polls once with a waker that does nothing.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}
