//! The stream protocols behind one face.

use super::super::target::Protocol;
use super::super::work::ThrottleNumbers;
use super::http::{self, HttpRequests};
use super::msgpack::{self, MsgPackRequests};
use super::reply::WireReply;
use super::resp::{self, RespRequests};

/// Writes requests and reads replies of one protocol.
#[derive(Clone, Debug)]
pub(in crate::load) enum StreamWire {
    Resp(RespRequests),
    Http(HttpRequests),
    MsgPack(MsgPackRequests),
}

impl StreamWire {
    /// Returns the requests of this protocol, or `None` if it is not a stream of requests and replies.
    pub(in crate::load) fn new(protocol: Protocol, throttle: ThrottleNumbers, host: &str) -> Option<Self> {
        Some(match protocol {
            Protocol::Resp => StreamWire::Resp(RespRequests::new(throttle)),
            Protocol::Http => StreamWire::Http(HttpRequests::new(throttle, host)),
            Protocol::MsgPack => StreamWire::MsgPack(MsgPackRequests::new(throttle)),
            Protocol::Grpc => return None,
        })
    }

    /// Appends a request.
    #[inline]
    pub(in crate::load) fn encode(&self, out: &mut Vec<u8>, key: &[u8; 20]) {
        match self {
            StreamWire::Resp(wire) => wire.encode(out, key),
            StreamWire::Http(wire) => wire.encode(out, key),
            StreamWire::MsgPack(wire) => wire.encode(out, key),
        }
    }

    /// Reads the reply that the input begins with.
    #[inline]
    pub(in crate::load) fn decode(&self, input: &[u8]) -> WireReply {
        match self {
            StreamWire::Resp(_) => resp::decode(input),
            StreamWire::Http(_) => http::decode(input),
            StreamWire::MsgPack(_) => msgpack::decode(input),
        }
    }
}
