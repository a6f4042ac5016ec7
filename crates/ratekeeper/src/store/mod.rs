//! Stores: in memory, or on any key-value store with an atomic compare-and-set. And what stands in front of a store that is
//! far away: a breaker with a timeout, a cache of denials, and leases.

mod backoff;
mod breaker;
mod cas;
mod denials;
mod front;
#[cfg(all(feature = "tokio", not(loom)))]
mod guarded;
mod leased;
mod line_ticket;
mod memory;
mod on_full;
mod task;

pub use crate::port::breaker::{BreakerChange, BreakerState};
pub use breaker::{Breaker, BreakerPermit, BreakerSettings};
pub use cas::CasStore;
pub use denials::{DenialCache, DenialStatistics};
pub use front::{DenialSettings, LeaseSettings, StoreFront};
#[cfg(all(feature = "tokio", not(loom)))]
pub use guarded::Guarded;
pub use leased::{LeaseStatistics, Leased};
pub use memory::{
    Hashing, KeyRecord, ListedHold, LoadedKeys, MemoryStore, MemoryStoreBuilder, SnapshotError,
    StoreStatistics,
};
#[cfg(any(test, feature = "testkit"))]
#[doc(hidden)]
pub use memory::{exercise_record, exercise_snapshot};
pub use on_full::OnFull;
