//! The scripts against the engine: the same random calls get the same answers. Slots of keys against the servers'.
//!
//! The scripts run in a Lua of the same version as the servers', against a table instead of a keyspace, thousands of
//! times; and on a real server, some times.

mod charges;
mod draw;
mod fuzz;
mod holds;
mod lua;
mod model;
mod shapes;
mod slots;
mod walks;
