//! The laws of the engine, each a property that is tried on every algorithm through its public, pure face.
//!
//! A file is a law, or the comparison with the reference model. A test's name and comment say the law in words
//! (docs/semantics.md has all of it); the inputs are drawn to sit on the edges: a nanosecond before and after
//! an emission, a window, the promised wait.

mod bounds;
mod clock_steps;
mod composite;
mod debts;
mod extremes;
mod garbage;
mod leases;
mod model_buckets;
mod model_integers;
mod peers;
mod refund;
mod regressions;
mod reload;
mod remaining;
mod reset;
mod retry;
mod shares;
mod support;
mod worked;
mod writes;
