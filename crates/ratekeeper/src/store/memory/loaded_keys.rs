//! Some keys in a store of their own, whose records lie elsewhere: in the rows of a database.
//!
//! ```text
//! version    1 byte    1
//! states     8 bytes   how many follow, each as in a snapshot
//! resets     8 bytes   what was charged up to this instant counts as forgotten
//!            1 byte    how many follow; of each: 8 bytes of its tag, its instant, until when it counts
//! holds                as in a snapshot
//! ```

use std::sync::Arc;

use super::snapshot::read_state;
use super::snapshot_bytes::Bytes;
use super::snapshot_error::SnapshotError;
use super::snapshot_holds::{HoldsWriter, read_holds};
use super::snapshot_writer::ShardSlice;
use super::store::MemoryStore;
use super::table::Expires;
use super::tag::{Hashing, KeyHasher};
use crate::port::{Clock, HoldId};
use crate::{Key, Plan, Timestamp};

/// What a record begins with.
const VERSION: u8 = 1;

/// What the tags in all records are made with. It is no secret: a store of a handful of keys has no places to be chosen.
const SEED: [u64; 2] = [0x7261_7465_6b65_6570, 0x6572_2072_6563_6f72];

/// Some keys, loaded into a [`MemoryStore`] of their own to be decided there at one instant, and written back: how a store
/// that can only keep bytes, and compare and set them, has every verb of the engine without knowing one of its algorithms.
///
/// ```
/// use ratekeeper::port::{Request, Store};
/// use ratekeeper::store::LoadedKeys;
/// use ratekeeper::{Cost, Key, Quota, Rules, Timestamp};
///
/// let (key, quota): (_, Quota) = (Key::new("user:42")?, "2/m".parse()?);
/// let request = Request::new(key, Rules::Quota(&quota), Cost::ONE);
/// let ask = |loaded: &LoadedKeys| {
///     let decision = loaded.store().acquire(request).now().ok()?;
///     Some(decision.ok()?.remaining)
/// };
///
/// let fresh = LoadedKeys::at(Timestamp::from_secs(100));
/// assert_eq!(ask(&fresh), Some(1));
/// let record = fresh.record(key).ok_or("nothing was taken")?;
///
/// // Another process, a second later.
/// let known = LoadedKeys::at(Timestamp::from_secs(101));
/// known.load(key, &record.bytes)?;
/// assert_eq!(ask(&known), Some(0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LoadedKeys {
    store: MemoryStore,
    now: Timestamp,
}

/// What there is to know of one key, as bytes: its states under all plans and quotas, its holds, and its latest resets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// The bytes, for [`load`](LoadedKeys::load).
    pub bytes: Vec<u8>,
    /// From when on the record is worth nothing: a key without one gets the same answers.
    pub expires: Timestamp,
}

/// A clock that stands.
#[derive(Debug)]
struct StoppedClock(Timestamp);

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

impl LoadedKeys {
    /// The most bytes that the states of a key may take: what needs more is refused as by a store that is full. Every change
    /// writes all of it anew, within the time of one decision, and others wait meanwhile.
    pub const MOST_BYTES: usize = 1 << 20;

    /// Returns a store of no keys yet, whose clock stands at this instant, with room for one of the largest.
    pub fn at(now: Timestamp) -> Self {
        Self::of(now, 1)
    }

    /// Like [`at`](Self::at), but with room for so many keys of the largest. It is theirs together: one of them may take what is
    /// the others'. Whoever wants to bound each compares its record with [`MOST_BYTES`](Self::MOST_BYTES).
    pub fn of(now: Timestamp, keys: usize) -> Self {
        let most = Self::MOST_BYTES.saturating_mul(keys.max(1));
        let builder = MemoryStore::builder().max_bytes(most).kept_for_plans(0).clock(StoppedClock(now));
        LoadedKeys { store: builder.build_of(1, KeyHasher::with_seed(Hashing::Sip, SEED)), now }
    }

