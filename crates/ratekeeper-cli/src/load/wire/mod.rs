//! Requests and replies as bytes, for the transports that are streams.

mod http;
mod msgpack;
mod resp;

use super::tally::Answer;
use super::target::Protocol;
use super::work::Throttle;

/// Writes requests and reads replies.
#[derive(Clone, Debug)]
pub(super) enum Wire {
    Resp(resp::Resp),
    Http(http::Http),
    MsgPack(msgpack::MsgPack),
}

/// What the next reply is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Not all of it is there.
    Partial,
    /// So many bytes, and what they mean.
    Whole(usize, Answer),
    /// An error that the server sent, which so many bytes say.
    Error(usize, String),
    /// Something that is no reply in this protocol.
    Foreign,
}

impl Wire {
    /// How this protocol is written, if it is a stream of requests.
    pub(super) fn new(protocol: Protocol, throttle: Throttle, host: &str) -> Option<Self> {
        Some(match protocol {
            Protocol::Resp => Wire::Resp(resp::Resp::new(throttle)),
            Protocol::Http => Wire::Http(http::Http::new(throttle, host)),
            Protocol::MsgPack => Wire::MsgPack(msgpack::MsgPack::new(throttle)),
            Protocol::Grpc => return None,
        })
    }

    /// Appends a request.
    #[inline]
    pub(super) fn encode(&self, out: &mut Vec<u8>, key: &[u8; 20]) {
        match self {
            Wire::Resp(wire) => wire.encode(out, key),
            Wire::Http(wire) => wire.encode(out, key),
            Wire::MsgPack(wire) => wire.encode(out, key),
        }
    }

    /// Reads the reply at the start.
    #[inline]
    pub(super) fn decode(&self, input: &[u8]) -> Reply {
        match self {
            Wire::Resp(_) => resp::decode(input),
            Wire::Http(_) => http::decode(input),
            Wire::MsgPack(_) => msgpack::decode(input),
        }
    }
}
