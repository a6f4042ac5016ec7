//! One shard: all states of the keys that fall to it, behind one lock.

use super::budget::Footprint;
use super::hold_table::HoldTable;
use super::holder::Holder;
use super::keys::{KeptKeys, KeyPlaces};
use super::logs::Logs;
use super::mirror::RefusalSample;
use super::resets::Resets;
use super::slot::{Packed, SlotChange, Tat};
use super::table::{Expires, StateTable};
use super::tag::{KeyHash, Tag};
use crate::algorithm::gcra::{GcraState, GcraView};
use crate::algorithm::sliding_log::SlidingLogView;
use crate::algorithm::{AnyView, State, Tenancy, View};
use crate::port::{Request, Share};
use crate::{Algorithm, Cost, Key, Quota, Timestamp};

/// A shard fits a cache line with its lock, so that a decision writes two lines: this one and the slot's.
#[derive(Debug)]
pub(super) struct Shard {
    /// The states of GCRA, one instant each.
    pub(super) instants: StateTable<Tat>,
    /// Everything else, which most shards of most stores never hold.
    pub(super) rest: Option<Box<ShardExtras>>,
    /// The latest instant at which something was taken, given back or dropped. Who waited for the lock comes with an older
    /// one than who was here before, and time does not go back for a key. Refusals change nothing, and leave no trace here
    /// either: most of them never come to the lock.
    pub(super) latest: Timestamp,
    /// Who is refused all the time.
    pub(super) refusals: RefusalSample,
}

impl Default for Shard {
    fn default() -> Self {
        Shard {
            instants: StateTable::default(),
            rest: None,
            latest: Timestamp::MIN,
            refusals: RefusalSample::default(),
        }
    }
}

/// Whose states a question is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) hash: KeyHash,
    pub(super) request: Request<'a>,
    /// The key itself, if it is to be kept.
    pub(super) kept: Option<Key<'a>>,
    /// Whether it is to be held, which takes room of its own.
    pub(super) is_hold: bool,
}

impl<'a> Subject<'a> {
    /// Returns the tags of the states, and what they are held to.
    pub(super) fn tags(self) -> impl Iterator<Item = (Tag, &'a Quota)> + Clone {
        self.request.rules.iter().map(move |(rule, quota)| (self.hash.under(rule, quota), quota))
    }

    /// Returns the tags of the states, and what is asked of them.
    pub(super) fn shares(self) -> impl Iterator<Item = (Tag, Share<'a>)> + Clone {
        self.request.shares().map(move |share| (self.hash.under(share.rule, share.quota), share))
    }

    /// Returns the same as [`shares`](Subject::shares) of a request that is plain, by a shorter way.
    pub(super) fn plain_shares(self) -> impl Iterator<Item = (Tag, Share<'a>)> + Clone {
        let cost = self.request.cost;
        self.request.rules.iter().map(move |(rule, quota)| {
            (self.hash.under(rule, quota), Share { rule, quota, cost, shadow_of: None })
        })
    }

    /// Returns true if anything is asked for.
    #[inline]
    pub(super) fn takes(self) -> bool {
        match self.request.is_plain() {
            true => self.request.cost != Cost::ZERO,
            false => self.request.shares().any(|share| share.cost != Cost::ZERO),
        }
    }

    /// Returns who writes the states: a plan's rule, or all quotas of requests.
    pub(super) fn tenancy(self) -> Tenancy {
        self.request.rules.tenancy()
    }
}

/// The tables of the algorithms that need more than an instant, the keys, the latest resets, and what is held.
#[derive(Debug, Default)]
pub(super) struct ShardExtras {
    pub(super) packed: StateTable<Packed>,
    pub(super) logs: Logs,
    pub(super) keys: KeptKeys,
    pub(super) resets: Resets,
    pub(super) holds: Option<Box<HoldTable>>,
}

impl Shard {
    /// Returns the instant to decide at: the caller's, or a later one at which something was changed already.
    #[inline(always)]
    pub(super) fn not_before_latest(&self, now: Timestamp) -> Timestamp {
        now.max(self.latest)
    }

    /// Returns the same instant, at which something is about to be changed: no later change will be before it.
    #[inline(always)]
    pub(super) fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Returns the state of GCRA of this tag.
    pub(super) fn instant(&self, tag: Tag) -> Option<Timestamp> {
        self.instants.find(tag).map(|index| self.instants.get(index).0)
    }

