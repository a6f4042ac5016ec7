//! What was answered when the store could not decide.

use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper::{Decision, Reason};

/// Counts of answers by failure modes.
#[derive(Debug, Default)]
pub(super) struct FailureAnswers {
    open: AtomicU64,
    closed: AtomicU64,
}

/// How often failure modes answered, at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailureAnswersReading {
    /// Requests that were allowed because the store failed.
    pub(crate) open: u64,
    /// Requests that were denied because the store failed.
    pub(crate) closed: u64,
}

impl FailureAnswers {
    /// Counts what was answered instead of the store; what its local twin decides is a decision as any other.
    pub(super) fn answered(&self, answer: Option<&Decision>) {
        let counter = match answer.map(|decision| decision.reason) {
            Some(Reason::FailOpen) => &self.open,
            Some(Reason::FailClosed) => &self.closed,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts.
    pub(super) fn read(&self) -> FailureAnswersReading {
        FailureAnswersReading {
            open: self.open.load(Ordering::Relaxed),
            closed: self.closed.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_their_reason() {
        let answers = FailureAnswers::default();
        answers.answered(Some(&Decision::uninformed(true, 1, Reason::FailOpen)));
        answers.answered(Some(&Decision::uninformed(false, 1, Reason::FailClosed)));
        answers.answered(Some(&Decision::uninformed(false, 1, Reason::FailClosed)));
        answers.answered(Some(&Decision::allow(1, 0, ratekeeper::Nanos::ZERO)));
        answers.answered(None);
        assert_eq!(answers.read(), FailureAnswersReading { open: 1, closed: 2 });
    }
}
