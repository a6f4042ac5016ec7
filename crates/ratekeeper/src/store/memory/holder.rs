//! A key that holds something, and how much of each rule.

use super::slab::Hashed;
use super::tag::KeyHash;
use crate::RuleId;

/// A key that has holds, live or ended.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) key: KeyHash,
    /// Holds that have not ended.
    pub(super) live: u32,
    /// All that is remembered of this key's holds, the answers of those that have ended included.
    pub(super) records: u32,
    held: Vec<HeldAmount>,
}

/// What all live holds of a key have of one rule.
#[derive(Debug)]
struct HeldAmount {
    rule: RuleId,
    amount: u64,
}

impl Holder {
    /// Returns a key that holds nothing yet.
    pub(super) fn new(key: KeyHash) -> Self {
        Holder { key, live: 0, records: 0, held: Vec::new() }
    }

    /// Returns what is held of a rule.
    #[inline]
    pub(super) fn held(&self, rule: RuleId) -> u64 {
        self.held.iter().find(|held| held.rule == rule).map_or(0, |held| held.amount)
    }

    /// Returns the bytes that [`reserve`](Holder::reserve) will allocate for so many rules, before it gives the old ones back.
    pub(super) fn growth(&self, rules: impl Iterator<Item = RuleId> + Clone) -> usize {
        self.more(rules).map_or(0, |capacity| capacity * size_of::<HeldAmount>())
    }

    /// Returns the bytes that a new holder allocates for so many rules.
    pub(super) fn first_growth(rules: usize) -> usize {
        rules * size_of::<HeldAmount>()
    }

    /// Allocates what amounts of these rules need.
    pub(super) fn reserve(&mut self, rules: impl Iterator<Item = RuleId> + Clone) {
        if let Some(capacity) = self.more(rules) {
            self.held.reserve_exact(capacity - self.held.len());
        }
    }

    fn more(&self, rules: impl Iterator<Item = RuleId> + Clone) -> Option<usize> {
        let is_new = |rule: &RuleId| self.held.iter().all(|held| held.rule != *rule);
        let new = rules.clone().filter(is_new).count();
        // The place of a rule of which nothing is held any more is another's, but not if that is asked for again.
        let is_unused = |held: &&HeldAmount| held.amount == 0 && !rules.clone().any(|rule| rule == held.rule);
        let unused = || self.held.iter().filter(is_unused).count();
        let needed = if new == 0 { 0 } else { self.held.len() + new.saturating_sub(unused()) };
        (needed > self.held.capacity()).then_some(needed)
    }

    /// Returns the bytes on the heap.
    pub(super) fn heap_size(&self) -> usize {
        self.held.capacity() * size_of::<HeldAmount>()
    }

    /// Notes that so much more of a rule is held.
    pub(super) fn add(&mut self, rule: RuleId, amount: u64) {
        if amount == 0 {
            return;
        }
        if let Some(held) = self.held.iter_mut().find(|held| held.rule == rule) {
            held.amount = held.amount.saturating_add(amount);
        } else if let Some(unused) = self.held.iter_mut().find(|held| held.amount == 0) {
            *unused = HeldAmount { rule, amount };
        } else {
            self.held.push(HeldAmount { rule, amount });
        }
    }

    /// Notes that so much less of a rule is held.
    pub(super) fn remove(&mut self, rule: RuleId, amount: u64) {
        if let Some(held) = self.held.iter_mut().find(|held| held.rule == rule) {
            held.amount = held.amount.saturating_sub(amount);
        }
    }
}

impl Hashed for Holder {
    #[inline]
    fn hash(&self) -> u64 {
        self.key.spread()
    }
}
