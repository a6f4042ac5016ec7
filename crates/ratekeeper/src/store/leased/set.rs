//! The leased keys that share a lock, and those that may become leased.

use std::collections::VecDeque;
use std::sync::Arc;

use super::super::line_ticket::LineTicket;
use super::super::memory::KeyHash;
use super::batch::Leftover;
use super::holding::{Fates, Holding, LEAST_SIZE};
use super::owned_request::OwnedRequest;
use super::statistics::LeaseStatistics;
use crate::{Decision, Nanos, Rules, Timestamp};

/// How many leased keys share a lock.
pub(super) const WAYS: usize = 4;

/// What a holding is found by: a key, and the rules that its leases are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HoldingName {
    pub(super) key: KeyHash,
    pub(super) rules: u64,
}

/// Somebody who waits for a call.
pub(super) type LeaseWaiter = LineTicket<Told>;

/// What somebody who has waited is told.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    Decided(Decision),
    /// To ask for themselves.
    Ask,
}

/// Tells those who wait for a call that will not come to ask for themselves. Whoever waits no more need not be told.
pub(super) fn send_away(waiting: Vec<Arc<LeaseWaiter>>) {
    for waiter in waiting {
        drop(waiter.tell(Ok(Told::Ask)));
    }
}

/// A call that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    pub(super) number: u64,
    pub(super) begun: Timestamp,
}

/// A leased key.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) holding: Holding,
    /// What a call for this key asks.
    pub(super) request: Arc<OwnedRequest>,
    /// The one call that is on its way.
    pub(super) flight: Option<Flight>,
    /// Those who wait for it, in the order in which they came. Nobody waits while no call is on its way.
    pub(super) line: VecDeque<Arc<LeaseWaiter>>,
    /// Somebody is there to give back what is left at the end.
    pub(super) is_watched: bool,
}

impl Place {
    pub(super) fn new(holding: Holding, request: OwnedRequest) -> Self {
        Place { holding, request: Arc::new(request), flight: None, line: VecDeque::new(), is_watched: false }
    }

    /// Puts a request at the end of the line.
    pub(super) fn join_line(&mut self, cost: u64) -> Arc<LeaseWaiter> {
        let ticket = Arc::new(LeaseWaiter::new(cost));
        self.holding.waits(cost);
        self.line.push_back(Arc::clone(&ticket));
        ticket
    }

    /// Takes the first out of the line.
    pub(super) fn next_in_line(&mut self) -> Option<Arc<LeaseWaiter>> {
        let ticket = self.line.pop_front()?;
        self.holding.waits_no_more(ticket.cost);
        Some(ticket)
    }

    /// Takes this one out of the line, if it is the first. Returns false if it is not.
    pub(super) fn leave_line(&mut self, ticket: &Arc<LeaseWaiter>) -> bool {
        self.line.front().is_some_and(|first| Arc::ptr_eq(first, ticket)) && self.next_in_line().is_some()
    }

    /// Ends the call that is on its way, and returns those who wait for it.
    pub(super) fn end_line(&mut self) -> Vec<Arc<LeaseWaiter>> {
        self.flight = None;
        std::iter::from_fn(|| self.next_in_line()).collect()
    }
}

/// The leased keys that share a lock, at most [`WAYS`], and as many that were asked for lately.
#[derive(Debug, Default)]
pub(super) struct LeaseSet {
    names: [Option<HoldingName>; WAYS],
    places: [Option<Box<Place>>; WAYS],
    candidates: [Candidate; WAYS],
    flights: u64,
    pub(super) counts: LeaseStatistics,
}

/// A key that was asked for lately: eight bytes, so that a flood of keys costs no memory.
#[derive(Clone, Copy, Debug, Default)]
struct Candidate {
    tag: u32,
    /// How often it was asked for, in the lowest byte, and since when, in milliseconds that wrap.
    since_and_count: u32,
}

impl Candidate {
    fn new(tag: u32, now: u32) -> Self {
        Candidate { tag, since_and_count: now << 8 | 1 }
    }

    fn count(self) -> u32 {
        self.since_and_count & 0xff
    }

    fn age(self, now: u32) -> u32 {
        now.wrapping_sub(self.since_and_count >> 8) & 0x00ff_ffff
    }
}

/// What was left to a key that has lost its place.
pub(super) type Displaced = (HoldingName, Arc<OwnedRequest>, Vec<Leftover>);

impl LeaseSet {
    /// Returns the place of a leased key.
    #[inline]
    pub(super) fn find(&mut self, name: HoldingName) -> Option<(&mut Place, &mut LeaseStatistics)> {
        let at = self.names.iter().position(|held| *held == Some(name))?;
        Some((self.places[at].as_deref_mut()?, &mut self.counts))
    }

    /// Returns the next call, which begins now.
    pub(super) fn begin(&mut self, now: Timestamp) -> Flight {
        self.flights += 1;
        Flight { number: self.flights, begun: now }
    }

