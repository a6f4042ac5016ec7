//! What was asked lately, so that a limit can be tried on it: bounded in memory, and sampled by key.
//!
//! Whether a limit denies depends on all requests of a key, so a sample of requests would say nothing. Sampled are keys:
//! those whose keyed hash is small are recorded, each with all its requests. While there is room that is every key; when
//! the record is full, half of its keys leave it and are not recorded from then on. Keys themselves are not kept.
//!
//! Requests of one key under one plan within a tenth of a second are one entry, for each event loop that they came by. So a
//! key that is asked for a million times a second takes no more room than one that is asked for ten times by each.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use foldhash::quality::RandomState;
use ratekeeper::Name;

/// How exact the times are, in milliseconds.
pub(crate) const TICK_MILLIS: u64 = 100;
/// How far back the record goes, in ticks: 15 minutes.
const WINDOW: u32 = 9_000;
/// The most entries, of 32 bytes each.
const MOST_ENTRIES: usize = 65_536;
/// The most names of plans; what is asked under others counts as under none.
const MOST_PLANS: usize = 10_240;
/// Names of plans that no entry has are looked for so many ticks after the last time, at the earliest: a minute. That looks at
/// every entry.
const PLANS_FORGOTTEN_EVERY: u32 = 600;
/// Keys are thinned out no further than to one in two to the power of this.
const MOST_HALVINGS: u32 = 30;

/// The requests of a key under a plan within one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordedRequests {
    /// The keyed hash of the key.
    pub(crate) key: u64,
    /// How much they wanted together.
    pub(crate) cost: u64,
    /// When they came, in ticks since the record began.
    pub(crate) tick: u32,
    /// How many there were.
    pub(crate) asked: u32,
    /// How many of them were denied.
    pub(crate) denied: u32,
    /// The plan that they were held to, by the record's own number; none for a quota of the request's own.
    plan: Option<u16>,
}

/// The record of one server, shared by all event loops.
#[derive(Debug)]
pub(crate) struct RecentRequests {
    began: Instant,
    began_at: SystemTime,
    keys: KeySampling,
    kept: Mutex<KeptRequests>,
}

/// Which keys are recorded. On cache lines of its own: every request reads it, and the lock beside it is written to.
#[derive(Debug, Default)]
#[repr(align(128))]
struct KeySampling {
    seed: RandomState,
    /// Keys whose hash is at most this are recorded; 0 while nothing is.
    most: AtomicU64,
}

#[derive(Debug, Default)]
struct KeptRequests {
    /// About the oldest first: event loops hand in theirs when they come by.
    entries: VecDeque<RecordedRequests>,
    /// How often the keys were halved.
    halvings: u32,
    /// When keys were let in again, and how often they had been halved before: for a window's time what they did before
    /// is missing.
    widened: Option<(u32, u32)>,
    /// Before this tick, entries may have been dropped for lack of room.
    whole_since: u32,
    plans: HashMap<Name, u16>,
    /// Numbers below the most that no plan has any more. If there are none, plans have the numbers from 0 on.
    free_plans: Vec<u16>,
    /// When names of plans may be forgotten again.
    plans_forgotten_next: u32,
}

/// A copy of what was recorded.
#[derive(Debug)]
pub(crate) struct RecordedWindow {
    /// Sorted by time.
    pub(crate) entries: Vec<RecordedRequests>,
    /// One key in so many was recorded.
    pub(crate) one_in: u64,
    /// From when on the record is whole, in ticks since it began.
    pub(crate) from: u32,
    /// The present tick.
    pub(crate) until: u32,
    /// When the record began.
    pub(crate) began_at: SystemTime,
}

impl Default for RecentRequests {
    fn default() -> Self {
        RecentRequests {
            began: Instant::now(),
            began_at: SystemTime::now(),
            keys: KeySampling::default(),
            kept: Mutex::default(),
        }
    }
}

impl RecentRequests {
    /// Begins to record: nothing is recorded for a server that nobody can ask about it.
    pub(crate) fn begin(&self) {
        let halvings = self.lock().halvings;
        self.keys.most.store(u64::MAX >> halvings, Ordering::Relaxed);
    }

    /// Returns the hash of a key if it is recorded.
    #[inline]
    pub(super) fn sampled(&self, key: &[u8]) -> Option<u64> {
        let most = self.keys.most.load(Ordering::Relaxed);
        if most == 0 {
            return None;
        }
        Some(self.hash_of(key)).filter(|hash| *hash <= most)
    }

