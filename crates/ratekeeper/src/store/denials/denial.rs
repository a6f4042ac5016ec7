//! A denial that is remembered.

use crate::port::Grant;
use crate::{Cost, Decision, Nanos, Reason, Timestamp};

/// What a store refused, and how long that can be relied on.
#[derive(Clone, Debug)]
pub(super) struct KnownDenial {
    decision: Decision,
    /// What a grant tells beside the decision, if it was refused as one. In a box, because most are not, and a denial stays
    /// small.
    aftermath: Option<Box<Aftermath>>,
    /// Before the store was asked: it decided later than that, so this long and `retry_after` more it still refuses.
    asked: Timestamp,
    /// When its answer was there. What is told counts from here: whoever waits that long finds the store willing.
    heard: Timestamp,
    until: Timestamp,
}

/// What there is to learn from a decision of the store.
#[derive(Clone, Debug)]
pub(super) enum LearntDenial {
    /// It refuses, and goes on to do so for a while.
    Lasting(KnownDenial),
    /// It refused, and had ceased to before the answer was there: the wait is shorter than the way.
    TooShort,
    /// Nothing that could be repeated.
    Nothing,
}

/// What a grant tells beside the decision: when by the store's clock, and what comes after.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aftermath {
    at: Timestamp,
    ends: Option<Nanos>,
    next: Decision,
}

/// An answer of a store that may deny, and is told again from a denial that is remembered.
pub(super) trait Deniable: Sized {
    /// Returns the decision that it amounts to.
    fn decision(&self) -> Decision;

    /// Returns how much was taken of this cost, which was allowed.
    fn granted(&self, cost: Cost) -> Cost;

    /// Returns what it tells beside the decision.
    fn aftermath(&self) -> Option<Box<Aftermath>>;

    /// Returns the same answer as it stands now; none if the denial does not know enough.
    fn told(denial: &KnownDenial, now: Timestamp) -> Option<Self>;
}

impl Deniable for Decision {
    fn decision(&self) -> Decision {
        *self
    }

    fn granted(&self, cost: Cost) -> Cost {
        cost
    }

    fn aftermath(&self) -> Option<Box<Aftermath>> {
        None
    }

    fn told(denial: &KnownDenial, now: Timestamp) -> Option<Self> {
        Some(count_down(denial.decision, now.since(denial.heard)))
    }
}

impl Deniable for Grant {
    fn decision(&self) -> Decision {
        self.decision
    }

    fn granted(&self, _: Cost) -> Cost {
        self.granted
    }

    fn aftermath(&self) -> Option<Box<Aftermath>> {
        let Grant { at, ends, next, .. } = *self;
        Some(Box::new(Aftermath { at, ends, next }))
    }

    fn told(denial: &KnownDenial, now: Timestamp) -> Option<Self> {
        let Aftermath { at, ends, next } = **denial.aftermath.as_ref()?;
        let passed = now.since(denial.heard);
        Some(Grant {
            granted: Cost::ZERO,
            decision: count_down(denial.decision, passed),
            at: at + passed,
            ends: ends.map(|left| left.saturating_sub(passed)),
            next: count_down(next, passed),
        })
    }
}

impl KnownDenial {
    /// Returns what an answer is worth here: that the quota is used up is worth remembering, for `trust` at most.
    pub(super) fn of(
        answer: &impl Deniable,
        asked: Timestamp,
        heard: Timestamp,
        trust: Nanos,
    ) -> LearntDenial {
        let decision = answer.decision();
        if decision.allowed || !matches!(decision.reason, Reason::QuotaExceeded | Reason::NeverFits) {
            return LearntDenial::Nothing;
        }
        let holds = decision.retry_after.map_or(trust, |wait| wait.min(trust));
        let until = asked + holds;
        if heard < until {
            return LearntDenial::Lasting(KnownDenial {
                decision,
                aftermath: answer.aftermath(),
                asked,
                heard,
                until,
            });
        }
        // It was over before it was heard. That is the store's word, unless nothing is trusted for so long anyway.
        if holds < trust { LearntDenial::TooShort } else { LearntDenial::Nothing }
    }

    /// Returns until when it is trusted.
    pub(super) fn until(&self) -> Timestamp {
        self.until
    }

    /// Returns true if it still stands now. A clock that stepped back tells nothing about it.
    pub(super) fn holds_at(&self, now: Timestamp) -> bool {
        self.asked <= now && now < self.until
    }
}

/// Returns a decision as it stands so long after it was heard. What was refused and has been waited for passes: then one at
/// least is left.
fn count_down(decision: Decision, passed: Nanos) -> Decision {
    let reset_after = decision.reset_after.saturating_sub(passed);
    match decision.retry_after {
        Some(wait) if !decision.allowed && wait <= passed => {
            Decision::allow(decision.limit, decision.remaining.max(1), reset_after).of_rule(decision.rule)
        }
        wait => {
            let retry_after = wait.map(|wait| wait.saturating_sub(passed));
            Decision { retry_after, reset_after, ..decision }
        }
    }
}
