//! What a limiter takes from: the state of any algorithm, permits, ticks or a line, behind the same questions.

use super::Inherit;
use super::line::Line;
use super::ticks::TickBucket;
use crate::algorithm::{Algorithm, Meter, Tenancy, View, Wait, gcra, leaky_bucket, look, take, token_bucket};
use crate::state::State;
use crate::{Cost, Decision, Nanos, Quota, Reason, Timestamp};

/// What a cost must wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    Ready,
    After(Nanos),
    /// Until a permit is given back, whenever that is.
    OnRelease,
    Never,
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

#[derive(Clone, Debug)]
pub(crate) enum Tank {
    Rate { quota: Quota, state: Option<State> },
    Permits { limit: u64, in_flight: u64 },
    Ticks(TickBucket),
    Line(Line),
}

impl Tank {
    /// What a waiter at the head of the queue must wait for.
    pub(crate) fn outlook(&self, cost: Cost, now: Timestamp) -> Outlook {
        match self {
            Tank::Rate { quota, state } => meter(quota, state, now).wait_for(cost).into(),
            Tank::Permits { limit, in_flight } => {
                if cost.get() > *limit {
                    Outlook::Never
                } else if in_flight.saturating_add(cost.get()) <= *limit {
                    Outlook::Ready
                } else {
                    Outlook::OnRelease
                }
            }
            Tank::Ticks(bucket) => bucket.at(now).wait_for(cost).into(),
            Tank::Line(line) => match line.ahead(now) {
                Nanos::ZERO => Outlook::Ready,
                wait => Outlook::After(wait),
            },
        }
    }

    /// What one who will not wait would be told. The same predicate as [`outlook`](Tank::outlook), except for a
    /// line, which also admits those who leave at once to a place in it.
    pub(crate) fn look(&self, cost: Cost, now: Timestamp) -> Decision {
        match self {
            Tank::Rate { quota, state } => look(&meter(quota, state, now), cost),
            Tank::Ticks(bucket) => look(&bucket.at(now), cost),
            Tank::Permits { limit, in_flight } => {
                let left = limit.saturating_sub(*in_flight);
                if cost.get() <= left {
                    Decision::allow(*limit, left, Nanos::ZERO)
                } else if cost.get() > *limit {
                    Decision::deny(*limit, left, None, Nanos::ZERO)
                } else {
                    at_capacity(*limit, left)
                }
            }
            Tank::Line(line) => {
                let (places, wait, reset) = (line.places(now), line.wait_for_place(now), line.ahead(now));
                if wait.is_zero() || cost == Cost::PEEK {
                    Decision::allow(line.capacity, places, reset)
                } else {
                    Decision::deny(line.capacity, places, Some(wait), reset)
                }
            }
        }
    }

