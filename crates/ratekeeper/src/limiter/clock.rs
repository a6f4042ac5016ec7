//! Which time a limiter keeps.

use std::sync::Arc;

use crate::port::Clock;
use crate::{MonotonicClock, Timestamp};

/// The clock of one limiter. An enum, because the default one is read on every decision and should be inlined.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    #[cfg_attr(feature = "tokio", expect(dead_code, reason = "the default without tokio"))]
    Monotonic(MonotonicClock),
    #[cfg(feature = "tokio")]
    Tokio(super::TokioClock),
    Other(Arc<dyn Clock>),
}

impl Source {
    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Source::Monotonic(clock) => clock.now(),
            #[cfg(feature = "tokio")]
            Source::Tokio(clock) => clock.now(),
            Source::Other(clock) => clock.now(),
        }
    }
}

impl Default for Source {
    fn default() -> Self {
        #[cfg(feature = "tokio")]
        return Source::Tokio(super::TokioClock);
        #[cfg(not(feature = "tokio"))]
        Source::Monotonic(MonotonicClock)
    }
}
