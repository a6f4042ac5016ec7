//! One shard: all states of the keys that fall to it, behind one lock.

use super::budget::{Budget, Full, Room};
use super::resets::Resets;
use super::slot::{Change, Logged, Packed, Tat};
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
use crate::{Charged, Cost, Decision, Nanos, Quota, Rules, Timestamp};

/// States of one shard beyond which quotas of requests get no new one: eight times what chance gives it at most. Only one
/// key with very many quotas, which all lie here, fills a shard like that, and looking at it must not take long.
pub(super) const CROWDED: usize = 16_384;

/// A shard fits a cache line with its lock, so that a decision touches two lines: this one and the slot's.
#[derive(Debug)]
pub(super) struct Shard {
    /// One instant a key.
    pub(super) instants: Table<Tat>,
    /// Everything else, which most shards of most stores never hold.
    pub(super) rest: Option<Box<Rest>>,
    /// States dropped because they had expired.
    pub(super) expired: u64,
    /// The latest instant that anybody came with. Who waited for the lock comes with an older one than who was here
    /// before, and time does not go back for a key.
    latest: Timestamp,
}

impl Default for Shard {
    fn default() -> Self {
        Shard { instants: Table::default(), rest: None, expired: 0, latest: Timestamp::MIN }
    }
}

/// How much of a cost will do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    Exactly(Cost),
    UpTo(Cost),
}

/// The tables of the algorithms that need more than an instant.
#[derive(Debug, Default)]
pub(super) struct Rest {
    pub(super) packed: Table<Packed>,
    pub(super) logs: Table<Logged>,
    resets: Resets,
}

