//! What a protocol over a stream must implement.

use super::buffers::Buffers;

/// Bytes of replies that are gathered before they are sent.
pub(crate) const HIGH_WATER: usize = 16 * 1024;

/// The most requests before the other connections are served that look at every shard or plan, or have replies of
/// kilobytes.
pub(crate) const MAX_COSTLY: u8 = 16;

/// One client's side of a protocol, without its socket.
pub(crate) trait StreamProtocol: Send {
    /// Answers the complete requests in the buffers, at most until [`HIGH_WATER`].
    fn answer(&mut self, buffers: &mut Buffers) -> impl Future<Output = Progress> + Send;

    /// Waits before the next token is checked: called after [`Progress::Guess`].
    fn pause(&mut self) -> impl Future<Output = ()> + Send;

    /// Returns true while a request is incomplete.
    fn is_midway(&self) -> bool;

    /// Returns true if a request was completed since the last call.
    fn has_answered(&mut self) -> bool;
}

/// How an attempt to answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All complete requests are answered.
    Starved,
    /// The replies must be sent before there can be more.
    Full,
    /// There is more to answer, but the other connections come first.
    Paused,
    /// The next request shows a token, and has to wait before that is checked.
    Guess,
    /// The client ends the connection: send the replies and close.
    Quit,
    /// The client broke the protocol: send the replies and close.
    Broken,
}
