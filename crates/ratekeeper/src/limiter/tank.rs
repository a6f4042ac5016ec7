//! What a limiter takes from: the state of any algorithm, permits, ticks or a line, behind the same questions, and
//! what was used beyond what there was.

use super::Inherit;
use super::line::Line;
use super::ticks::TickBucket;
use crate::algorithm::exact;
use crate::algorithm::{AnyView, Tenancy, View, Wait, gcra, look, take};
use crate::{Algorithm, Cost, Decision, Nanos, Quota, Reason, State, Timestamp};

/// What a cost must wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    Ready,
    After(Nanos),
    /// Until a permit is given back, whenever that is.
    OnRelease,
    Never,
}

impl Outlook {
    /// How long, if that can be foreseen.
    pub(crate) fn wait(self) -> Option<Nanos> {
        match self {
            Outlook::Ready => Some(Nanos::ZERO),
            Outlook::After(wait) => Some(wait),
            Outlook::OnRelease | Outlook::Never => None,
        }
    }
}

impl From<Wait> for Outlook {
    fn from(wait: Wait) -> Self {
        match wait {
            Wait::Ready => Outlook::Ready,
            Wait::After(wait) => Outlook::After(wait),
            Wait::Never => Outlook::Never,
        }
    }
}

/// What there is, and when debts will have been paid.
#[derive(Clone, Debug)]
pub(crate) struct Tank {
    pub(super) contents: Contents,
    /// Nothing passes before this instant: all that comes in until then pays for what was used beyond what there was.
    /// The contents are those of this instant, for as long as it is ahead; so a debt of any size is two numbers.
    pub(super) paid_at: Timestamp,
}

#[derive(Clone, Debug)]
pub(crate) enum Contents {
    Rate { quota: Quota, state: Option<State> },
    Permits { limit: u64, in_flight: u64 },
    Ticks(TickBucket),
    Line(Line),
}

impl From<Contents> for Tank {
    fn from(contents: Contents) -> Self {
        Tank { contents, paid_at: Timestamp::MIN }
    }
}

impl Tank {
    pub(crate) fn of_quota(quota: Quota) -> Self {
        Contents::Rate { quota, state: None }.into()
    }

    /// The instant that the contents are looked at, and how far ahead of now it is.
    fn instant(&self, now: Timestamp) -> (Timestamp, Nanos) {
        let at = now.max(self.paid_at);
        (at, at.since(now))
    }

    /// What a waiter at the head of the queue must wait for.
    pub(crate) fn outlook(&self, cost: Cost, now: Timestamp) -> Outlook {
        let (at, ahead) = self.instant(now);
        let outlook = self.contents.outlook(cost, at);
        if ahead.is_zero() {
            return outlook;
        }
        let Some(wait) = outlook.wait() else { return outlook };
        let after = ahead.saturating_add(wait);
        // No clock will tell the end of time.
        if now + after < Timestamp::MAX { Outlook::After(after) } else { Outlook::Never }
    }

    /// What one who will not wait would be told. The same predicate as [`outlook`](Tank::outlook), except for a
    /// line, which also admits those who leave at once to a place in it.
    pub(crate) fn look(&self, cost: Cost, now: Timestamp) -> Decision {
        let (at, ahead) = self.instant(now);
        let decision = self.contents.look(cost, at);
        if ahead.is_zero() {
            return decision;
        }
        let reset_after = decision.reset_after.saturating_add(ahead);
        if cost == Cost::PEEK {
            return Decision { remaining: 0, reset_after, ..decision };
        }
        Decision::deny(decision.limit, 0, self.outlook(cost, now).wait(), reset_after)
    }

    /// Takes, if one who will not wait may.
    pub(crate) fn try_take(&mut self, cost: Cost, now: Timestamp) -> Decision {
        if self.paid_at > now { self.look(cost, now) } else { self.contents.try_take(cost, now) }
    }

    /// Takes a cost that was found ready.
    pub(crate) fn charge(&mut self, cost: Cost, now: Timestamp) {
        let (at, _) = self.instant(now);
        self.contents.charge(cost, at);
    }

    /// Gives back what is left of a charge that was made at this instant: what has come in since may have been taken
    /// by others, and giving it back too would let too many in. Never above the capacity.
    pub(crate) fn refund(&mut self, cost: Cost, charged_at: Timestamp, now: Timestamp) {
        if cost == Cost::PEEK {
            return;
        }
        if self.paid_at > now
            && let Some(left) = self.contents.time_left(cost, now.since(charged_at))
        {
            // What is owed is time: it is over so much earlier, and what is there then was there so much earlier.
            self.paid_at = self.paid_at.saturating_sub(left);
            return self.contents.bring_forward(left);
        }
        let (at, _) = self.instant(now);
        self.contents.refund(cost, charged_at, at);
    }

    pub(crate) fn limit(&self) -> u64 {
        self.contents.limit()
    }

    /// How many of cost 1 would pass now.
    pub(crate) fn remaining(&self, now: Timestamp) -> u64 {
        self.look(Cost::PEEK, now).remaining
    }

