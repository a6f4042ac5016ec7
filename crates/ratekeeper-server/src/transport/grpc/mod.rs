//! gRPC: unary calls over HTTP/2, decided where their bytes were read.
//!
//! ```text
//! transport   the transport                       connection   calls in, replies out
//! context     what all clients share              http2        frames to requests, and answers to frames
//! call        calls to methods                    call_head    what the fields of a request say; method: its path
//! message     messages on streams                 reply        an answer on its way; status: what went wrong
//! channel     between a call that waits and its connection; call_state: what its stream keeps
//! outbox      what is on its way to a client      duration     durations as the wire has them
//! unfinished  what messages on the way take       aging        how old a connection becomes
//! throttle, plans, holds, rls, health, reflection the methods
//! generated   the Rust side of proto/             bounds       how large messages may be
//! exercise    any bytes as messages, for fuzzing
//! ```
//!
//! A framework would give every call a task of its own; this way all calls of a read are answered by one write, and a
//! call that is decided at once costs a few copies ([ADR 17](../../../../../docs/adr/0017-own-http2.md)).

mod aging;
mod bounds;
mod call;
mod call_head;
mod call_state;
mod channel;
mod connection;
mod context;
mod duration;
#[cfg(any(test, fuzzing))]
mod exercise;
pub(crate) mod generated;
mod health;
mod holds;
mod http2;
mod message;
mod method;
mod outbox;
mod plans;
mod reflection;
mod reply;
mod rls;
mod rls_request;
mod status;
mod throttle;
mod transport;
mod unfinished;
mod waiting_call;
mod wire_field;

pub(crate) use context::{GrpcTransport, NAME};
#[cfg(any(test, fuzzing))]
pub(crate) use exercise::exercise as exercise_call;
#[cfg(any(test, fuzzing))]
pub(crate) use http2::{exercise as exercise_http2, exercise_hpack};
pub(crate) use wire_field::next_field;
