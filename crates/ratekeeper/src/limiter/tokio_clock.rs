//! Tokio's time as a clock.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use crate::port::Clock;
use crate::{Nanos, Timestamp};

/// The monotonic clock as tokio tells it, anchored once to the wall clock: when a test pauses tokio's time, this
/// clock stands still, and moves with it. Outside of a test it is the process's monotonic clock.
///
/// The clock of every limiter that waits, unless it was given another.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioClock;

/// Taken from the real clock: a paused one may be far ahead of those of other runtimes in the process.
static ANCHOR: OnceLock<(Instant, Timestamp)> = OnceLock::new();

impl Clock for TokioClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let (start, wall) = *ANCHOR.get_or_init(|| (Instant::now(), Timestamp::from(SystemTime::now())));
        let now = tokio::time::Instant::now().into_std();
        match now.checked_duration_since(start) {
            Some(after) => wall + Nanos::from(after),
            None => wall.saturating_sub(Nanos::from(start.duration_since(now))),
        }
    }
}
