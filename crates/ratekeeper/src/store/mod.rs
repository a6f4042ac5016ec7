//! Where state lives: in memory, or in any key-value store with an atomic compare-and-set.

mod backoff;
mod cas;
mod memory;

pub use cas::CasStore;
pub use memory::{Hashing, MemoryStore, MemoryStoreBuilder, OnFull, SnapshotError, Statistics};
