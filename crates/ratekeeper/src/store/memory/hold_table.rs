//! The holds of a shard: those that are live, and the answers of those that have ended.

use std::sync::Arc;

use super::hold_record::{HoldRecord, UNCHARGED, hash_of};
use super::holder::Holder;
use super::leases::Leases;
use super::plan_set::{self, PlanSet};
use super::slab::Slab;
use super::tag::KeyHash;
use crate::port::{HoldId, HoldState};
use crate::{Decision, Plan, RuleId, Timestamp};

/// The end of the list of those that have ended.
pub(super) const NONE: u32 = u32::MAX;

/// The holds of a shard, found by their identifiers.
///
/// What a key holds of each rule is summed up, so that a decision looks at no hold. Those that have ended wait in the order in which
/// they did, until nobody needs to know, or until room is needed.
#[derive(Debug)]
pub(super) struct HoldTable {
    pub(super) records: Slab<HoldRecord>,
    pub(super) holders: Slab<Holder>,
    pub(super) plans: Slab<PlanSet>,
    pub(super) leases: Leases,
    /// The one that ended first, and the last.
    pub(super) ended: (u32, u32),
    /// When the oldest answer is to be forgotten. Others may have to wait for it, if they were held for a shorter time.
    pub(super) next_forgotten: Timestamp,
    /// Bytes that holders, plans and records own themselves.
    pub(super) own: usize,
    /// How often all records were moved, for who looks at them in several steps.
    pub(super) moves: u32,
}

impl Default for HoldTable {
    fn default() -> Self {
        HoldTable {
            records: Slab::default(),
            holders: Slab::default(),
            plans: Slab::default(),
            leases: Leases::default(),
            ended: (NONE, NONE),
            next_forgotten: Timestamp::MAX,
            own: 0,
            moves: 0,
        }
    }
}

/// Where the key of a hold is, and its plans.
#[derive(Clone, Copy, Debug)]
pub(super) struct HoldPlace {
    pub(super) holder: u32,
    pub(super) plans: u32,
}

/// What a new hold will take, before it is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct HoldShape<'a> {
    pub(super) key: KeyHash,
    /// The plans; none if they are only looked at.
    pub(super) plans: &'a [Arc<Plan>],
    pub(super) rules: usize,
    /// Bytes on the heap that the record takes.
    pub(super) record: usize,
}

impl HoldTable {
    /// Returns how many records there are: live holds, and answers.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns true if no more can be remembered here.
    pub(super) fn is_full(&self) -> bool {
        self.records.len() >= Slab::<HoldRecord>::MOST
    }

    /// Returns the bytes that are allocated.
    pub(super) fn bytes(&self) -> usize {
        let tables = self.records.bytes() + self.holders.bytes() + self.plans.bytes();
        size_of::<Self>() + tables + self.leases.bytes() + self.own
    }

    /// Returns when the next lease runs out, or the oldest answer is to be forgotten.
    pub(super) fn earliest(&self) -> Timestamp {
        self.leases.next().min(self.next_forgotten)
    }

    /// Returns true if a lease has run out.
    #[inline]
    pub(super) fn has_lapsed(&self, now: Timestamp) -> bool {
        self.leases.next() <= now
    }

    /// Returns the hold whose lease ran out first, if one has.
    pub(super) fn lapsed(&self, now: Timestamp) -> Option<u32> {
        if self.has_lapsed(now) { self.leases.first() } else { None }
    }

    /// Returns the key that has holds.
    #[inline]
    pub(super) fn holder(&self, key: KeyHash) -> Option<&Holder> {
        self.holder_at(key).and_then(|at| self.holders.get(at))
    }

    /// Returns the key of a hold that is to be made.
    pub(super) fn holder_in(&self, place: HoldPlace) -> Option<&Holder> {
        self.holders.get(place.holder)
    }

    #[inline]
    fn holder_at(&self, key: KeyHash) -> Option<u32> {
        self.holders.find(key.spread(), |holder| holder.key == key)
    }