    /// Returns how many states there are.
    pub(super) fn len(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.packed.len() + rest.logs.table().len());
        self.instants.len() + rest + self.hold_table().map_or(0, HoldTable::len)
    }

    /// Returns the states and bytes that the shard holds.
    #[inline]
    pub(super) fn held(&self) -> Footprint {
        let mut held = self.instants.held();
        if let Some(rest) = &self.rest {
            let own = size_of::<ShardExtras>() + rest.resets.heap_size();
            held += rest.packed.held() + rest.logs.held() + rest.keys.held();
            held.bytes += own;
            if let Some(holds) = &rest.holds {
                held.states += holds.len();
                held.bytes += holds.bytes();
            }
        }
        held
    }

    /// Returns an instant before which no state in here expires.
    pub(super) fn earliest(&self) -> Timestamp {
        let rest = self.rest.as_ref();
        let rest =
            rest.map_or(Timestamp::MAX, |rest| rest.packed.earliest().min(rest.logs.table().earliest()));
        self.instants.earliest().min(rest).min(self.hold_table().map_or(Timestamp::MAX, HoldTable::earliest))
    }

    /// Returns the tags of all states that expire after this instant.
    pub(super) fn tags(&self, after: Timestamp) -> impl Iterator<Item = Tag> {
        let rest = self.rest.iter();
        let rest = rest.flat_map(move |rest| rest.packed.tags(after).chain(rest.logs.table().tags(after)));
        self.instants.tags(after).chain(rest)
    }

    /// Returns the places of all keys that have a state that expires after this instant, or a hold.
    pub(super) fn places(&self, after: Timestamp) -> KeyPlaces {
        self.live_places(after).collect()
    }

    /// Returns the same places, one for each state and each key that has holds.
    pub(super) fn live_places(&self, after: Timestamp) -> impl Iterator<Item = u64> {
        let holders = self.hold_table().into_iter().flat_map(HoldTable::holders);
        self.tags(after).map(|tag| tag.place).chain(holders.map(|holder| holder.key.place))
    }

    /// Returns what is held.
    #[inline]
    pub(super) fn hold_table(&self) -> Option<&HoldTable> {
        self.rest.as_ref().and_then(|rest| rest.holds.as_deref())
    }

    /// Returns what is held, to be changed.
    pub(super) fn hold_table_mut(&mut self) -> Option<&mut HoldTable> {
        self.rest.as_mut().and_then(|rest| rest.holds.as_deref_mut())
    }

    /// Takes the holds out for a while, so that states can be changed while the plans of a hold are looked at.
    pub(super) fn take_holds(&mut self) -> Option<Box<HoldTable>> {
        self.rest.as_mut().and_then(|rest| rest.holds.take())
    }

    /// Puts the holds back that were [taken out](Shard::take_holds).
    pub(super) fn return_holds(&mut self, holds: Box<HoldTable>) {
        self.rest.get_or_insert_default().holds = Some(holds);
    }

    /// Returns what the key holds.
    #[inline]
    pub(super) fn holder(&self, key: KeyHash) -> Option<&Holder> {
        self.hold_table().and_then(|holds| holds.holder(key))
    }

    /// Returns true if the state was forgotten after this charge: nothing of it is given back then.
    pub(super) fn was_reset(&self, tag: Tag, charged_at: Timestamp) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.resets.since(tag, charged_at))
    }

    /// Returns the rule's state as it stands now.
    pub(super) fn meter<'a>(
        &'a self,
        tag: Tag,
        quota: &'a Quota,
        now: Timestamp,
        tenancy: Tenancy,
    ) -> AnyView<'a> {
        match quota.algorithm() {
            Algorithm::SlidingLog => {
                let log = self.rest.as_ref().and_then(|rest| rest.logs.find(tag));
                AnyView::SlidingLog(SlidingLogView::at(quota, log, now, tenancy))
            }
            // The store refuses concurrency limits before it comes to this.
            Algorithm::Gcra | Algorithm::Concurrency => {
                let state = self.instant(tag).map(|tat| GcraState { tat });
                AnyView::Gcra(GcraView::at(quota, state, now, tenancy))
            }
            _ => {
                let packed = self.rest.as_ref().map(|rest| &rest.packed);
                let state = packed.and_then(|table| table.find(tag).map(|index| table.get(index)));
                Packed::view(state, quota, now, tenancy)
            }
        }
    }

    /// Returns a copy of the rule's state.
    pub(super) fn state(&self, tag: Tag, quota: &Quota) -> Option<State> {
        match quota.algorithm() {
            Algorithm::Gcra | Algorithm::Concurrency => {
                self.instant(tag).map(|tat| State::Gcra(GcraState { tat }))
            }
            Algorithm::SlidingLog => self.rest.as_ref()?.logs.find(tag).cloned().map(State::SlidingLog),
            algorithm => {
                let packed = &self.rest.as_ref()?.packed;
                packed.find(tag).map(|index| packed.get(index).state(algorithm))
            }
        }
    }

    /// Returns true if there is a state of this tag, expired or not.
    pub(super) fn holds(&self, tag: Tag, quota: &Quota) -> bool {
        match (quota.algorithm(), &self.rest) {
            (Algorithm::Gcra | Algorithm::Concurrency, _) => self.instants.find(tag).is_some(),
            (Algorithm::SlidingLog, Some(rest)) => rest.logs.find(tag).is_some(),
            (_, Some(rest)) => rest.packed.find(tag).is_some(),
            (_, None) => false,
        }
    }

    /// Returns true if any of these rules has a state that is worth something. Such a key is known, however full the store is: a
    /// flood of others must not change what it is told, only because the state of its shortest rule has expired.
    pub(super) fn knows(&self, subject: &Subject<'_>, now: Timestamp) -> bool {
        let now = self.not_before_latest(now);
        let live = |tag, quota| !self.meter(tag, quota, now, subject.tenancy()).reset_after().is_zero();
        subject.tags().any(|(tag, quota)| live(tag, quota))
    }

    /// Makes a change. An insertion fills a place that was taken before. Returns whether an expired state made way for it.
    ///
    /// What several quotas share counts for the longest of them: none of them shortens its life.
    pub(super) fn write(&mut self, tag: Tag, change: SlotChange, now: Timestamp, tenancy: Tenancy) -> bool {
        match change {
            SlotChange::Instant(tat) => {
                let known = self.instants.find(tag);
                put(&mut self.instants, tag, known, tat, now)
            }
            SlotChange::Packed(mut packed) => {
                let table = &mut self.rest.get_or_insert_default().packed;
                let known = table.find(tag);
                if let (Some(packed), Some(index)) = (&mut packed, known) {
                    packed.outlive(table.get(index), tenancy);
                }
                put(table, tag, known, packed, now)
            }
            SlotChange::Log(edit) => {
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

/// Sets the tag's state, which is at `known` if there is one, or drops it. Returns whether an expired one made way for it.
fn put<V: Expires>(
    table: &mut StateTable<V>,
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
