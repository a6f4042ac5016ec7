//! Until when a command waits for its answer, whatever it takes to get it.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::error::RedisError;

/// The end of a command's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
    patience: Duration,
}

impl Deadline {
    /// Returns the deadline that is `patience` from now.
    ///
    /// # Errors
    ///
    /// `NoRuntime` outside of a tokio runtime, where there are neither timers nor connections.
    pub(crate) fn after(patience: Duration) -> Result<Self, RedisError> {
        tokio::runtime::Handle::try_current().map_err(|_| RedisError::no_runtime())?;
        let now = Instant::now();
        // A time that is beyond the clock's end is waited for as long as anybody would.
        let at = now.checked_add(patience).unwrap_or_else(|| now + Duration::from_secs(86_400 * 365));
        Ok(Deadline { at, patience })
    }

    /// Returns the error of who is late, if it has passed.
    pub(crate) fn missed(self) -> Option<RedisError> {
        (Instant::now() >= self.at).then(|| RedisError::timeout(self.patience))
    }

    /// Waits for an exchange until the deadline.
    ///
    /// # Errors
    ///
    /// The exchange's own, `Timeout` after the deadline, and `NoRuntime` in a runtime that has no timers or shuts down.
    pub(crate) async fn bound<T>(
        self,
        exchange: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, RedisError> {
        // A timer panics in a runtime that has none, and when it is polled in one that is shutting down. There is no
        // way to ask but to try.
        let Ok(alarm) = catch_unwind(|| sleep_until(self.at)) else { return Err(RedisError::no_runtime()) };
        let (mut exchange, mut alarm) = (pin!(exchange), pin!(alarm));
        poll_fn(|context| {
            if let Poll::Ready(outcome) = exchange.as_mut().poll(context) {
                return Poll::Ready(outcome);
            }
            match catch_unwind(AssertUnwindSafe(|| alarm.as_mut().poll(context))) {
                Ok(polled) => polled.map(|()| Err(RedisError::timeout(self.patience))),
                Err(_) => Poll::Ready(Err(RedisError::no_runtime())),
            }
        })
        .await
    }
}
