//! Which time a limiter keeps.

use std::sync::Arc;

use crate::port::Clock;
use crate::{MonotonicClock, Timestamp};

/// The clock of one limiter. An enum, because the default one is read on every decision and should be inlined.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Monotonic,
    /// Tokio's time: that of the runtime that asks, or of the one that the limiter was made in.
    #[cfg(all(feature = "tokio", not(loom)))]
    Tokio(Option<tokio::runtime::Handle>),
    Other(Arc<dyn Clock>),
}

impl Source {
    pub(crate) fn new(clock: impl Clock + 'static) -> Self {
        #[cfg(all(feature = "tokio", not(loom)))]
        if (&clock as &dyn std::any::Any).is::<super::TokioClock>() {
            return Source::Tokio(None);
        }
        Source::Other(Arc::new(clock))
    }

    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Source::Monotonic => MonotonicClock.now(),
            #[cfg(all(feature = "tokio", not(loom)))]
            Source::Tokio(home) => super::tokio_clock::now_at(home.as_ref()),
            Source::Other(clock) => clock.now(),
        }
    }

    /// True if it moves only when a runtime, whose time is paused, moves it.
    pub(crate) fn is_paused(&self) -> bool {
        match self {
            #[cfg(all(feature = "tokio", not(loom)))]
            Source::Tokio(home) => super::tokio_clock::is_paused_at(home.as_ref()),
            _ => false,
        }
    }
}

impl Default for Source {
    /// The process's clock; tokio's, in a test that has paused it.
    fn default() -> Self {
        #[cfg(all(feature = "tokio", not(loom)))]
        if super::TokioClock::is_paused() {
            return Source::Tokio(tokio::runtime::Handle::try_current().ok());
        }
        Source::Monotonic
    }
}

/// True on a thread of a tokio runtime.
pub(crate) fn is_in_runtime() -> bool {
    #[cfg(all(feature = "tokio", not(loom)))]
    return tokio::runtime::Handle::try_current().is_ok();
    #[cfg(not(all(feature = "tokio", not(loom))))]
    return false;
}
