//! A denial that is remembered.

use crate::{Decision, Nanos, Reason, Timestamp};

/// What a store refused, and how long that can be relied on.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownDenial {
    decision: Decision,
    /// Before the store was asked: it decided later than that, so this long and `retry_after` more it still refuses.
    asked: Timestamp,
    /// When its answer was there. What is told counts from here: whoever waits that long finds the store willing.
    heard: Timestamp,
    until: Timestamp,
}

/// What there is to learn from a decision of the store.
#[derive(Clone, Copy, Debug)]
pub(super) enum LearntDenial {
    /// It refuses, and goes on to do so for a while.
    Lasting(KnownDenial),
    /// It refused, and had ceased to before the answer was there: the wait is shorter than the way.
    TooShort,
    /// Nothing that could be repeated.
    Nothing,
}

impl KnownDenial {
    /// Returns what a decision is worth here: that the quota is used up is worth remembering, for `trust` at most.
    pub(super) fn of(decision: Decision, asked: Timestamp, heard: Timestamp, trust: Nanos) -> LearntDenial {
        if decision.allowed || !matches!(decision.reason, Reason::QuotaExceeded | Reason::NeverFits) {
            return LearntDenial::Nothing;
        }
        let holds = decision.retry_after.map_or(trust, |wait| wait.min(trust));
        let until = asked + holds;
        if heard < until {
            return LearntDenial::Lasting(KnownDenial { decision, asked, heard, until });
        }
        // It was over before it was heard. That is the store's word, unless nothing is trusted for so long anyway.
        if holds < trust { LearntDenial::TooShort } else { LearntDenial::Nothing }
    }

    /// Returns until when it is trusted.
    pub(super) fn until(&self) -> Timestamp {
        self.until
    }

    /// Returns the refusal as it stands now, if it still does. A clock that stepped back tells nothing about it.
    pub(super) fn at(&self, now: Timestamp) -> Option<Decision> {
        if now < self.asked || now >= self.until {
            return None;
        }
        let passed = now.since(self.heard);
        Some(Decision {
            retry_after: self.decision.retry_after.map(|wait| wait.saturating_sub(passed)),
            reset_after: self.decision.reset_after.saturating_sub(passed),
            ..self.decision
        })
    }
}
