//! Looking for room when the store is full and the key's own shard has nothing to drop.
//!
//! A search is bounded: it asks a number of shards when their next state expires, looks at the states of the first that may
//! have one to drop, and leaves the rest to the next search. A search in vain is followed by a rest, so that a flood of new
//! keys does not make every request pay for one.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use super::budget::{Allowance, Budget, Footprint};
use super::shards::Shards;
use crate::{Nanos, Timestamp};

/// Shards that one search asks, at most, when their next state expires: all of them up to two million keys, and some
/// ten microseconds.
const MOST_SHARDS: usize = 1_024;

/// States that one search looks at, at most: some ten microseconds. A shard knows when its next state expires, but not
/// that its key has come back since; only looking at all of its states tells. All shards may have to be looked at like
/// that, and no request pays for all of them: the next one goes on where this one stopped.
const MOST_STATES: usize = 8_192;

/// After a search in vain, no other begins for so long, unless something is known to expire sooner: a flood of new
/// keys must not make every request pay for one.
const REST: Nanos = Nanos::from_millis(10);

/// The same if the search could not look everywhere.
const SHORT_REST: Nanos = Nanos::from_nanos(100_000);

/// Where the last search ended, and when the next may begin.
#[derive(Debug)]
pub(super) struct Search {
    next_shard: AtomicUsize,
    not_before: AtomicI64,
}

impl Default for Search {
    fn default() -> Self {
        Search { next_shard: AtomicUsize::new(0), not_before: AtomicI64::new(i64::MIN) }
    }
}

