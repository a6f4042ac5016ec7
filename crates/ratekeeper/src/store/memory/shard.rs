//! One shard: all states of the keys that fall to it, behind one lock.

use super::budget::{Budget, Full, Room};
use super::keys::Keys;
use super::logs::Logs;
use super::resets::Resets;
use super::slot::{Change, Packed, Tat};
use super::table::{Expires, Table};
use super::tag::{KeyHash, Tag};
use crate::algorithm::fixed_window::FixedWindowView;
use crate::algorithm::gcra::{self, GcraView};
use crate::algorithm::leaky_bucket::LeakyBucketView;
use crate::algorithm::sliding_log::SlidingLogView;
use crate::algorithm::sliding_window::SlidingWindowView;
use crate::algorithm::token_bucket::TokenBucketView;
use crate::algorithm::{Algorithm, Meter, Tenancy, View, Wait, composite, look, partial_grant, take};
use crate::port::Grant;
use crate::{Charged, Cost, Decision, Key, Quota, Rules, Timestamp};

/// A shard fits a cache line with its lock, so that a decision touches two lines: this one and the slot's.
#[derive(Debug)]
pub(super) struct Shard {
    /// One instant a key.
    pub(super) instants: Table<Tat>,
    /// Everything else, which most shards of most stores never hold.
    pub(super) rest: Option<Box<Rest>>,
    /// The latest instant that anybody came with. Who waited for the lock comes with an older one than who was here
    /// before, and time does not go back for a key.
    latest: Timestamp,
}

impl Default for Shard {
    fn default() -> Self {
        Shard { instants: Table::default(), rest: None, latest: Timestamp::MIN }
    }
}

/// How much of a cost will do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    Exactly(Cost),
    UpTo(Cost),
}

/// Whose states a question is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller<'a> {
    pub(super) hash: KeyHash,
    pub(super) rules: Rules<'a>,
    /// The key itself, if it is to be kept.
    pub(super) kept: Option<Key<'a>>,
}

impl<'a> Caller<'a> {
    /// The tags of the states, and what they are held to.
    pub(super) fn tags(self) -> impl Iterator<Item = (Tag, &'a Quota)> + Clone {
        self.rules.iter().map(move |(rule, quota)| (self.hash.under(rule, quota), quota))
    }

    pub(super) fn tenancy(self) -> Tenancy {
        self.rules.tenancy()
    }
}

/// The tables of the algorithms that need more than an instant, the keys, and the latest resets.
#[derive(Debug, Default)]
pub(super) struct Rest {
    pub(super) packed: Table<Packed>,
    pub(super) logs: Logs,
    pub(super) keys: Keys,
    pub(super) resets: Resets,
}

