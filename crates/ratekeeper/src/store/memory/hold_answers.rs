//! What becomes of holds that have ended, or are to be forgotten: the answers wait in line, the oldest first.

use super::hold_record::HoldRecord;
use super::hold_table::{HoldTable, NONE};
use super::holder::Holder;
use super::plan_set::PlanSet;
use super::slab::Slab;
use super::tag::KeyHash;
use crate::{Plan, Timestamp};

impl HoldTable {
    pub(super) fn enqueue(&mut self, at: u32, forget_at: Timestamp) {
        if let Some(record) = self.records.get_mut(at) {
            record.link = NONE;
        }
        match self.records.get_mut(self.ended.1) {
            Some(last) => last.link = at,
            None => {
                self.ended.0 = at;
                self.next_forgotten = forget_at;
            }
        }
        self.ended.1 = at;
    }

    /// Forgets up to so many answers, the oldest first. Returns how many.
    pub(super) fn drop_answers(&mut self, most: usize) -> usize {
        (0..most).take_while(|_| self.drop_oldest()).count()
    }

    /// Forgets the answers that nobody needs to know any more, up to the oldest that somebody does. Returns how many.
    pub(super) fn sweep_answers(&mut self, now: Timestamp) -> usize {
        std::iter::repeat_with(|| self.next_forgotten <= now && self.drop_oldest())
            .take_while(|is| *is)
            .count()
    }

    /// Forgets every answer that nobody needs to know any more: looks at all of them. Returns how many.
    pub(super) fn tidy_answers(&mut self, now: Timestamp) -> usize {
        self.drop_ended(|_, record| record.forget_at() <= now)
    }

    fn drop_oldest(&mut self) -> bool {
        let at = self.ended.0;
        let Some(next) = self.records.get(at).map(|record| record.link) else { return false };
        match self.records.get(next).map(HoldRecord::forget_at) {
            Some(forget_at) => (self.ended.0, self.next_forgotten) = (next, forget_at),
            None => (self.ended, self.next_forgotten) = ((NONE, NONE), Timestamp::MAX),
        }
        self.forget(at);
        true
    }

    /// Forgets every live hold of the key that was made under such a plan. Returns how many there were.
    pub(super) fn drop_named(&mut self, key: KeyHash, is_named: impl Fn(&Plan) -> bool) -> usize {
        if self.holder(key).is_none_or(|holder| holder.live == 0) {
            return 0;
        }
        let is_one = |record: &HoldRecord| {
            let mut plans = self.plans_of(record).iter();
            record.is_live() && self.key_of(record) == Some(key) && plans.any(|plan| is_named(plan))
        };
        let named: Vec<u32> = self.iter().filter(|(_, record)| is_one(record)).map(|(at, _)| at).collect();
        named.iter().for_each(|at| self.drop_live(*at));
        named.len()
    }

    /// Forgets every hold of these keys, live or ended. Returns how many were live.
    pub(super) fn forget_keys(&mut self, which: impl Fn(u64) -> bool) -> usize {
        let is_theirs =
            |table: &Self, record: &HoldRecord| table.key_of(record).is_some_and(|key| which(key.place));
        let live = |table: &Self| {
            let theirs = table.iter().filter(|(_, record)| record.is_live() && is_theirs(table, record));
            theirs.map(|(at, _)| at).collect::<Vec<u32>>()
        };
        let live = live(self);
        live.iter().for_each(|at| self.drop_live(*at));
        self.drop_ended(is_theirs);
        live.len()
    }

    /// Forgets the answers of which this is true, wherever they wait. Returns how many.
    fn drop_ended(&mut self, which: impl Fn(&Self, &HoldRecord) -> bool) -> usize {
        let (mut next, mut dropped) = (self.ended.0, 0);
        self.ended = (NONE, NONE);
        self.next_forgotten = Timestamp::MAX;
        while let Some(record) = self.records.get(next) {
            let (at, forget_at) = (next, record.forget_at());
            next = record.link;
            if which(self, record) {
                self.forget(at);
                dropped += 1;
            } else {
                self.enqueue(at, forget_at);
            }
        }
        dropped
    }

    /// Returns the bytes that would do, if there are far too many.
    pub(super) fn smaller(&self) -> Option<usize> {
        let is_sparse = self.records.is_sparse() || self.len() == 0;
        is_sparse.then(|| {
            let tables = Slab::<HoldRecord>::bytes_of(self.len())
                + Slab::<Holder>::bytes_of(self.holders.len())
                + Slab::<PlanSet>::bytes_of(self.plans.len());
            size_of::<Self>() + tables + self.leases.len() * 2 * size_of::<u32>() + self.own
        })
    }