    /// Returns the keyed hash of some bytes.
    #[inline]
    pub(super) fn hash_of(&self, bytes: &[u8]) -> u64 {
        self.keys.seed.hash_one(bytes)
    }

    /// Returns the tick of an instant.
    #[inline]
    pub(super) fn tick_of(&self, at: Instant) -> u32 {
        let since = at.saturating_duration_since(self.began).as_millis() / u128::from(TICK_MILLIS);
        u32::try_from(since).unwrap_or(u32::MAX)
    }

    /// Returns the present tick.
    pub(super) fn now(&self) -> u32 {
        self.tick_of(Instant::now())
    }

    /// Takes what an event loop has gathered.
    pub(super) fn take(&self, gathered: impl Iterator<Item = (RecordedRequests, Option<Name>)>) {
        let mut kept = self.lock();
        for (entry, plan) in gathered {
            kept.push(entry, plan);
        }
        self.apply(&kept);
    }

    /// Drops what is too old, and lets keys in again if there is room. To be called now and then.
    pub(super) fn tend(&self) {
        let mut kept = self.lock();
        kept.expire(self.now());
        kept.widen(self.now());
        self.apply(&kept);
    }

    /// Returns what was recorded: all of it, or what was asked under this plan.
    pub(super) fn window(&self, plan: Option<&str>) -> RecordedWindow {
        let mut kept = self.lock();
        let until = self.now();
        kept.expire(until);
        let halvings = kept.halvings_in_window(until);
        let most = u64::MAX >> halvings;
        let plan =
            plan.map(|name| kept.plans.iter().find(|(known, _)| known.as_str() == name).map(|(_, id)| *id));
        let is_meant = |entry: &&RecordedRequests| match plan {
            None => true,
            // A plan that nobody has asked under yet.
            Some(None) => false,
            Some(id) => entry.plan == id,
        };
        let found = kept.entries.iter().filter(|entry| entry.key <= most).filter(is_meant);
        let mut entries: Vec<_> = found.copied().collect();
        let from = until.saturating_sub(WINDOW).max(kept.whole_since);
        drop(kept);
        entries.retain(|entry| entry.tick >= from);
        entries.sort_by_key(|entry| entry.tick);
        // What was dropped for lack of room may be of the present tick: then nothing is whole yet.
        let from = from.min(until);
        RecordedWindow { entries, one_in: 1 << halvings, from, until, began_at: self.began_at }
    }

