//! Whether the store answers: probed seldom, and the answer is shared by all callers.
//!
//! Readiness needs no token, so anybody who can connect may ask as often as they like. If each answer cost the store a
//! question, a flood of `GET /ready` would be a flood for Redis too.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ratekeeper::StoreError;
use tokio::time::Instant;

/// How long a store that answered is not asked again.
const FRESH: Duration = Duration::from_secs(1);
/// How long a store that failed is not asked again: shorter, so that its return is noticed soon.
const FRESH_FAILURE: Duration = Duration::from_millis(200);

/// The last answer of the store, shared by all callers on all event loops.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    last: Mutex<Option<CachedProbe>>,
    /// Held by the caller that probes the store. The others wait for its answer; if it is dropped, the next one probes.
    asking: tokio::sync::Mutex<()>,
}

/// What the last probe of the store found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProbeReading {
    /// How long ago that was.
    pub(crate) age: Duration,
    /// How long the store took.
    pub(crate) took: Duration,
    /// Why it failed, if it did.
    pub(crate) failure: Option<&'static str>,
}

/// What the store answered, and when.
#[derive(Clone, Debug)]
struct CachedProbe {
    at: Instant,
    took: Duration,
    result: Result<(), Arc<StoreError>>,
}

impl CachedProbe {
    fn is_fresh(&self) -> bool {
        let fresh = if self.result.is_ok() { FRESH } else { FRESH_FAILURE };
        self.at.elapsed() < fresh
    }
}

impl Readiness {
    /// Returns the last answer if it is fresh, and calls `probe` if not. Of many callers at once, one probes.
    ///
    /// # Cancel safety
    ///
    /// Dropping it loses nothing.
    pub(crate) async fn check<F>(&self, probe: impl FnOnce() -> F) -> Result<(), Arc<StoreError>>
    where
        F: Future<Output = Result<(), StoreError>>,
    {
        if let Some(known) = self.fresh() {
            return known;
        }
        let _asking = self.asking.lock().await;
        // Another caller may have probed while this one waited for the lock.
        if let Some(known) = self.fresh() {
            return known;
        }
        let began = Instant::now();
        let result = probe().await.map_err(Arc::new);
        let known = CachedProbe { at: Instant::now(), took: began.elapsed(), result: result.clone() };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        result
    }

    /// Returns what the last probe found, if there was one; asks nobody.
    pub(crate) fn last(&self) -> Option<ProbeReading> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let CachedProbe { at, took, result } = last.as_ref()?;
        let failure = result.as_ref().err().map(|error| error.reason());
        Some(ProbeReading { age: at.elapsed(), took: *took, failure })
    }

    fn fresh(&self) -> Option<Result<(), Arc<StoreError>>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|known| known.is_fresh()).map(|known| known.result.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Poll;

    use futures_util::future::join_all;
    use ratekeeper::StoreErrorKind;

    use super::*;

    /// An answer that many others are asked for while it is on its way.
    async fn asked(count: &AtomicU32, answer: Result<(), StoreError>) -> Result<(), StoreError> {
        count.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn many_callers_are_one_question() {
        let (readiness, count) = (Readiness::default(), AtomicU32::new(0));
        let answers = join_all((0..100).map(|_| readiness.check(|| asked(&count, Ok(()))))).await;
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(count.load(Ordering::Relaxed), 1);
        tokio::time::advance(FRESH - Duration::from_millis(1)).await;
        readiness.check(|| asked(&count, Ok(()))).await.unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 1, "still fresh");
        tokio::time::advance(Duration::from_millis(1)).await;
        readiness.check(|| asked(&count, Ok(()))).await.unwrap();
        assert_eq!(count.into_inner(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_reaches_all_who_wait_and_is_probed_again_soon() {
        let (readiness, count) = (Readiness::default(), AtomicU32::new(0));
        let failing = || asked(&count, Err(StoreError::new(StoreErrorKind::Unreachable, "gone")));
        let answers = join_all((0..100).map(|_| readiness.check(failing))).await;
        assert!(answers.iter().all(Result::is_err));
        assert_eq!(count.load(Ordering::Relaxed), 1);
        tokio::time::advance(FRESH_FAILURE - Duration::from_millis(1)).await;
        assert!(readiness.check(|| asked(&count, Ok(()))).await.is_err(), "still fresh");
        tokio::time::advance(Duration::from_millis(1)).await;
        readiness.check(|| asked(&count, Ok(()))).await.unwrap();
        assert_eq!(count.into_inner(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_up_asking_leaves_it_to_the_next() {
        let (readiness, count) = (Readiness::default(), AtomicU32::new(0));
        let mut first = Box::pin(readiness.check(|| asked(&count, Ok(()))));
        let second = readiness.check(|| asked(&count, Ok(())));
        let is_pending =
            std::future::poll_fn(|context| Poll::Ready(first.as_mut().poll(context).is_pending()));
        assert!(is_pending.await);
        drop(first);
        second.await.unwrap();
        assert_eq!(count.into_inner(), 2);
    }
}