    /// Adds what is known of a key. A key that nothing is known of need not be added.
    ///
    /// # Errors
    ///
    /// If the bytes are not a record of this version, or damaged.
    pub fn load(&self, key: Key<'_>, record: &[u8]) -> Result<(), SnapshotError> {
        let (mut bytes, place) = (Bytes(record), self.store.hasher.hash(key).place);
        if bytes.byte()? != VERSION {
            return Err(SnapshotError::Foreign);
        }
        let shard = || self.store.shards.at(0).lock();
        let before = shard().held();
        for _ in 0..bytes.word()? {
            read_state(&self.store, self.now, &mut bytes)?;
        }
        shard().rest.get_or_insert_default().resets.read(place, &mut bytes)?;
        read_holds(&self.store.shards, self.now, &mut bytes)?;
        if !bytes.0.is_empty() {
            return Err(SnapshotError::Damaged);
        }
        let mut shard = shard();
        // That is where time has come to for those who have written it; here it begins at the instant of the decision.
        shard.latest = Timestamp::MIN;
        let after = shard.held();
        self.store.budget.take_anyway(after.beyond(before));
        Ok(())
    }

    /// Returns the store to be asked: its answers are ready at once.
    pub fn store(&self) -> &MemoryStore {
        &self.store
    }

    /// Returns the plans that a hold was made under, live or ended; none if there is no such hold.
    pub fn plans_of_hold(&self, key: Key<'_>, id: HoldId) -> Vec<Arc<Plan>> {
        let (hash, shard) = (self.store.hasher.hash(key), self.store.shards.at(0).lock());
        let Some(holds) = shard.hold_table() else { return Vec::new() };
        let record = holds.find(hash, id).and_then(|at| holds.get(at));
        record.map_or_else(Vec::new, |record| holds.plans_of(record).to_vec())
    }

    /// Returns how many states and live holds of a key there are.
    pub fn live(&self, key: Key<'_>) -> u64 {
        let (hash, shard) = (self.store.hasher.hash(key), self.store.shards.at(0).lock());
        let states = shard.tags(self.now).filter(|tag| tag.place == hash.place).count();
        states as u64 + shard.holder(hash).map_or(0, |holder| u64::from(holder.live))
    }

