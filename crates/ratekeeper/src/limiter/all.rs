//! Several limiters at once: all or none.

use std::fmt;

use super::acquire::Held;
use super::acquire_all::AcquireAll;
use super::core::{Core, Open};
use super::error::LimiterKind;
use super::group::Group;
use super::permit::{Outcome, OwnedPermit, Permit};
use super::statistics::Statistics;
use super::wakes::Wakes;
use super::{Concurrency, Limiter};
use crate::quota::QuotaError;
use crate::sync::Arc;
use crate::{Cost, Decision, Nanos, Reason};

/// Several limiters, acquired together: all or none, also by those who wait, also when they give up.
///
/// ```
/// use ratekeeper::limiter::{Concurrency, Keyed, Limiter};
/// use ratekeeper::all;
/// let (global, slots) = (Limiter::new("100/s".parse()?)?, Concurrency::new(1)?);
/// let per_user = Keyed::new("1/m".parse()?)?;
/// let both = all![&global, &slots, per_user.limiter("ann")?]?;
///
/// let granted = both.try_acquire(1).expect("all have room");
/// let refusal = both.try_acquire(1).unwrap_err();
/// assert_eq!(refusal.refused().map(|(part, _)| part).collect::<Vec<_>>(), [1, 2]);
/// assert_eq!(global.peek(1).remaining, 99, "what the others refuse burns nothing here");
/// drop(granted); // the permit comes back; the rates are spent
/// assert_eq!(slots.in_flight(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Who waits does so at one limiter at a time, the one that must be waited for longest, and keeps others waiting
/// there only: a user whose own quota is spent holds up nobody at the global one. When its turn has come there, it
/// is tried at all of them again. Places are by the age of the request, not by when it came to this queue: moving
/// on costs nothing. If it is refused by one where its turn had come before, it keeps all places it has from then
/// on, so that it cannot be sent around for ever; and since everybody's age is the same in every queue, two that do
/// so cannot wait for each other.
#[derive(Clone)]
pub struct All {
    pub(super) parts: Vec<Part>,
    /// The order in which they are locked: by address, so that two who lock the same ones never wait for each other.
    order: Vec<usize>,
    pub(super) group: Arc<Group>,
}

/// One of the limiters of an [`All`].
#[derive(Clone)]
pub struct Part {
    pub(super) core: Arc<Core>,
    cost: Option<Cost>,
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
        Part { core: Arc::clone(&limiter.core), cost: None }
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
        Part { core: Arc::clone(&concurrency.core), cost: Some(Cost::ONE) }
    }
}

impl From<Concurrency> for Part {
    /// One permit, whatever the cost.
    fn from(concurrency: Concurrency) -> Self {
        Part { core: concurrency.core, cost: Some(Cost::ONE) }
    }
}

/// An [`All`] of these limiters, borrowed or owned.
#[macro_export]
macro_rules! all {
    ($($part:expr),+ $(,)?) => {
        $crate::limiter::All::new([$($crate::limiter::Part::from($part)),+])
    };
}

impl All {
    /// These limiters together. The same one twice is refused: what would it be charged?
    pub fn new(parts: impl IntoIterator<Item = Part>) -> Result<Self, QuotaError> {
        let parts: Vec<Part> = parts.into_iter().collect();
        let address = |part: &usize| Arc::as_ptr(&parts[*part].core).addr();
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(address);
        if let Some(twice) = order.windows(2).find(|pair| address(&pair[0]) == address(&pair[1])) {
            let remedy = format!("it is the same limiter as part {}", twice[0].min(twice[1]));
            return Err(QuotaError::conflict("part", twice[0].max(twice[1]), remedy));
        }
        Ok(All { parts, order, group: Arc::default() })
    }

    /// Takes from all of them now, or from none. A cost of 0 asks, and takes from none.
    pub fn try_acquire(&self, cost: impl Into<Cost>) -> Result<Granted, Refusal> {
        self.try_take(cost.into())
    }

    fn try_take(&self, cost: Cost) -> Result<Granted, Refusal> {
        let refuse = |decisions: Vec<Decision>| {
            self.group.count_rejection();
            Err(Refusal { answers: self.parts.iter().map(|part| part.core.kind).zip(decisions).collect() })
        };
        if self.is_closed() {
            let closed = Decision::uninformed(false, self.statistics().max, Reason::Closed);
            return refuse(vec![closed; self.parts.len()]);
        }
        let mut wakes = Wakes::default();
        let mut opens = self.open(&mut wakes);
        let decisions = self.judge(&mut opens, cost, u64::MAX);
        let passes = decisions.iter().all(|decision| decision.allowed);
        let taken = passes.then(|| self.take(&mut opens, cost));
        if taken.is_none() {
            for (open, decision) in opens.iter_mut().zip(&decisions) {
                if !decision.allowed {
                    open.desk().count_rejection();
                }
            }
        }
        drop(opens);
        wakes.wake();
        let Some(decision) = taken else { return refuse(decisions) };
        if cost != Cost::PEEK {
            self.group.count_grant();
        }
        Ok(self.granted(decision, cost))
    }

