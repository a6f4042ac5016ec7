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
        let (start, reference) = (MonotonicClock.now(), std::time::Instant::now());
        while reference.elapsed().as_millis() < 20 {
            std::hint::spin_loop();
        }
        let (ours, theirs) = (MonotonicClock.now().since(start), Nanos::from(reference.elapsed()));
        // What comes between the two readings only makes one of them later: both must tell the same 20 ms within
        // a factor that no scheduler pause between two adjacent calls explains away in the other direction.
        assert!(ours.as_nanos() >= 19_900_000, "{ours} of at least 20 ms");
        assert!(theirs.as_nanos() * 101 / 100 + 1_000 >= ours.as_nanos(), "{ours} of {theirs}");
    }
}
