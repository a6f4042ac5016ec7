//! How much time a call must have left to go with a statement.

use std::time::Duration;

/// The least that it must have left, however quick the server is.
const LEAST: Duration = Duration::from_millis(1);

/// How long statements take lately, there and back.
///
/// A statement undoes itself if it ends too late for one of its calls. So that one call which is nearly out of time does not
/// take all others along, it has to have enough left when it goes. Statements that were undone, or given up, tell most about
/// that: the slower the server is, the more of them there are.
#[derive(Debug, Default)]
pub(crate) struct Reserve {
    lately: Duration,
}

impl Reserve {
    /// Learns how long a statement took, whatever became of it. A slow one counts in full, and is forgotten by quarters: to turn
    /// away too many costs a few answers, to take one too many costs all.
    pub(crate) fn learn(&mut self, took: Duration) {
        self.lately = took.max((self.lately * 3 + took) / 4);
    }

    /// Returns how much time a call must have left, of so much that it had. There is always something for those who have just
    /// come, who find out whether the server has recovered.
    pub(crate) fn of(&self, timeout: Duration) -> Duration {
        (self.lately * 5 / 4).max(LEAST.min(timeout / 2)).min(timeout * 9 / 10)
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

    #[test]
    fn it_is_forgotten_when_the_server_has_recovered() {
        let mut reserve = Reserve::default();
        reserve.learn(Duration::from_millis(80));
        (0..12).for_each(|_| reserve.learn(Duration::from_millis(2)));
        assert!(millis(&reserve) < 8, "{reserve:?}");
        assert!(reserve.of(Duration::from_millis(1)) <= Duration::from_micros(900));
    }
}