    /// Takes, if one who will not wait may.
    pub(crate) fn try_take(&mut self, cost: Cost, now: Timestamp) -> Decision {
        match self {
            // The common case, in one view instead of two.
            Tank::Rate { quota, state } => edit(quota, state, now, |view| {
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

    /// Takes a cost that was found ready.
    pub(crate) fn charge(&mut self, cost: Cost, now: Timestamp) {
        if cost == Cost::PEEK {
            return;
        }
        match self {
            Tank::Rate { quota, state } => edit(quota, state, now, |view| (true, view.charge(cost))),
            Tank::Permits { in_flight, .. } => *in_flight = in_flight.saturating_add(cost.get()),
            Tank::Ticks(bucket) => {
                let mut view = bucket.at(now);
                view.charge(cost);
                *bucket = view.into_bucket();
            }
            Tank::Line(line) => line.admit(now),
        }
    }

    /// What to keep of a charge that was just made, for [`give_back`](Tank::give_back): where charges leak away, the
    /// instant at which this one will have; else the instant of the charge.
    pub(crate) fn mark(&self, now: Timestamp) -> Timestamp {
        if self.drains() { now + self.reset_after(now) } else { now }
    }

    /// True if what was charged leaks away, the oldest first; false if it is forgotten window by window, or held.
    fn drains(&self) -> bool {
        match self {
            Tank::Rate { quota, .. } => {
                matches!(quota.algorithm(), Algorithm::Gcra | Algorithm::TokenBucket | Algorithm::LeakyBucket)
            }
            Tank::Ticks(bucket) => !bucket.is_window(),
            Tank::Line(_) => true,
            Tank::Permits { .. } => false,
        }
    }

    /// Gives back as much of a charge as has not leaked or been forgotten since: the rest may have been taken by
    /// others, and giving it back too would let too many in.
    pub(crate) fn give_back(&mut self, cost: Cost, mark: Timestamp, now: Timestamp) {
        let left = mark.since(now);
        match self {
            _ if cost == Cost::PEEK => {}
            Tank::Line(line) => line.withdraw(now, left),
            Tank::Ticks(bucket) => {
                let cost = if bucket.is_window() {
                    if bucket.remembers(mark, now) { cost } else { Cost::PEEK }
                } else {
                    Cost::new(cost.get().min(bucket.refilled_in(left, now)))
                };
                self.refund(cost, now);
            }
            Tank::Rate { quota, state: Some(state) } => {
                let whole = quota.emission_interval().as_nanos().saturating_mul(cost.get());
                let partly = left.as_nanos() < whole;
                match state {
                    // As if it had leaked already: exact to the nanosecond, where tokens would have to be rounded.
                    State::Gcra(state) if partly => state.tat = state.tat.saturating_sub(left),
                    State::TokenBucket(state) if partly => state.last = state.last.saturating_sub(left),
                    State::LeakyBucket(state) if partly => state.last = state.last.saturating_sub(left),
                    _ => {
                        if self.remembers(mark, now) {
                            self.refund(cost, now);
                        }
                    }
                }
            }
            Tank::Rate { state: None, .. } => {}
            Tank::Permits { .. } => self.refund(cost, now),
        }
    }

    /// Gives back, never above the capacity.
    pub(crate) fn refund(&mut self, cost: Cost, now: Timestamp) {
        if cost == Cost::PEEK {
            return;
        }
        match self {
            Tank::Rate { quota, state } => edit(quota, state, now, |view| (true, view.refund(cost, now))),
            Tank::Permits { in_flight, .. } => *in_flight = in_flight.saturating_sub(cost.get()),
            Tank::Ticks(bucket) => {
                let mut view = bucket.at(now);
                view.refund(cost, now);
                *bucket = view.into_bucket();
            }
            Tank::Line(line) => line.withdraw(now, Nanos::MAX),
        }
    }

    fn remembers(&self, charged: Timestamp, now: Timestamp) -> bool {
        match self {
            Tank::Rate { state: Some(State::FixedWindow(state)), .. } => charged >= state.start,
            Tank::Rate { quota, state: Some(State::SlidingWindow(state)) } => {
                charged >= state.start.saturating_sub(quota.period())
            }
            Tank::Rate { quota, state: Some(State::SlidingLog(_)) } => now.since(charged) <= quota.period(),
            _ => true,
        }
    }

    /// Since when there was no more to come in; none where that is not how it works, or nothing was ever taken.
    pub(crate) fn full_since(&self) -> Option<Timestamp> {
        match self {
            Tank::Rate { state: Some(State::Gcra(state)), .. } => Some(state.tat),
            Tank::Rate { state: Some(State::TokenBucket(token_bucket::State { last, .. })), .. }
            | Tank::Rate { state: Some(State::LeakyBucket(leaky_bucket::State { last, .. })), .. } => {
                Some(*last + self.reset_after(*last))
            }
            Tank::Line(line) => Some(line.free_at),
            _ => None,
        }
    }

    /// Everything that was taken counts as taken so much later.
    pub(crate) fn delay(&mut self, by: Nanos) {
        match self {
            Tank::Rate { state: Some(State::Gcra(state)), .. } => state.tat = state.tat + by,
            Tank::Rate { state: Some(State::TokenBucket(state)), .. } => state.last = state.last + by,
            Tank::Rate { state: Some(State::LeakyBucket(state)), .. } => state.last = state.last + by,
            Tank::Line(line) => line.free_at = line.free_at + by,
            _ => {}
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        match self {
            Tank::Rate { quota, .. } => quota.burst(),
            Tank::Permits { limit, .. } => *limit,
            Tank::Ticks(bucket) => bucket.at(Timestamp::MIN).limit(),
            Tank::Line(line) => line.capacity,
        }
    }

    /// How many of cost 1 would pass now.
    pub(crate) fn remaining(&self, now: Timestamp) -> u64 {
        self.look(Cost::PEEK, now).remaining
    }

    /// The time until nothing is remembered; the longest time for permits in flight.
    pub(crate) fn reset_after(&self, now: Timestamp) -> Nanos {
        match self {
            Tank::Permits { in_flight: 0, .. } => Nanos::ZERO,
            Tank::Permits { .. } => Nanos::MAX,
            _ => self.look(Cost::PEEK, now).reset_after,
        }
    }

    /// Forgets what was taken. Permits in flight stay in flight.
    pub(crate) fn reset(&mut self, now: Timestamp) {
        match self {
            Tank::Rate { state, .. } => *state = None,
            Tank::Permits { .. } => {}
            Tank::Ticks(bucket) => {
                let mut view = bucket.at(now);
                view.refund(Cost::new(u64::MAX), now);
                *bucket = view.into_bucket();
            }
            Tank::Line(line) => line.free_at = now,
        }
    }

    /// Reads on under another quota. Anything that is not decided by a quota stays as it is.
    pub(crate) fn set_quota(&mut self, new: Quota, inherit: Inherit, now: Timestamp) {
        let Tank::Rate { quota, state } = self else { return };
        let old = meter(quota, state, now);
        let (limit, used) = (old.limit(), old.limit().saturating_sub(old.remaining()));
        let used = match inherit {
            Inherit::Reset => 0,
            Inherit::Keep if same_state(quota, &new) => {
                *quota = new;
                return;
            }
            // What another algorithm remembers cannot be read; how much of it is used can.
            Inherit::Keep => used,
            Inherit::Proportional => proportion(used, new.burst(), limit),
        };
        (*quota, *state) = (new, None);
        self.charge(Cost::new(used.min(new.burst())), now);
    }

    /// The instant of a GCRA, which is all of its state; `None` for anything else.
    pub(crate) fn tat(&self) -> Option<Timestamp> {
        match self {
            Tank::Rate { quota, state } if quota.algorithm() == Algorithm::Gcra => match state {
                Some(State::Gcra(state)) => Some(state.tat),
                _ => Some(Timestamp::MIN),
            },
            _ => None,
        }
    }

    pub(crate) fn set_tat(&mut self, tat: Timestamp) {
        if let Tank::Rate { state, .. } = self {
            *state = (tat > Timestamp::MIN).then_some(State::Gcra(gcra::State { tat }));
        }
    }
}

/// The denial of one who finds every permit in use.
pub(crate) fn at_capacity(limit: u64, left: u64) -> Decision {
    Decision { reason: Reason::AtCapacity, ..Decision::deny(limit, left, None, Nanos::ZERO) }
}

fn meter<'a>(quota: &'a Quota, state: &'a Option<State>, now: Timestamp) -> Meter<'a> {
    Meter::at(quota, state.as_ref(), now, Tenancy::Own)
        .or_else(|_| Meter::at(quota, None, now, Tenancy::Own))
        .expect("a tank holds only states of its own quota, and no quota of permits")
}

/// Changes the state, if `change` says that it has.
fn edit<R>(
    quota: &Quota,
    state: &mut Option<State>,
    now: Timestamp,
    change: impl FnOnce(&mut Meter<'_>) -> (bool, R),
) -> R {
    let mut view = meter(quota, state, now);
    let (changed, result) = change(&mut view);
    match view {
        _ if !changed => {}
        // A log is edited where it is: copying it would cost as much as it is long.
        Meter::SlidingLog(view) => {
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

/// True if the state of one quota can be read under the other.
fn same_state(old: &Quota, new: &Quota) -> bool {
    std::mem::discriminant(&old.algorithm()) == std::mem::discriminant(&new.algorithm())
}

/// The same share of another limit, rounded up: a change of quota mints nothing.
fn proportion(used: u64, new_limit: u64, old_limit: u64) -> u64 {
    let share = (u128::from(used) * u128::from(new_limit)).div_ceil(u128::from(old_limit.max(1)));
    u64::try_from(share).unwrap_or(u64::MAX)
}
