//! When a waiter will be granted, given those ahead of it.
//!
//! Where what was taken comes in continuously, only what all ahead want together counts, which the list knows: the
//! answer takes one step. Where it comes in window by window, it also counts who still fits into which: then a few who
//! wait are let in one after another, on a copy, and of many it is said when they will have passed at the earliest.
//! Either way no question of a newcomer takes longer because more are waiting. One who asks about its own turn
//! ([`ready_at_turn`]) has all ahead of it looked at, because only what all want is known.
//!
//! What comes in continuously and is counted in floating point (buckets) is foreseen to within some nanoseconds: what
//! many want together is rounded once, and what they take one after another each time.

use super::waiters::{WaiterId, WaiterList};
use crate::limiter::supply::{Capacity, later};
use crate::{Cost, Timestamp};

/// How many are let in one after another, on a copy, for one question.
const STEPS: usize = 64;

/// What was foreseen so far, kept from one question to the next.
#[derive(Debug, Default)]
pub(crate) struct Forecast {
    projection: Option<Projection>,
}

/// The capacity as it will be when everybody up to `last` has been granted, and when that is.
#[derive(Clone, Debug)]
struct Projection {
    capacity: Capacity,
    at: Timestamp,
    /// The last one in the queue who is accounted for; none if everybody in the queue came later.
    last: Option<WaiterId>,
}

impl Projection {
    fn new(capacity: &Capacity, now: Timestamp) -> Self {
        Projection { capacity: capacity.clone(), at: now, last: None }
    }

    /// The instant at which this cost would pass.
    fn ready(&self, cost: Cost) -> Option<Timestamp> {
        Some(self.at + self.capacity.outlook(cost, self.at).wait()?)
    }

    /// Lets this cost pass when it can.
    fn grant(&mut self, cost: u64) -> Option<()> {
        let cost = Cost::new(cost);
        self.at = self.ready(cost)?;
        self.capacity.charge(cost, self.at);
        Some(())
    }
}

impl Forecast {
    /// Forgets what was foreseen, because the capacity or the queue has changed.
    pub(super) fn clear(&mut self) {
        self.projection = None;
    }

    /// Returns the instant at which this cost would be granted if it entered the queue now; `None` if that cannot be
    /// foreseen. Others who give up or give back can only make it earlier. Where many wait for windows, it is an instant
    /// before which it cannot be.
    pub(super) fn ready_at(
        &mut self,
        capacity: &Capacity,
        waiters: &WaiterList,
        cost: Cost,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if capacity.comes_unforeseen() {
            return None;
        }
        let together = waiters.wanted() + u128::from(cost.get());
        if let Some(ready) = capacity.ready_at(together, waiters.len(), now) {
            return (ready < Timestamp::MAX).then_some(ready);
        }
        let in_steps = self.ready_in_steps(capacity, waiters, cost, now);
        in_steps.unwrap_or_else(|| not_before(capacity, together, now))
    }

    /// Lets in everybody one after another; none if those are too many for one question.
    fn ready_in_steps(
        &mut self,
        capacity: &Capacity,
        waiters: &WaiterList,
        cost: Cost,
        now: Timestamp,
    ) -> Option<Option<Timestamp>> {
        let mut projection = match self.projection.take() {
            Some(projection) => projection,
            None if capacity.is_large() => return None,
            None => Projection::new(capacity, now),
        };
        projection.at = projection.at.max(now);
        let mut next = match projection.last {
            Some(last) => waiters.next(last),
            None => waiters.head(),
        };
        let mut steps = 0;
        while let Some(id) = next
            && steps < STEPS
        {
            let granted = waiters.get(id).and_then(|waiter| projection.grant(waiter.cost));
            if granted.is_none() {
                return Some(None);
            }
            projection.last = Some(id);
            next = waiters.next(id);
            steps += 1;
        }
        let ready = projection.ready(cost);
        // While nobody waits, the capacity may be charged without this being cleared.
        self.projection = Some(projection).filter(|_| !waiters.is_empty());
        next.is_none().then_some(ready)
    }
}

/// An instant before which this much, all together, cannot have passed.
fn not_before(capacity: &Capacity, together: u128, now: Timestamp) -> Option<Timestamp> {
    let (limit, left) = (capacity.limit().max(1), capacity.remaining(now));
    // What must come in first: whole limits, and a part.
    let missing = together.saturating_sub(u128::from(left)).saturating_sub(1);
    let whole = missing / u128::from(limit);
    let part = u64::try_from(missing % u128::from(limit)).unwrap_or(u64::MAX).saturating_add(1);
    let first = now + capacity.outlook(Cost::new(left.saturating_add(part).min(limit)), now).wait()?;
    let (window, excess) = capacity.window();
    let after = u128::from(window.as_nanos()).saturating_mul(whole.saturating_sub(excess));
    let instant = later(first, after);
    (instant < Timestamp::MAX).then_some(instant)
}

/// Returns the instant at which this waiter will be granted; takes as long as there are others ahead.
pub(super) fn ready_at_turn(
    capacity: &Capacity,
    waiters: &WaiterList,
    id: WaiterId,
    now: Timestamp,
) -> Option<Timestamp> {
    let cost = waiters.get(id)?.cost;
    let ahead = || waiters.waiters().take_while(|(other, _)| *other != id).map(|(_, other)| other.cost);
    let (wanted, count) =
        ahead().fold((0, 0), |(wanted, count), cost| (wanted + u128::from(cost), count + 1));
    if let Some(ready) = capacity.ready_at(wanted + u128::from(cost), count, now) {
        return (ready < Timestamp::MAX).then_some(ready);
    }
    let mut projection = Projection::new(capacity, now);
    for cost in ahead() {
        projection.grant(cost)?;
    }
    projection.ready(Cost::new(cost))
}
