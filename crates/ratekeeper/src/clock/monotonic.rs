//! The clock of a process: monotonic, and held to the wall clock without ever stepping.

use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::SystemTime;

use crate::port::Clock;
use crate::{Nanos, Timestamp};

/// The default clock of stores and limiters: set by the wall clock when the process first reads it, and never stepping
/// after that.
///
/// The processor's counter runs a few parts in a million too fast or too slow, which would be seconds a day at the
/// edge of a calendar window. So once a second the clock is compared with the wall clock, and runs a little faster or
/// slower until they agree. If somebody sets the wall clock, this one follows at that pace, 8 seconds a day.
///
/// Every copy shows the same time. Reading it takes about ten nanoseconds, no lock and no system call; once a second one
/// reader also reads the wall clock.
#[derive(Clone, Copy, Default)]
pub struct MonotonicClock;

static PROCESS: LazyLock<ProcessClock> = LazyLock::new(ProcessClock::start);

/// The processor's counter, and how its ticks are read as time.
struct ProcessClock {
    counter: quanta::Clock,
    /// Ticks after which the calibration is compared with the wall clock again.
    every: u64,
    calibration: SharedCalibration,
}

/// Time as a function of ticks: at `ticks` it was `wall`, and since then `scale` nanoseconds have passed for every
/// [`TICKS`]; or `pace`, a little more or less, for so long as there was something to correct.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Calibration {
    ticks: u64,
    wall: Timestamp,
    scale: u64,
    pace: u64,
}

/// A calibration that changes once a second and is read all the time.
///
/// There are two copies of it, and the last bit of the version tells which one is in force; whoever changes it
/// writes to the other and then moves the version on. So no reader ever waits for a writer. A reader that finds
/// another version after reading than before may have read half of what came next, and reads again.
#[derive(Default)]
struct SharedCalibration {
    version: AtomicU64,
    copies: [[AtomicU64; 4]; 2],
    /// True while a thread is writing.
    busy: AtomicBool,
}

/// So many ticks that rounding their length to a nanosecond is an error of some microseconds in a year.
const TICKS: u64 = 1 << 42;

/// How often the wall clock is looked at.
const EVERY: Nanos = Nanos::from_secs(1);

/// In how many nanoseconds the clock is to meet the wall clock. After that it runs on as it was calibrated: if nobody
/// asks for a day, it has not overshot by a day's correction.
const HORIZON: u64 = 10_000_000_000;

/// The largest correction, in parts in a million: what the worst of crystals is off by. No limit notices it.
const MOST_PPM: i128 = 100;

/// Longer than this between the two readings of the counter, and the wall clock was read somewhere in between: such
/// a comparison is no good.
const MOST_GAP: Nanos = Nanos::from_nanos(20_000);

impl Calibration {
    /// A calibration that starts here, of a counter that was calibrated to so many nanoseconds for every [`TICKS`].
    fn new(ticks: u64, wall: Timestamp, scale: u64) -> Self {
        Calibration { ticks, wall, scale, pace: scale }
    }

