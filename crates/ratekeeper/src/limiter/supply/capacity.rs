//! Any supply behind the same questions, and what was used beyond what there was.

use super::debt;
use super::leaky_line::LeakyLine;
use super::rate::{Inherit, RateState, later};
use super::ticks::TickBucket;
use crate::algorithm::{View, Wait, look};
use crate::{Cost, Decision, Nanos, Quota, Reason, Timestamp};

/// What a cost must wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// Nothing: it passes now.
    Ready,
    /// So long, if nobody else takes anything.
    After(Nanos),
    /// Until a permit is given back, whenever that is.
    OnRelease,
    /// It can never pass.
    Never,
}

impl Outlook {
    /// Returns how long, if that can be foreseen.
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

/// What is taken from.
#[derive(Clone, Debug)]
pub(crate) enum Supply {
    /// A quota's state.
    Rate(RateState),
    /// Permits, which come back when they are dropped.
    Permits { limit: u64, in_flight: u64 },
    /// Whole tokens at whole intervals.
    Ticks(TickBucket),
    /// One every interval.
    Line(LeakyLine),
}

/// A supply, and when what was used beyond it will have been paid.
#[derive(Clone, Debug)]
pub(crate) struct Capacity {
    pub(crate) supply: Supply,
    /// Nothing passes before this instant: all that comes in until then pays for what was used beyond what there was.
    /// The supply is that of this instant, for as long as it is ahead; so a debt of any size is two numbers.
    paid_at: Timestamp,
}

impl From<Supply> for Capacity {
    fn from(supply: Supply) -> Self {
        Capacity { supply, paid_at: Timestamp::MIN }
    }
}

impl From<Quota> for Capacity {
    fn from(quota: Quota) -> Self {
        Supply::Rate(RateState::new(quota)).into()
    }
}

impl Capacity {
    /// The instant that the supply is looked at, and how far ahead of now it is.
    fn instant(&self, now: Timestamp) -> (Timestamp, Nanos) {
        let at = now.max(self.paid_at);
        (at, at.since(now))
    }

    /// What a waiter at the head of the queue must wait for.
    pub(crate) fn outlook(&self, cost: Cost, now: Timestamp) -> Outlook {
        let (at, ahead) = self.instant(now);
        let outlook = self.supply.outlook(cost, at);
        if ahead.is_zero() {
            return outlook;
        }
        let Some(wait) = outlook.wait() else { return outlook };
        let after = ahead.saturating_add(wait);
        // No clock will show the end of time.
        if now + after < Timestamp::MAX { Outlook::After(after) } else { Outlook::Never }
    }

    /// Decides for a caller who will not wait, and takes nothing. The same predicate as [`outlook`](Capacity::outlook),
    /// except for a line, which also admits those who leave at once if it has room for one more.
    pub(crate) fn look(&self, cost: Cost, now: Timestamp) -> Decision {
        let (at, ahead) = self.instant(now);
        let decision = self.supply.look(cost, at);
        if ahead.is_zero() {
            return decision;
        }
        let reset_after = decision.reset_after.saturating_add(ahead);
        if cost == Cost::ZERO {
            return Decision { remaining: 0, reset_after, ..decision };
        }
        Decision::deny(decision.limit, 0, self.outlook(cost, now).wait(), reset_after)
    }

    /// Decides for a caller who will not wait, and takes the cost if it is allowed.
    pub(crate) fn try_take(&mut self, cost: Cost, now: Timestamp) -> Decision {
        if self.paid_at > now { self.look(cost, now) } else { self.supply.try_take(cost, now) }
    }

    /// Takes a cost that was found ready.
    pub(crate) fn charge(&mut self, cost: Cost, now: Timestamp) {
        let (at, _) = self.instant(now);
        self.supply.charge(cost, at);
    }

