//! The clock of a process: monotonic, and held to the wall clock without ever stepping.

use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::SystemTime;

use crate::port::Clock;
use crate::{Nanos, Timestamp};

/// The clock to use in process. It never steps: it was set by the wall clock when the process first asked, and has
/// counted by itself since.
///
/// The processor's counter runs a few parts in a million too fast or too slow, which would be seconds a day at the
/// edge of a calendar window. So once a second the clock is compared with the wall clock, and runs a little faster or
/// slower until they agree. If somebody sets the wall clock, this one follows at that pace, 8 seconds a day.
///
/// Every copy tells the same time.
#[derive(Clone, Copy, Default)]
pub struct MonotonicClock;

static PROCESS: LazyLock<ProcessClock> = LazyLock::new(ProcessClock::start);

/// The counter, and the line along which its ticks are read.
///
/// The line changes once a second and is read all the time, so it is guarded by a version that is odd while the line
/// changes: a reader that finds another version after reading than before reads again.
struct ProcessClock {
    counter: quanta::Clock,
    /// The scale that the counter was calibrated to.
    calibrated: u64,
    /// Ticks after which the line is looked at again.
    every: u64,
    version: AtomicU64,
    ticks: AtomicU64,
    wall: AtomicU64,
    scale: AtomicU64,
}

/// Time as a function of ticks: at `ticks` it was `wall`, and since then `scale` nanoseconds have passed for every
/// [`TICKS`].
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    ticks: u64,
    wall: Timestamp,
    scale: u64,
}

/// So many ticks that rounding their length to a nanosecond is an error of some microseconds in a year.
const TICKS: u64 = 1 << 42;

/// How often the wall clock is looked at.
const EVERY: Nanos = Nanos::from_secs(1);

/// In how many nanoseconds the clock would meet the wall clock at its corrected pace.
const HORIZON: i128 = 10_000_000_000;

/// The largest correction, in parts in a million: what the worst of crystals is off by. No limit notices it.
const MOST_PPM: i128 = 100;

/// Longer than this between the two readings of the counter, and the wall clock was read somewhere in between: such
/// a comparison is no good.
const MOST_GAP: Nanos = Nanos::from_nanos(20_000);

impl Line {
    #[inline]
    fn at(&self, ticks: u64) -> Timestamp {
        // Counters of different cores may differ by a few ticks: time stands still then, it does not wrap.
        let since = ticks.saturating_sub(self.ticks);
        let nanos = (u128::from(since) * u128::from(self.scale)) / u128::from(TICKS);
        self.wall + Nanos::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The line that goes on from here, bent towards the wall clock.
    fn bent(&self, ticks: u64, wall: Timestamp, calibrated: u64) -> Line {
        let now = self.at(ticks);
        let behind = i128::from(wall.as_nanos()) - i128::from(now.as_nanos());
        let ppm = (behind * 1_000_000 / HORIZON).clamp(-MOST_PPM, MOST_PPM);
        let scale = i128::from(calibrated) + i128::from(calibrated) * ppm / 1_000_000;
        Line { ticks, wall: now, scale: u64::try_from(scale).unwrap_or(calibrated) }
    }
}

impl ProcessClock {
    fn start() -> Self {
        let counter = quanta::Clock::new();
        let calibrated = counter.delta_as_nanos(0, TICKS);
        let every = u128::from(EVERY.as_nanos()) * u128::from(TICKS) / u128::from(calibrated.max(1));
        ProcessClock {
            calibrated,
            every: u64::try_from(every).unwrap_or(u64::MAX),
            version: AtomicU64::new(0),
            ticks: AtomicU64::new(counter.raw()),
            wall: AtomicU64::new(Timestamp::from(SystemTime::now()).as_nanos().cast_unsigned()),
            scale: AtomicU64::new(calibrated),
            counter,
        }
    }

