//! Room in a shard: what a request needs before its states are written, and making it.
//!
//! States and bytes are claimed from the budget before anything is allocated. If there are too few, the shard drops what has
//! expired, and what keys it need not keep, and tries again; other shards are searched only when that was not enough, and
//! without this shard's lock.

use super::budget::{Allowance, Budget, Footprint, Full};
use super::hold_table::HoldTable;
use super::keys::KeptKeys;
use super::shard::{Shard, ShardExtras, Subject};
use super::slot::{Logged, Packed, Tat};
use super::table::StateTable;
use super::tag::Tag;
use crate::algorithm::sliding_log::SlidingLogState;
use crate::algorithm::{AnyView, Tenancy};
use crate::{Algorithm, Timestamp};

/// States of one shard beyond which quotas of requests get no new one: eight times what chance gives it at most. Only one
/// key with very many quotas, which all lie here, fills a shard like that, and looking at it must not take long.
pub(super) const CROWDED: usize = 16_384;

/// What a request needs that the shard has no slot for yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Missing {
    instants: usize,
    packed: usize,
    logs: usize,
    /// Bytes of the logs that must grow: of the bigger ones, and how many more that is.
    bigger_logs: usize,
    more: usize,
    /// A hold, the bytes that it needs, and whether its key has none yet.
    holds: usize,
    hold_bytes: usize,
    new_holders: usize,
}

impl Missing {
    fn states(&self) -> usize {
        self.instants + self.packed + self.logs + self.holds
    }

    /// Returns the slots of both.
    fn beside(self, other: Missing) -> Missing {
        Missing {
            instants: self.instants + other.instants,
            packed: self.packed + other.packed,
            logs: self.logs + other.logs,
            ..self
        }
    }

    /// Returns true if the key may not be kept yet.
    fn has_new_key(&self) -> bool {
        self.instants + self.packed + self.logs + self.new_holders > 0
    }
}

/// What was claimed in a shard for several requests, of which none is written yet. Each is claimed beside those before it.
#[derive(Debug, Default)]
pub(super) struct Claims {
    missing: Missing,
    /// The states that there is a place for.
    tags: Vec<Tag>,
    /// What was taken from the budget, and is not held yet.
    pub(super) spare: Footprint,
}

/// What is to be taken, and the new sizes of what must grow.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    held: Footprint,
    instants: Option<usize>,
    packed: Option<usize>,
    logs: Option<usize>,
    keys: Option<usize>,
    /// The key is to be kept, a hold is to be made.
    has_new_key: bool,
    holds: bool,
}

impl Shard {
    /// Like [`make_room`](Shard::make_room), for one instant that is known to be missing: most new keys find it at once.
    pub(super) fn make_room_for_instant(
        &mut self,
        subject: &Subject<'_>,
        now: Timestamp,
        budget: &Budget,
    ) -> Result<Footprint, Full> {
        if self.instants.has_room(1) && !self.is_due(subject) {
            let missing = Missing { instants: 1, ..Missing::default() };
            let needs = self.needs(subject, missing, &Claims::default(), false);
            if subject.tenancy() == Tenancy::Own {
                budget.expect_plans();
            }
            if budget.take(needs.held, Allowance::Within) {
                let expected = self.held() + needs.held;
                self.grow(needs, subject);
                return Ok(expected);
            }
        }
        self.make_room(subject, Allowance::Within, now, budget)
    }

    /// Returns true if keys that are there twice, or have no states any more, should be looked for before one is added.
    fn is_due(&self, subject: &Subject<'_>) -> bool {
        subject.kept.is_some() && self.rest.as_ref().is_some_and(|rest| rest.keys.is_due(self.len()))
    }

    /// Takes a place for every rule that has no state yet, and the bytes for that and for logs that must grow, so that the
    /// writes that follow cannot fail half-way. Returns what the shard will hold at most. On failure nothing has changed
    /// but that expired states are gone.
    pub(super) fn make_room(
        &mut self,
        subject: &Subject<'_>,
        room: Allowance,
        now: Timestamp,
        budget: &Budget,
    ) -> Result<Footprint, Full> {
        let claim = |needs, room| budget.take(needs, room);
        let needs = self.find_room(subject, &Claims::default(), room, now, budget, claim)?;
        let expected = self.held() + needs.held;
        self.grow(needs, subject);
        Ok(expected)
    }

