//! Puts load on a server over any transport, or on the engine in this process, and measures it.
//!
//! A closed loop keeps so many requests in flight and measures each from when it was sent. An open loop sends at a
//! given rate whatever happens, and measures each from when it **should** have been sent: a stall counts against
//! every request that it delayed.
//!
//! - [`LoadTarget`]: what is asked; [`Work`]: for which keys; [`LoadRun`], [`LoadPace`]: how often and how long
//! - [`RlsTemplate`]: what Envoy's service is asked
//! - `wire`: requests and replies as bytes; `connection`: one connection's loop; `grpc`: one connection of gRPC;
//!   `in_process`: no connection at all
//! - [`measure`]: all connections of all threads, to a [`Measurement`]; [`TargetReport`], [`Ratio`]: what it amounts to

mod connection;
mod grpc;
mod in_process;
mod load_error;
mod measurement;
mod report;
mod rls_request;
mod run;
mod schedule;
mod target;
mod wire;
mod work;

pub use load_error::LoadError;
pub use measurement::Measurement;
pub use report::{Ratio, TargetReport};
pub use rls_request::{RlsTemplate, RlsTemplateError};
pub use run::measure;
pub use schedule::{LoadPace, LoadRun};
pub use target::{LoadTarget, LoadTargetError, Protocol};
#[cfg(any(test, fuzzing))]
pub(crate) use wire::exercise_replies;
pub use work::{Work, WorkError};