impl Shard {
    /// The instant to decide at: the caller's, or a later one that this shard has seen already.
    #[inline(always)]
    pub(super) fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// The one question that a store is asked most: one GCRA quota, and the key is known. `None` if it is not.
    #[inline(always)]
    pub(super) fn take_known<'q>(
        &mut self,
        tag: Tag,
        quota: &'q Quota,
        tenancy: Tenancy,
        cost: Cost,
        now: Timestamp,
    ) -> Option<(GcraView<'q>, Wait)> {
        // Only what is decided here moves the time on: if the key is unknown, the slower path does.
        let index = self.instants.find(tag)?;
        let now = self.advance(now);
        let tat = self.instants.get_mut(index);
        let mut view = GcraView::at(quota, Some(gcra::State { tat: tat.0 }), now, tenancy);
        let wait = view.wait_for(cost);
        if wait == Wait::Ready {
            view.charge(cost);
        }
        if cost != Cost::PEEK {
            if view.was_repaired() {
                // It expires earlier than it did, which the table must know.
                self.instants.set(index, Tat(view.tat()));
            } else if wait == Wait::Ready {
                tat.0 = view.tat();
            }
        }
        Some((view, wait))
    }

    /// The same of a key that is not known: most new keys, and those whose last visit was long ago. `None` if the
    /// store is full.
    pub(super) fn take_new<'q>(
        &mut self,
        caller: Caller<'_>,
        tag: Tag,
        quota: &'q Quota,
        cost: Cost,
        now: Timestamp,
        budget: &Budget,
    ) -> Option<(GcraView<'q>, Wait)> {
        let now = self.advance(now);
        let mut view = GcraView::at(quota, None, now, Tenancy::Own);
        let wait = view.wait_for(cost);
        if wait == Wait::Ready && cost != Cost::PEEK {
            let expected = self.make_room_for_instant(caller, now, budget).ok()?;
            view.charge(cost);
            let made_way = self.instants.insert(tag, Tat(view.tat()), now).is_some();
            budget.note_expired(made_way.into());
            self.settle(expected, budget);
        }
        Some((view, wait))
    }

    /// Takes the cost from all rules or from none.
    pub(super) fn take(
        &mut self,
        caller: Caller<'_>,
        wanted: Wanted,
        now: Timestamp,
        room: Room,
        budget: &Budget,
    ) -> Result<Grant, Full> {
        let now = self.advance(now);
        let cost = match wanted {
            Wanted::Exactly(cost) => cost,
            Wanted::UpTo(cost) => partial_grant(self.remaining(caller, now), cost),
        };
        let passes = self.all_ready(caller, cost, now);
        let expected = match passes && cost != Cost::PEEK {
            true => self.make_room(caller, room, now, budget)?,
            false => self.held(),
        };
        let (decision, made_way) = self.take_with_room(caller, cost, now, passes);
        budget.note_expired(made_way);
        self.settle(expected, budget);
        // What is taken beyond the bound is taken from a state that many share: nobody gets it back.
        let decision = if room == Room::Beyond { decision } else { decision.taken(cost, now) };
        Ok(Grant { granted: if decision.allowed { cost } else { Cost::PEEK }, decision })
    }

    fn all_ready(&self, caller: Caller<'_>, cost: Cost, now: Timestamp) -> bool {
        let ready = |tag, quota| self.meter(tag, quota, now, caller.tenancy()).wait_for(cost) == Wait::Ready;
        caller.tags().all(|(tag, quota)| ready(tag, quota))
    }

    /// Takes the cost if it passes, every state having its place. Tells how many expired states made way.
    fn take_with_room(
        &mut self,
        caller: Caller<'_>,
        cost: Cost,
        now: Timestamp,
        passes: bool,
    ) -> (Decision, usize) {
        let (writes, tenancy, mut made_way) = (cost != Cost::PEEK, caller.tenancy(), 0);
        let decisions = caller.tags().map(|(tag, quota)| {
            let mut meter = self.meter(tag, quota, now, tenancy);
            let decision = if passes { take(&mut meter, cost) } else { look(&meter, cost) };
            if writes && (passes || meter.was_repaired()) {
                let change = Change::of(&meter, now);
                made_way += usize::from(self.write(tag, change, now, tenancy));
            }
            decision
        });
        (composite::join(decisions), made_way)
    }

    /// What [`take`](Shard::take) would decide.
    pub(super) fn look(&self, caller: Caller<'_>, cost: Cost, now: Timestamp) -> Decision {
        let now = now.max(self.latest);
        let look = |tag, quota| look(&self.meter(tag, quota, now, caller.tenancy()), cost);
        composite::join(caller.tags().map(|(tag, quota)| look(tag, quota)))
    }

    /// How many requests of cost 1 every rule would let pass.
    fn remaining(&self, caller: Caller<'_>, now: Timestamp) -> u64 {
        let left = |tag, quota| self.meter(tag, quota, now, caller.tenancy()).remaining();
        caller.tags().map(|(tag, quota)| left(tag, quota)).min().unwrap_or(u64::MAX)
    }

    /// Gives back to all rules what is left of a cost. What is unknown stays unknown, and what was forgotten since
    /// stays forgotten: it has nothing to be given back.
    pub(super) fn refund(
        &mut self,
        caller: Caller<'_>,
        cost: Cost,
        charged: Charged,
        now: Timestamp,
        budget: &Budget,
    ) -> Decision {
        let (before, now, tenancy) = (self.held(), self.advance(now), caller.tenancy());
        let charged_at = charged.instant(now);
        let decisions = caller.tags().map(|(tag, quota)| {
            let known = self.holds(tag, quota) && cost != Cost::PEEK && !self.was_reset(tag, charged_at);
            let mut meter = self.meter(tag, quota, now, tenancy);
            if known {
                meter.refund(cost, charged_at);
            }
            let decision = look(&meter, Cost::PEEK);
            if known {
                let change = Change::of(&meter, now);
                self.write(tag, change, now, tenancy);
            }
            decision
        });
        let decision = composite::join(decisions);
        self.settle(before, budget);
        decision
    }

    fn was_reset(&self, tag: Tag, charged_at: Timestamp) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.resets.since(tag, charged_at))
    }

    /// The rule's state as it stands now.
    pub(super) fn meter<'a>(
        &'a self,
        tag: Tag,
        quota: &'a Quota,
        now: Timestamp,
        tenancy: Tenancy,
    ) -> Meter<'a> {
        let packed =
            || self.rest.as_ref().and_then(|rest| rest.packed.find(tag).map(|index| rest.packed.get(index)));
        match quota.algorithm() {
            Algorithm::TokenBucket => {
                let state = packed().map(Packed::token_bucket);
                Meter::TokenBucket(TokenBucketView::at(quota, state, now, tenancy))
            }
            Algorithm::LeakyBucket => {
                let state = packed().map(Packed::leaky_bucket);
                Meter::LeakyBucket(LeakyBucketView::at(quota, state, now, tenancy))
            }
            Algorithm::FixedWindow(_) => {
                let state = packed().map(Packed::fixed_window);
                Meter::FixedWindow(FixedWindowView::at(quota, state, now, tenancy))
            }
            Algorithm::SlidingWindow => {
                let state = packed().map(Packed::sliding_window);
                Meter::SlidingWindow(SlidingWindowView::at(quota, state, now, tenancy))
            }
            Algorithm::SlidingLog => {
                let log = self.rest.as_ref().and_then(|rest| rest.logs.find(tag));
                Meter::SlidingLog(SlidingLogView::at(quota, log, now, tenancy))
            }
            // The store refuses concurrency limits before it comes to this.
            Algorithm::Gcra | Algorithm::Concurrency => {
                let state =
                    self.instants.find(tag).map(|index| gcra::State { tat: self.instants.get(index).0 });
                Meter::Gcra(GcraView::at(quota, state, now, tenancy))
            }
        }
    }

    fn holds(&self, tag: Tag, quota: &Quota) -> bool {
        match (quota.algorithm(), &self.rest) {
            (Algorithm::Gcra | Algorithm::Concurrency, _) => self.instants.find(tag).is_some(),
            (Algorithm::SlidingLog, Some(rest)) => rest.logs.find(tag).is_some(),
            (_, Some(rest)) => rest.packed.find(tag).is_some(),
            (_, None) => false,
        }
    }

    /// True if any of these rules has a state that is worth something. Such a key is known, however full the store is: a
    /// flood of others must not change what it is told, only because the state of its shortest rule has expired.
    pub(super) fn knows(&self, caller: Caller<'_>, now: Timestamp) -> bool {
        let now = now.max(self.latest);
        let live = |tag, quota| !self.meter(tag, quota, now, caller.tenancy()).reset_after().is_zero();
        caller.tags().any(|(tag, quota)| live(tag, quota))
    }

    /// Makes a change. An insertion fills a place that was taken before. Tells whether an expired state made way for it.
    ///
    /// What several quotas share counts for the longest of them: none of them shortens its life.
    pub(super) fn write(&mut self, tag: Tag, change: Change, now: Timestamp, tenancy: Tenancy) -> bool {
        match change {
            Change::Instant(tat) => {
                let known = self.instants.find(tag);
                put(&mut self.instants, tag, known, tat, now)
            }
            Change::Packed(mut packed) => {
                let table = &mut self.rest.get_or_insert_default().packed;
                let known = table.find(tag);
                if tenancy == Tenancy::Shared
                    && let (Some(packed), Some(index)) = (&mut packed, known)
                {
                    packed.expires = packed.expires.max(table.get(index).expires);
                }
                put(table, tag, known, packed, now)
            }
            Change::Log(edit) => {
                let logs = &mut self.rest.get_or_insert_default().logs;
                match edit {
                    Some((edit, expires)) => logs.edit(tag, &edit, expires, now),
                    None => {
                        logs.remove(tag);
                        false
                    }
                }
            }
        }
    }
}

/// Sets the tag's state, which is at `known` if there is one, or drops it. Tells whether an expired one made way for it.
fn put<V: Expires>(
    table: &mut Table<V>,
    tag: Tag,
    known: Option<usize>,
    value: Option<V>,
    now: Timestamp,
) -> bool {
    match (known, value) {
        (Some(index), Some(value)) => table.set(index, value),
        (None, Some(value)) => return table.insert(tag, value, now).is_some(),
        (Some(index), None) => drop(table.remove(index)),
        (None, None) => {}
    }
    false
}