    fn apply(&self, kept: &KeptRequests) {
        let (before, most) = (self.keys.most.load(Ordering::Relaxed), u64::MAX >> kept.halvings);
        // Only what has changed: all event loops would have to fetch it anew.
        if before != 0 && before != most {
            self.keys.most.store(most, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, KeptRequests> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordedRequests {
    /// Returns an entry of one request.
    pub(super) fn one(key: u64, cost: u64, tick: u32, is_denied: bool) -> Self {
        RecordedRequests { key, cost, tick, asked: 1, denied: is_denied.into(), plan: None }
    }

    /// Adds one more request of the same key, plan and tick.
    #[inline]
    pub(super) fn add(&mut self, cost: u64, is_denied: bool) {
        self.asked = self.asked.saturating_add(1);
        self.denied = self.denied.saturating_add(is_denied.into());
        self.cost = self.cost.saturating_add(cost);
    }
}

impl RecordedWindow {
    /// Returns the milliseconds since the epoch of a tick.
    pub(crate) fn millis(&self, tick: u32) -> u64 {
        let at = self.began_at + Duration::from_millis(u64::from(tick) * TICK_MILLIS);
        u64::try_from(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
    }
}

impl KeptRequests {
    fn push(&mut self, mut entry: RecordedRequests, plan: Option<Name>) {
        // It was gathered before the keys were halved.
        if entry.key > u64::MAX >> self.halvings {
            return;
        }
        if self.entries.len() >= MOST_ENTRIES {
            self.expire(entry.tick);
        }
        if self.entries.len() >= MOST_ENTRIES {
            self.make_room(entry.tick);
        }
        entry.plan = plan.and_then(|plan| self.id_of(plan, entry.tick));
        if entry.key <= u64::MAX >> self.halvings {
            self.entries.push_back(entry);
        }
    }

    fn id_of(&mut self, plan: Name, now: u32) -> Option<u16> {
        if let Some(id) = self.plans.get(&plan) {
            return Some(*id);
        }
        if self.plans.len() >= MOST_PLANS {
            self.forget_plans(now);
        }
        let unused = || u16::try_from(self.plans.len()).ok().filter(|_| self.plans.len() < MOST_PLANS);
        let next = self.free_plans.last().copied().or_else(unused)?;
        self.free_plans.pop();
        self.plans.insert(plan, next);
        Some(next)
    }

    /// Forgets the names that no entry has: plans come and go with reloads.
    fn forget_plans(&mut self, now: u32) {
        if now < self.plans_forgotten_next {
            return;
        }
        self.plans_forgotten_next = now.saturating_add(PLANS_FORGOTTEN_EVERY);
        let used: HashSet<u16> = self.entries.iter().filter_map(|entry| entry.plan).collect();
        self.plans.retain(|_, id| used.contains(id));
        let all = 0..u16::try_from(MOST_PLANS).unwrap_or(u16::MAX);
        self.free_plans = all.filter(|id| !used.contains(id)).collect();
    }

    /// Lets half of the keys go; if all entries are of the few that would stay or of none of them, the oldest go.
    fn make_room(&mut self, now: u32) {
        let most = u64::MAX >> (self.halvings + 1);
        let staying = self.entries.iter().filter(|entry| entry.key <= most).count();
        if staying > 0 && self.halvings < MOST_HALVINGS {
            self.halvings += 1;
            self.entries.retain(|entry| entry.key <= most);
            // Fewer keys than before and after: nothing is missing of those that are left.
            self.widened = self.widened.filter(|(_, before)| *before > self.halvings);
        }
        if self.entries.len() >= MOST_ENTRIES / 8 * 7 {
            let gone = self.entries.drain(..MOST_ENTRIES / 8).map(|entry| entry.tick).max();
            self.whole_since = self.whole_since.max(gone.map_or(now, |tick| tick.saturating_add(1)));
        }
    }

    fn expire(&mut self, now: u32) {
        let oldest = now.saturating_sub(WINDOW);
        while self.entries.front().is_some_and(|entry| entry.tick < oldest) {
            self.entries.pop_front();
        }
    }

    /// Lets as many more keys in as there is room for, once in a window's time at most: twice as many, or after a flood of
    /// keys that is over, all of them at once.
    fn widen(&mut self, now: u32) {
        if self.halvings == 0 || self.halvings_in_window(now) != self.halvings {
            return;
        }
        // So many that what they ask is a quarter of the record, if they ask as much as those that are in it.
        let factor = MOST_ENTRIES / 4 / self.entries.len().max(1);
        let steps = factor.checked_ilog2().unwrap_or(0).min(self.halvings);
        if steps > 0 {
            self.widened = Some((now, self.halvings));
            self.halvings -= steps;
        }
    }

    /// Returns how often the keys were halved of which everything in the window is known.
    fn halvings_in_window(&self, now: u32) -> u32 {
        match self.widened {
            Some((at, before)) if now.saturating_sub(at) < WINDOW => before.max(self.halvings),
            _ => self.halvings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: u64, tick: u32) -> RecordedRequests {
        RecordedRequests::one(key, 1, tick, false)
    }

    fn record() -> RecentRequests {
        let recent = RecentRequests::default();
        recent.begin();
        recent
    }

    /// Spreads small numbers over all hashes.
    fn spread(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    impl RecentRequests {
        /// Returns how many entries there are.
        pub(crate) fn entry_count(&self) -> usize {
            self.lock().entries.len()
        }
    }

    #[test]
    fn nothing_is_recorded_before_somebody_begins() {
        let recent = RecentRequests::default();
        assert_eq!(recent.sampled(b"k"), None);
        recent.begin();
        assert!(recent.sampled(b"k").is_some());
        assert_eq!(recent.sampled(b"k"), recent.sampled(b"k"));
    }

    #[test]
    fn when_it_is_full_whole_keys_leave_and_the_others_stay_whole() {
        let recent = record();
        let keys = 3 * MOST_ENTRIES as u64 / 2;
        for round in 0..2 {
            recent.take((0..keys).map(|key| (entry(spread(key), round), None)));
        }
        let window = recent.window(None);
        assert!(window.entries.len() <= MOST_ENTRIES && window.one_in >= 4, "{}", window.one_in);
        let mut by_key: HashMap<u64, u32> = HashMap::new();
        window.entries.iter().for_each(|entry| *by_key.entry(entry.key).or_default() += 1);
        assert!(by_key.len() > 10_000 && by_key.values().all(|count| *count == 2));
        assert_eq!(recent.keys.most.load(Ordering::Relaxed), u64::MAX / window.one_in);
    }

    #[test]
    fn a_single_key_shortens_the_window_and_is_not_lost() {
        for key in [1, u64::MAX] {
            let began = Instant::now() - Duration::from_secs(5);
            let recent = RecentRequests { began, ..RecentRequests::default() };
            recent.begin();
            let ticks = u32::try_from(MOST_ENTRIES).unwrap() * 2;
            // As many entries of one tick as if there were many event loops.
            recent.take((0..ticks).map(|tick| (entry(key, tick / 10_000), None)));
            let window = recent.window(None);
            assert!(!window.entries.is_empty() && window.entries.len() <= MOST_ENTRIES);
            assert!(window.from > 0, "the oldest are gone, and that is told");
        }
    }

    #[test]
    fn old_entries_go_and_keys_come_back_when_there_is_room() {
        let recent = record();
        let keys = 2 * MOST_ENTRIES as u64;
        recent.take((0..keys).map(|key| (entry(spread(key), 0), None)));
        let halved = recent.lock().halvings;
        assert!(halved > 0);
        let mut kept = recent.lock();
        kept.expire(WINDOW + 1);
        assert!(kept.entries.is_empty());
        kept.widen(WINDOW + 1);
        assert_eq!(kept.halvings, 0, "nobody asks any more, so there is room for all");
        assert_eq!(kept.halvings_in_window(WINDOW + 2), halved, "what came back has no past yet");
        assert_eq!(kept.halvings_in_window(2 * WINDOW + 1), 0);
    }

    #[test]
    fn as_many_keys_come_back_as_there_is_room_for_once_in_a_window() {
        for (entries, left) in [(MOST_ENTRIES / 4, 10), (MOST_ENTRIES / 8, 9), (MOST_ENTRIES / 64, 6)] {
            let mut kept = KeptRequests { halvings: 10, ..KeptRequests::default() };
            kept.entries.extend((0..entries).map(|_| entry(1, WINDOW)));
            kept.widen(WINDOW);
            assert_eq!(kept.halvings, left, "{entries}");
            kept.entries.clear();
            kept.widen(WINDOW + 1);
            assert_eq!(kept.halvings, if left == 10 { 0 } else { left }, "{entries}");
        }
    }

    #[test]
    fn a_window_never_begins_after_it_ends() {
        let recent = record();
        let now = recent.now();
        recent.lock().whole_since = now + 50;
        recent.take(std::iter::once((entry(1, now), None)));
        let window = recent.window(None);
        assert!(window.from <= window.until && window.entries.is_empty(), "{window:?}");
    }

    #[test]
    fn names_of_plans_that_are_gone_make_room_for_others() {
        let recent = record();
        let name = |number: u32| Some(Name::new(&format!("plan-{number}")).unwrap());
        let most = u32::try_from(MOST_PLANS).unwrap();
        recent.take((0..most).map(|plan| (entry(1, 0), name(plan))));
        // All that there is room for are in use, and so is the last of them for ever.
        recent.take([(entry(1, 0), name(most)), (entry(1, 1), name(most - 1))].into_iter());
        assert!(recent.window(Some(&format!("plan-{most}"))).entries.is_empty());
        let mut kept = recent.lock();
        kept.expire(WINDOW + 1);
        (most..2 * most).for_each(|plan| kept.push(entry(1, WINDOW + 1), name(plan)));
        assert_eq!(kept.plans.len(), MOST_PLANS);
        let ids: HashSet<_> = kept.entries.iter().map(|entry| entry.plan).collect();
        // One has none: that of the entry that is left has the name.
        assert_eq!((ids.len(), ids.contains(&None)), (MOST_PLANS + 1, true));
    }

    #[test]
    fn plans_are_told_apart() {
        let recent = record();
        let name = |text: &str| Some(Name::new(text).unwrap());
        recent.take([(entry(1, 0), name("a")), (entry(1, 0), name("b")), (entry(1, 0), None)].into_iter());
        assert_eq!(recent.window(None).entries.len(), 3);
        assert_eq!(recent.window(Some("a")).entries.len(), 1);
        assert!(recent.window(Some("c")).entries.is_empty());
    }
}
