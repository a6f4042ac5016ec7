//! When a waiter will be granted, given those ahead of it.

use super::desk::Desk;
use super::queue::{Kind, Place};
use super::tank::{Outlook, Tank};
use crate::{Cost, Nanos, Timestamp};

/// The tank as it will be when everybody up to `last` has been granted, and when that is. Kept from one question to
/// the next, so that a thousand waiters in a row cost a thousand steps and not half a million.
#[derive(Clone, Debug)]
pub(crate) struct Projection {
    tank: Tank,
    at: Timestamp,
    /// The last one in the queue who is accounted for; none if everybody in the queue came later.
    last: Option<Place>,
}

impl Projection {
    /// The head was granted: what the projection is then. If it was the last one accounted for, everybody in the
    /// queue came later; if nobody was, the projection knows nothing of the grant. What would have come in during
    /// `lost`, while the tank was full because the grant was late, will be missing to all who come later.
    pub(crate) fn granted(mut self, head: Place, lost: Nanos) -> Option<Self> {
        self.tank.delay(lost);
        self.at = self.at + lost;
        if self.last? == head {
            self.last = None;
        }
        Some(self)
    }

    fn new(tank: &Tank, now: Timestamp) -> Self {
        Projection { tank: tank.clone(), at: now, last: None }
    }

    /// The instant at which this cost would pass.
    fn ready(&self, cost: Cost) -> Option<Timestamp> {
        match self.tank.outlook(cost, self.at) {
            Outlook::Ready => Some(self.at),
            Outlook::After(wait) => Some(self.at + wait),
            Outlook::OnRelease | Outlook::Never => None,
        }
    }

    /// Lets this cost pass when it can.
    fn grant(&mut self, mut cost: u64) -> Option<()> {
        while cost > 0 {
            // Only a debt is larger than the limit.
            let part = Cost::new(cost.min(self.tank.limit().max(1)));
            self.at = self.ready(part)?;
            self.tank.charge(part, self.at);
            cost -= part.get();
        }
        Some(())
    }
}

impl Desk {
    /// The instant at which this cost would be granted if it entered now; none if that cannot be foreseen. Exact
    /// for the state as it is: others who give up or give back can only make it earlier.
    pub(crate) fn project(&mut self, cost: Cost, now: Timestamp) -> Option<Timestamp> {
        if matches!(self.tank, Tank::Permits { .. }) {
            return None;
        }
        let mut projection = self.projection.take().unwrap_or_else(|| Projection::new(&self.tank, now));
        projection.at = projection.at.max(now);
        let mut next = match projection.last {
            Some(last) => self.queue.next(last),
            None => self.queue.head(),
        };
        while let Some(place) = next {
            projection.grant(self.queue.get(place)?.cost)?;
            projection.last = Some(place);
            next = self.queue.next(place);
        }
        let ready = projection.ready(cost);
        // While nobody waits, the tank may be charged without anybody telling.
        self.projection = Some(projection).filter(|_| !self.queue.is_empty());
        ready
    }

    /// The instant at which the waiter at this place will be granted; takes as long as there are others ahead.
    pub(crate) fn project_place(&self, place: Place, now: Timestamp) -> Option<Timestamp> {
        let mut projection = Projection::new(&self.tank, now);
        let mut next = self.queue.head();
        while let Some(ahead) = next {
            let waiter = self.queue.get(ahead)?;
            if ahead == place && waiter.kind != Kind::Debt {
                return projection.ready(Cost::new(waiter.cost));
            }
            projection.grant(waiter.cost)?;
            next = self.queue.next(ahead);
        }
        None
    }
}