    /// Returns what is known of a key now; none if that is nothing. Equal bytes mean that nothing has changed, and the bytes are
    /// equal if nothing has.
    pub fn record(&self, key: Key<'_>) -> Option<KeyRecord> {
        let (hash, shard) = (self.store.hasher.hash(key), self.store.shards.at(0).lock());
        let mut slice = ShardSlice::default();
        slice.write(&shard, self.now, usize::MAX, |place| place == hash.place);
        let mut bytes = Vec::with_capacity(64 + slice.bytes.len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&slice.states.to_be_bytes());
        slice.sorted().for_each(|state| bytes.extend_from_slice(state));
        let mut expires = None;
        let tats = shard.instants.iter().map(|(tag, tat)| (tag, tat.expires_at()));
        let rest = shard.rest.iter().flat_map(|rest| {
            let packed = rest.packed.iter().map(|(tag, packed)| (tag, packed.expires));
            packed.chain(rest.logs.table().iter().map(|(tag, logged)| (tag, logged.expires)))
        });
        for (_, end) in tats.chain(rest).filter(|(tag, end)| tag.place == hash.place && *end > self.now) {
            expires = expires.max(Some(end));
        }
        let noted = match &shard.rest {
            Some(rest) => rest.resets.write(self.now, hash.place, &mut bytes),
            None => super::resets::Resets::default().write(self.now, hash.place, &mut bytes),
        };
        let mut holds = HoldsWriter::default();
        let held = holds.write_key(&shard, hash, self.now);
        holds.finish(&mut bytes);
        let expires = expires.max(noted).max(held)?;
        Some(KeyRecord { bytes, expires })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{Request, Store};
    use crate::testkit::FakeClock;
    use crate::{Charged, Cost, Nanos, Quota, Reason, Rules};

    fn at(seconds: i64) -> LoadedKeys {
        LoadedKeys::at(Timestamp::from_secs(seconds))
    }

    #[test]
    fn what_changes_nothing_leaves_the_same_bytes() {
        let (key, quota): (_, Quota) = (Key::new("k").unwrap(), "2/m log".parse().unwrap());
        let ask = |loaded: &LoadedKeys, cost| {
            let request = Request::new(key, Rules::Quota(&quota), Cost::new(cost));
            loaded.store().acquire(request).now().unwrap().unwrap().allowed
        };
        let fresh = at(100);
        assert!(fresh.record(key).is_none() && ask(&fresh, 0) && fresh.record(key).is_none());
        assert!(ask(&fresh, 2));
        let record = fresh.record(key).unwrap();
        assert!(record.expires > Timestamp::from_secs(160));
        let other = Key::new("another").unwrap();
        let known = at(110);
        known.load(key, &record.bytes).unwrap();
        assert!(!ask(&known, 1) && ask(&known, 0));
        assert_eq!(known.record(key), Some(record.clone()));
        assert!(known.record(other).is_none());
        // All of it has expired: the key is fresh.
        let late = at(200);
        late.load(key, &record.bytes).unwrap();
        assert!(late.record(key).is_none());
    }

    #[test]
    fn a_reset_is_remembered_until_nothing_could_be_given_back() {
        let (key, quota): (_, Quota) = (Key::new("k").unwrap(), "2/m".parse().unwrap());
        let request = Request::new(key, Rules::Quota(&quota), Cost::ONE);
        let first = at(100);
        assert!(first.store().acquire(request).now().unwrap().unwrap().allowed);
        let reset = at(101);
        reset.load(key, &first.record(key).unwrap().bytes).unwrap();
        assert_eq!(reset.store().reset(request).now().unwrap().unwrap(), 1);
        let record = reset.record(key).unwrap();
        let last = at(102);
        last.load(key, &record.bytes).unwrap();
        assert!(last.store().acquire(request).now().unwrap().unwrap().allowed);
        let charged = Charged::at(Timestamp::from_secs(100));
        let refunded = last.store().refund(request, charged).now().unwrap().unwrap();
        assert_eq!(refunded.remaining, 1, "what was charged before the reset is not given back");
    }

    /// Keys that are charged together had as much room as one, so that none of them could grow.
    #[test]
    fn each_key_has_room_of_its_own() {
        let quota: Quota = "60000/h log".parse().unwrap();
        let keys = ["a", "b", "c", "d", "e"].map(|key| Key::new(key).unwrap());
        let ask = |loaded: &LoadedKeys, key| {
            let request = Request::new(key, Rules::Quota(&quota), Cost::ONE);
            loaded.store().acquire(request).now().unwrap().unwrap()
        };
        let records = keys.map(|key| {
            let clock = FakeClock::at(Timestamp::from_secs(100));
            let builder = MemoryStore::builder().max_bytes(1 << 24).kept_for_plans(0).clock(clock.clone());
            let store = builder.build_of(1, KeyHasher::with_seed(Hashing::Sip, SEED));
            let mut loaded = LoadedKeys { store, now: clock.now() };
            // A quarter of the room, in which there is no place for one more.
            for _ in 0..16_384 {
                clock.advance(Nanos::from_millis(1));
                assert!(ask(&loaded, key).allowed);
            }
            loaded.now = clock.now();
            loaded.record(key).unwrap().bytes
        });
        assert!(records.iter().all(|record| record.len() < LoadedKeys::MOST_BYTES), "{}", records[0].len());
        let load = |loaded: LoadedKeys| {
            keys.iter().zip(&records).for_each(|(key, record)| loaded.load(*key, record).unwrap());
            loaded
        };
        let (now, mut reasons) = (Timestamp::from_secs(200), Vec::new());
        for loaded in [LoadedKeys::of(now, keys.len()), LoadedKeys::at(now)] {
            let loaded = load(loaded);
            reasons.push(keys.map(|key| ask(&loaded, key).reason));
        }
        assert_eq!(reasons, [[Reason::WithinQuota; 5], [Reason::StoreFull; 5]]);
    }

    #[test]
    fn bytes_of_others_are_refused() {
        let key = Key::new("k").unwrap();
        assert_eq!(at(1).load(key, b""), Err(SnapshotError::Truncated));
        assert_eq!(at(1).load(key, b"\x02"), Err(SnapshotError::Foreign));
        assert_eq!(at(1).load(key, &[1; 40]), Err(SnapshotError::Truncated));
    }
}
