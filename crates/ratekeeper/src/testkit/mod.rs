//! What it takes to test a limit, and a store: a clock that stands still, a key-value store in memory, a reference
//! model of every algorithm, and the suite that every store passes.

pub mod conformance;
mod fake_clock;
pub mod fuzz;
mod key_value;
#[cfg(feature = "testkit")]
pub mod model;

pub use fake_clock::FakeClock;
pub use key_value::MemoryValues;