    /// Returns all keys that have holds.
    pub(super) fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.holders.iter().map(|(_, holder)| holder)
    }

    /// Asks for the memory that a hold of this identifier will need.
    #[inline]
    pub(super) fn prefetch(&self, id: HoldId) {
        self.records.prefetch(hash_of(id));
    }

    /// Returns where the key's hold of this identifier is.
    pub(super) fn find(&self, key: KeyHash, id: HoldId) -> Option<u32> {
        let is_its_own = |record: &HoldRecord| self.key_of(record) == Some(key);
        self.records.find(hash_of(id), |record| record.is(id) && is_its_own(record))
    }

    /// Returns the hold in this position.
    pub(super) fn get(&self, at: u32) -> Option<&HoldRecord> {
        self.records.get(at)
    }

    /// Returns all records and where they are.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &HoldRecord)> {
        self.records.iter()
    }

    /// Returns whose hold it is.
    pub(super) fn key_of(&self, record: &HoldRecord) -> Option<KeyHash> {
        self.holders.get(record.holder).map(|holder| holder.key)
    }

    /// Returns the holder of this record.
    pub(super) fn holder_of(&self, record: &HoldRecord) -> Option<&Holder> {
        self.holders.get(record.holder)
    }

    /// Returns the plans that it was made under.
    pub(super) fn plans_of(&self, record: &HoldRecord) -> &[Arc<Plan>] {
        self.plans.get(record.plans).map_or(&[], |set| &set.plans)
    }

    /// Returns where the key and the plans are of a hold that needs room for a record alone.
    pub(super) fn place_of(&self, key: KeyHash, plans: &[Arc<Plan>]) -> Option<HoldPlace> {
        let place = HoldPlace { holder: self.holder_at(key)?, plans: self.set_of(plans)? };
        let rules = plan_set::rules(plans.iter().map(|plan| &**plan)).map(|(_, rule)| rule.id());
        (self.holders.get(place.holder)?.growth(rules) == 0).then_some(place)
    }

    /// Returns the bytes that [`reserve`](HoldTable::reserve) will allocate, before it gives the old ones back.
    pub(super) fn growth(&self, shape: HoldShape<'_>, rules: impl Iterator<Item = RuleId> + Clone) -> usize {
        let holder = match self.holder(shape.key) {
            Some(holder) => holder.growth(rules),
            None => self.holders.growth() + Holder::first_growth(shape.rules),
        };
        let plans = match self.set_of(shape.plans) {
            Some(_) => 0,
            None => self.plans.growth() + PlanSet::heap_of(shape.plans.len()),
        };
        self.record_growth() + shape.record + holder + plans
    }

    fn set_of(&self, plans: &[Arc<Plan>]) -> Option<u32> {
        self.plans.find(plan_set::hash_of(plans), |set| set.is(plans))
    }

    /// Returns the bytes that [`reserve_record`](HoldTable::reserve_record) will allocate, before it gives the old ones back.
    #[inline]
    pub(super) fn record_growth(&self) -> usize {
        self.records.growth() + self.leases.growth()
    }

    /// Allocates what one more record needs.
    pub(super) fn reserve_record(&mut self) {
        self.records.reserve();
        self.leases.reserve();
    }

    /// Allocates what one more hold needs.
    pub(super) fn reserve(&mut self, shape: HoldShape<'_>, rules: impl Iterator<Item = RuleId> + Clone) {
        self.reserve_record();
        match self.holder_at(shape.key).and_then(|at| self.holders.get_mut(at)) {
            Some(holder) => {
                let before = holder.heap_size();
                holder.reserve(rules);
                self.own += holder.heap_size() - before;
            }
            None => self.holders.reserve(),
        }
        if self.set_of(shape.plans).is_none() {
            self.plans.reserve();
        }
    }

    /// Adds a hold, for which there is room.
    pub(super) fn add(&mut self, record: HoldRecord, shape: HoldShape<'_>) {
        let plans = self.set_of(shape.plans).unwrap_or_else(|| {
            self.own += PlanSet::heap_of(shape.plans.len());
            self.plans.insert(PlanSet::new(shape.plans))
        });
        let holder = self.holder_at(shape.key).unwrap_or_else(|| {
            let mut holder = Holder::new(shape.key);
            let rules = plan_set::rules(shape.plans.iter().map(|plan| &**plan));
            holder.reserve(rules.map(|(_, rule)| rule.id()));
            self.own += holder.heap_size();
            self.holders.insert(holder)
        });
        self.add_at(record, HoldPlace { holder, plans });
    }

    /// Adds a hold of this key and these plans, for which there is room.
    pub(super) fn add_at(&mut self, mut record: HoldRecord, place: HoldPlace) {
        let is_live = record.is_live();
        (record.holder, record.plans) = (place.holder, place.plans);
        if let (Some(holder), Some(set)) =
            (self.holders.get_mut(place.holder), self.plans.get_mut(place.plans))
        {
            set.records += 1;
            let before = holder.heap_size();
            holder.records += 1;
            holder.live += u32::from(is_live);
            for (rule, estimate) in bounded(&record, &set.plans) {
                holder.add(rule, estimate);
            }
            self.own += holder.heap_size() - before;
        }
        self.own += record.heap_size();
        let forget_at = record.forget_at();
        let at = self.records.insert(record);
        match is_live {
            true => self.leases.push(at, &mut self.records),
            false => self.enqueue(at, forget_at),
        }
    }

    /// Sets another end of a live hold's lease.
    pub(super) fn extend(&mut self, at: u32, lease_end: Timestamp) {
        if let Some(record) = self.records.get_mut(at).filter(|record| record.is_live()) {
            record.lease_end = lease_end;
            let place = record.link as usize;
            self.leases.settle(place, &mut self.records);
        }
    }

    /// Ends a live hold: its places are free, and the answer is remembered.
    pub(super) fn end(&mut self, at: u32, state: HoldState, decision: &Decision) {
        self.free(at);
        if let Some(record) = self.records.get_mut(at) {
            self.own -= record.heap_size();
            record.end(state, decision);
            let forget_at = record.forget_at();
            self.enqueue(at, forget_at);
        }
    }

    /// Forgets a live hold: its places are free, and nobody will know of it.
    pub(super) fn drop_live(&mut self, at: u32) {
        self.free(at);
        self.forget(at);
    }

    /// Takes a live hold out of the leases and out of what its key holds.
    fn free(&mut self, at: u32) {
        let Some(record) = self.records.get(at).filter(|record| record.is_live()) else { return };
        if let (Some(holder), Some(set)) = (self.holders.get_mut(record.holder), self.plans.get(record.plans))
        {
            holder.live -= 1;
            for (rule, estimate) in bounded(record, &set.plans) {
                holder.remove(rule, estimate);
            }
        }
        let link = record.link;
        self.leases.remove(link, &mut self.records);
    }

    /// Forgets a record, and its key and plans if it was the last of theirs.
    pub(super) fn forget(&mut self, at: u32) {
        let Some(record) = self.records.remove(at) else { return };
        self.own -= record.heap_size();
        if let Some(holder) = self.holders.get_mut(record.holder) {
            holder.records -= 1;
            if holder.records == 0 {
                self.own -= holder.heap_size();
                self.holders.remove(record.holder);
            }
        }
        if let Some(set) = self.plans.get_mut(record.plans) {
            set.records -= 1;
            if set.records == 0 {
                self.own -= PlanSet::heap_of(set.plans.len());
                self.plans.remove(record.plans);
            }
        }
    }

    /// Adds a record, and makes room for it: of a snapshot, or of a table that gives memory back.
    pub(super) fn put(&mut self, record: HoldRecord, key: KeyHash, plans: &[Arc<Plan>]) {
        let rules = plan_set::rules(plans.iter().map(|plan| &**plan)).map(|(_, rule)| rule.id());
        let shape = HoldShape { key, plans, rules: rules.clone().count(), record: record.heap_size() };
        self.reserve(shape, rules);
        self.add(record, shape);
    }
}

/// Returns what a hold has of each rule that bounds what is held.
fn bounded(record: &HoldRecord, plans: &[Arc<Plan>]) -> impl Iterator<Item = (RuleId, u64)> {
    let rules = plan_set::rules(plans.iter().map(|plan| &**plan)).enumerate();
    rules.filter_map(|(position, (plan, rule))| {
        let estimate = record.estimate(position);
        let is_bounded = estimate != UNCHARGED && plan.most_in_flight(rule).is_some();
        is_bounded.then(|| (rule.id(), estimate))
    })
}