    /// Takes from all of them, in turn.
    pub fn acquire(&self, cost: impl Into<Cost>) -> AcquireAll<'_> {
        AcquireAll::new(self, cost.into())
    }

    /// Returns what was asked of all of them together. `available` and `max` are the least of them, in requests that
    /// this combination makes; each part has statistics of its own besides.
    pub fn statistics(&self) -> Statistics {
        let parts = self.parts.iter().map(|part| {
            let statistics = part.core.statistics();
            let each = part.cost.unwrap_or(Cost::ONE).get().max(1);
            (statistics.available / each, statistics.max / each)
        });
        let least = |a: (u64, u64), b: (u64, u64)| (a.0.min(b.0), a.1.min(b.1));
        let (available, max) = parts.reduce(least).unwrap_or((u64::MAX, u64::MAX));
        Statistics { available, max, ..self.group.statistics() }
    }

    /// Closes this combination: everybody who waits for all of it fails now, and everybody who comes later. Its parts
    /// stay open for those who use them otherwise.
    pub fn close(&self) {
        self.group.close();
    }

    /// Returns true once it was closed.
    pub fn is_closed(&self) -> bool {
        self.group.is_closed()
    }

    /// Locks all, lets each do what is due, and gives them out in the order of the parts. After that no place can be
    /// lost for as long as they are locked.
    pub(super) fn open(&self, wakes: &mut Wakes) -> Vec<Open<'_>> {
        let mut opens: Vec<(usize, Open<'_>)> =
            self.order.iter().map(|part| (*part, self.parts[*part].core.open())).collect();
        opens.sort_by_key(|(part, _)| *part);
        for (_, open) in &mut opens {
            let now = open.now;
            open.desk().pump(now, wakes);
        }
        opens.into_iter().map(|(_, open)| open).collect()
    }

    pub(super) fn cost_of(&self, part: usize, cost: Cost) -> Cost {
        // Asking takes nothing, anywhere.
        if cost == Cost::PEEK { cost } else { self.parts[part].cost.unwrap_or(cost) }
    }

    /// What each would tell one of this age, now that it has done what was due.
    pub(super) fn judge(&self, opens: &mut [Open<'_>], cost: Cost, ticket: u64) -> Vec<Decision> {
        let judge = |(part, open): (usize, &mut Open<'_>)| {
            let now = open.now;
            open.desk().judge(self.cost_of(part, cost), ticket, now)
        };
        opens.iter_mut().enumerate().map(judge).collect()
    }

    /// Takes what all of them were judged to have.
    pub(super) fn take(&self, opens: &mut [Open<'_>], cost: Cost) -> Decision {
        let take = |(part, open): (usize, &mut Open<'_>)| {
            let (now, cost) = (open.now, self.cost_of(part, cost));
            match cost {
                Cost::PEEK => open.desk().peek(cost, now),
                _ => open.desk().take(cost, now),
            }
        };
        crate::algorithm::composite::join(opens.iter_mut().enumerate().map(take))
    }

    /// What was taken, to be held. Not made under the locks: a permit reads the clock, and gives itself back.
    pub(super) fn granted(&self, decision: Decision, cost: Cost) -> Granted {
        let permit = |(number, part): (usize, &Part)| {
            let cost = self.cost_of(number, cost);
            // Where nothing was taken there is nothing to give back.
            let holds = cost != Cost::PEEK && part.core.kind == LimiterKind::Concurrency;
            holds.then(|| Permit::new(Held::Owned(Arc::clone(&part.core)), cost))
        };
        let mut permits = self.parts.iter().enumerate().filter_map(permit);
        Granted { decision, permit: permits.next(), more: permits.collect() }
    }
}

impl fmt::Debug for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("All").field("parts", &self.parts).finish()
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("cost", &self.cost).field("statistics", &self.core.statistics()).finish()
    }
}

/// Granted: holds the permits of those limiters that are about concurrency, and gives them back when dropped.
#[derive(Debug)]
#[must_use = "permits that are not held are given back at once"]
pub struct Granted {
    decision: Decision,
    // Most have one at most: no allocation for them.
    permit: Option<OwnedPermit>,
    more: Vec<OwnedPermit>,
}

impl Granted {
    pub(super) fn new(decision: Decision, permit: Option<OwnedPermit>) -> Self {
        Granted { decision, permit, more: Vec::new() }
    }

    /// Returns the answers of all, joined: what is left is the least of them. `rule` is the number of the part.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Gives the permits back, and tells how it went.
    pub fn finish(self, outcome: Outcome) {
        self.permit.into_iter().chain(self.more).for_each(|permit| permit.finish(outcome));
    }
}

/// Some have refused, and nothing was taken from any.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// What each said, also those that would have granted.
    answers: Vec<(LimiterKind, Decision)>,
}

impl Refusal {
    pub(super) fn new(decision: Decision, kind: LimiterKind) -> Self {
        Refusal { answers: vec![(kind, decision)] }
    }

    /// Returns who refused, by number, and what it said.
    pub fn refused(&self) -> impl Iterator<Item = (usize, &Decision)> {
        let refused = self.answers.iter().map(|(_, decision)| decision).enumerate();
        refused.filter(|(_, decision)| !decision.allowed)
    }

    /// Returns the sort of limiter that must be waited for longest, of those that refused.
    pub fn limiter(&self) -> LimiterKind {
        let binding = usize::from(self.decision().rule);
        // Only one without parts, which was closed, has no answer.
        self.answers.get(binding).map_or(LimiterKind::All, |(kind, _)| *kind)
    }

    /// Returns the longest of their waits; none if one of them is never, or cannot be foreseen.
    pub fn retry_after(&self) -> Option<Nanos> {
        self.refused().map(|(_, decision)| decision.retry_after).reduce(|a, b| Some(a?.max(b?))).flatten()
    }

    /// Returns the answers of all, joined.
    pub fn decision(&self) -> Decision {
        crate::algorithm::composite::join(self.answers.iter().map(|(_, decision)| *decision))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(kind, decision)] = &*self.answers {
            return write!(f, "refused by the {kind} limiter: {}", decision.reason.as_str());
        }
        f.write_str("refused by")?;
        for (part, (kind, decision)) in self.answers.iter().enumerate() {
            if !decision.allowed {
                write!(f, " part {part} ({kind}: {})", decision.reason.as_str())?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