    /// Takes the same beside what is claimed already. Nothing in the shard has expired: otherwise a state that one of the
    /// others has found might be dropped to make room for this one.
    pub(super) fn claim(
        &mut self,
        subject: &Subject<'_>,
        claims: &mut Claims,
        room: Allowance,
        now: Timestamp,
        budget: &Budget,
    ) -> Result<(), Full> {
        let missing = self.missing(subject, claims, now);
        let needs =
            self.find_room(subject, claims, room, now, budget, |needs, room| budget.take(needs, room))?;
        if missing != Missing::default() {
            let expected = self.held() + needs.held;
            self.grow(needs, subject);
            claims.spare += expected.beyond(self.held());
            claims.missing = claims.missing.beside(missing);
            claims.tags.extend(subject.tags().map(|(tag, _)| tag));
        }
        Ok(())
    }

    /// Returns whether [`make_room`](Shard::make_room) would succeed. Drops what has expired only if there is no room without:
    /// the shard's time moves on with that.
    pub(super) fn has_room(
        &mut self,
        subject: &Subject<'_>,
        room: Allowance,
        now: Timestamp,
        budget: &Budget,
    ) -> Result<(), Full> {
        let none = Claims::default();
        let missing = self.missing(subject, &none, now);
        let needs = self.needs(subject, missing, &none, false);
        if !self.is_crowded(subject, missing) && budget.fits(needs.held, room) {
            return Ok(());
        }
        let claim = |needs, room| budget.fits(needs, room);
        self.find_room(subject, &none, room, now, budget, claim).map(drop)
    }

    fn find_room(
        &mut self,
        subject: &Subject<'_>,
        claims: &Claims,
        room: Allowance,
        now: Timestamp,
        budget: &Budget,
        claim: impl Fn(Footprint, Allowance) -> bool,
    ) -> Result<Needs, Full> {
        let mut missing = self.missing(subject, claims, now);
        if missing == Missing::default() {
            return Ok(Needs::default());
        }
        if subject.tenancy() == Tenancy::Own {
            budget.expect_plans();
        }
        let is_tight = !self.has_slots(missing.beside(claims.missing));
        if is_tight || self.is_crowded(subject, missing) {
            self.sweep(now, budget);
            // What is gone may be a state of this very key.
            missing = self.missing(subject, claims, now);
            if self.is_crowded(subject, missing) {
                return Err(Full::Crowded);
            }
        }
        if self.is_due(subject) {
            self.tidy_keys(claims, budget);
        }
        let needs = self.needs(subject, missing, claims, is_tight);
        if claim(needs.held, room) {
            return Ok(needs);
        }
        self.sweep(now, budget);
        let mut needs = self.needs(subject, self.missing(subject, claims, now), claims, false);
        if claim(needs.held, room) {
            return Ok(needs);
        }
        if self.drop_answers(needs.held.states.max(1), budget) > 0 {
            needs = self.needs(subject, self.missing(subject, claims, now), claims, false);
            if claim(needs.held, room) {
                return Ok(needs);
            }
        }
        if self.has_stale_keys() {
            self.give_back(claims, budget);
            needs = self.needs(subject, self.missing(subject, claims, now), claims, false);
            if claim(needs.held, room) {
                return Ok(needs);
            }
        }
        match self.knows(subject, now) && !subject.is_hold {
            false => Err(Full::Store(needs.held)),
            true if room == Allowance::Within && claim(needs.held, Allowance::Known) => Ok(needs),
            true => Err(Full::Known(needs.held)),
        }
    }

    /// Returns true if quotas of requests get no new state here.
    fn is_crowded(&self, subject: &Subject<'_>, missing: Missing) -> bool {
        subject.tenancy() == Tenancy::Shared && missing.states() > 0 && self.len() >= CROWDED
    }

    fn missing(&self, subject: &Subject<'_>, claims: &Claims, now: Timestamp) -> Missing {
        let mut missing = Missing::default();
        let rest = self.rest.as_ref();
        for (tag, quota) in subject.tags().filter(|(tag, _)| !claims.tags.contains(tag)) {
            match quota.algorithm() {
                Algorithm::Gcra => missing.instants += usize::from(self.instants.find(tag).is_none()),
                // What is in flight is counted with its key.
                Algorithm::Concurrency => {}
                Algorithm::SlidingLog => {
                    let Some(log) = rest.and_then(|rest| rest.logs.find(tag)) else {
                        missing.logs += 1;
                        continue;
                    };
                    if let AnyView::SlidingLog(view) = self.meter(tag, quota, now, subject.tenancy())
                        && let Some(bytes) = log.grows_to(&view.edit())
                    {
                        missing.bigger_logs += bytes;
                        missing.more += bytes - log.heap_size();
                    }
                }
                _ => missing.packed += usize::from(rest.is_none_or(|rest| rest.packed.find(tag).is_none())),
            }
        }
        if subject.is_hold {
            let rules = subject.request.rules.iter().map(|(rule, _)| rule);
            missing.holds = 1;
            missing.new_holders = usize::from(self.holder(subject.hash).is_none());
            missing.hold_bytes = match self.hold_table() {
                Some(holds) => holds.growth(subject.hold_shape(), rules),
                None => size_of::<HoldTable>() + HoldTable::default().growth(subject.hold_shape(), rules),
            };
        }
        missing
    }

