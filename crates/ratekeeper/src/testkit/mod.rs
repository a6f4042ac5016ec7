//! What it takes to test a limit, and a store: a clock that stands still, and a reference model of every algorithm.

mod clock;
#[cfg(feature = "testkit")]
pub mod model;

pub use clock::FakeClock;
