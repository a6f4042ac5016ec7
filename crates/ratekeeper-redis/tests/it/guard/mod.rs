//! Topologies, faults and bad input, on real servers.

mod bad_input;
mod charges;
mod failover;
mod faults;
mod front;
mod giving_up;
mod holds;
mod load;
mod matrix;
mod runtimes;
mod seeds;
mod shards;
mod shared_limit;
mod slots;
#[cfg(feature = "tls")]
mod tls;
