//! How much time a call must have left to go with a statement.

use std::time::{Duration, Instant};

/// The least that it must have left, however quick the server is.
const LEAST: Duration = Duration::from_millis(1);

/// How long statements take lately, there and back.
///
/// A statement undoes itself if it ends too late for one of its calls. So that one call which is nearly out of time does not
/// take all others along, it has to have enough left when it goes. Statements that were undone, or given up, tell most about
/// that: the slower the server is, the more of them there are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reserve {
    lately: Duration,
}

/// What decides whether a call is late.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cutoff {
    /// Its time is over at this instant.
    At(Instant),
    /// At this instant, it has less time left than a statement takes.
    Before(Instant, Reserve),
}

impl Cutoff {
    /// Returns true for a call that had so much time, until this deadline.
    pub(crate) fn has_passed(self, deadline: Instant, time: Duration) -> bool {
        match self {
            Cutoff::At(now) => deadline <= now,
            Cutoff::Before(now, reserve) => deadline <= now + reserve.of(time),
        }
    }
}

impl Reserve {
    /// Learns how long a statement took, whatever became of it. A slow one counts in full, and is forgotten by quarters: to turn
    /// away too many costs a few answers, to take one too many costs all.
    pub(crate) fn learn(&mut self, took: Duration) {
        self.lately = took.max((self.lately * 3 + took) / 4);
    }

    /// Returns how much time a call must have left, of so much that it had. It is never all of it: those who have just come find
    /// out whether the server has recovered. A server that takes longer than that has the statements of such calls undone, with
    /// all who go with them.
    pub(crate) fn of(&self, time: Duration) -> Duration {
        (self.lately * 5 / 4).max(LEAST.min(time / 2)).min(time * 9 / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(100);

    fn millis(reserve: &Reserve) -> u128 {
        reserve.of(TIMEOUT).as_millis()
    }

    /// When it was half of the timeout at most, a server that took longer had all of its statements undone.
    #[test]
    fn it_covers_a_statement_however_slow() {
        let mut reserve = Reserve::default();
        assert_eq!(millis(&reserve), 1);
        for slow in [60, 80, 90, 500] {
            reserve.learn(Duration::from_millis(slow));
            assert!(millis(&reserve) >= u128::from(slow.min(90)) && millis(&reserve) <= 90, "{reserve:?}");
        }
    }

    /// Calls of a batch have less time than others. When all had to have the same left, a slow statement had every batch turned
    /// away, until a call came that was in none.
    #[test]
    fn who_has_just_come_goes_however_little_time_there_was() {
        let mut reserve = Reserve::default();
        reserve.learn(TIMEOUT * 3 / 4);
        let now = Instant::now();
        let cutoff = Cutoff::Before(now, reserve);
        for time in [TIMEOUT, TIMEOUT * 9 / 10, TIMEOUT / 10] {
            assert!(!cutoff.has_passed(now + time, time), "{time:?}");
            assert!(cutoff.has_passed(now + time / 2, time), "{time:?}");
        }
        assert!(!Cutoff::At(now).has_passed(now + TIMEOUT / 100, TIMEOUT));
    }

    #[test]
    fn it_is_forgotten_when_the_server_has_recovered() {
        let mut reserve = Reserve::default();
        reserve.learn(Duration::from_millis(80));
        (0..12).for_each(|_| reserve.learn(Duration::from_millis(2)));
        assert!(millis(&reserve) < 8, "{reserve:?}");
        assert!(reserve.of(Duration::from_millis(1)) <= Duration::from_micros(900));
    }
}