    /// Gives back what is left of a charge that was made at this instant: what has come in since may have been taken
    /// by others, and giving it back too would let too many in. Never above the capacity.
    pub(crate) fn refund(&mut self, cost: Cost, charged_at: Timestamp, now: Timestamp) {
        if cost == Cost::ZERO {
            return;
        }
        if self.paid_at > now
            && let Supply::Rate(rate) = &mut self.supply
            && let Some(left) = rate.time_left(cost, now.since(charged_at))
        {
            // What is owed is time: it is over so much earlier, and what is there then was there so much earlier.
            self.paid_at = self.paid_at.saturating_sub(left);
            return rate.bring_forward(left);
        }
        let (at, _) = self.instant(now);
        self.supply.refund(cost, charged_at, at);
    }

    /// Takes a cost that was used already, whether it is there or not.
    pub(crate) fn owe(&mut self, cost: Cost, now: Timestamp) {
        let (at, _) = self.instant(now);
        if cost == Cost::ZERO || self.supply.outlook(cost, at) == Outlook::Ready {
            return self.supply.charge(cost, at);
        }
        self.paid_at = match &mut self.supply {
            Supply::Rate(rate) => debt::owe(rate, cost.get(), at),
            Supply::Ticks(bucket) => bucket.owe(cost.get(), at),
            // Nobody uses these before being let in.
            Supply::Permits { .. } | Supply::Line(_) => return self.supply.charge(cost, at),
        };
    }

    /// Returns how much is owed, rounded up.
    fn owed(&self, now: Timestamp) -> u64 {
        let Supply::Rate(rate) = &self.supply else { return 0 };
        let time = u128::from(self.paid_at.since(now).as_nanos());
        let (count, period) = (rate.quota().count(), rate.quota().period().as_nanos());
        let owed = (time * u128::from(count)).div_ceil(u128::from(period.max(1)));
        u64::try_from(owed).unwrap_or(u64::MAX)
    }

    /// Returns the most that can be there.
    pub(crate) fn limit(&self) -> u64 {
        self.supply.limit()
    }

    /// Returns how many of cost 1 would pass now.
    pub(crate) fn remaining(&self, now: Timestamp) -> u64 {
        self.look(Cost::ZERO, now).remaining
    }

    /// Returns the time until nothing is remembered; the longest time while permits are in flight.
    pub(crate) fn reset_after(&self, now: Timestamp) -> Nanos {
        match self.supply {
            Supply::Permits { in_flight: 0, .. } => Nanos::ZERO,
            Supply::Permits { .. } => Nanos::MAX,
            _ => self.look(Cost::ZERO, now).reset_after,
        }
    }

    /// Forgets what was taken, and what is owed. Permits in flight stay in flight.
    pub(crate) fn reset(&mut self, now: Timestamp) {
        self.paid_at = Timestamp::MIN;
        match &mut self.supply {
            Supply::Rate(rate) => *rate = RateState::new(*rate.quota()),
            Supply::Permits { .. } => {}
            Supply::Ticks(bucket) => bucket.fill(now),
            Supply::Line(line) => line.free_at = now,
        }
    }

    /// Reads on under another quota. Anything that is not decided by a quota stays as it is.
    pub(crate) fn set_quota(&mut self, quota: Quota, inherit: Inherit, now: Timestamp) {
        let (owed, (at, _)) = (self.owed(now), self.instant(now));
        let Supply::Rate(rate) = &mut self.supply else { return };
        if let Some(used) = rate.set_quota(quota, inherit, owed, at, now) {
            self.paid_at = Timestamp::MIN;
            self.owe(Cost::new(used), now);
        }
    }

    /// Returns the instant at which `together`, of `count` who wait and one more, will have passed; the end of time for
    /// never, and `None` if it also counts who wants how much.
    pub(crate) fn ready_at(&self, together: u128, count: usize, now: Timestamp) -> Option<Timestamp> {
        let (at, _) = self.instant(now);
        let wait = match &self.supply {
            Supply::Rate(rate) => rate.time_for(together, at)?,
            Supply::Line(line) => {
                let ahead = u128::from(line.interval.as_nanos()).saturating_mul(count as u128);
                u128::from(line.ahead(at).as_nanos()) + ahead
            }
            Supply::Ticks(_) | Supply::Permits { .. } => return None,
        };
        Some(later(at, wait))
    }