    /// Returns where all records are: the answers, the oldest first, as they wait; then the live ones, in any order.
    pub(super) fn in_order(&self) -> impl Iterator<Item = u32> {
        let next = |at: u32| self.records.get(at).map(|record| (at, record.link));
        let answers = std::iter::successors(next(self.ended.0), move |(_, link)| next(*link));
        let live = self.records.iter().filter(|(_, record)| record.is_live());
        answers.map(|(at, _)| at).chain(live.map(|(at, _)| at))
    }

    /// Returns the same holds in as much memory as they need; nothing, if there are none.
    pub(super) fn compacted(mut self) -> Option<Box<Self>> {
        let order: Vec<u32> = self.in_order().collect();
        let mut compact = Box::new(HoldTable { moves: self.moves.wrapping_add(1), ..HoldTable::default() });
        for at in order {
            let Some(record) = self.records.remove(at) else { continue };
            let (Some(holder), Some(set)) = (self.holders.get(record.holder), self.plans.get(record.plans))
            else {
                continue;
            };
            compact.put(record, holder.key, &set.plans);
        }
        (compact.len() > 0).then_some(compact)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::port::{HoldId, HoldState};
    use crate::{Decision, Nanos};

    /// Everything that is kept up to date, worked out again.
    fn is_sound(table: &HoldTable) {
        let live = || table.iter().filter(|(_, record)| record.is_live());
        let next = live().map(|(_, record)| record.lease_end).min();
        assert_eq!(table.leases.next(), next.unwrap_or(Timestamp::MAX));
        assert_eq!(table.in_order().count(), table.len());
        for holder in table.holders() {
            let own = || table.iter().filter(|(_, record)| table.key_of(record) == Some(holder.key));
            assert_eq!(own().count(), holder.records as usize);
            assert_eq!(own().filter(|(_, record)| record.is_live()).count(), holder.live as usize);
            for rule in table.plans.iter().flat_map(|(_, set)| set.plans[0].rules()) {
                let held = own().filter(|(_, record)| record.is_live());
                let held = held.filter(|(_, record)| table.plans_of(record)[0].rules()[0].id() == rule.id());
                assert_eq!(held.map(|(_, record)| record.estimate(0)).sum::<u64>(), holder.held(rule.id()));
            }
        }
        let own = table.iter().map(|(_, record)| record.heap_size()).sum::<usize>()
            + table.holders().map(Holder::heap_size).sum::<usize>()
            + table.plans.iter().map(|(_, set)| PlanSet::heap_of(set.plans.len())).sum::<usize>();
        assert_eq!(table.own, own);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever is done to holds, what is summed up is what they add up to, and the next lease is the next.
        #[test]
        fn sums_and_leases_are_those_of_the_holds(steps in prop::collection::vec((0..9u8, 0..30u128, 0..40i64), 0..200)) {
            let plan = |name| Arc::new(Plan::parse(name, "9 concurrent").unwrap());
            let plans = [[plan("a")], [plan("b")]];
            let mut table = Box::<HoldTable>::default();
            for (step, id, at) in steps {
                let key = KeyHash::from_halves(1, u64::try_from(id % 5).unwrap());
                let (hold, now) = (HoldId::from_bits(id), Timestamp::from_secs(at));
                let found = table.find(key, hold);
                let lived = found.is_some_and(|at| table.get(at).unwrap().is_live());
                let other = KeyHash::from_halves(1, 9);
                prop_assert_eq!(table.find(other, hold), None, "another key's");
                match (step, found) {
                    (0..=3, None) => {
                        // More than a small number can be, at times.
                        let estimate = if id % 3 == 0 { 1 << 40 } else { 1 + u64::from(step) };
                        let record = HoldRecord::live(hold, now, now, std::iter::once(estimate));
                        table.put(record, key, &plans[usize::from(step % 2)]);
                    }
                    (4, Some(at)) if lived => table.end(at, HoldState::Settled, &Decision::allow(1, 1, Nanos::ZERO)),
                    (5, Some(at)) if lived => table.drop_live(at),
                    (6, Some(at)) if lived => table.extend(at, now),
                    (7, _) => {
                        let len = table.len();
                        prop_assert_eq!(table.drop_answers(1) + table.tidy_answers(now), len - table.len());
                    }
                    (8, _) => {
                        let len = table.len();
                        table = table.compacted().unwrap_or_default();
                        prop_assert_eq!(table.len(), len);
                    }
                    _ => {}
                }
                is_sound(&table);
            }
            while let Some(at) = table.lapsed(Timestamp::MAX) {
                table.drop_live(at);
            }
            table.forget_keys(|_| true);
            prop_assert_eq!((table.len(), table.own, table.holders().count()), (0, 0, 0));
        }
    }
}
