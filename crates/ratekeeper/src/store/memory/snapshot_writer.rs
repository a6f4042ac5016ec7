//! The states and keys of all shards as bytes, while others use them.
//!
//! A shard's lock is held for some ten microseconds at a time, and for a tenth of a millisecond where one key has much. Its tables hold about two thousand states and are written under
//! one lock; logs and holds of one key may be far more than that, and are written in slices, each under the lock again.
//! What happens between two slices may be in the snapshot or not, as what happens between two shards.

use super::keys::{KeptKey, KeyPlaces};
use super::shard::Shard;
use super::shards::ShardHandle;
use super::slot::Packed;
use super::snapshot_holds::HoldsWriter;
use super::snapshot_pieces::Pieces;
use super::sync::let_others_in;
use super::tag::Tag;
use crate::{Nanos, Timestamp};

/// Bytes that each state begins with: its kind, its tag, when it expires.
const HEAD: usize = 1 + 16 + 8;

/// Entries of logs that are written while a lock is held once.
const LOG_SLICE: usize = 16_384;

/// Bytes of tables that are looked at before others get the processor: less than a full shard has.
const TURN_BYTES: usize = 32 << 10;

/// Bytes that the states of most shards take: allocated before the first lock is taken.
const SHARD_BYTES: usize = 128 << 10;

/// What is written of all shards so far, and buffers that were filled under a lock.
///
/// What has the bytes of all shards does not grow under a lock. The buffers of one shard do, the first times, and so does the
/// list of plans that have holds.
#[derive(Debug)]
pub(super) struct SnapshotWriter {
    /// What has expired by then is left out.
    now: Timestamp,
    states: u64,
    state_bytes: Pieces,
    keys: u64,
    key_bytes: Pieces,
    holds: HoldsWriter,
    slice: ShardSlice,
    /// Bytes of tables that were looked at since others last got the processor.
    turn_bytes: usize,
}

/// What was copied of one shard under its lock.
#[derive(Debug, Default)]
pub(super) struct ShardSlice {
    pub(super) states: u64,
    pub(super) bytes: Vec<u8>,
    /// The keys as they lie in memory, and the places of those that have a live state.
    keys: Vec<u8>,
    places: Vec<u64>,
    /// Logs that are to be written by themselves.
    logs: Vec<Tag>,
}

impl SnapshotWriter {
    /// Returns a writer of what is live at this instant.
    pub(super) fn new(now: Timestamp) -> Self {
        SnapshotWriter {
            now,
            states: 0,
            state_bytes: Pieces::default(),
            keys: 0,
            key_bytes: Pieces::default(),
            holds: HoldsWriter::default(),
            slice: ShardSlice { bytes: Vec::with_capacity(SHARD_BYTES), ..ShardSlice::default() },
            turn_bytes: 0,
        }
    }

    /// Returns true if so much was looked at that others should get the processor, and begins the next turn then.
    ///
    /// It is not the end of every shard. Where others wait, each turn of theirs takes milliseconds, and there are hundreds of
    /// shards even if all are empty: a snapshot of seven keys took two seconds on a busy machine. Nor is it what was written:
    /// tables of states that have expired take as long, and whose time is over while he holds a lock holds up everybody.
    pub(super) fn is_turn_over(&mut self) -> bool {
        let is_over = self.turn_bytes >= TURN_BYTES;
        if is_over {
            self.turn_bytes = 0;
        }
        is_over
    }

    /// Writes a shard.
    pub(super) fn write(&mut self, shard: ShardHandle<'_>) {
        let (cut, has_all) = {
            let mut shard = shard.lock();
            self.slice.write(&shard, self.now, LOG_SLICE, |_| true);
            self.turn_bytes += shard.held().bytes;
            // What is held belongs to the states at this instant.
            let has_all = self.slice.logs.is_empty() && HoldsWriter::are_few(&shard);
            let cut = shard.latest;
            if has_all {
                self.holds.write(&shard, self.now, Timestamp::MAX);
            } else {
                // Who waits for this lock has an older clock, and is charged at the latest instant that the shard knows: from
                // now on a later one.
                shard.latest = cut + Nanos::from_nanos(1);
            }
            (cut, has_all)
        };
        for tag in std::mem::take(&mut self.slice.logs) {
            self.slice.write_log(shard, tag);
            // Before the next one: all logs of a shard together may be large.
            self.add_states();
        }
        self.add_states();
        self.add_keys();
        if has_all {
            self.holds.add();
        } else {
            self.holds.write_slices(shard, self.now, cut);
        }
    }

