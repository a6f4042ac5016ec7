//! Holds of the store in memory, beyond what every store is examined for: all interleavings of a small history, the law of what
//! is held, threads, room, snapshots.

mod interleavings;
mod law;
mod room;
mod snapshots;
mod support;
mod threads;
