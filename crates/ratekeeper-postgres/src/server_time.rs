//! The server's time, as its answers tell it.
//!
//! A decision needs an instant before the statement is sent, and the statement refuses one that is not the server's: later
//! than its clock, or long past. So this guess decides how often a statement is refused, and never what is admitted.

use std::time::{Duration, Instant};

use ratekeeper::Timestamp;

/// By how many parts of a million two clocks may run apart: so much a sample loses in worth while it ages.
const DRIFT_PPM: u128 = 200;

/// What one answer has told.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Half-way between question and answer, by the clock of this process.
    at: Instant,
    /// What the server's clock said then, in microseconds since the epoch.
    micros: i64,
    /// It may be off by so much.
    error: Duration,
}

impl Sample {
    /// By how much it may be off at an instant, in nanoseconds.
    fn error_at(&self, at: Instant) -> u128 {
        self.error.as_nanos() + at.saturating_duration_since(self.at).as_nanos() * DRIFT_PPM / 1_000_000
    }
}

/// A guess at the server's time.
#[derive(Debug, Default)]
pub(crate) struct ServerTime {
    best: Option<Sample>,
}

impl ServerTime {
    /// Learns from an answer that the server gave by this clock, between these two instants.
    pub(crate) fn learn(&mut self, asked: Instant, answered: Instant, micros: i64) {
        let error = answered.saturating_duration_since(asked) / 2;
        let sample = Sample { at: asked + error, micros, error };
        let is_better = self.best.is_none_or(|best| error.as_nanos() <= best.error_at(sample.at));
        // What cannot be true together: the clock has stepped, or this process was asleep, and the latest answer is right.
        if is_better || self.is_off(sample) {
            self.best = Some(sample);
        }
    }

    /// Returns true if the guess and an answer contradict each other by more than both may be off.
    fn is_off(&self, sample: Sample) -> bool {
        self.best.zip(self.micros(sample.at)).is_some_and(|(best, guess)| {
            let apart = u128::from(guess.abs_diff(sample.micros)) * 1_000;
            // Clocks are read in microseconds.
            apart > best.error_at(sample.at) + sample.error.as_nanos() + 1_000
        })
    }

    /// Returns true if an answer tells a time that the guess explains: the server's clock is not later than it should have
    /// been when the answer came.
    pub(crate) fn explains(&self, answered: Instant, micros: i64) -> bool {
        self.best.zip(self.micros(answered)).is_some_and(|(best, guess)| {
            let later = i128::from(micros) - i128::from(guess);
            u128::try_from(later).unwrap_or(0) * 1_000 <= best.error_at(answered) + 1_000
        })
    }

    /// Begins anew with this answer: what was learned before was wrong, or another server answers now. The guess is late by the
    /// way back of the answer, but certainly not early, so that the next statement is not refused for that.
    pub(crate) fn begin_with(&mut self, asked: Instant, answered: Instant, micros: i64) {
        let error = answered.saturating_duration_since(asked);
        self.best = Some(Sample { at: answered, micros, error });
    }

    /// Returns what the server's clock says at this instant of the process, in microseconds; none if it has told nothing yet.
    pub(crate) fn micros(&self, at: Instant) -> Option<i64> {
        let best = self.best?;
        let since = at.saturating_duration_since(best.at);
        Some(best.micros.saturating_add(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)))
    }
}

/// Returns an instant of the server's clock.
pub(crate) fn instant(micros: i64) -> Timestamp {
    Timestamp::from_nanos(micros.saturating_mul(1_000))
}

/// Returns an instant in microseconds, rounded up.
pub(crate) fn micros_after(at: Timestamp) -> i64 {
    let nanos = at.as_nanos();
    nanos.div_euclid(1_000) + i64::from(nanos.rem_euclid(1_000) > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_answer_is_trusted_most_until_it_is_old() {
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        let mut time = ServerTime::default();
        assert_eq!(time.micros(start), None);
        time.learn(at(0), at(200), 1_000);
        assert_eq!(time.micros(at(100)), Some(1_000));
        // A slow answer, half of whose time passed on one way.
        time.learn(at(1_000), at(9_000), 2_000);
        assert_eq!(time.micros(at(100)), Some(1_000));
        time.learn(at(10_000), at(10_100), 11_000);
        assert_eq!(time.micros(at(10_050)), Some(11_000));
        // After a minute, it may be off by twelve milliseconds: a slow answer is better.
        time.learn(at(60_000_000), at(60_008_000), 70_000_000);
        assert_eq!(time.micros(at(60_004_000)), Some(70_000_000));
        // Half of the time of a single answer may be too much: the first guess is never early.
        time.begin_with(at(90_000_000), at(90_001_000), 5_000);
        assert_eq!(time.micros(at(90_001_000)), Some(5_000));
        time.learn(at(90_002_000), at(90_002_200), 6_500);
        assert_eq!(time.micros(at(90_002_100)), Some(6_500));
    }

    #[test]
    fn an_answer_that_contradicts_the_guess_replaces_it_however_slow_it_was() {
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        let mut time = ServerTime::default();
        time.learn(at(0), at(200), 1_000);
        // A slow answer in which the clock has stepped by half a second, in either direction.
        time.learn(at(10_000), at(14_000), 513_000);
        assert_eq!(time.micros(at(12_000)), Some(513_000));
        time.learn(at(20_000), at(25_000), 20_000);
        assert_eq!(time.micros(at(22_500)), Some(20_000));
    }

    #[test]
    fn what_came_late_is_told_from_a_clock_that_stepped() {
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        let mut time = ServerTime::default();
        assert!(!time.explains(at(0), 1_000));
        time.learn(at(0), at(200), 1_000);
        // 50 milliseconds later by both clocks, wherever the statement has spent them.
        assert!(time.explains(at(50_100), 51_000) && time.explains(at(50_100), 31_000));
        assert!(!time.explains(at(50_100), 151_000), "the clock has stepped by a tenth of a second");
    }

    #[test]
    fn what_is_kept_is_kept_long_enough() {
        assert_eq!(micros_after(Timestamp::from_nanos(1_001)), 2);
        assert_eq!(micros_after(Timestamp::from_nanos(1_000)), 1);
        assert_eq!(micros_after(Timestamp::from_nanos(-1)), 0);
        assert_eq!(micros_after(Timestamp::MAX), i64::MAX / 1_000 + 1);
        assert_eq!(instant(7), Timestamp::from_nanos(7_000));
    }
}
