//! What it takes to test a limit, and a store: a clock that stands still, and what must hold of any bytes.

mod clock;
pub mod fuzz;

pub use clock::FakeClock;
