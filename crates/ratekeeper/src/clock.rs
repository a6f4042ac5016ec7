//! The clock of a process: monotonic, anchored once to the wall clock.

use std::fmt;
use std::sync::LazyLock;
use std::time::SystemTime;

use crate::port::Clock;
use crate::{Nanos, Timestamp};

/// The clock to use in process. It never steps: it was set by the wall clock when the process first asked, and has
/// counted by itself since.
///
/// Every copy tells the same time.
#[derive(Clone, Copy, Default)]
pub struct MonotonicClock;

static ANCHOR: LazyLock<Anchor> = LazyLock::new(Anchor::set);

/// The processor's counter, where it is invariant (else the operating system's clock), and what it means.
struct Anchor {
    counter: quanta::Clock,
    start: u64,
    wall: Timestamp,
    /// Nanoseconds per [`TICKS`].
    scale: u64,
}

/// So many ticks that rounding their length to a nanosecond is an error of some microseconds in a year.
const TICKS: u64 = 1 << 42;

impl Anchor {
    fn set() -> Self {
        let counter = quanta::Clock::new();
        let scale = counter.delta_as_nanos(0, TICKS);
        Anchor { start: counter.raw(), wall: Timestamp::from(SystemTime::now()), counter, scale }
    }

    #[inline]
    fn elapsed(&self) -> Nanos {
        // Counters of different cores may differ by a few ticks: time stands still then, it does not wrap.
        let ticks = self.counter.raw().saturating_sub(self.start);
        let nanos = (u128::from(ticks) * u128::from(self.scale)) / u128::from(TICKS);
        Nanos::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let anchor = &*ANCHOR;
        anchor.wall + anchor.elapsed()
    }
}

impl fmt::Debug for MonotonicClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MonotonicClock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_wall_clock_and_never_steps_back() {
        let first = MonotonicClock.now();
        let wall = Timestamp::from(SystemTime::now());
        assert!(wall.since(first).max(first.since(wall)) < Nanos::from_secs(60));
        assert!(MonotonicClock.now() >= first);
    }

    #[test]
    fn a_nanosecond_is_a_nanosecond() {
        // One reference around ours and one within: whatever suspends this thread in between, the outer is longer
        // and the inner shorter, but for the last percent.
        let outer = std::time::Instant::now();
        let start = MonotonicClock.now();
        let inner = std::time::Instant::now();
        while inner.elapsed().as_millis() < 20 {
            std::hint::spin_loop();
        }
        let shorter = Nanos::from(inner.elapsed()).as_nanos();
        let ours = MonotonicClock.now().since(start).as_nanos();
        let longer = Nanos::from(outer.elapsed()).as_nanos();
        assert!(ours * 100 >= shorter * 99, "{ours} of at least {shorter}");
        assert!(ours * 99 <= longer * 100, "{ours} of at most {longer}");
    }
}
