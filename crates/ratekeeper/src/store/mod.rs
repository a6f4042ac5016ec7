//! Where state lives: in memory, or in any key-value store with an atomic compare-and-set.

mod memory;

pub use memory::{Hashing, MemoryStore, MemoryStoreBuilder, OnFull, SnapshotError, Statistics};