    /// Returns how long it takes until all that was taken may be taken again, and for how many such windows a little
    /// more than the limit may pass.
    pub(crate) fn window(&self) -> (Nanos, u128) {
        match &self.supply {
            Supply::Rate(rate) => (rate.quota().period(), rate.may_exceed_a_window().into()),
            Supply::Ticks(bucket) => (bucket.refill_time(), 0),
            Supply::Line(_) | Supply::Permits { .. } => (Nanos::ZERO, 0),
        }
    }

    /// Returns true if a copy takes as long as there is much in it.
    pub(crate) fn is_large(&self) -> bool {
        matches!(&self.supply, Supply::Rate(rate) if rate.is_large())
    }

    /// Returns true if what is waited for comes by itself, as permits do, and no clock says when.
    pub(crate) fn comes_unforeseen(&self) -> bool {
        matches!(self.supply, Supply::Permits { .. })
    }
}

impl Supply {
    fn outlook(&self, cost: Cost, now: Timestamp) -> Outlook {
        match self {
            Supply::Rate(rate) => rate.view(now).wait_for(cost).into(),
            Supply::Permits { limit, .. } if cost.get() > *limit => Outlook::Never,
            Supply::Permits { limit, in_flight } => match in_flight.saturating_add(cost.get()) <= *limit {
                true => Outlook::Ready,
                false => Outlook::OnRelease,
            },
            Supply::Ticks(bucket) => bucket.at(now).wait_for(cost).into(),
            Supply::Line(line) => match line.ahead(now) {
                Nanos::ZERO => Outlook::Ready,
                wait => Outlook::After(wait),
            },
        }
    }

    fn look(&self, cost: Cost, now: Timestamp) -> Decision {
        match self {
            Supply::Rate(rate) => look(&rate.view(now), cost),
            Supply::Ticks(bucket) => look(&bucket.at(now), cost),
            Supply::Permits { limit, in_flight } => {
                let left = limit.saturating_sub(*in_flight);
                if cost.get() <= left {
                    return Decision::allow(*limit, left, Nanos::ZERO);
                }
                let denial = Decision::deny(*limit, left, None, Nanos::ZERO);
                let reason = if cost.get() > *limit { denial.reason } else { Reason::AtCapacity };
                Decision { reason, ..denial }
            }
            Supply::Line(line) => {
                let (room, wait, reset) = (line.room(now), line.wait_for_room(now), line.ahead(now));
                if wait.is_zero() || cost == Cost::ZERO {
                    Decision::allow(line.capacity, room, reset)
                } else {
                    Decision::deny(line.capacity, room, Some(wait), reset)
                }
            }
        }
    }

    fn try_take(&mut self, cost: Cost, now: Timestamp) -> Decision {
        // The common case, in one view instead of two.
        if let Supply::Rate(rate) = self {
            return rate.try_take(cost, now);
        }
        let decision = self.look(cost, now);
        if !decision.allowed || cost == Cost::ZERO {
            return decision;
        }
        self.charge(cost, now);
        self.look(Cost::ZERO, now)
    }

    fn charge(&mut self, cost: Cost, now: Timestamp) {
        if cost == Cost::ZERO {
            return;
        }
        match self {
            Supply::Rate(rate) => rate.charge(cost, now),
            Supply::Permits { in_flight, .. } => *in_flight = in_flight.saturating_add(cost.get()),
            Supply::Ticks(bucket) => bucket.edit(now, |view| view.charge(cost)),
            Supply::Line(line) => line.admit(now),
        }
    }

    fn refund(&mut self, cost: Cost, charged_at: Timestamp, now: Timestamp) {
        match self {
            Supply::Rate(rate) => rate.refund(cost, charged_at, now),
            Supply::Permits { in_flight, .. } => *in_flight = in_flight.saturating_sub(cost.get()),
            Supply::Ticks(bucket) => bucket.edit(now, |view| view.refund(cost, charged_at)),
            Supply::Line(line) => line.withdraw(now, charged_at),
        }
    }

    fn limit(&self) -> u64 {
        match self {
            Supply::Rate(rate) => rate.quota().burst(),
            Supply::Permits { limit, .. } => *limit,
            Supply::Ticks(bucket) => bucket.capacity(),
            Supply::Line(line) => line.capacity,
        }
    }
}