    /// The time until nothing is remembered; the longest time for permits in flight.
    pub(crate) fn reset_after(&self, now: Timestamp) -> Nanos {
        match self.contents {
            Contents::Permits { in_flight: 0, .. } => Nanos::ZERO,
            Contents::Permits { .. } => Nanos::MAX,
            _ => self.look(Cost::PEEK, now).reset_after,
        }
    }

    /// Forgets what was taken, and what is owed. Permits in flight stay in flight.
    pub(crate) fn reset(&mut self, now: Timestamp) {
        self.paid_at = Timestamp::MIN;
        match &mut self.contents {
            Contents::Rate { state, .. } => *state = None,
            Contents::Permits { .. } => {}
            Contents::Ticks(bucket) => bucket.fill(now),
            Contents::Line(line) => line.free_at = now,
        }
    }

    /// Reads on under another quota. Anything that is not decided by a quota stays as it is.
    pub(crate) fn set_quota(&mut self, new: Quota, inherit: Inherit, now: Timestamp) {
        let owed = self.owed(now);
        let (at, _) = self.instant(now);
        let Contents::Rate { quota, state } = &mut self.contents else { return };
        let old = std::mem::replace(quota, new);
        if inherit == Inherit::Keep && owed == 0 && keep_state(&old, &new, state, now) {
            return;
        }
        let (limit, used) = (old.burst(), used(&old, state, at));
        let used = match inherit {
            Inherit::Reset => 0,
            // What another algorithm remembers cannot be read; how much of it is used can.
            Inherit::Keep => used.min(new.burst()).saturating_add(owed),
            Inherit::Proportional => proportion(used, new.burst(), limit).saturating_add(owed),
        };
        (*state, self.paid_at) = (None, Timestamp::MIN);
        self.owe(Cost::new(used), now);
    }

    /// The instant of a GCRA, which is all of its state; `None` for anything else.
    pub(crate) fn tat(&self) -> Option<Timestamp> {
        match &self.contents {
            Contents::Rate { quota, state } if quota.algorithm() == Algorithm::Gcra => match state {
                Some(State::Gcra(state)) => Some(state.tat),
                _ => Some(Timestamp::MIN),
            },
            _ => None,
        }
    }

    pub(crate) fn set_tat(&mut self, tat: Timestamp) {
        if let Contents::Rate { state, .. } = &mut self.contents {
            *state = (tat > Timestamp::MIN).then_some(State::Gcra(gcra::GcraState { tat }));
        }
    }
}

impl Contents {
    pub(super) fn outlook(&self, cost: Cost, now: Timestamp) -> Outlook {
        match self {
            Contents::Rate { quota, state } => meter(quota, state, now).wait_for(cost).into(),
            Contents::Permits { limit, in_flight } => {
                if cost.get() > *limit {
                    Outlook::Never
                } else if in_flight.saturating_add(cost.get()) <= *limit {
                    Outlook::Ready
                } else {
                    Outlook::OnRelease
                }
            }
            Contents::Ticks(bucket) => bucket.at(now).wait_for(cost).into(),
            Contents::Line(line) => match line.ahead(now) {
                Nanos::ZERO => Outlook::Ready,
                wait => Outlook::After(wait),
            },
        }
    }

    fn look(&self, cost: Cost, now: Timestamp) -> Decision {
        match self {
            Contents::Rate { quota, state } => look(&meter(quota, state, now), cost),
            Contents::Ticks(bucket) => look(&bucket.at(now), cost),
            Contents::Permits { limit, in_flight } => {
                let left = limit.saturating_sub(*in_flight);
                if cost.get() <= left {
                    Decision::allow(*limit, left, Nanos::ZERO)
                } else if cost.get() > *limit {
                    Decision::deny(*limit, left, None, Nanos::ZERO)
                } else {
                    at_capacity(*limit, left)
                }
            }
            Contents::Line(line) => {
                let (places, wait, reset) = (line.places(now), line.wait_for_place(now), line.ahead(now));
                if wait.is_zero() || cost == Cost::PEEK {
                    Decision::allow(line.capacity, places, reset)
                } else {
                    Decision::deny(line.capacity, places, Some(wait), reset)
                }
            }
        }
    }

    fn try_take(&mut self, cost: Cost, now: Timestamp) -> Decision {
        match self {
            // The common case, in one view instead of two.
            Contents::Rate { quota, state } => edit(quota, state, now, |view| {
                let decision = take(view, cost);
                (cost != Cost::PEEK && (decision.allowed || view.was_repaired()), decision)
            }),
            _ => {
                let decision = self.look(cost, now);
                if !decision.allowed || cost == Cost::PEEK {
                    return decision;
                }
                self.charge(cost, now);
                self.look(Cost::PEEK, now)
            }
        }
    }

