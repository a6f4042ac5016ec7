//! The answer to one call, on its way from the method to the connection.

use super::channel::CallChannel;
use super::status::GrpcStatus;

/// The answer to one call.
#[derive(Debug)]
pub(super) struct Reply {
    /// The message of an answer that has one, with its prefix.
    pub(super) message: Vec<u8>,
    pub(super) end: ReplyEnd,
    /// Where the messages of an answer go that has several.
    pub(super) channel: Option<CallChannel>,
}

/// How a call ends.
#[derive(Debug)]
pub(super) enum ReplyEnd {
    /// Nobody has answered it.
    Unwritten,
    /// With one message.
    Message,
    /// Without any.
    Refused(GrpcStatus),
    /// After several messages, well or not.
    Stream(Option<GrpcStatus>),
    /// It was no gRPC.
    Unsupported,
}

impl ReplyEnd {
    /// Returns what went wrong, if anything did.
    pub(super) fn status(&self) -> Option<&GrpcStatus> {
        match self {
            ReplyEnd::Refused(status) | ReplyEnd::Stream(Some(status)) => Some(status),
            _ => None,
        }
    }
}

impl Reply {
    /// Returns a reply that nobody has written yet, with room for a message.
    pub(super) fn new(room: Vec<u8>, channel: Option<CallChannel>) -> Self {
        Reply { message: room, end: ReplyEnd::Unwritten, channel }
    }
}
