//! What a stream keeps for its call.

use futures_util::future::AbortHandle;

use super::call_head::CallHead;
use super::channel::CallChannel;

/// What a stream keeps for its call.
#[derive(Debug, Default)]
pub(super) struct CallState {
    /// The request of a call that has not begun: its end may come with the next frames.
    pub(super) fresh: Option<FreshCall>,
    /// What passes between a call that waits and its connection.
    pub(super) channel: Option<CallChannel>,
    /// Ends a call that waits.
    pub(super) waits: Option<AbortHandle>,
    /// The answer has begun.
    pub(super) has_begun: bool,
    /// There may be answers as long as the client stays.
    pub(super) is_streaming: bool,
}

/// What came of a request.
#[derive(Debug)]
pub(super) struct FreshCall {
    pub(super) head: CallHead,
    pub(super) body: Vec<u8>,
}

impl CallState {
    /// Ends the call: the client has given it up. If it may, a call whose request was whole is asked to its end all the same:
    /// whoever asks a store must hear that it does not answer, or would never stop to ask it. Returns true of such a call.
    pub(super) fn give_up(self, may_end: bool) -> bool {
        let is_whole = self.fresh.is_none() && self.channel.is_none_or(|channel| channel.is_ended());
        let Some(waits) = self.waits else { return false };
        let goes_on = may_end && is_whole && !self.is_streaming;
        if !goes_on {
            waits.abort();
        }
        goes_on
    }
}