    /// Forgets up to so many answers of holds that have ended, the oldest first. Returns how many.
    pub(super) fn drop_answers(&mut self, most: usize, budget: &Budget) -> usize {
        let before = self.held();
        let dropped = self.hold_table_mut().map_or(0, |holds| holds.drop_answers(most));
        if dropped > 0 {
            budget.note_expired(dropped);
            self.settle(before, budget);
        }
        dropped
    }

    /// Returns true if no table must grow.
    fn has_slots(&self, missing: Missing) -> bool {
        let Missing { instants, packed, logs, .. } = missing;
        let rest = self.rest.as_ref();
        (instants == 0 || self.instants.has_room(instants))
            && (packed == 0 || rest.is_some_and(|rest| rest.packed.has_room(packed)))
            && (logs == 0 || rest.is_some_and(|rest| rest.logs.table().has_room(logs)))
            && missing.hold_bytes == 0
    }

    fn needs(&self, subject: &Subject<'_>, missing: Missing, claims: &Claims, swept: bool) -> Needs {
        const FIRST_LOG: usize = SlidingLogState::FIRST_HEAP;
        let states = missing.states();
        // The tables must have room for the others as well.
        let slots = missing.beside(claims.missing);
        let instants = self.instants.bigger(slots.instants, swept);
        let mut bytes = StateTable::<Tat>::bytes(instants.unwrap_or(0));
        let mut brought_bytes = missing.instants * StateTable::<Tat>::WEIGHT;
        let (has_new_key, holds) = (missing.has_new_key(), missing.holds > 0);
        let mut needs = Needs { instants, has_new_key, holds, ..Needs::default() };
        let kept = subject.kept.filter(|_| has_new_key);
        let is_packed = slots.states() > slots.instants;
        if kept.is_some() || is_packed || missing.bigger_logs > 0 {
            let none;
            let rest = match self.rest.as_deref() {
                Some(rest) => rest,
                None => {
                    bytes += size_of::<ShardExtras>();
                    none = ShardExtras::default();
                    &none
                }
            };
            needs.packed = rest.packed.bigger(slots.packed, swept);
            needs.logs = rest.logs.table().bigger(slots.logs, swept);
            needs.keys = kept.and_then(|key| rest.keys.bigger(key));
            bytes += StateTable::<Packed>::bytes(needs.packed.unwrap_or(0))
                + StateTable::<Logged>::bytes(needs.logs.unwrap_or(0))
                + needs.keys.unwrap_or(0)
                + missing.logs * FIRST_LOG
                + missing.bigger_logs
                + missing.hold_bytes;
            brought_bytes += missing.packed * StateTable::<Packed>::WEIGHT
                + missing.logs * (StateTable::<Logged>::WEIGHT + FIRST_LOG)
                + missing.more
                + kept.map_or(0, KeptKeys::size_of);
        }
        needs.held = match subject.tenancy() {
            Tenancy::Own => Footprint { states, bytes, ..Footprint::default() },
            Tenancy::Shared => Footprint { states, brought: states, bytes, brought_bytes },
        };
        needs
    }

    fn grow(&mut self, needs: Needs, subject: &Subject<'_>) {
        if let Some(size) = needs.instants {
            self.instants.resize(size);
        }
        if let Some(size) = needs.packed {
            self.rest.get_or_insert_default().packed.resize(size);
        }
        if let Some(size) = needs.logs {
            self.rest.get_or_insert_default().logs.resize(size);
        }
        if needs.holds {
            let (shape, rules) = (subject.hold_shape(), subject.request.rules.iter().map(|(rule, _)| rule));
            self.rest.get_or_insert_default().holds.get_or_insert_default().reserve(shape, rules);
        }
        if let Some(key) = subject.kept.filter(|_| needs.has_new_key) {
            let keys = &mut self.rest.get_or_insert_default().keys;
            if let Some(size) = needs.keys {
                keys.reserve(size);
            }
            keys.add(subject.hash, key, subject.tenancy() == Tenancy::Shared);
        }
    }

