//! The leaky bucket as a queue: what enters leaves at a constant rate.

use crate::algorithm::SLACK;
use crate::{Nanos, Timestamp};

/// A line that one leaves every `interval`. Its state is the instant at which the next one may leave once all who were
/// admitted have left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeakyLine {
    pub(crate) interval: Nanos,
    pub(crate) capacity: u64,
    pub(crate) free_at: Timestamp,
}

impl LeakyLine {
    /// Returns the time until the one at the head may leave.
    pub(crate) fn ahead(&self, now: Timestamp) -> Nanos {
        let (ahead, full) = (self.free_at.since(now), self.drain_time().saturating_add(self.interval));
        // After a step back nobody waits for longer than a full line takes to drain, and a second.
        if ahead > full.saturating_add(SLACK) { full } else { ahead }
    }

    /// The time that a full line takes to drain.
    fn drain_time(&self) -> Nanos {
        Nanos::from_nanos(self.interval.as_nanos().saturating_mul(self.capacity))
    }

    /// Returns how many have been admitted and have not left yet. The last one to leave keeps the next one waiting, but
    /// takes no room.
    pub(crate) fn occupied(&self, now: Timestamp) -> u64 {
        self.ahead(now).as_nanos().div_ceil(self.interval.as_nanos().max(1)).saturating_sub(1)
    }

    /// Returns the time until one that does not wait would be admitted: it needs an empty line, or room in it.
    pub(crate) fn wait_for_room(&self, now: Timestamp) -> Nanos {
        self.ahead(now).saturating_sub(self.drain_time())
    }

    /// Returns how many that do not wait would be admitted now.
    pub(crate) fn room(&self, now: Timestamp) -> u64 {
        let (drain, ahead) = (self.drain_time().as_nanos(), self.ahead(now).as_nanos());
        drain.checked_sub(ahead).map_or(0, |left| left / self.interval.as_nanos().max(1) + 1)
    }

    /// Admits one, behind all others.
    pub(crate) fn admit(&mut self, now: Timestamp) {
        self.free_at = now + self.ahead(now).saturating_add(self.interval);
    }

    /// Takes back one that was admitted at this instant, as far as it has not left since.
    pub(crate) fn withdraw(&mut self, now: Timestamp, admitted: Timestamp) {
        let left = self.interval.saturating_sub(now.since(admitted));
        self.free_at = now + self.ahead(now).saturating_sub(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_admitted_takes_room_until_it_would_have_left() {
        let start = Timestamp::from_secs(10);
        let mut line = LeakyLine { interval: Nanos::from_secs(1), capacity: 2, free_at: start };
        assert_eq!(line.room(start), 3, "one leaks at once, two wait their time");
        for occupied in [0, 1, 2] {
            assert!(line.wait_for_room(start).is_zero());
            line.admit(start);
            assert_eq!(line.occupied(start), occupied);
        }
        assert_eq!((line.room(start), line.wait_for_room(start)), (0, Nanos::from_secs(1)));
        let later = start + Nanos::from_secs(1);
        assert_eq!((line.occupied(later), line.room(later)), (1, 1));
        assert_eq!(line.occupied(start + Nanos::from_secs(3)), 0);
    }
}
