//! When a waiter will be granted, given those ahead of it.
//!
//! Where what was taken comes in continuously, only what all ahead want together counts, which the queue knows: the
//! answer takes one step. Where it comes in at a stroke, window by window, it also counts who still fits into which:
//! then a few who wait are let in one after another, in mind, and of many it is said when they will have passed at the
//! earliest. Either way no question of one who comes takes longer because more are waiting. One who asks for its own
//! place in the queue ([`Desk::project_place`]) has all ahead of it looked at, because only what all want is known.
//!
//! What comes in continuously and is counted in floating point (buckets) is foreseen to within some nanoseconds: what
//! many want together is rounded once, and what they take one after another each time.

use super::debt::{later, nanos_for};
use super::desk::Desk;
use super::queue::Place;
use super::tank::{Contents, Tank, meter};
use crate::algorithm::{AnyView, View, Wait};
use crate::{Algorithm, Anchor, Cost, Nanos, Quota, State, Timestamp};

/// How many are let in one after another, in mind, for one question.
const STEPS: usize = 64;

/// A log of more entries than this is not copied for a question.
const COPIED_ENTRIES: usize = 1_024;

/// The tank as it will be when everybody up to `last` has been granted, and when that is. Kept from one question to
/// the next.
#[derive(Clone, Debug)]
pub(crate) struct Projection {
    tank: Tank,
    at: Timestamp,
    /// The last one in the queue who is accounted for; none if everybody in the queue came later.
    last: Option<Place>,
}

impl Projection {
    fn new(tank: &Tank, now: Timestamp) -> Self {
        Projection { tank: tank.clone(), at: now, last: None }
    }

    /// The instant at which this cost would pass.
    fn ready(&self, cost: Cost) -> Option<Timestamp> {
        Some(self.at + self.tank.outlook(cost, self.at).wait()?)
    }

    /// Lets this cost pass when it can.
    fn grant(&mut self, cost: u64) -> Option<()> {
        let cost = Cost::new(cost);
        self.at = self.ready(cost)?;
        self.tank.charge(cost, self.at);
        Some(())
    }
}

impl Desk {
    /// The instant at which this cost would be granted if it entered now; none if that cannot be foreseen. Others who
    /// give up or give back can only make it earlier. Where many wait for what comes in at a stroke, it is an instant
    /// before which it cannot be.
    pub(crate) fn project(&mut self, cost: Cost, now: Timestamp) -> Option<Timestamp> {
        if let Contents::Permits { .. } = self.tank.contents {
            return None;
        }
        let together = self.queue.wanted() + u128::from(cost.get());
        if let Some(ready) = self.tank.ready_for(together, self.queue.len(), now) {
            return (ready < Timestamp::MAX).then_some(ready);
        }
        self.project_in_steps(cost, now).unwrap_or_else(|| self.not_before(together, now))
    }

    /// Lets in everybody one after another; none if those are too many for one question.
    fn project_in_steps(&mut self, cost: Cost, now: Timestamp) -> Option<Option<Timestamp>> {
        let mut projection = match self.projection.take() {
            Some(projection) => projection,
            None if self.tank.is_large() => return None,
            None => Projection::new(&self.tank, now),
        };
        projection.at = projection.at.max(now);
        let mut next = match projection.last {
            Some(last) => self.queue.next(last),
            None => self.queue.head(),
        };
        let mut steps = 0;
        while let Some(place) = next
            && steps < STEPS
        {
            let granted = self.queue.get(place).and_then(|waiter| projection.grant(waiter.cost));
            if granted.is_none() {
                return Some(None);
            }
            projection.last = Some(place);
            next = self.queue.next(place);
            steps += 1;
        }
        let ready = projection.ready(cost);
        // While nobody waits, the tank may be charged without anybody telling.
        self.projection = Some(projection).filter(|_| !self.queue.is_empty());
        next.is_none().then_some(ready)
    }

