//! The store in memory: sharded, bounded, exact.
//!
//! Slots hold 128 bits of a seeded hash instead of the key: a million GCRA keys take 40 MB, whatever their length, and whoever
//! chooses keys cannot choose their shard. What has expired is dropped when its slot or its memory is needed; nothing else
//! is ever evicted, so a flood of new keys is refused and takes no limit off the keys that are known.
//!
//! A decision on a known key takes one lock and writes two cache lines: that of the shard and that of the slot. What is left
//! is worked out after the lock is released. A key that is refused again and again is refused without the lock, from a
//! third line, which is read first, seldom written, and which every core keeps in its cache.
//!
//! A key's states lie in one of many small shards, chosen by a seeded hash, each behind a lock that is held for some
//! ten nanoseconds. Shards are small on purpose: whatever must look at a whole shard (growing it, finding something
//! to evict) takes microseconds, however many keys there are.
//!
//! ```text
//! store       the store                             builder     its settings
//! statistics  what it holds                         snapshot    to bytes and back
//! search      for room when there is none           forgetting  on request
//! decisions   on the states of a shard              plain       their shorter way
//! room        what they need, before they are made
//! charge_verbs charges of several keys              charging    charges on the states of a shard
//! rehearsal   charges of one key, one on another
//! hold_verbs  holds of the store                    holding     holds on the states of a shard
//! ending      what becomes of them                  hold_table  the holds of a shard, live or
//!                                                   hold_answers  ended
//! hold_record what is remembered of one             holder      what a key holds
//! leases      which runs out next                   plan_set    the plans that they were made under
//! slab        values that do not move               snapshot_…  its writer, its holds, its bytes, its error
//! shards      all of them, and their locks          mirror      refusals without a lock
//! shard       states behind one lock                budget      how much there may be
//! keys        their bytes, for who wants them       resets      what was forgotten lately
//! logs        states with memory of their own       table       open addressing
//! slot        what the slots hold                   tag         seeded hashing of keys
//! listed_hold live holds for who looks              loaded_keys some keys, whose records lie elsewhere
//! sync        the lock, and prefetching             cache_line  memory that no neighbour shares
//! ```

mod budget;
mod builder;
mod cache_line;
mod charge_verbs;
mod charging;
mod decisions;
mod ending;
mod forgetting;
mod hold_answers;
mod hold_record;
mod hold_table;
mod hold_verbs;
mod holder;
mod holding;
mod keys;

mod leases;
mod listed_hold;
mod loaded_keys;
mod logs;
mod mirror;
mod plain;
mod plan_set;
mod rehearsal;
mod resets;
mod room;
mod search;
mod shard;
mod shards;
mod slab;
mod slot;
mod snapshot;
mod snapshot_bytes;
mod snapshot_error;
#[cfg(any(test, feature = "testkit"))]
mod snapshot_exercise;
mod snapshot_holds;
mod snapshot_pieces;
mod snapshot_writer;
mod statistics;
mod store;
mod sync;
mod table;
mod tag;

pub use builder::MemoryStoreBuilder;
pub use listed_hold::ListedHold;
pub use loaded_keys::{KeyRecord, LoadedKeys};
pub use snapshot_error::SnapshotError;
#[cfg(any(test, feature = "testkit"))]
pub use snapshot_exercise::{exercise_record, exercise_snapshot};
pub use statistics::StoreStatistics;
pub use store::MemoryStore;
pub use tag::Hashing;
pub(super) use tag::{KeyHash, KeyHasher};
