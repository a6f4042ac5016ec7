//! The link under a simulated clock and network: servers that freeze, die, move slots, promote replicas and lose replies, by
//! a schedule that a seed decides. An ordinary run has two dozen schedules for each test, a thorough one hundreds; each takes a
//! fraction of the time that it simulates.
//!
//! ```text
//! routing     a cluster, and what callers of the link may expect of it
//! following   a master that sentinels watch, and the same
//! cluster     the nodes of a cluster: slots, views, scripts        master    a master, replicas and sentinels
//! story       one schedule, and what must be true of it            callers   those who ask, and what became of it
//! network     hosts and connections: delays, cuts, freezes         wire      commands and replies as bytes
//! chance      what a seed decides
//! ```
//!
//! A schedule that fails prints its seed and the command that runs that schedule alone, 100 times.

mod callers;
mod chance;
mod cluster;
mod following;
mod master;
mod network;
mod routing;
mod story;
mod wire;

pub(super) use network::dial;