    /// An instant before which this much, all together, cannot have passed.
    fn not_before(&self, together: u128, now: Timestamp) -> Option<Timestamp> {
        let (limit, left) = (self.tank.limit().max(1), self.tank.remaining(now));
        // What must come in first: whole limits, and a part.
        let missing = together.saturating_sub(u128::from(left)).saturating_sub(1);
        let whole = missing / u128::from(limit);
        let part = u64::try_from(missing % u128::from(limit)).unwrap_or(u64::MAX).saturating_add(1);
        let first = now + self.tank.outlook(Cost::new(left.saturating_add(part).min(limit)), now).wait()?;
        let windows = whole.saturating_sub(self.tank.slips().into());
        let after = u128::from(self.tank.window().as_nanos()).saturating_mul(windows);
        let instant = later(first, after);
        (instant < Timestamp::MAX).then_some(instant)
    }

    /// The instant at which the waiter at this place will be granted; takes as long as there are others ahead.
    pub(crate) fn project_place(&self, place: Place, now: Timestamp) -> Option<Timestamp> {
        let cost = self.queue.get(place)?.cost;
        let ahead =
            || self.queue.waiters().take_while(|(other, _)| *other != place).map(|(_, other)| other.cost);
        let (wanted, count) =
            ahead().fold((0, 0), |(wanted, count), cost| (wanted + u128::from(cost), count + 1));
        if let Some(ready) = self.tank.ready_for(wanted + u128::from(cost), count, now) {
            return (ready < Timestamp::MAX).then_some(ready);
        }
        let mut projection = Projection::new(&self.tank, now);
        for cost in ahead() {
            projection.grant(cost)?;
        }
        projection.ready(Cost::new(cost))
    }
}

impl Tank {
    /// The instant at which `together`, of `count` who wait and one more, will have passed; the end of time for never,
    /// and none if it also counts who wants how much.
    fn ready_for(&self, together: u128, count: usize, now: Timestamp) -> Option<Timestamp> {
        let at = now.max(self.paid_at);
        let wait = match &self.contents {
            Contents::Rate { quota, state } => flows(quota, state, together, at)?,
            Contents::Line(line) => {
                let ahead = u128::from(line.interval.as_nanos()).saturating_mul(count as u128);
                u128::from(line.ahead(at).as_nanos()) + ahead
            }
            Contents::Ticks(_) | Contents::Permits { .. } => return None,
        };
        Some(later(at, wait))
    }

    /// How long it takes until all that was taken may be taken again.
    fn window(&self) -> Nanos {
        match &self.contents {
            Contents::Rate { quota, .. } => quota.period(),
            Contents::Ticks(bucket) => bucket.refill_time(),
            Contents::Line(_) | Contents::Permits { .. } => Nanos::ZERO,
        }
    }

    /// True if a little more than a limit may pass within a window: it is an estimate, or one may be shorter.
    fn slips(&self) -> bool {
        let Contents::Rate { quota, .. } = &self.contents else { return false };
        matches!(quota.algorithm(), Algorithm::SlidingWindow | Algorithm::FixedWindow(Anchor::Calendar(_)))
    }

    /// True if a copy takes as long as there is much in it.
    fn is_large(&self) -> bool {
        match &self.contents {
            Contents::Rate { state: Some(State::SlidingLog(log)), .. } => log.len() > COPIED_ENTRIES,
            _ => false,
        }
    }
}

/// The time until `together` has passed, where it comes in continuously: nobody wants more than fits at once, so
/// nothing is lost meanwhile, however it is divided.
fn flows(quota: &Quota, state: &Option<State>, together: u128, at: Timestamp) -> Option<u128> {
    let view = meter(quota, state, at);
    match view {
        AnyView::Gcra(_) | AnyView::TokenBucket(_) | AnyView::LeakyBucket(_) => {}
        _ => return None,
    }
    // What fits at once must have come in, and the rest, if there is more, after it.
    let limit = quota.burst();
    let at_once = u64::try_from(together).map_or(limit, |together| together.min(limit));
    let rest = together - u128::from(at_once);
    let first = match view.wait_for(Cost::new(at_once)) {
        Wait::Ready => 0,
        Wait::After(wait) => u128::from(wait.as_nanos()),
        Wait::Never => return Some(u128::MAX),
    };
    let after = match view {
        AnyView::Gcra(_) => u128::from(quota.emission_interval().as_nanos()).saturating_mul(rest),
        _ => nanos_for(quota, float(rest)).into(),
    };
    Some(first.saturating_add(after))
}

#[expect(clippy::cast_precision_loss, reason = "what a hundred thousand want together is far below 2^53")]
fn float(whole: u128) -> f64 {
    whole as f64
}
