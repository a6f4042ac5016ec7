//! What is in flight, and a rule as a hold sees it: a rate that it takes its estimate from, places that it takes, or both.
//!
//! What a key's live holds have estimated is bounded for every rule. Without a bound a caller could hold what refills, cancel
//! and hold again for hours, and cash it all in at once: given back in full, nothing of it would have aged.

use super::any_view::AnyView;
use super::view::{View, look, take};
use super::wait::Wait;
use crate::{Cost, Decision, Nanos, Reason, Timestamp};

/// How much live holds have of one rule, and how much they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// What all live holds of the key have together.
    pub held: u64,
    /// What they may have at most.
    pub most: u64,
}

impl InFlight {
    /// Returns true if so much more may be held.
    pub fn has_room(self, cost: Cost) -> bool {
        cost == Cost::ZERO || self.held.checked_add(cost.get()).is_some_and(|held| held <= self.most)
    }

    /// Returns the decision on so much more. When something ends is not known, so there is no time to wait for.
    pub fn look(self, cost: Cost) -> Decision {
        let remaining = self.most.saturating_sub(self.held);
        match self.has_room(cost) {
            true => Decision::allow(self.most, remaining, Nanos::ZERO),
            false if cost.get() > self.most => Decision::deny(self.most, remaining, None, Nanos::ZERO),
            false => {
                let denied = Decision::deny(self.most, remaining, None, Nanos::ZERO);
                Decision { reason: Reason::AtCapacity, ..denied }
            }
        }
    }
}

/// A rule as a hold sees it.
#[derive(Clone, Copy, Debug)]
pub struct HeldView<'a> {
    /// The rate that the estimate is taken from; none of a rule that limits what is in flight.
    pub rate: Option<AnyView<'a>>,
    /// What is in flight; none of a rate whose estimates another rule of the plan bounds.
    pub in_flight: Option<InFlight>,
}

impl HeldView<'_> {
    /// Returns true if so much may be held.
    pub fn has_room(&self, cost: Cost) -> bool {
        self.in_flight.is_none_or(|in_flight| in_flight.has_room(cost))
            && self.rate.as_ref().is_none_or(|rate| rate.wait_for(cost) == Wait::Ready)
    }

    /// Returns the decision on holding so much. What is left is told by the rate, if there is one, and so is the wait where
    /// the rate denies: what is in flight may end any time.
    pub fn look(&self, cost: Cost) -> Decision {
        let bound = self.in_flight.map(|in_flight| in_flight.look(cost));
        let Some(rate) = self.rate.map(|rate| look(&rate, cost)) else {
            return bound.unwrap_or(Decision::allow(u64::MAX, u64::MAX, Nanos::ZERO));
        };
        match bound {
            Some(Decision { allowed: false, retry_after, reason, .. }) if rate.allowed => {
                Decision { allowed: false, retry_after, reason, ..rate }
            }
            _ => rate,
        }
    }

    /// Takes what there is [room](HeldView::has_room) for. Returns the decision.
    pub fn take(&mut self, cost: Cost) -> Decision {
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.held = in_flight.held.saturating_add(cost.get());
        }
        match &mut self.rate {
            Some(rate) => take(rate, cost),
            None => self.look(Cost::ZERO),
        }
    }

    /// Ends a hold of `estimate` that was charged then and has spent so much: the place is free, and the difference is
    /// given back or debited. Returns how much of a debit was forgiven.
    ///
    /// GCRA and both buckets get back the whole difference, whatever has refilled since: what is held is bounded. Windows
    /// and logs get back what still counts of it.
    pub fn end(&mut self, estimate: Cost, spent: Cost, charged_at: Timestamp, now: Timestamp) -> u64 {
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.held = in_flight.held.saturating_sub(estimate.get());
        }
        let Some(rate) = &mut self.rate else { return 0 };
        match spent.get().checked_sub(estimate.get()) {
            Some(0) => 0,
            Some(more) => rate.debit(Cost::new(more)),
            None => {
                let ages =
                    matches!(rate, AnyView::Gcra(_) | AnyView::TokenBucket(_) | AnyView::LeakyBucket(_));
                rate.refund(Cost::new(estimate.get() - spent.get()), if ages { now } else { charged_at });
                0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tenancy::Tenancy;
    use super::*;
    use crate::Quota;

    #[test]
    fn a_place_is_free_or_nobody_knows_when() {
        let full = InFlight { held: 2, most: 2 };
        let denied = full.look(Cost::ONE);
        assert_eq!((denied.allowed, denied.retry_after, denied.reason), (false, None, Reason::AtCapacity));
        assert_eq!(full.look(Cost::new(3)).reason, Reason::NeverFits);
        assert!(full.look(Cost::ZERO).allowed);
        assert_eq!(InFlight { held: 1, most: 2 }.look(Cost::ONE).remaining, 1);
        assert!(!InFlight { held: u64::MAX, most: u64::MAX }.has_room(Cost::ONE));
    }

    #[test]
    fn an_estimate_is_corrected_both_ways() {
        let quota: Quota = "100/m burst 100 bucket".parse().unwrap();
        let now = Timestamp::from_secs(1_000);
        let rate = AnyView::at(&quota, None, now, Tenancy::Own).unwrap();
        let mut view = HeldView { rate: Some(rate), in_flight: Some(InFlight { held: 0, most: 100 }) };
        assert_eq!(view.take(Cost::new(58)).remaining, 42);
        assert_eq!(view.take(Cost::new(40)).remaining, 2);
        let wait = view.look(Cost::new(3));
        assert_eq!(
            (wait.allowed, wait.retry_after),
            (false, Some(Nanos::from_millis(600))),
            "the rate tells"
        );
        view.in_flight = Some(InFlight { held: 98, most: 98 });
        let bound = view.look(Cost::new(2));
        assert_eq!((bound.allowed, bound.reason, bound.remaining), (false, Reason::AtCapacity, 2));
        assert_eq!(bound.retry_after, None);
        assert_eq!(view.end(Cost::new(58), Cost::new(80), now, now), 0);
        let owing = view.look(Cost::ONE);
        assert_eq!(
            (owing.allowed, owing.remaining, owing.retry_after),
            (false, 0, Some(Nanos::from_millis(12_600)))
        );
        view.end(Cost::new(40), Cost::ZERO, now, now);
        assert_eq!((view.look(Cost::ONE).remaining, view.in_flight.unwrap().held), (20, 0));
    }
}
