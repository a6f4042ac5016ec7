//! Protocols that are a stream of requests and a stream of replies: the socket, the buffers and the batches, once for
//! all of them.
//!
//! ```text
//! connection   the socket: read, answer, write      buffers    lent to connections that are awake
//! batch        many throttles, one question         template   the last throttle, to recognise the next
//! protocol     what a protocol must implement       framing    what it says about its throttles' frames
//! pending      a throttle that waits for its batch    exercise   a client without a socket, for fuzzing
//! ```

mod batch;
mod buffers;
mod connection;
#[cfg(any(test, fuzzing))]
mod exercise;
mod framing;
mod pending;
mod protocol;
#[cfg(test)]
mod repeats;
mod template;

pub(crate) use batch::decide;
pub(crate) use buffers::{Buffers, MAX_REQUEST};
pub(crate) use connection::serve_stream;
#[cfg(any(test, fuzzing))]
pub(crate) use exercise::{StreamExchange, flagged, in_runtime, pieces};
pub(crate) use framing::{ThrottleFraming, ThrottleWire};
pub(crate) use pending::{MAX_BATCH, PendingThrottle};
pub(crate) use protocol::{HIGH_WATER, MAX_COSTLY, Progress, StreamProtocol};
#[cfg(test)]
pub(crate) use repeats::{Mutation, ParsedThrottle, is_found_out, recognised};
