//! The scripts against the engine: the same random calls get the same answers.
//!
//! The scripts run in a Lua of the same version as the servers', against a table instead of a keyspace, thousands of
//! times; and on a real server, some times.

mod draw;
mod fuzz;
mod lua;
mod model;
#[path = "../../tests/support/mod.rs"]
mod support;
mod walks;