    /// Counts a request for a key that has no place. Returns how often it was asked for in this aim, if that is often enough
    /// for a place.
    pub(super) fn knock(&mut self, name: HoldingName, now: Timestamp, aim: Nanos) -> Option<u64> {
        let now = coarse(now);
        // A millisecond more, for what the clock here leaves out.
        let aim = u32::try_from(aim.as_nanos() >> 20).unwrap_or(u32::MAX).max(1);
        let tag = tag(name);
        let known =
            self.candidates.iter_mut().find(|candidate| candidate.tag == tag && candidate.count() > 0);
        let Some(known) = known else {
            // Whoever has not been asked for again since long ago makes room, then who was asked for least.
            let merit = |candidate: &&mut Candidate| match candidate.age(now) > aim {
                true => (0, u32::MAX - candidate.age(now)),
                false => (candidate.count(), u32::MAX - candidate.age(now)),
            };
            if let Some(worst) = self.candidates.iter_mut().min_by_key(merit) {
                *worst = Candidate::new(tag, now);
            }
            return None;
        };
        if known.age(now) > aim {
            *known = Candidate::new(tag, now);
            return None;
        }
        known.since_and_count += u32::from(known.count() < 0xff);
        let count = u64::from(known.count());
        (count >= LEAST_SIZE).then_some(count)
    }

    /// Gives a key a place that is free, or that nobody has used for a while; none if all are in use.
    pub(super) fn admit(
        &mut self,
        name: HoldingName,
        now: Timestamp,
        place: impl FnOnce() -> Place,
    ) -> Result<Option<Displaced>, ()> {
        let is_free = |place: &Option<Box<Place>>| {
            place.as_ref().is_none_or(|place| place.flight.is_none() && place.holding.is_idle(now))
        };
        let free = self.places.iter().position(Option::is_none);
        let Some(at) = free.or_else(|| self.places.iter().position(is_free)) else { return Err(()) };
        let displaced = self.take(at, now);
        self.names[at] = Some(name);
        self.places[at] = Some(Box::new(place()));
        let tag = tag(name);
        self.candidates.iter_mut().filter(|candidate| candidate.tag == tag).for_each(|candidate| {
            *candidate = Candidate::default();
        });
        Ok(displaced)
    }

    /// Takes away everything that is held, and returns what of it is worth giving back, and those who wait.
    pub(super) fn end_all(&mut self, now: Timestamp) -> (Vec<Displaced>, Vec<Arc<LeaseWaiter>>) {
        let lines = self.places.iter_mut().flatten().map(|place| place.end_line());
        let waiting = lines.flatten().collect();
        ((0..WAYS).filter_map(|at| self.take(at, now)).collect(), waiting)
    }

    /// Forgets what is held in these places: nothing of it is given back, and calls on their way bring nothing. Returns those
    /// who wait for them.
    #[must_use = "those who wait must be told"]
    pub(super) fn forget(&mut self, is_meant: impl Fn(HoldingName, &Place) -> bool) -> Vec<Arc<LeaseWaiter>> {
        let mut waiting = Vec::new();
        for (name, place) in self.names.iter_mut().zip(&mut self.places) {
            if !name.zip(place.as_deref()).is_some_and(|(name, place)| is_meant(name, place)) {
                continue;
            }
            *name = None;
            if let Some(mut place) = place.take() {
                let mut fates = Fates::default();
                place.holding.burn(&mut fates);
                self.counts.add(fates);
                waiting.extend(place.end_line());
            }
        }
        waiting
    }

    /// Forgets what is held of a key under rules that these have replaced. It is not given back: by the old rules, the state
    /// may look impossible. Returns those who wait.
    #[must_use = "those who wait must be told"]
    pub(super) fn forget_replaced(&mut self, key: KeyHash, rules: Rules<'_>) -> Vec<Arc<LeaseWaiter>> {
        self.forget(|name, place| name.key == key && place.request.is_replaced_by(rules))
    }

    /// Ends the pauses of a key: something was given back.
    pub(super) fn resume(&mut self, key: KeyHash, now: Timestamp) {
        for (name, place) in self.names.iter().zip(&mut self.places) {
            if name.is_some_and(|name| name.key == key)
                && let Some(place) = place
            {
                place.holding.resume(now);
            }
        }
    }

    /// Returns how many keys are leased, and what is left of their leases. A key that nobody asks for only keeps its place.
    pub(super) fn held(&self, now: Timestamp) -> (usize, u64) {
        let holdings = self.places.iter().flatten().map(|place| &place.holding);
        holdings.fold((0, 0), |(keys, left), holding| {
            (keys + usize::from(!holding.is_idle(now)), left.saturating_add(holding.left(now)))
        })
    }

    fn take(&mut self, at: usize, now: Timestamp) -> Option<Displaced> {
        let name = self.names[at].take()?;
        let mut place = self.places[at].take()?;
        let mut fates = Fates::default();
        let over = place.holding.end_all(now, &mut fates);
        self.counts.add(fates);
        (!over.is_empty()).then_some((name, place.request, over))
    }
}

/// Returns milliseconds, or nearly, that wrap after four hours.
fn coarse(now: Timestamp) -> u32 {
    let bits = now.as_nanos().cast_unsigned() >> 20;
    u32::try_from(bits & 0x00ff_ffff).unwrap_or(0)
}

/// Returns 32 bits of a name. Two keys that share them are counted together, and one of them may get a place too early.
fn tag(name: HoldingName) -> u32 {
    let bits = name.key.place.rotate_left(32) ^ name.rules;
    u32::try_from(bits & 0xffff_ffff).unwrap_or(0)
}
