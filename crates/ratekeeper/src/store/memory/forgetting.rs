//! Forgetting on request: a key under its rules, or all keys that start alike.

use super::budget::Budget;
use super::keys::KeyPlaces;
use super::room::Claims;
use super::shard::{Shard, Subject};
use super::slot::SlotChange;
use super::tag::Tag;
use crate::algorithm::{Tenancy, View};
use crate::{Nanos, Plan, Rules, Timestamp};

impl Shard {
    /// Forgets the key under these rules; under a quota of a request, under all of them. Returns how many states that
    /// were worth something are gone.
    pub(super) fn reset(&mut self, subject: &Subject<'_>, now: Timestamp, budget: &Budget) -> u64 {
        self.lapse(now, budget);
        let (before, now) = (self.held(), self.advance(now));
        let live = match subject.request.rules {
            // States of one key lie apart, and nobody knows which quotas were brought: look at every state.
            Rules::Quota(_) => self.forget_all(now, |tag| subject.hash.brought(tag)),
            _ => self.forget_ruled(subject, now) + self.forget_held(subject),
        };
        self.settle(before, budget);
        live
    }

    /// Forgets every key that starts like this. Returns how many states that were worth something are gone.
    pub(super) fn forget(&mut self, prefix: &[u8], now: Timestamp, budget: &Budget) -> u64 {
        self.lapse(now, budget);
        let (before, now) = (self.held(), self.advance(now));
        let starting = self.rest.iter().flat_map(|rest| rest.keys.iter());
        let starting = starting.filter(|entry| entry.key.starts_with(prefix));
        let places: KeyPlaces = starting.map(|entry| entry.place).collect();
        // With no prefix also those whose keys are not known: restored without them, or shared by all who found no room.
        let starts = |place: u64| prefix.is_empty() || places.contains(&place);
        let live = match prefix.is_empty() || !places.is_empty() {
            true => {
                let held = self.hold_table_mut().map_or(0, |holds| holds.forget_keys(starts));
                held as u64 + self.forget_all(now, |tag| starts(tag.place))
            }
            false => 0,
        };
        self.settle(before, budget);
        self.give_back(&Claims::default(), budget);
        live
    }

    /// Ends the key's live holds that name any of these plans: they are gone, and what they have taken from others stays
    /// taken. Returns how many there were.
    fn forget_held(&mut self, subject: &Subject<'_>) -> u64 {
        let is_named = |plan: &Plan| subject.request.rules.plans().any(|named| named.name() == plan.name());
        self.hold_table_mut().map_or(0, |holds| holds.drop_named(subject.hash, is_named) as u64)
    }

    fn forget_ruled(&mut self, subject: &Subject<'_>, now: Timestamp) -> u64 {
        let live = subject.tags().map(|(tag, quota)| {
            let reset_after = self.meter(tag, quota, now, Tenancy::Own).reset_after();
            self.write(tag, SlotChange::forget(quota.algorithm()), now, Tenancy::Own);
            if reset_after > Nanos::ZERO {
                self.rest.get_or_insert_default().resets.note(tag, now, reset_after);
            }
            u64::from(reset_after > Nanos::ZERO)
        });
        live.sum()
    }

    /// Forgets every state of which this is true. Returns how many of them were worth something.
    fn forget_all(&mut self, now: Timestamp, which: impl Fn(Tag) -> bool) -> u64 {
        let mut forgotten = Vec::new();
        let mut out = |tag, expires: Timestamp| {
            if expires > now {
                forgotten.push((tag, expires.since(now)));
            }
        };
        self.instants.take_out(|tag, _| which(tag), |tag, tat| out(tag, tat.0));
        if let Some(rest) = &mut self.rest {
            rest.packed.take_out(|tag, _| which(tag), |tag, packed| out(tag, packed.expires));
            rest.logs.take_out(&which, &mut out);
        }
        if !forgotten.is_empty() {
            self.rest.get_or_insert_default().resets.note_all(&forgotten, now);
        }
        forgotten.len() as u64
    }
}
