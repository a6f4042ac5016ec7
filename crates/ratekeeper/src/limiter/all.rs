//! Several limiters at once: all or none.

use std::fmt;

use super::acquire_all::AcquireAll;
use super::all_parts::{AllParts, Part};
use super::error::DuplicatePart;
use super::granted::Granted;
use super::queue::WakeList;
use super::statistics::LimiterStatistics;
use crate::algorithm::composite::join;
use crate::{Cost, Decision, Reason};

/// Several limiters that are acquired together: all or none, also by those who wait, also when they give up.
///
/// ```
/// use ratekeeper::limiter::{Concurrency, Keyed, Limiter};
/// use ratekeeper::all;
/// let (global, slots) = (Limiter::new("100/h".parse()?)?, Concurrency::new(1)?);
/// let per_user = Keyed::new("1/h".parse()?)?;
/// let both = all![&global, &slots, per_user.limiter("ann")?]?;
///
/// let granted = both.try_acquire(1).expect("all have room");
/// let refused = both.try_acquire(1).unwrap_err();
/// assert_eq!(refused.rule, 1, "when a permit comes back cannot be foreseen");
/// let each: Vec<bool> = both.peek(1).iter().map(|decision| decision.allowed).collect();
/// assert_eq!(each, [true, false, false]);
/// assert_eq!(global.peek(1).remaining, 99, "what the others refuse burns nothing here");
/// drop(granted); // the permit comes back; the rates are spent
/// assert_eq!(slots.in_flight(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A caller who waits does so at one limiter at a time, the one that must be waited for longest, and keeps others waiting
/// there only: a user whose own quota is spent holds up nobody at the global one. When its turn has come there, it
/// is tried at all of them again. Queues are ordered by the age of the request, not by when it came to this queue: moving
/// on costs nothing. If it is refused by one where its turn had come before, it stays in every queue it is in from then
/// on, so that it cannot be sent around for ever; and since everybody's age is the same in every queue, two that do
/// so cannot wait for each other.
#[derive(Clone)]
pub struct All {
    parts: AllParts,
}

/// Builds an [`All`] of these limiters, borrowed or owned.
#[macro_export]
macro_rules! all {
    ($($part:expr),+ $(,)?) => {
        $crate::limiter::All::new([$($crate::limiter::Part::from($part)),+])
    };
}

impl All {
    /// Puts these limiters together.
    ///
    /// # Errors
    ///
    /// If the same limiter is given twice: it is not clear what it would be charged.
    pub fn new(parts: impl IntoIterator<Item = Part>) -> Result<Self, DuplicatePart> {
        Ok(All { parts: AllParts::new(parts.into_iter().collect())? })
    }

    /// Takes the cost from all of them now, or from none. A cost of 0 asks, and takes from none. Locks every part.
    ///
    /// # Errors
    ///
    /// The refusals, joined: `retry_after` is the longest of their waits (`None` if one of them is never, or cannot be
    /// foreseen), and `rule` is the number of the part that it is that of. [`peek`](All::peek) returns what each says.
    pub fn try_acquire(&self, cost: impl Into<Cost>) -> Result<Granted, Decision> {
        self.try_take(cost.into())
    }

    fn try_take(&self, cost: Cost) -> Result<Granted, Decision> {
        let taken = match self.is_closed() {
            true => Err(self.closed()),
            false => self.take_or_refuse(cost),
        };
        self.parts.state.count(|counts| match &taken {
            Ok(_) => counts.acquired += u64::from(cost != Cost::ZERO),
            Err(_) => counts.rejected += 1,
        });
        taken.map(|decision| self.parts.granted(decision, cost))
    }

    fn take_or_refuse(&self, cost: Cost) -> Result<Decision, Decision> {
        let mut wakes = WakeList::default();
        let mut locked = self.parts.lock(&mut wakes);
        let decisions = self.parts.judge(&mut locked, cost, u64::MAX);
        let taken = match decisions.iter().all(|decision| decision.allowed) {
            true => Ok(self.parts.take(&mut locked, cost)),
            false => {
                let refusing = locked.iter_mut().zip(&decisions).filter(|(_, decision)| !decision.allowed);
                refusing.for_each(|(locked, _)| locked.queue().count_rejection());
                Err(join(decisions.into_iter()))
            }
        };
        drop(locked);
        wakes.wake();
        taken
    }

    fn closed(&self) -> Decision {
        Decision::uninformed(false, self.statistics().max, Reason::Closed)
    }

    /// Takes the cost from all of them, in turn.
    pub fn acquire(&self, cost: impl Into<Cost>) -> AcquireAll<'_> {
        AcquireAll::new(&self.parts, cost.into())
    }

    /// Returns what each part would answer to a caller who does not wait, in the order of the parts; takes nothing.
    pub fn peek(&self, cost: impl Into<Cost>) -> Vec<Decision> {
        if self.is_closed() {
            return vec![self.closed(); self.parts.parts.len()];
        }
        let mut wakes = WakeList::default();
        let mut locked = self.parts.lock(&mut wakes);
        let decisions = self.parts.judge(&mut locked, cost.into(), u64::MAX);
        drop(locked);
        wakes.wake();
        decisions
    }

    /// Returns what was asked of all of them together. `available` and `max` are the least of them, in requests that
    /// this combination makes; each part has statistics of its own besides.
    pub fn statistics(&self) -> LimiterStatistics {
        let parts = self.parts.parts.iter().map(|part| {
            let statistics = part.core.statistics();
            let each = part.cost.unwrap_or(Cost::ONE).get().max(1);
            (statistics.available / each, statistics.max / each)
        });
        let least = |a: (u64, u64), b: (u64, u64)| (a.0.min(b.0), a.1.min(b.1));
        let (available, max) = parts.reduce(least).unwrap_or((u64::MAX, u64::MAX));
        LimiterStatistics { available, max, ..self.parts.state.statistics() }
    }

    /// Closes this combination: everybody who waits for all of it fails now, and everybody who comes later. Its parts
    /// stay open for those who use them otherwise.
    pub fn close(&self) {
        self.parts.state.close();
    }

    /// Returns true once it was closed.
    pub fn is_closed(&self) -> bool {
        self.parts.state.is_closed()
    }
}

impl fmt::Debug for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("All").field("parts", &self.parts).finish()
    }
}
