//! When the next snapshot begins.

use std::time::Duration;

/// The pause after the first failure; each is twice the last, up to the interval.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// Decides when snapshots begin, so that the newest whole one is never older than the interval.
///
/// What is in a snapshot is as old as its beginning, and the one before is the newest until it is written and synced. So the
/// next one begins earlier than an interval after the last: by twice the time that the last one took, and by an eighth,
/// for a machine that is busy.
#[derive(Clone, Copy, Debug)]
pub(super) struct SnapshotSchedule {
    interval: Duration,
    /// The pause after the next failure.
    retry: Duration,
}

impl SnapshotSchedule {
    pub(super) fn new(interval: Duration) -> Self {
        SnapshotSchedule { interval, retry: FIRST_RETRY.min(interval) }
    }

    /// Returns how long to wait before the first one. How long it will take is not known.
    pub(super) fn first(&self) -> Duration {
        self.interval / 2
    }

    /// Returns how long to wait after a snapshot that was written and took this long. No more than half of the time is spent
    /// on writing, however short the interval is.
    pub(super) fn written(&mut self, took: Duration) -> Duration {
        self.retry = FIRST_RETRY.min(self.interval);
        let begin = (self.interval - self.interval / 8).saturating_sub(took * 2).max(self.interval / 2);
        begin.saturating_sub(took).max(took)
    }

    /// Returns how long to wait after a snapshot that could not be written.
    pub(super) fn failed(&mut self) -> Duration {
        let pause = self.retry;
        self.retry = (pause * 2).min(self.interval);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_newest_is_never_older_than_the_interval_unless_writing_takes_a_third_of_it() {
        let mut schedule = SnapshotSchedule::new(40 * SECOND);
        assert_eq!(schedule.first(), 20 * SECOND);
        assert_eq!(schedule.written(Duration::ZERO), 35 * SECOND);
        assert_eq!(schedule.written(SECOND), 32 * SECOND);
        for took in (0..=13).map(|took| took * SECOND) {
            let pause = schedule.written(took);
            // From the beginning of one to the end of the next.
            assert!(took + pause + took <= 40 * SECOND && pause >= took, "{took:?}: {pause:?}");
        }
        assert_eq!(schedule.written(60 * SECOND), 60 * SECOND);
    }

    #[test]
    fn a_failure_is_tried_again_soon_and_then_less_often() {
        let mut schedule = SnapshotSchedule::new(5 * SECOND);
        let pauses: Vec<u64> = (0..5).map(|_| schedule.failed().as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 5, 5]);
        schedule.written(Duration::ZERO);
        assert_eq!(schedule.failed(), SECOND);
        let mut short = SnapshotSchedule::new(Duration::from_millis(50));
        assert_eq!(short.failed(), Duration::from_millis(50));
    }
}