impl Search {
    /// Drops expired states, wherever they lie, and gives memory back until what is needed fits that room. True if it
    /// does.
    ///
    /// Never waits for a lock: whoever holds it is busy deciding, or making room itself.
    pub(super) fn make_room(
        &self,
        shards: &Shards,
        needs: Footprint,
        room: Allowance,
        now: Timestamp,
        budget: &Budget,
    ) -> bool {
        let not_before = Timestamp::from_nanos(self.not_before.load(Ordering::Relaxed));
        // Further ahead than a rest: the clock has stepped back since.
        if now < not_before && not_before <= now + REST {
            return false;
        }
        let needs_bytes = needs.bytes > 0 || needs.brought_bytes > 0;
        let count = shards.len().min(MOST_SHARDS);
        let start = self.next_shard.fetch_add(count, Ordering::Relaxed);
        let (mut found, mut looked_at, mut earliest) = (false, 0, Timestamp::MAX);
        // Shards that are known to hold nothing more, or are busy.
        let mut asked = 0;
        while asked < count && looked_at < MOST_STATES {
            let shard = shards.at(start.wrapping_add(asked) % shards.len());
            if let Some(mut shard) = shard.try_lock() {
                if shard.earliest() <= now || (needs_bytes && shard.is_sparse()) {
                    looked_at += shard.len();
                    shard.tidy(now, budget);
                    found = budget.fits(needs, room);
                }
                if !found && shard.drop_answers(needs.states, budget) > 0 {
                    found = budget.fits(needs, room);
                }
                if found {
                    break;
                }
                earliest = earliest.min(shard.earliest());
            } else {
                earliest = now;
            }
            asked += 1;
        }
        // Back to the first that may hold more: the next search goes on there.
        self.next_shard.fetch_sub(count - asked, Ordering::Relaxed);
        if !found {
            let everywhere = asked == shards.len();
            let rest = if everywhere { earliest.min(now + REST) } else { now + SHORT_REST };
            self.not_before.store(rest.as_nanos(), Ordering::Relaxed);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{Request, Store};
    use crate::store::memory::{Hashing, KeyHasher};
    use crate::testkit::FakeClock;
    use crate::{Cost, Key, MemoryStore, Plan, Quota, Reason, Rules};

    /// All keys live, and every shard's noted expiry out of date: one request used to look at all of them.
    #[test]
    fn no_request_pays_for_a_look_at_every_state() {
        let start = Timestamp::from_secs(1_000);
        let clock = FakeClock::at(start);
        let keys = 100_000;
        let store = MemoryStore::builder().max_keys(keys).clock(clock.clone()).build();
        let quota: Quota = "2/m".parse().unwrap();
        let ask = |key: &str| {
            let request = Request::new(Key::new(key).unwrap(), Rules::Quota(&quota), Cost::ONE);
            store.acquire(request).now().unwrap().unwrap().allowed
        };
        for key in 0..keys {
            assert!(ask(&key.to_string()));
        }
        for key in 0..keys {
            assert!(ask(&key.to_string()));
        }
        // Half a minute later the first requests are paid for, but every key has asked twice.
        clock.advance(Nanos::from_secs(31));
        assert!(!ask("new"));
        let now = start + Nanos::from_secs(31);
        let corrected = store.shards.iter().filter(|shard| shard.lock().earliest() > now).count();
        let most = MOST_STATES / (keys / store.shards.len()) + 2;
        assert!((1..=most).contains(&corrected), "looked at {corrected} of {} shards", store.shards.len());
        // One after another, all of them are; then everybody knows that there is nothing to find.
        for _ in 0..store.shards.len() {
            clock.advance(SHORT_REST);
            assert!(!ask("new"));
        }
        assert!(store.shards.iter().all(|shard| shard.lock().earliest() > now));
        // And what does expire is found.
        clock.advance(Nanos::from_secs(60));
        assert!(ask("new"));
    }

    /// A refused key used to search with its own shard locked, so that the search knew nothing for sure and every
    /// request of a flood paid for another.
    #[test]
    fn a_search_in_vain_is_followed_by_a_rest() {
        let now = Timestamp::from_secs(1_000);
        let store = MemoryStore::builder().max_keys(1).clock(FakeClock::at(now)).build();
        let quota: Quota = "1/h".parse().unwrap();
        for key in ["old", "new"] {
            let request = Request::new(Key::new(key).unwrap(), Rules::Quota(&quota), Cost::ONE);
            assert_eq!(store.acquire(request).now().unwrap().unwrap().allowed, key == "old");
        }
        assert_eq!(store.search.not_before.load(Ordering::Relaxed), (now + REST).as_nanos());
    }

    /// A key that is known may have states beyond the bound, but its search for bytes used to end only when there was a
    /// state within it: it was refused with the bytes at hand.
    #[test]
    fn who_is_known_finds_the_bytes_that_expired_elsewhere() {
        let clock = FakeClock::at(Timestamp::from_secs(1_000));
        let hasher = KeyHasher::with_seed(Hashing::Fold, [1, 2]);
        let store = MemoryStore::builder().max_keys(2).clock(clock.clone()).build_with(hasher);
        let plan = |rules| Plan::parse("plan", rules).unwrap();
        let ask = |key, plan| {
            let request = Request::new(Key::new(key).unwrap(), Rules::Plan(plan), Cost::ONE);
            store.acquire(request).now().unwrap().unwrap().reason
        };
        let [one, other] = ["one", "other"].map(|key| store.hasher.hash(Key::new(key).unwrap()));
        assert!(!store.shard(one).is(store.shard(other)));
        let (first, short, long) =
            (plan("a=99/h"), plan("a=99/h; b=99 per 10s log"), plan("a=99/h; c=9/h log"));
        let reasons = [ask("one", &first), ask("other", &first)];
        assert_eq!((reasons, store.len()), ([Reason::WithinQuota; 2], 2));
        for _ in 0..64 {
            clock.advance(Nanos::from_nanos(1));
            assert_eq!((ask("other", &short), store.len()), (Reason::WithinQuota, 3));
        }
        while store.budget.take(Footprint { bytes: 1, ..Footprint::default() }, Allowance::Within) {}
        assert_eq!(ask("one", &long), Reason::StoreFull);
        clock.advance(Nanos::from_secs(11));
        assert_eq!((ask("one", &long), store.len()), (Reason::WithinQuota, 3));
        assert_eq!(store.statistics().refused, 1);
    }

    /// A search that found what it wanted used to forget its place: the next one asked the same empty shards again.
    #[test]
    fn a_search_goes_on_where_the_last_one_stopped() {
        let quota: Quota = "1/s".parse().unwrap();
        for seed in 0..8 {
            let clock = FakeClock::at(Timestamp::from_secs(1_000));
            let hasher = KeyHasher::with_seed(Hashing::Fold, [seed, 1]);
            let store = MemoryStore::builder().max_keys(1).clock(clock.clone()).build_with(hasher);
            let mut places = ["old", "new"].map(|key| {
                let request = Request::new(Key::new(key).unwrap(), Rules::Quota(&quota), Cost::ONE);
                assert!(store.acquire(request).now().unwrap().unwrap().allowed);
                clock.advance(Nanos::from_secs(2));
                store.shards.iter().position(|shard| shard.lock().len() > 0).unwrap()
            });
            // If both fall to one shard, that has made room itself.
            if places[0] == places[1] {
                places[0] = 0;
            }
            assert_eq!(store.search.next_shard.load(Ordering::Relaxed) % store.shards.len(), places[0]);
        }
    }
}
