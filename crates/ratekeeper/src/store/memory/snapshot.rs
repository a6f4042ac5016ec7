//! A store as bytes, so that a restart need not forget.
//!
//! ```text
//! magic      8 bytes   "RKMEM" 0 0 4
//! hashing    1 byte    0 foldhash, 1 SipHash
//! seed      16 bytes   what the tags were made with
//! max keys   8 bytes   how many the store was made for
//! max bytes  8 bytes   and how much memory
//! states     8 bytes   how many follow
//! each:      1 byte    0 instant, 1 packed, 2 log
//!           16 bytes   tag
//!            8 bytes   expiry, nanoseconds since the epoch
//!                      instant: nothing more · packed: 3 × 8 bytes · log: count, then instant and cost of each
//! keys       8 bytes   how many follow; none if the store does not keep them
//! each:      1 byte    1 if a request's own quota brought it, else 0
//!            2 bytes   length, then the key
//! holds                what is held, see `snapshot_holds`
//! checksum   8 bytes   over all that is before it
//! ```
//! Integers are big-endian. The seed is in it: keep a snapshot as secret as the keys are worth.
//!
//! Version 3 had no holds, and is still read. Tags of version 2 did not tell which states requests had brought: it cannot be read any more.

use super::builder::MemoryStoreBuilder;
use super::room::Claims;
use super::slot::{Logged, Packed, Tat};
use super::snapshot_bytes::Bytes;
use super::snapshot_error::SnapshotError;
use super::snapshot_holds::read_holds;
use super::snapshot_writer::SnapshotWriter;
use super::store::MemoryStore;
use super::tag::{Hashing, KeyHasher, Tag};
use crate::algorithm::sliding_log::SlidingLogState;
use crate::{Key, Timestamp};

const MAGIC: &[u8; 8] = b"RKMEM\0\0\x04";

/// What a snapshot began with before there were holds.
const BEFORE_HOLDS: &[u8; 8] = b"RKMEM\0\0\x03";

impl MemoryStore {
    /// Returns the store as bytes: live states, holds, and their keys in clear if they are
    /// [kept](MemoryStoreBuilder::keep_keys).
    ///
    /// Each shard is locked in turn, for at most some hundred microseconds at a time however much one key holds; what is decided
    /// meanwhile may or may not be in it. Takes the memory of the bytes that it returns, and for a moment, while it
    /// puts them together, up to as much again.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(MAGIC);
        out.push(match self.hasher.hashing() {
            Hashing::Fold => 0,
            Hashing::Sip => 1,
        });
        self.hasher.seed().iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
        out.extend_from_slice(&(self.budget.most() as u64).to_be_bytes());
        out.extend_from_slice(&(self.budget.most_bytes() as u64).to_be_bytes());
        let mut writer = SnapshotWriter::new(self.clock.now());
        for shard in self.shards.iter() {
            writer.write(shard);
            // If somebody waits for this processor, let it be now, while no lock is held.
            if writer.is_turn_over() {
                std::thread::yield_now();
            }
        }
        out.reserve_exact(writer.len() + 8);
        writer.finish(&mut out);
        let sum = checksum(&out);
        out.extend_from_slice(&sum.to_be_bytes());
        out
    }
}