impl Shard {
    /// The instant to decide at: the caller's, or a later one that this shard has seen already.
    #[inline(always)]
    fn advance(&mut self, now: Timestamp) -> Timestamp {
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
            budget.take().ok()?;
            view.charge(cost);
            let dropped = self.instants.insert(tag, Tat(view.tat()), now);
            self.expired += dropped as u64;
            budget.give_back(dropped);
        }
        Some((view, wait))
    }

    /// Takes the cost from all rules or from none.
    pub(super) fn take(
        &mut self,
        key: KeyHash,
        rules: Rules<'_>,
        wanted: Wanted,
        now: Timestamp,
        room: Room<'_>,
    ) -> Result<Grant, Full> {
        let now = self.advance(now);
        let cost = match wanted {
            Wanted::Exactly(cost) => cost,
            Wanted::UpTo(cost) => partial_grant(self.remaining(key, rules, now), cost),
        };
        let passes = self.all_ready(key, rules, cost, now);
        let (Room::Within(budget) | Room::Beyond(budget)) = room;
        let mut taken = 0;
        if passes && cost != Cost::PEEK {
            self.thin_out(key, rules, now, budget)?;
            taken = match room {
                Room::Within(budget) => self.make_room(key, rules, now, budget)?,
                Room::Beyond(budget) => budget.take_anyway(self.missing(key, rules)),
            };
        }
        let before = self.len();
        let decision = self.take_with_room(key, rules, cost, now, passes);
        // Expired states may have made way, even such as this key had under another rule.
        budget.give_back((before + taken).saturating_sub(self.len()));
        // What is taken beyond the bound is taken from a state that many share: nobody gets it back.
        let decision = match room {
            Room::Within(_) => decision.taken(cost, now),
            Room::Beyond(_) => decision,
        };
        Ok(Grant { granted: if decision.allowed { cost } else { Cost::PEEK }, decision })
    }

    /// How many states there are.
    pub(super) fn len(&self) -> usize {
        self.instants.len() + self.rest.as_ref().map_or(0, |rest| rest.packed.len() + rest.logs.len())
    }

    fn all_ready(&self, key: KeyHash, rules: Rules<'_>, cost: Cost, now: Timestamp) -> bool {
        let tenancy = rules.tenancy();
        tags(key, rules)
            .all(|(tag, quota)| self.meter(tag, quota, now, tenancy).wait_for(cost) == Wait::Ready)
    }

    /// Takes the cost if it passes, every state having its place.
    fn take_with_room(
        &mut self,
        key: KeyHash,
        rules: Rules<'_>,
        cost: Cost,
        now: Timestamp,
        passes: bool,
    ) -> Decision {
        let (writes, tenancy) = (cost != Cost::PEEK, rules.tenancy());
        let decisions = tags(key, rules).map(|(tag, quota)| {
            let mut meter = self.meter(tag, quota, now, tenancy);
            let decision = if passes { take(&mut meter, cost) } else { look(&meter, cost) };
            if writes && (passes || meter.was_repaired()) {
                let change = Change::of(&meter, now);
                self.write(tag, change, now, tenancy);
            }
            decision
        });
        composite::join(decisions)
    }

    /// What [`take`](Shard::take) would decide.
    pub(super) fn look(&self, key: KeyHash, rules: Rules<'_>, cost: Cost, now: Timestamp) -> Decision {
        let (now, tenancy) = (now.max(self.latest), rules.tenancy());
        composite::join(
            tags(key, rules).map(|(tag, quota)| look(&self.meter(tag, quota, now, tenancy), cost)),
        )
    }

    /// How many requests of cost 1 every rule would let pass.
    fn remaining(&self, key: KeyHash, rules: Rules<'_>, now: Timestamp) -> u64 {
        let tenancy = rules.tenancy();
        let left = tags(key, rules).map(|(tag, quota)| self.meter(tag, quota, now, tenancy).remaining());
        left.min().unwrap_or(u64::MAX)
    }

    /// Gives back to all rules what is left of a cost. What is unknown stays unknown, and what was forgotten since
    /// stays forgotten: it has nothing to be given back.
    pub(super) fn refund(
        &mut self,
        key: KeyHash,
        rules: Rules<'_>,
        cost: Cost,
        charged: Charged,
        now: Timestamp,
        budget: &Budget,
    ) -> Decision {
        let (before, now, tenancy) = (self.len(), self.advance(now), rules.tenancy());
        let charged_at = charged.instant(now);
        let decisions = tags(key, rules).map(|(tag, quota)| {
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
        budget.give_back(before - self.len());
        decision
    }

    fn was_reset(&self, tag: Tag, charged_at: Timestamp) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.resets.since(tag, charged_at))
    }

    /// Forgets the key under these rules; under a quota of a request, under all of them. Tells how many states that
    /// were worth something are gone.
    pub(super) fn forget(&mut self, key: KeyHash, rules: Rules<'_>, now: Timestamp, budget: &Budget) -> u64 {
        let (before, now) = (self.len(), self.advance(now));
        let live = match rules {
            Rules::Quota(_) => self.forget_brought(key, now),
            _ => self.forget_ruled(key, rules, now),
        };
        budget.give_back(before - self.len());
        live
    }

    fn forget_ruled(&mut self, key: KeyHash, rules: Rules<'_>, now: Timestamp) -> u64 {
        let live = tags(key, rules).map(|(tag, quota)| {
            let reset_after = self.meter(tag, quota, now, Tenancy::Own).reset_after();
            self.write(tag, Change::forget(quota.algorithm()), now, Tenancy::Own);
            if reset_after > Nanos::ZERO {
                self.rest.get_or_insert_default().resets.note(tag, now, reset_after);
            }
            u64::from(reset_after > Nanos::ZERO)
        });
        live.sum()
    }

    /// Looks at every state of the shard: those of one key lie apart, and nobody knows which quotas were brought.
    fn forget_brought(&mut self, key: KeyHash, now: Timestamp) -> u64 {
        let rest = self.rest.get_or_insert_default();
        let mut forgotten = Vec::new();
        take_brought(&mut self.instants, key, &mut forgotten);
        take_brought(&mut rest.packed, key, &mut forgotten);
        take_brought(&mut rest.logs, key, &mut forgotten);
        let mut live = 0;
        for (tag, expires) in forgotten {
            if expires > now {
                rest.resets.note(tag, now, expires.since(now));
                live += 1;
            }
        }
        live
    }

    /// The rule's state as it stands now.
    fn meter<'a>(&'a self, tag: Tag, quota: &'a Quota, now: Timestamp, tenancy: Tenancy) -> Meter<'a> {
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
                let logs = self.rest.as_ref().map(|rest| &rest.logs);
                let log = logs.and_then(|logs| logs.find(tag).map(|index| &logs.get(index).log));
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

    /// Sees to it that a quota of a request that has no state yet may get one here: if there are [too many](CROWDED),
    /// an expired one makes way.
    pub(super) fn thin_out(
        &mut self,
        key: KeyHash,
        rules: Rules<'_>,
        now: Timestamp,
        budget: &Budget,
    ) -> Result<(), Full> {
        // Nearly always it is the cheap questions that end this.
        if rules.tenancy() == Tenancy::Own || self.len() < CROWDED || self.missing(key, rules) == 0 {
            return Ok(());
        }
        if !self.evict_one(now) {
            // A request brings one quota.
            return Err(Full { missing: 1 });
        }
        budget.give_back(1);
        Ok(())
    }

    /// Takes a place for every rule that has no state yet, so that the writes that follow cannot fail half-way. Tells
    /// how many it took. On failure nothing has changed but that some expired states are gone.
    fn make_room(
        &mut self,
        key: KeyHash,
        rules: Rules<'_>,
        now: Timestamp,
        budget: &Budget,
    ) -> Result<usize, Full> {
        // What is evicted may be a state of this very key that has expired, so count again every time.
        let mut taken = 0;
        loop {
            let missing = self.missing(key, rules).saturating_sub(taken);
            if missing == 0 {
                return Ok(taken);
            }
            if budget.take().is_ok() {
                taken += 1;
            } else if self.evict_one(now) {
                // Given back, not kept: known keys may have taken places beyond the bound, and what they leave must not
                // go to a new key.
                budget.give_back(1);
            } else if self.knows(key, rules, now) {
                return Ok(taken + budget.take_anyway(missing));
            } else {
                budget.give_back(taken);
                return Err(Full { missing });
            }
        }
    }

    /// How many of the rules have no state.
    fn missing(&self, key: KeyHash, rules: Rules<'_>) -> usize {
        tags(key, rules).filter(|(tag, quota)| !self.holds(*tag, quota)).count()
    }

    /// True if any of these rules has a state that is worth something. Such a key is known, however full the store is: a
    /// flood of others must not change what it is told, only because the state of its shortest rule has expired.
    pub(super) fn knows(&self, key: KeyHash, rules: Rules<'_>, now: Timestamp) -> bool {
        let now = now.max(self.latest);
        let live = |tag, quota| !self.meter(tag, quota, now, rules.tenancy()).reset_after().is_zero();
        tags(key, rules).any(|(tag, quota)| live(tag, quota))
    }

    /// No state in here expires before this.
    pub(super) fn earliest(&self) -> Timestamp {
        let rest = self
            .rest
            .as_ref()
            .map_or(Timestamp::MAX, |rest| rest.packed.earliest().min(rest.logs.earliest()));
        self.instants.earliest().min(rest)
    }

    /// Makes a change. An insertion fills a place that was taken before.
    ///
    /// What several quotas share counts for the longest of them: none of them shortens its life.
    fn write(&mut self, tag: Tag, change: Change, now: Timestamp, tenancy: Tenancy) {
        let made_way = match change {
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
                let known = logs.find(tag);
                let logged = edit.map(|(edit, expires)| {
                    let mut log =
                        known.map(|index| std::mem::take(&mut logs.get_mut(index).log)).unwrap_or_default();
                    edit.apply(&mut log);
                    Logged { expires, log }
                });
                put(logs, tag, known, logged, now)
            }
        };
        self.expired += made_way as u64;
    }

    /// Drops one expired state of whatever kind.
    ///
    /// A caller who comes late must not find a fresh key where there was a live state at its instant: so the shard's
    /// time moves on.
    pub(super) fn evict_one(&mut self, now: Timestamp) -> bool {
        let now = self.advance(now);
        let evicted = self.instants.evict_one(now)
            || self.rest.as_mut().is_some_and(|rest| rest.packed.evict_one(now) || rest.logs.evict_one(now));
        self.expired += u64::from(evicted);
        evicted
    }

    /// Drops everything that has expired.
    pub(super) fn sweep(&mut self, now: Timestamp, budget: &Budget) -> usize {
        let (all, now) = (usize::MAX, self.advance(now));
        let mut swept = self.instants.sweep_slots(now, all);
        if let Some(rest) = &mut self.rest {
            swept += rest.packed.sweep_slots(now, all) + rest.logs.sweep_slots(now, all);
        }
        self.expired += swept as u64;
        budget.give_back(swept);
        swept
    }

    /// Bytes on the heap.
    pub(super) fn heap_size(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| {
            let logs: usize = rest.logs.iter().map(|(_, logged)| logged.log.heap_size()).sum();
            size_of::<Rest>() + rest.packed.heap_size() + rest.logs.heap_size() + logs
        });
        self.instants.heap_size() + rest
    }
}