    /// Returns the time so many ticks after `self.ticks`, if that is within the [`HORIZON`].
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "ten seconds of nanoseconds fit")]
    fn soon(&self, since: u64) -> Timestamp {
        let nanos = (u128::from(since) * u128::from(self.pace)) / u128::from(TICKS);
        self.wall + Nanos::from_nanos(nanos as u64)
    }

    fn at(&self, ticks: u64) -> Timestamp {
        let since = self.since(ticks);
        if scaled(since, self.pace) <= HORIZON { self.soon(since) } else { self.beyond_the_horizon(since) }
    }

    /// Counters of different cores may differ by a few ticks: time stands still then, it does not wrap.
    #[inline]
    fn since(&self, ticks: u64) -> u64 {
        ticks.saturating_sub(self.ticks)
    }

    fn beyond_the_horizon(&self, since: u64) -> Timestamp {
        let corrected = self.wall + Nanos::from_nanos(HORIZON);
        // The ticks that the corrected part took: the inverse of the scale, rounded down.
        let ticks = u128::from(HORIZON) * u128::from(TICKS) / u128::from(self.pace.max(1));
        let rest = since.saturating_sub(u64::try_from(ticks).unwrap_or(u64::MAX));
        corrected + Nanos::from_nanos(scaled(rest, self.scale))
    }

    /// Goes on from here, faster or slower, towards the wall clock.
    fn bent(&self, ticks: u64, wall: Timestamp) -> Calibration {
        let now = self.at(ticks);
        let behind = i128::from(wall.as_nanos()) - i128::from(now.as_nanos());
        let ppm = (behind * 1_000_000 / i128::from(HORIZON)).clamp(-MOST_PPM, MOST_PPM);
        let correction = i64::try_from(i128::from(self.scale) * ppm / 1_000_000).unwrap_or(0);
        Calibration {
            ticks,
            wall: now,
            scale: self.scale,
            pace: self.scale.saturating_add_signed(correction),
        }
    }

    /// Goes on from here without a correction. The old one is not carried over: it is meant for a fixed time after a
    /// comparison, and would begin again.
    fn straight(&self, ticks: u64) -> Calibration {
        Calibration::new(ticks, self.at(ticks), self.scale)
    }
}

