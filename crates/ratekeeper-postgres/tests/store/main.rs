//! The store on a real PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "shared with other tests, which use more of it")]
mod support;

mod conformance;
mod gathering;
mod rows;
mod tables;
