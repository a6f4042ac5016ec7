//! What it takes to test a limit, and a store: a clock that stands still.

mod clock;

pub use clock::FakeClock;