    /// Drops everything that has expired. Returns how many states that were.
    ///
    /// A caller who comes late must not find a fresh key where there was a live state at its instant: so the shard's
    /// time moves on.
    pub(super) fn sweep(&mut self, now: Timestamp, budget: &Budget) -> usize {
        if self.earliest() > now {
            return 0;
        }
        let now = self.advance(now);
        let (lapsed, before) = (self.lapse(now, budget), self.held());
        self.instants.sweep(now, |_, _| ());
        if let Some(rest) = &mut self.rest {
            rest.packed.sweep(now, |_, _| ());
            rest.logs.sweep(now);
            if let Some(holds) = &mut rest.holds {
                holds.sweep_answers(now);
            }
        }
        let swept = before.states - self.len();
        budget.note_expired(swept);
        self.settle(before, budget);
        lapsed + swept
    }

    /// Gives back what the shard does not hold of `expected`, which was taken for it.
    pub(super) fn settle(&mut self, expected: Footprint, budget: &Budget) {
        let held = self.held();
        // Fewer than there were, or an expired one made way.
        if held.states < expected.states
            && let Some(rest) = &mut self.rest
        {
            rest.keys.lose_state();
        }
        budget.settle(expected, held);
    }

    /// Returns true if a kept key may have lost its states.
    fn has_stale_keys(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.keys.is_stale())
    }

    /// Returns true if there is memory to be given back.
    pub(super) fn is_sparse(&self) -> bool {
        let rest = self.rest.as_ref();
        self.has_stale_keys()
            || self.instants.smaller().is_some()
            || rest.is_some_and(|rest| {
                rest.packed.smaller().or(rest.logs.table().smaller()).or(rest.keys.smaller()).is_some()
                    || rest.holds.as_ref().is_some_and(|holds| holds.smaller().is_some())
            })
    }

    /// Drops everything that has expired, and gives back what nobody needs. Returns how many states were dropped.
    pub(super) fn tidy(&mut self, now: Timestamp, budget: &Budget) -> usize {
        let now = self.advance(now);
        let (swept, before) = (self.sweep(now, budget), self.held());
        let forgotten = self.hold_table_mut().map_or(0, |holds| holds.tidy_answers(now));
        budget.note_expired(forgotten);
        self.settle(before, budget);
        self.give_back(&Claims::default(), budget);
        swept + forgotten
    }

    /// Forgets the keys that have no state any more, and gives back what nobody needs.
    pub(super) fn give_back(&mut self, claims: &Claims, budget: &Budget) {
        if self.has_stale_keys() {
            self.tidy_keys(claims, budget);
        }
        self.shrink(budget);
    }

    /// While a table is copied there are two of it: without the bytes for that, it stays.
    fn shrink(&mut self, budget: &Budget) {
        let claim = |size: Option<usize>, bytes: fn(usize) -> usize| {
            let spare = |size: &usize| {
                budget.take(Footprint { bytes: bytes(*size), ..Footprint::default() }, Allowance::Beyond)
            };
            size.filter(spare).map(|size| (size, bytes(size)))
        };
        let (mut expected, mut taken) = (self.held(), 0);
        if let Some((size, bytes)) = claim(self.instants.smaller(), StateTable::<Tat>::bytes) {
            self.instants.resize(size);
            taken += bytes;
        }
        if let Some(rest) = &mut self.rest {
            if let Some((size, bytes)) = claim(rest.packed.smaller(), StateTable::<Packed>::bytes) {
                rest.packed.resize(size);
                taken += bytes;
            }
            if let Some((size, bytes)) = claim(rest.logs.table().smaller(), StateTable::<Logged>::bytes) {
                rest.logs.resize(size);
                taken += bytes;
            }
            if let Some((size, bytes)) = claim(rest.keys.smaller(), |size| size) {
                rest.keys.shrink(size);
                taken += bytes;
            }
            let smaller = rest.holds.as_ref().and_then(|holds| holds.smaller());
            if let Some((_, bytes)) = claim(smaller, |size| size) {
                rest.holds = rest.holds.take().and_then(|holds| holds.compacted());
                taken += bytes;
            }
        }
        expected.bytes += taken;
        budget.settle(expected, self.held());
    }

    /// Forgets the keys that have no state any more, nor a claim on one, and those that are there twice.
    pub(super) fn tidy_keys(&mut self, claims: &Claims, budget: &Budget) {
        let before = self.held();
        if self.rest.as_ref().is_some_and(|rest| !rest.keys.is_empty()) {
            let mut live = self.places(Timestamp::MIN);
            live.extend(claims.tags.iter().map(|tag| tag.place));
            self.rest.get_or_insert_default().keys.tidy(live);
        }
        budget.settle(before, self.held());
    }
}
