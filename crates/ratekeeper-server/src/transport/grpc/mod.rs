//! gRPC: unary calls over HTTP/2, decided where their bytes were read.
//!
//! ```text
//! transport   the transport                       connection   calls in, replies out
//! context     what all clients share              socket       a socket that reports progress
//! call        paths to methods                    framing      where frames begin and end; flood: too many of them
//! message     messages on streams                 status       what went wrong
//! unfinished  what messages on the way take       throttle, plans, holds, rls, health, reflection   the methods
//! generated   the Rust side of proto/             duration     durations as the wire has them
//! aging       how old a connection becomes
//! ```
//!
//! The crate `h2` speaks HTTP/2; the few lines of gRPC on top of it are written here. A framework would give every call
//! a task of its own; this way all calls of a read are answered by one write.

mod aging;
mod call;
mod connection;
mod context;
mod duration;
mod flood;
mod frame_head;
mod framing;
pub(crate) mod generated;
mod health;
mod holds;
mod message;
mod plans;
mod reflection;
mod rls;
mod socket;
mod status;
mod throttle;
mod transport;
mod unfinished;

pub(crate) use context::{GrpcTransport, NAME};
