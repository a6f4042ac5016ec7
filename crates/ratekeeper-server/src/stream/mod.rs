//! Protocols that are a stream of requests and a stream of replies: the socket, the buffers and the batches, once for
//! all of them.
//!
//! ```text
//! connection   the socket: read, answer, write      buffers    lent to connections that are awake
//! batch        many throttles, one question         template   the last throttle, to recognise the next
//! protocol     what a protocol must implement       pending    a throttle that waits for its batch
//! ```

mod batch;
mod buffers;
mod connection;
mod pending;
mod protocol;
mod template;

pub(crate) use batch::decide;
pub(crate) use buffers::{Buffers, MAX_REQUEST};
pub(crate) use connection::serve_stream;
pub(crate) use pending::PendingThrottle;
pub(crate) use protocol::{HIGH_WATER, MAX_BATCH, Progress, StreamProtocol};