impl MemoryStoreBuilder {
    /// Builds a store with the states of a snapshot. What has expired since is left out.
    ///
    /// # Errors
    ///
    /// If the bytes are not a snapshot of this version, are damaged, or hold more than the store may.
    pub fn restore(self, snapshot: &[u8]) -> Result<MemoryStore, SnapshotError> {
        let (body, sum) = snapshot.split_last_chunk::<8>().ok_or(SnapshotError::Truncated)?;
        let mut bytes = Bytes(body);
        let magic = bytes.take::<8>()?;
        if ![MAGIC, BEFORE_HOLDS].contains(&&magic) {
            return Err(SnapshotError::Foreign);
        }
        if checksum(body) != u64::from_be_bytes(*sum) {
            return Err(SnapshotError::Damaged);
        }
        let hashing = match bytes.byte()? {
            0 => Hashing::Fold,
            1 => Hashing::Sip,
            _ => return Err(SnapshotError::Damaged),
        };
        let seed = [bytes.word()?, bytes.word()?];
        let mut store = self.build_with(KeyHasher::with_seed(hashing, seed));
        let now = store.clock.now();
        store.restored_at = now;
        let (made_for, made_for_bytes) = (bytes.word()?, bytes.word()?);
        for _ in 0..bytes.word()? {
            read_state(&store, now, &mut bytes)?;
        }
        for _ in 0..bytes.word()? {
            read_key(&store, &mut bytes)?;
        }
        if magic == *MAGIC {
            read_holds(&store.shards, now, &mut bytes)?;
        }
        if !bytes.0.is_empty() {
            return Err(SnapshotError::Damaged);
        }
        store.shards.iter().for_each(|shard| {
            let mut shard = shard.lock();
            let found = shard.held();
            store.budget.take_anyway(found);
            shard.tidy_keys(&Claims::default(), &store.budget);
        });
        let (found, max_keys, max_bytes) =
            (store.budget.taken(), store.budget.most(), store.budget.most_bytes());
        if found.states > found.brought {
            store.budget.expect_plans();
        }
        // A full store holds a few states beyond its bound: what those share who found no place, and what known keys
        // needed. It can be restored to one of the same size; and so can its bytes, which need not lie as densely as
        // they did.
        if (found.states as u64).min(made_for) > max_keys as u64 {
            return Err(SnapshotError::TooManyKeys { found: found.states as u64, max_keys });
        }
        if (found.bytes as u64).min(made_for_bytes) > max_bytes as u64 {
            return Err(SnapshotError::TooManyBytes { found: found.bytes, max_bytes });
        }
        Ok(store)
    }
}

/// Reads one state into its shard, unless it has expired since it was written.
pub(super) fn read_state(
    store: &MemoryStore,
    now: Timestamp,
    bytes: &mut Bytes<'_>,
) -> Result<(), SnapshotError> {
    let kind = bytes.byte()?;
    let tag = Tag { place: bytes.word()?, rest: bytes.word()? };
    if tag.rest == 0 {
        return Err(SnapshotError::Damaged);
    }
    let expires = bytes.instant()?;
    let is_live = expires > now;
    let mut shard = store.shards.of(tag.place).lock();
    match kind {
        0 => {
            if is_live && shard.instants.make_room_for(tag) {
                // At the beginning of time nothing has expired: nothing that was just read makes way.
                shard.instants.insert(tag, Tat(expires), Timestamp::MIN);
            }
        }
        1 => {
            let words = [bytes.word()?, bytes.word()?, bytes.word()?];
            let table = &mut shard.rest.get_or_insert_default().packed;
            if is_live && table.make_room_for(tag) {
                table.insert(tag, Packed { expires, words }, Timestamp::MIN);
            }
        }
        2 => {
            let mut log = SlidingLogState::default();
            for _ in 0..bytes.word()? {
                log.push(bytes.instant()?, bytes.word()?);
            }
            if is_live {
                shard.rest.get_or_insert_default().logs.restore(tag, Logged { expires, log });
            }
        }
        _ => return Err(SnapshotError::Damaged),
    }
    Ok(())
}

/// Reads one key into its shard, if keys are kept.
fn read_key(store: &MemoryStore, bytes: &mut Bytes<'_>) -> Result<(), SnapshotError> {
    let is_brought = bytes.byte()? != 0;
    let key = Key::new(bytes.run()?).map_err(|_| SnapshotError::Damaged)?;
    if store.keeps_keys {
        let hash = store.hasher.hash(key);
        let mut shard = store.shard(hash).lock();
        let keys = &mut shard.rest.get_or_insert_default().keys;
        if let Some(size) = keys.bigger(key) {
            keys.reserve(size);
        }
        keys.add(hash, key, is_brought);
    }
    Ok(())
}

/// FNV-1a over words: finds what a disk or a full file system did, not what a forger does.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    let word = |chunk: &[u8]| chunk.iter().fold(0u64, |word, byte| (word << 8) | u64::from(*byte));
    let start = 0xcbf2_9ce4_8422_2325 ^ bytes.len() as u64;
    bytes
        .chunks(8)
        .fold(start, |sum, chunk| (sum ^ word(chunk)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29))
}