/// Sets the tag's state, which is at `known` if there is one, or drops it. Tells how many expired states made way for it.
fn put<V: Expires>(
    table: &mut Table<V>,
    tag: Tag,
    known: Option<usize>,
    value: Option<V>,
    now: Timestamp,
) -> usize {
    match (known, value) {
        (Some(index), Some(value)) => table.set(index, value),
        (None, Some(value)) => return table.insert(tag, value, now),
        (Some(index), None) => drop(table.remove(index)),
        (None, None) => {}
    }
    0
}

/// Takes the states out that requests' own quotas left for this key. Tells which, and until when they counted.
fn take_brought<V: Expires>(table: &mut Table<V>, key: KeyHash, into: &mut Vec<(Tag, Timestamp)>) {
    let brought: Vec<Tag> = table.iter().map(|(tag, _)| tag).filter(|tag| key.brought(*tag)).collect();
    for tag in brought {
        if let Some(index) = table.find(tag) {
            into.push((tag, table.remove(index).expires_at()));
        }
    }
}

/// The tags of a key under several rules.
fn tags<'a>(key: KeyHash, rules: Rules<'a>) -> impl Iterator<Item = (Tag, &'a Quota)> + Clone {
    rules.iter().map(move |(rule, quota)| (key.under(rule, quota), quota))
}
