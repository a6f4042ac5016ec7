//! The limiters of an [`All`](super::All): locked together, judged together, charged together.

use std::fmt;

use super::all_state::AllState;
use super::concurrency::Concurrency;
use super::core::{LimiterCore, LockedQueue};
use super::core_ref::CoreRef;
use super::direct::Limiter;
use super::error::{DuplicatePart, LimiterKind};
use super::granted::Granted;
use super::permit::Permit;
use super::queue::WakeList;
use crate::algorithm::composite::join;
use crate::sync::Arc;
use crate::{Cost, Decision};

/// One of the limiters of an [`All`](super::All).
#[derive(Clone)]
pub struct Part {
    pub(super) core: Arc<LimiterCore>,
    pub(super) cost: Option<Cost>,
}

impl Part {
    /// Takes this much here, whatever is asked of the others: of a [`Concurrency`], that many permits.
    #[must_use]
    pub fn cost(mut self, cost: impl Into<Cost>) -> Self {
        self.cost = Some(cost.into());
        self
    }
}

impl From<&Limiter> for Part {
    fn from(limiter: &Limiter) -> Self {
        limiter.clone().into()
    }
}

impl From<Limiter> for Part {
    fn from(limiter: Limiter) -> Self {
        Part { core: limiter.core, cost: None }
    }
}

impl From<&Concurrency> for Part {
    /// One permit, whatever the cost.
    fn from(concurrency: &Concurrency) -> Self {
        concurrency.clone().into()
    }
}

impl From<Concurrency> for Part {
    /// One permit, whatever the cost.
    fn from(concurrency: Concurrency) -> Self {
        Part { core: concurrency.core, cost: Some(Cost::ONE) }
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("cost", &self.cost).field("statistics", &self.core.statistics()).finish()
    }
}

/// All parts, the order in which they are locked, and what they are together.
#[derive(Clone)]
pub(crate) struct AllParts {
    pub(super) parts: Vec<Part>,
    /// By address, so that two who lock the same ones never wait for each other.
    order: Vec<usize>,
    pub(super) state: Arc<AllState>,
}

impl AllParts {
    pub(super) fn new(parts: Vec<Part>) -> Result<Self, DuplicatePart> {
        let address = |part: &usize| Arc::as_ptr(&parts[*part].core).addr();
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(address);
        if let Some(twice) = order.windows(2).find(|pair| address(&pair[0]) == address(&pair[1])) {
            return Err(DuplicatePart { first: twice[0].min(twice[1]), second: twice[0].max(twice[1]) });
        }
        Ok(AllParts { parts, order, state: Arc::default() })
    }

    /// Locks all, lets each do what is due, and returns them in the order of the parts. After that no waiter can lose its
    /// turn for as long as they are locked.
    pub(super) fn lock(&self, wakes: &mut WakeList) -> Vec<LockedQueue<'_>> {
        let mut locked: Vec<(usize, LockedQueue<'_>)> =
            self.order.iter().map(|part| (*part, self.parts[*part].core.lock())).collect();
        locked.sort_by_key(|(part, _)| *part);
        for (_, locked) in &mut locked {
            let (queue, mut at) = locked.open(wakes);
            queue.pump(&mut at);
        }
        locked.into_iter().map(|(_, locked)| locked).collect()
    }

    /// What is taken of this part when `cost` is asked of all. Asking takes nothing, anywhere.
    pub(super) fn cost_of(&self, part: usize, cost: Cost) -> Cost {
        if cost == Cost::ZERO { cost } else { self.parts[part].cost.unwrap_or(cost) }
    }

    /// Decides for one of this age, at each part, now that all have done what was due.
    pub(super) fn judge(&self, locked: &mut [LockedQueue<'_>], cost: Cost, ticket: u64) -> Vec<Decision> {
        let judge = |(part, locked): (usize, &mut LockedQueue<'_>)| {
            let now = locked.now;
            locked.queue().judge(self.cost_of(part, cost), ticket, now)
        };
        locked.iter_mut().enumerate().map(judge).collect()
    }

    /// Takes what all of them were judged to have.
    pub(super) fn take(&self, locked: &mut [LockedQueue<'_>], cost: Cost) -> Decision {
        let take = |(part, locked): (usize, &mut LockedQueue<'_>)| {
            let (now, cost) = (locked.now, self.cost_of(part, cost));
            match cost {
                Cost::ZERO => locked.queue().peek(cost, now),
                _ => locked.queue().take(cost, now),
            }
        };
        join(locked.iter_mut().enumerate().map(take))
    }

    /// Holds what was taken. Not called under the locks: a permit reads the clock, and gives itself back.
    pub(super) fn granted(&self, decision: Decision, cost: Cost) -> Granted {
        let permit = |(number, part): (usize, &Part)| {
            let cost = self.cost_of(number, cost);
            // Where nothing was taken there is nothing to give back.
            let holds = cost != Cost::ZERO && part.core.kind == LimiterKind::Concurrency;
            holds.then(|| Permit::new(CoreRef::shared(&part.core), cost))
        };
        Granted::new(decision, self.parts.iter().enumerate().filter_map(permit))
    }
}

impl fmt::Debug for AllParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.parts).finish()
    }
}
