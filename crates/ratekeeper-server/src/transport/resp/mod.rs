//! The Redis protocol: bytes to requests, answers to bytes.
//!
//! ```text
//! transport   the transport                        protocol     reads, answers, batches: one client
//! client      commands to replies                  multi        MULTI, EXEC, DISCARD; transaction: what they queue
//! command     the commands there are               session      what stock clients ask first; info: INFO
//! throttle    THROTTLE and CL.THROTTLE             planned      ACQUIRE, PEEK, REFUND, DEBIT, HOLD, RESET; forget: FORGET
//! held        SETTLE, CANCEL, EXTEND               options      what stands behind plans and ids: COST, UNIT, EACH …
//! frame       bytes to commands, with inline, number, framing_error         reply   replies to bytes
//! framing     throttles that repeat                exercise     any bytes, for fuzzing
//! ```

mod client;
mod command;
mod context;
mod error_text;
#[cfg(any(test, fuzzing))]
mod exercise;
mod forget;
mod frame;
mod framing;
mod framing_error;
mod held;
mod info;
mod inline;
mod multi;
mod number;
mod options;
mod planned;
mod protocol;
mod reply;
mod session;
mod throttle;
mod transaction;
mod transport;

pub(crate) use context::{NAME, RespTransport};
#[cfg(any(test, fuzzing))]
pub(crate) use exercise::exercise;
