//! The time that a store in memory decides by.

use std::sync::Arc;

use crate::port::Clock;
use crate::{MonotonicClock, Timestamp};

/// Where the time comes from. The common clock is called directly, not through a pointer.
#[derive(Debug)]
pub(super) enum Time {
    Process,
    Other(Arc<dyn Clock>),
}

impl Time {
    #[inline]
    pub(super) fn now(&self) -> Timestamp {
        match self {
            Time::Process => MonotonicClock.now(),
            Time::Other(clock) => clock.now(),
        }
    }
}