    fn add_states(&mut self) {
        self.states += std::mem::take(&mut self.slice.states);
        self.state_bytes.add(&self.slice.bytes);
        self.slice.bytes.clear();
    }

    /// Adds the keys that have a live state, once each: nobody wants others on a disk.
    fn add_keys(&mut self) {
        let mut live: KeyPlaces = self.slice.places.drain(..).collect();
        for entry in KeptKey::all(&self.slice.keys).filter(|entry| live.remove(&entry.place)) {
            self.key_bytes.add(&[entry.brought.into()]);
            // A key has at most 1024 bytes.
            self.key_bytes.add(&u16::try_from(entry.key.len()).unwrap_or(0).to_be_bytes());
            self.key_bytes.add(entry.key);
            self.keys += 1;
        }
        self.slice.keys.clear();
    }

    /// Returns how many bytes all that was added takes.
    pub(super) fn len(&self) -> usize {
        8 + self.state_bytes.len() + 8 + self.key_bytes.len() + self.holds.len()
    }

    /// Writes all that was added.
    pub(super) fn finish(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.states.to_be_bytes());
        self.state_bytes.move_to(out);
        out.extend_from_slice(&self.keys.to_be_bytes());
        self.key_bytes.move_to(out);
        self.holds.finish(out);
    }
}

impl ShardSlice {
    /// Copies the states of those keys of a shard that are wanted by their places, but for logs beyond so many entries; and
    /// all keys.
    pub(super) fn write(
        &mut self,
        shard: &Shard,
        now: Timestamp,
        entries: usize,
        is_wanted: impl Fn(u64) -> bool,
    ) {
        let is_live = |tag: Tag, expires: Timestamp| expires > now && is_wanted(tag.place);
        for (tag, tat) in shard.instants.iter().filter(|(tag, tat)| is_live(*tag, tat.0)) {
            self.head(0, tag, tat.0);
        }
        let Some(rest) = &shard.rest else { return };
        for (tag, packed) in rest.packed.iter().filter(|(tag, packed)| is_live(*tag, packed.expires)) {
            self.head(1, tag, packed.expires);
            packed.words.iter().for_each(|word| self.word(*word));
        }
        let mut left = entries;
        for (tag, logged) in rest.logs.table().iter().filter(|(tag, logged)| is_live(*tag, logged.expires)) {
            match left.checked_sub(logged.log.len()) {
                Some(less) => left = less,
                None => {
                    self.logs.push(tag);
                    continue;
                }
            }
            self.head(2, tag, logged.expires);
            self.word(logged.log.len() as u64);
            self.entries(logged.log.entries());
        }
        if !rest.keys.is_empty() {
            self.keys.extend_from_slice(rest.keys.as_bytes());
            self.places.extend(shard.live_places(now));
        }
    }

    /// Copies one log, slice by slice. What comes in between is at its end, and what leaves the window in between is left out
    /// when it is looked at; so the log counts all that it counted at the first slice. One that has gone is left out.
    fn write_log(&mut self, shard: ShardHandle<'_>, tag: Tag) {
        let start = self.bytes.len();
        let (mut count, mut last) = (0, None);
        self.head(2, tag, Timestamp::MIN);
        let (expires_at, count_at) = (self.bytes.len() - 8, self.bytes.len());
        self.word(0);
        loop {
            let_others_in();
            // Before the lock is taken.
            self.bytes.reserve(LOG_SLICE * 16);
            let shard = shard.lock();
            let logs = shard.rest.as_ref().map(|rest| rest.logs.table());
            let Some(logged) = logs.and_then(|logs| logs.find(tag).map(|at| logs.get(at))) else {
                self.states -= 1;
                return self.bytes.truncate(start);
            };
            let entries = logged.log.entries_after(last);
            let is_end = entries.len() <= LOG_SLICE;
            count += entries.len().min(LOG_SLICE) as u64;
            self.entries(entries.take(LOG_SLICE).inspect(|(at, _)| last = Some(*at)));
            self.bytes[expires_at..count_at].copy_from_slice(&logged.expires.as_nanos().to_be_bytes());
            if is_end {
                break;
            }
        }
        self.bytes[count_at..count_at + 8].copy_from_slice(&count.to_be_bytes());
    }

