//! The leaky bucket as a queue: what enters leaves at a constant rate.

use crate::algorithm::SLACK;
use crate::{Nanos, Timestamp};

/// One leaves every `interval`. State: the instant at which the next one may leave if all who were admitted have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) interval: Nanos,
    pub(crate) capacity: u64,
    pub(crate) free_at: Timestamp,
}

impl Line {
    /// The time until the one at the head may leave.
    pub(crate) fn ahead(&self, now: Timestamp) -> Nanos {
        let (ahead, full) = (self.free_at.since(now), self.room().saturating_add(self.interval));
        // After a step back nobody waits for longer than a full line takes to drain, and a second.
        if ahead > full.saturating_add(SLACK) { full } else { ahead }
    }

    /// The time that a full line takes to drain.
    fn room(&self) -> Nanos {
        Nanos::from_nanos(self.interval.as_nanos().saturating_mul(self.capacity))
    }

    /// How many have been admitted that have not leaked yet. The last one to have leaked keeps the next waiting
    /// but occupies no place.
    pub(crate) fn occupied(&self, now: Timestamp) -> u64 {
        self.ahead(now).as_nanos().div_ceil(self.interval.as_nanos().max(1)).saturating_sub(1)
    }

    /// The time until one that does not wait would be admitted: it needs a free line, or a place in it.
    pub(crate) fn wait_for_place(&self, now: Timestamp) -> Nanos {
        self.ahead(now).saturating_sub(self.room())
    }

    /// How many that do not wait would be admitted now.
    pub(crate) fn places(&self, now: Timestamp) -> u64 {
        let (room, ahead) = (self.room().as_nanos(), self.ahead(now).as_nanos());
        room.checked_sub(ahead).map_or(0, |left| left / self.interval.as_nanos().max(1) + 1)
    }

    pub(crate) fn admit(&mut self, now: Timestamp) {
        self.free_at = now + self.ahead(now).saturating_add(self.interval);
    }

    /// Takes back one that was admitted at this instant, as far as it has not leaked since.
    pub(crate) fn withdraw(&mut self, now: Timestamp, admitted: Timestamp) {
        let left = self.interval.saturating_sub(now.since(admitted));
        self.free_at = now + self.ahead(now).saturating_sub(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admitted_one_occupies_its_place_until_it_would_have_leaked() {
        let start = Timestamp::from_secs(10);
        let mut line = Line { interval: Nanos::from_secs(1), capacity: 2, free_at: start };
        assert_eq!(line.places(start), 3, "one leaks at once, two wait their time");
        for occupied in [0, 1, 2] {
            assert!(line.wait_for_place(start).is_zero());
            line.admit(start);
            assert_eq!(line.occupied(start), occupied);
        }
        assert_eq!((line.places(start), line.wait_for_place(start)), (0, Nanos::from_secs(1)));
        let later = start + Nanos::from_secs(1);
        assert_eq!((line.occupied(later), line.places(later)), (1, 1));
        assert_eq!(line.occupied(start + Nanos::from_secs(3)), 0);
    }
}