    #[inline]
    fn now(&self) -> Timestamp {
        loop {
            // Acquire: what is read next was written before this version.
            let version = self.version.load(Ordering::Acquire);
            let line = Line {
                ticks: self.ticks.load(Ordering::Relaxed),
                wall: Timestamp::from_nanos(self.wall.load(Ordering::Relaxed).cast_signed()),
                scale: self.scale.load(Ordering::Relaxed),
            };
            // The fence keeps the readings above before the second look at the version.
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version {
                let ticks = self.counter.raw();
                if ticks.saturating_sub(line.ticks) > self.every {
                    self.bend(line, version);
                }
                return line.at(ticks);
            }
            std::hint::spin_loop();
        }
    }

    /// Compares with the wall clock. Whoever comes while somebody else does goes by the old line, which is as good.
    #[cold]
    #[inline(never)]
    fn bend(&self, line: Line, version: u64) {
        let before = self.counter.raw();
        let wall = Timestamp::from(SystemTime::now());
        let after = self.counter.raw();
        let gap = Nanos::from_nanos(self.counter.delta_as_nanos(before, after));
        if gap > MOST_GAP {
            return;
        }
        let bent = line.bent(after, wall, self.calibrated);
        let odd = version + 1;
        if self.version.compare_exchange(version, odd, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        // The fence keeps the writes below after the odd version: no reader sees them under the even one.
        fence(Ordering::Release);
        self.ticks.store(bent.ticks, Ordering::Relaxed);
        self.wall.store(bent.wall.as_nanos().cast_unsigned(), Ordering::Relaxed);
        self.scale.store(bent.scale, Ordering::Relaxed);
        self.version.store(odd + 1, Ordering::Release);
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Timestamp {
        PROCESS.now()
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

    /// A counter of one tick a nanosecond whose calibration is off, against a wall clock that is right: over a day it
    /// used to drift by seconds.
    #[test]
    fn a_day_later_it_is_still_the_wall_clocks_time() {
        for ppm in [-90_i64, -27, 0, 27, 90] {
            let calibrated = TICKS.saturating_add_signed(TICKS.cast_signed() / 1_000_000 * ppm);
            let start = Timestamp::from_secs(1_761_884_055);
            let mut line = Line { ticks: 0, wall: start, scale: calibrated };
            for second in 1..86_400_u64 {
                let (ticks, before) = (second * 1_000_000_000, line.at(second * 1_000_000_000));
                line = line.bent(ticks, start + Nanos::from_secs(second), calibrated);
                assert_eq!(line.at(ticks), before, "it bends, and does not step");
                assert!(line.at(ticks + 1_000) > before);
            }
            let (ours, wall) = (line.at(86_400_000_000_000), start + Nanos::from_secs(86_400));
            let off = ours.since(wall).max(wall.since(ours));
            assert!(off < Nanos::from_millis(2), "{ppm} ppm: off by {off}");
        }
    }

    /// Somebody sets the wall clock: this one neither jumps nor runs away.
    #[test]
    fn a_step_of_the_wall_clock_is_followed_slowly() {
        let start = Timestamp::from_secs(1_761_884_055);
        for wall in [Timestamp::MIN, start.saturating_sub(Nanos::from_secs(3_600)), Timestamp::MAX] {
            let line = Line { ticks: 0, wall: start, scale: TICKS }.bent(1_000_000_000, wall, TICKS);
            assert_eq!(line.at(1_000_000_000), start + Nanos::from_secs(1));
            let second = line.at(2_000_000_000).since(line.at(1_000_000_000)).as_nanos();
            assert!(second.abs_diff(1_000_000_000) <= 100_001, "{second}");
        }
    }

    /// Many read while one bends: nobody reads half a line.
    #[test]
    fn a_line_is_read_whole() {
        let clock = ProcessClock { every: 0, ..ProcessClock::start() };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut last = clock.now();
                    for _ in 0..100_000 {
                        let now = clock.now();
                        // Two lines differ by parts in a million of the time since the last was drawn.
                        assert!(now + Nanos::from_nanos(1_000) >= last, "{now:?} after {last:?}");
                        assert!(now.since(last) < Nanos::from_secs(10));
                        last = now;
                    }
                });
            }
        });
    }
}
