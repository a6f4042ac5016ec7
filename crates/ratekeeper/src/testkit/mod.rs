//! Tools to test limits and stores: a fake clock, a key-value store in memory, a reference model of every algorithm, and the
//! conformance suite that every store passes.

pub mod conformance;
mod fake_clock;
pub mod fuzz;
mod key_value;
#[cfg(feature = "testkit")]
pub mod model;

pub use fake_clock::FakeClock;
pub use key_value::MemoryValues;
