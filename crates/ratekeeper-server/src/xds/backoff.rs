//! How long to wait before the next attempt.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Waits that double from attempt to attempt, each spread over a part of its length: nodes that lost the same control plane
/// do not come back all at once.
#[derive(Debug)]
pub(super) struct XdsBackoff {
    least: Duration,
    most: Duration,
    /// The next wait, before it is spread.
    next: Duration,
}

impl XdsBackoff {
    /// Returns waits between these two.
    pub(super) fn new(least: Duration, most: Duration) -> Self {
        XdsBackoff { least, most: most.max(least), next: least }
    }

    /// Returns how long to wait.
    pub(super) fn wait(&mut self) -> Duration {
        // Keys of the system's randomness; a crate for one number would be too much.
        let random = RandomState::new().hash_one(self.next);
        #[expect(clippy::cast_precision_loss, reason = "any part of the range will do")]
        let part = random as f64 / u64::MAX as f64;
        self.wait_at(part)
    }

    /// Returns the wait at this part of its range, 0 to 1.
    fn wait_at(&mut self, part: f64) -> Duration {
        let from = self.next.min(self.most.mul_f64(0.75)).max(self.least);
        let to = self.next.mul_f64(1.5).min(self.most);
        self.next = self.next.saturating_mul(2).min(self.most);
        from + to.saturating_sub(from).mul_f64(part)
    }

    /// Begins again if a stream that has ended lasted longer than any wait: the control plane was there, if without a push.
    pub(super) fn stream_lasted(&mut self, time: Duration) {
        if time > self.most {
            self.reset();
        }
    }

    /// Begins again: the control plane has answered.
    pub(super) fn reset(&mut self) {
        self.next = self.least;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(secs: f64) -> Duration {
        Duration::from_secs_f64(secs)
    }

    #[test]
    fn waits_double_from_the_least_to_the_most_and_are_spread() {
        let waits = |part: f64| {
            let mut backoff = XdsBackoff::new(seconds(10.0), seconds(60.0));
            [(); 5].map(|()| backoff.wait_at(part))
        };
        assert_eq!(waits(0.0), [10.0, 20.0, 40.0, 45.0, 45.0].map(seconds));
        assert_eq!(waits(1.0), [15.0, 30.0, 60.0, 60.0, 60.0].map(seconds));
        let mut backoff = XdsBackoff::new(seconds(10.0), seconds(60.0));
        for _ in 0..100 {
            assert!((seconds(10.0)..=seconds(60.0)).contains(&backoff.wait()));
        }
        backoff.reset();
        assert_eq!(backoff.wait_at(0.0), seconds(10.0));
    }

    /// A control plane that has nothing new to say pushes nothing.
    #[test]
    fn a_stream_that_lasted_begins_again() {
        let mut backoff = XdsBackoff::new(seconds(10.0), seconds(60.0));
        for (lasted, next) in [(0.0, 10.0), (1.0, 20.0), (60.0, 40.0), (60.5, 10.0), (1.0, 20.0)] {
            backoff.stream_lasted(seconds(lasted));
            assert_eq!(backoff.wait_at(0.0), seconds(next));
        }
    }

    #[test]
    fn one_bound_is_no_spread() {
        let mut backoff = XdsBackoff::new(seconds(2.0), seconds(1.0));
        assert_eq!([backoff.wait(), backoff.wait()], [seconds(2.0); 2]);
    }
}