#[inline]
fn scaled(ticks: u64, scale: u64) -> u64 {
    let nanos = (u128::from(ticks) * u128::from(scale)) / u128::from(TICKS);
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

impl SharedCalibration {
    /// Returns the calibration in force, and what `read` returned while it was.
    #[inline]
    fn read<T>(&self, read: impl Fn() -> T) -> (Calibration, T) {
        loop {
            // Acquire: what is read next was written before this version was in force.
            let version = self.version.load(Ordering::Acquire);
            let [ticks, wall, scale, pace] = &self.copies[usize::from(version & 1 == 1)];
            let line = Calibration {
                ticks: ticks.load(Ordering::Relaxed),
                wall: Timestamp::from_nanos(wall.load(Ordering::Relaxed).cast_signed()),
                scale: scale.load(Ordering::Relaxed),
                pace: pace.load(Ordering::Relaxed),
            };
            let found = read();
            // The fence keeps the readings above before the second look at the version.
            fence(Ordering::Acquire);
            if self.version.load(Ordering::Relaxed) == version {
                return (line, found);
            }
        }
    }

    /// Puts another calibration in force, unless another thread is doing so.
    fn write(&self, bend: impl FnOnce(Calibration) -> Calibration) {
        // A look first: all who find it due at once need not take the cache line from the one that writes.
        if self.busy.load(Ordering::Relaxed) || self.busy.swap(true, Ordering::Acquire) {
            return;
        }
        let version = self.version.load(Ordering::Relaxed);
        let Calibration { ticks, wall, scale, pace } = bend(self.read(|| ()).0);
        // The fence keeps the writes below after the version that made their copy the other one: who still reads
        // there finds that version, and reads again.
        fence(Ordering::Release);
        let words = [ticks, wall.as_nanos().cast_unsigned(), scale, pace];
        for (slot, word) in self.copies[usize::from(version & 1 == 0)].iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        self.version.store(version + 1, Ordering::Release);
        self.busy.store(false, Ordering::Release);
    }
}

impl ProcessClock {
    fn start() -> Self {
        let counter = quanta::Clock::new();
        let scale = counter.delta_as_nanos(0, TICKS);
        let every = u128::from(EVERY.as_nanos()) * u128::from(TICKS) / u128::from(scale.max(1));
        let calibration = SharedCalibration::default();
        calibration.write(|_| Calibration::new(counter.raw(), SystemTime::now().into(), scale));
        ProcessClock { every: u64::try_from(every).unwrap_or(u64::MAX), calibration, counter }
    }

    #[inline]
    fn now(&self) -> Timestamp {
        // The counter is read while the calibration is in force: a tick that is read later, by an older one, would be
        // followed by an earlier time.
        let (calibration, ticks) = self.calibration.read(|| self.counter.raw());
        let since = calibration.since(ticks);
        // A second, which is within the horizon.
        if since <= self.every { calibration.soon(since) } else { self.now_and_compare() }
    }

    // Reads again, rather than to be given what was read: the common path keeps no calibration for it.
    #[cold]
    #[inline(never)]
    fn now_and_compare(&self) -> Timestamp {
        let (calibration, ticks) = self.calibration.read(|| self.counter.raw());
        self.compare();
        calibration.at(ticks)
    }

    /// Compares with the wall clock, and corrects the calibration. If the comparison is no good, the next one is a second
    /// later, and not at every reading until then.
    fn compare(&self) {
        self.calibration.write(|line| {
            let before = self.counter.raw();
            let wall = Timestamp::from(SystemTime::now());
            let after = self.counter.raw();
            let gap = Nanos::from_nanos(self.counter.delta_as_nanos(before, after));
            if gap <= MOST_GAP { line.bent(after, wall) } else { line.straight(after) }
        });
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
            let mut line = Calibration::new(0, start, calibrated);
            for second in 1..86_400_u64 {
                let (ticks, before) = (second * 1_000_000_000, line.at(second * 1_000_000_000));
                line = line.bent(ticks, start + Nanos::from_secs(second));
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
            let line = Calibration::new(0, start, TICKS).bent(1_000_000_000, wall);
            assert_eq!(line.at(1_000_000_000), start + Nanos::from_secs(1));
            let second = line.at(2_000_000_000).since(line.at(1_000_000_000)).as_nanos();
            assert!(second.abs_diff(1_000_000_000) <= 100_001, "{second}");
        }
    }

    /// The correction is for ten seconds: nobody asks for ten hours, and it had been applied for ten hours.
    #[test]
    fn an_idle_clock_does_not_overshoot() {
        let start = Timestamp::from_secs(1_761_884_055);
        for late in [Nanos::from_millis(999), Nanos::from_millis(1_001)] {
            let line = Calibration::new(0, start, TICKS).bent(1_000_000_000, start + late);
            let hours = 36_000_000_000_000;
            let (ours, wall) = (line.at(1_000_000_000 + hours), start + late + Nanos::from_nanos(hours));
            assert!(ours.since(wall).max(wall.since(ours)) < Nanos::from_millis(1), "{ours:?} {wall:?}");
            // The end of the correction is no step either.
            let around = (10_999_900_000_u64..).step_by(1_000).take(200).map(|ticks| line.at(ticks));
            let times: Vec<_> = around.collect();
            assert!(
                times.windows(2).all(|pair| { (900..=1_100).contains(&pair[1].since(pair[0]).as_nanos()) })
            );
        }
    }

    /// A comparison that was no good is not tried again at once, and time goes on as it was calibrated.
    #[test]
    fn a_line_goes_straight_on_without_a_step() {
        let start = Timestamp::from_secs(1_761_884_055);
        for wall in [start, start + Nanos::from_secs(3_600)] {
            let bent = Calibration::new(0, start, TICKS).bent(1_000_000_000, wall);
            for ticks in [2_000_000_001, 40_000_000_000] {
                let straight = bent.straight(ticks);
                assert_eq!((straight.ticks, straight.at(ticks)), (ticks, bent.at(ticks)));
                assert_eq!(straight.at(ticks + 1_000_000_000), bent.at(ticks) + Nanos::from_secs(1));
            }
        }
    }

    /// Many read while others bend: nobody reads half a line.
    #[test]
    fn a_line_is_read_whole() {
        let line = SharedCalibration::default();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        line.write(|Calibration { ticks, .. }| {
                            let next = ticks + 1;
                            Calibration::new(next, Timestamp::from_nanos(next.cast_signed()), next)
                        });
                    }
                });
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let (Calibration { ticks, wall, scale, pace }, ()) =
                            line.read(std::thread::yield_now);
                        assert_eq!((wall.as_nanos(), scale, pace), (ticks.cast_signed(), ticks, ticks));
                    }
                });
            }
        });
    }
}
