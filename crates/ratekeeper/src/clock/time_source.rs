//! Which clock one store or limiter reads.

use std::any::Any;
use std::sync::Arc;

use super::MonotonicClock;
#[cfg(all(feature = "tokio", not(loom)))]
use super::TokioClock;
use crate::Timestamp;
use crate::port::Clock;

/// The clock of one store or limiter.
///
/// An enum and not a `dyn Clock`, because the default clock is read on every decision and has to be inlined.
#[derive(Clone, Debug)]
pub(crate) enum TimeSource {
    /// [`MonotonicClock`], read directly.
    Process,
    /// The time of the runtime that asks; outside of any runtime, that of the one it was built in.
    #[cfg(all(feature = "tokio", not(loom)))]
    Tokio(Option<tokio::runtime::Handle>),
    /// A clock that the caller brought.
    Custom(Arc<dyn Clock>),
}

impl TimeSource {
    /// Reads this clock. [`MonotonicClock`] and `TokioClock` are recognised, and read directly.
    pub(crate) fn new(clock: impl Clock + 'static) -> Self {
        let any: &dyn Any = &clock;
        #[cfg(all(feature = "tokio", not(loom)))]
        if any.is::<TokioClock>() {
            return TimeSource::Tokio(None);
        }
        if any.is::<MonotonicClock>() {
            return TimeSource::Process;
        }
        TimeSource::Custom(Arc::new(clock))
    }

    /// Returns what the clock shows.
    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            TimeSource::Process => MonotonicClock.now(),
            other => other.now_elsewhere(),
        }
    }

    // Out of line: on the common path a runtime's handle would cost registers.
    #[inline(never)]
    fn now_elsewhere(&self) -> Timestamp {
        match self {
            TimeSource::Process => MonotonicClock.now(),
            #[cfg(all(feature = "tokio", not(loom)))]
            TimeSource::Tokio(home) => TokioClock::within(home.as_ref(), || TokioClock.now()),
            TimeSource::Custom(clock) => clock.now(),
        }
    }

    /// Returns what the clock shows if a runtime may have stopped it: a thread that waits for such a clock, and keeps
    /// the runtime from moving it, would wait for ever.
    pub(crate) fn runtime_now(&self) -> Option<Timestamp> {
        match self {
            #[cfg(all(feature = "tokio", not(loom)))]
            TimeSource::Tokio(home) => {
                TokioClock::within(home.as_ref(), || TokioClock::is_apart().then(|| TokioClock.now()))
            }
            _ => None,
        }
    }

    /// Returns the runtime whose timers must be used to wait for this clock; `None` if real time will do.
    ///
    /// Paused time moves from one timer of its runtime to the next, so only a timer of that runtime moves it.
    #[cfg(all(feature = "tokio", not(loom)))]
    pub(crate) fn runtime(&self) -> Option<tokio::runtime::Handle> {
        let current = || tokio::runtime::Handle::try_current().ok();
        match self {
            TimeSource::Process => None,
            TimeSource::Tokio(Some(home)) => current().or_else(|| Some(home.clone())),
            TimeSource::Tokio(None) | TimeSource::Custom(_) => current().filter(|_| TokioClock::is_apart()),
        }
    }
}

impl Default for TimeSource {
    /// The process's clock, or tokio's inside a runtime whose time is, or was, paused.
    fn default() -> Self {
        #[cfg(all(feature = "tokio", not(loom)))]
        if TokioClock::is_apart() {
            return TimeSource::Tokio(tokio::runtime::Handle::try_current().ok());
        }
        TimeSource::Process
    }
}

/// Returns true on a thread of a tokio runtime.
pub(crate) fn is_in_runtime() -> bool {
    #[cfg(all(feature = "tokio", not(loom)))]
    return tokio::runtime::Handle::try_current().is_ok();
    #[cfg(not(all(feature = "tokio", not(loom))))]
    return false;
}
