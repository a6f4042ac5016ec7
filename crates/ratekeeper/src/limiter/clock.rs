//! Which time a limiter keeps.

use std::sync::Arc;

use crate::port::Clock;
use crate::{MonotonicClock, Timestamp};

/// The clock of one limiter. An enum, because the default one is read on every decision and should be inlined.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Monotonic,
    Other(Arc<dyn Clock>),
}

impl Source {
    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Source::Monotonic => MonotonicClock.now(),
            Source::Other(clock) => clock.now(),
        }
    }
}

impl Default for Source {
    /// The process's clock; tokio's, in a test that has paused it.
    fn default() -> Self {
        #[cfg(all(feature = "tokio", not(loom)))]
        if super::TokioClock::is_paused() {
            return Source::Other(Arc::new(super::TokioClock));
        }
        Source::Monotonic
    }
}
