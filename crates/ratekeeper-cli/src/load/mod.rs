//! How fast it is here: a load generator for every transport, and for the engine itself.
//!
//! A closed loop keeps so many requests in flight and measures each from when it was sent. An open loop sends at a
//! given rate whatever happens, and measures each from when it **should** have been sent: a stall counts against
//! every request that it delayed.
//!
//! - [`Target`]: what is asked; [`Work`]: what for; [`Pace`]: how often
//! - `wire`: requests and replies as bytes; `connection`: one connection's loop; `calls`: the same for gRPC;
//!   `in_process`: no connection at all
//! - [`Tally`]: what is counted; `run`: all connections of all threads; [`report`]: what it amounts to

mod calls;
mod connection;
mod in_process;
pub mod report;
mod run;
mod tally;
mod target;
mod wire;
mod work;

pub use run::{LoadError, Pace, Run, measure};
pub use tally::Tally;
pub use target::{Protocol, Target, TargetError};
pub use work::{Work, WorkError};
