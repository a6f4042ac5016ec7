//! What the tests share.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ratekeeper::limiter::{AcquireError, AcquireErrorKind};
use ratekeeper::{Cost, Limiter, Nanos};
use tokio::time::Instant;

pub(crate) fn limiter(quota: &str) -> Limiter {
    Limiter::new(quota.parse().unwrap()).unwrap()
}

pub(crate) const ONE: Cost = Cost::ONE;

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Milliseconds since then, on paused time: exact.
pub(crate) fn since(start: Instant) -> u128 {
    let elapsed = start.elapsed();
    assert_eq!(elapsed.subsec_nanos() % 1_000_000, 0, "paused time moves by whole milliseconds: {elapsed:?}");
    elapsed.as_millis()
}

/// How it failed.
pub(crate) fn failure<T>(outcome: Result<T, AcquireError>) -> AcquireErrorKind {
    outcome.err().expect("it was granted").kind()
}

/// How it failed, and when to try again, in milliseconds.
pub(crate) fn failure_and_retry<T>(outcome: Result<T, AcquireError>) -> (AcquireErrorKind, Option<u64>) {
    let error = outcome.err().expect("it was granted");
    (error.kind(), error.retry_after().map(Nanos::ceil_millis))
}

/// Polls once, with nobody to be woken.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets paused time pass, from one timer to the next: everything that is due happens when it is due.
pub(crate) async fn advance(by: Duration) {
    let _ = tokio::time::timeout(by, std::future::pending::<()>()).await;
    settle().await;
}

/// Lets every task that can run do so.
pub(crate) async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}
