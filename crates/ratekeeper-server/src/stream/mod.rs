//! Transports that are a stream of requests and a stream of replies: the socket, the buffers and the batches, once
//! for all of them.
//!
//! ```text
//! client    the socket: read, answer, write      buffers   lent to whoever is awake
//! batch     many requests, one decision          template  the last request, to recognise the next
//! ```

mod batch;
mod buffers;
mod client;
mod template;

pub(crate) use batch::decide;
pub(crate) use buffers::{Buffers, MAX_REQUEST, Waiting};
pub(crate) use client::serve;

/// Replies that are gathered before they are sent.
pub(crate) const HIGH_WATER: usize = 16 * 1024;
/// The most requests of one batch.
pub(crate) const MAX_BATCH: usize = 512;

/// What a protocol makes of the bytes of one client.
pub(crate) trait Conversation: Send {
    /// Answers the complete requests in the buffers, at most until [`HIGH_WATER`].
    fn answer(&mut self, buffers: &mut Buffers) -> impl Future<Output = Progress> + Send;

    /// Waits before the token is looked at that comes next: after [`Progress::Guess`].
    fn pause(&mut self) -> impl Future<Output = ()> + Send;

    /// True while a request is incomplete.
    fn is_midway(&self) -> bool;

    /// True if a request was completed since the last time of asking.
    fn has_answered(&mut self) -> bool;
}

/// How an attempt to answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All complete requests are answered.
    Starved,
    /// The replies must be sent before there can be more.
    Full,
    /// There is more to answer, but enough was done for one turn.
    Paused,
    /// The next request shows a token, and has to wait before that is looked at.
    Guess,
    /// The client said goodbye: send the replies and close.
    Quit,
    /// The client does not speak the protocol: send the replies and close.
    Broken,
}

/// In which form a decision is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `THROTTLE`: capacity is `max_burst`.
    Throttle,
    /// `CL.THROTTLE`, as the module redis-cell has it: capacity is `max_burst + 1`.
    Cell,
    /// MessagePack; its quota is that of `THROTTLE`.
    Packed,
}