    pub(super) fn charge(&mut self, cost: Cost, now: Timestamp) {
        if cost == Cost::PEEK {
            return;
        }
        match self {
            Contents::Rate { quota, state } => edit(quota, state, now, |view| (true, view.charge(cost))),
            Contents::Permits { in_flight, .. } => *in_flight = in_flight.saturating_add(cost.get()),
            Contents::Ticks(bucket) => {
                let mut view = bucket.at(now);
                view.charge(cost);
                *bucket = view.into_bucket();
            }
            Contents::Line(line) => line.admit(now),
        }
    }

    fn refund(&mut self, cost: Cost, charged_at: Timestamp, now: Timestamp) {
        match self {
            // Nothing is remembered that could be given back.
            Contents::Rate { state: None, .. } => {}
            Contents::Rate { quota, state } => {
                edit(quota, state, now, |view| (true, view.refund(cost, charged_at)));
            }
            Contents::Permits { in_flight, .. } => *in_flight = in_flight.saturating_sub(cost.get()),
            Contents::Ticks(bucket) => {
                let mut view = bucket.at(now);
                view.refund(cost, charged_at);
                *bucket = view.into_bucket();
            }
            Contents::Line(line) => line.withdraw(now, charged_at),
        }
    }

    fn limit(&self) -> u64 {
        match self {
            Contents::Rate { quota, .. } => quota.burst(),
            Contents::Permits { limit, .. } => *limit,
            Contents::Ticks(bucket) => bucket.capacity(),
            Contents::Line(line) => line.capacity,
        }
    }
}

/// The denial of one who finds every permit in use.
pub(crate) fn at_capacity(limit: u64, left: u64) -> Decision {
    Decision { reason: Reason::AtCapacity, ..Decision::deny(limit, left, None, Nanos::ZERO) }
}

/// The state is the limiter's own, and nobody else's.
pub(super) fn meter<'a>(quota: &'a Quota, state: &'a Option<State>, now: Timestamp) -> AnyView<'a> {
    AnyView::at(quota, state.as_ref(), now, Tenancy::Own)
        .or_else(|_| AnyView::at(quota, None, now, Tenancy::Own))
        .expect("a tank holds only states of its own quota, and no quota of permits")
}

/// Changes the state, if `change` says that it has.
fn edit<R>(
    quota: &Quota,
    state: &mut Option<State>,
    now: Timestamp,
    change: impl FnOnce(&mut AnyView<'_>) -> (bool, R),
) -> R {
    let mut view = meter(quota, state, now);
    let (changed, result) = change(&mut view);
    match view {
        _ if !changed => {}
        // A log is edited where it is: copying it would cost as much as it is long.
        AnyView::SlidingLog(view) => {
            let edit = view.edit();
            let log = state.get_or_insert_with(|| State::SlidingLog(Default::default()));
            if let State::SlidingLog(log) = log {
                edit.apply(log);
            }
        }
        _ => *state = view.to_state(),
    }
    result
}

/// How much is used, rounded up.
fn used(quota: &Quota, state: &Option<State>, at: Timestamp) -> u64 {
    match meter(quota, state, at) {
        AnyView::SlidingWindow(view) => view.used(),
        view => view.limit().saturating_sub(view.remaining()),
    }
}

/// Makes the state one of the new quota, if it can be read under that; false if only what is used can be.
fn keep_state(old: &Quota, new: &Quota, state: &mut Option<State>, now: Timestamp) -> bool {
    match (old.algorithm(), new.algorithm()) {
        (Algorithm::Gcra, Algorithm::Gcra) => {
            let Some(State::Gcra(state)) = state else { return true };
            // An instant says how long the old rate takes to refill what was used. As much is used under the new one,
            // and a part of a token counts for a whole part of the new one's: a change of quota mints nothing.
            let used = u128::from(state.tat.since(now).min(old.refill_time()).as_nanos());
            let (from, to) = (old.emission_interval().as_nanos(), new.emission_interval().as_nanos());
            let used = (used * u128::from(to)).div_ceil(u128::from(from));
            let used = u64::try_from(used).map_or(new.refill_time(), Nanos::from_nanos);
            state.tat = now + used.min(new.refill_time());
            true
        }
        (Algorithm::TokenBucket, Algorithm::TokenBucket) => {
            // What has come in until now has come in at the old rate.
            *state = meter(old, state, now).to_state();
            if let Some(State::TokenBucket(state)) = state {
                // A smaller bucket has the less in it: what is used is used of that too.
                let lost = exact(old.burst().saturating_sub(new.burst()));
                state.tokens = (state.tokens - lost).max(0.0);
            }
            true
        }
        (Algorithm::LeakyBucket, Algorithm::LeakyBucket) => {
            *state = meter(old, state, now).to_state();
            true
        }
        // What was counted in a window can be read only where the windows are the same.
        (old_windows, new_windows) => old_windows == new_windows && old.period() == new.period(),
    }
}

/// The same share of another limit, rounded up: a change of quota mints nothing.
fn proportion(used: u64, new_limit: u64, old_limit: u64) -> u64 {
    let share = (u128::from(used) * u128::from(new_limit)).div_ceil(u128::from(old_limit.max(1)));
    u64::try_from(share).unwrap_or(u64::MAX)
}