    /// Returns what was copied state by state, always in the same order: in a table it depends on which came first.
    pub(super) fn sorted(&self) -> impl Iterator<Item = &[u8]> {
        let mut states = Vec::with_capacity(usize::try_from(self.states).unwrap_or(0));
        let mut rest = &*self.bytes;
        while !rest.is_empty() {
            let (state, others) = rest.split_at(state_len(rest).min(rest.len()));
            states.push(state);
            rest = others;
        }
        debug_assert_eq!(states.len() as u64, self.states, "what was copied is whole");
        states.sort_unstable();
        states.into_iter()
    }

    fn head(&mut self, kind: u8, tag: Tag, expires: Timestamp) {
        self.states += 1;
        self.bytes.push(kind);
        self.word(tag.place);
        self.word(tag.rest);
        self.bytes.extend_from_slice(&expires.as_nanos().to_be_bytes());
    }

    fn entries(&mut self, entries: impl Iterator<Item = (Timestamp, u64)>) {
        for (at, cost) in entries {
            self.bytes.extend_from_slice(&at.as_nanos().to_be_bytes());
            self.word(cost);
        }
    }

    fn word(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_be_bytes());
    }
}

/// Returns how many bytes the first of these states takes.
fn state_len(states: &[u8]) -> usize {
    match states {
        [1, ..] => HEAD + size_of::<[u64; Packed::WORDS]>(),
        [2, ..] => {
            let count = states.get(HEAD..).and_then(|entries| entries.first_chunk::<8>());
            let count = count.map_or(0, |count| u64::from_be_bytes(*count));
            HEAD + 8
                + usize::try_from(count)
                    .map_or(usize::MAX, |count| count.saturating_mul(16))
                    .min(states.len())
        }
        _ => HEAD,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;
    use crate::port::{Clock, Request, Store};
    use crate::testkit::FakeClock;
    use crate::{Cost, Key, MemoryStore, Quota, Rules};

    /// How often others get the processor while a store of so many keys is written, after so long.
    fn turns(keys: u32, after: Nanos) -> usize {
        let clock = FakeClock::at(Timestamp::from_secs(1_700_000_000));
        let (store, quota) =
            (MemoryStore::builder().clock(clock.clone()).build(), "5/h".parse::<Quota>().unwrap());
        for key in 0..keys {
            let key = key.to_string();
            let request = Request::new(Key::new(&key).unwrap(), Rules::Quota(&quota), Cost::ONE);
            assert!(store.acquire(request).now().unwrap().unwrap().allowed);
        }
        clock.advance(after);
        let mut writer = SnapshotWriter::new(clock.now());
        let mut is_turn_over = |shard: ShardHandle<'_>| {
            writer.write(shard);
            writer.is_turn_over()
        };
        store.shards.iter().filter(|shard| is_turn_over(*shard)).count()
    }

    #[test]
    fn others_get_the_processor_by_what_is_looked_at_and_not_by_the_shard() {
        assert_eq!(turns(7, Nanos::ZERO), 0);
        // A state takes 24 bytes and a quarter or so, and a turn ends with a shard. What has expired is looked at, too.
        let most = 100_000 * 40 / TURN_BYTES;
        for after in [0, 7_200] {
            let turns = turns(100_000, Nanos::from_secs(after));
            assert!((most / 4..=most).contains(&turns), "{turns} of {most}, {after} s later");
        }
    }
}
