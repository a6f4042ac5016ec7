//! The stream protocols behind one face.

use super::super::target::Protocol;
use super::super::work::ThrottleNumbers;
use super::reply::WireReply;
use super::{http, msgpack, resp};

/// Writes requests and reads replies of one protocol. All requests are alike but for their key.
#[derive(Clone, Debug)]
pub(in crate::load) struct StreamWire {
    before_key: Vec<u8>,
    after_key: Vec<u8>,
    decode: fn(&[u8]) -> WireReply,
}

impl StreamWire {
    /// Returns the requests of this protocol, or `None` if it is not a stream of requests and replies.
    pub(in crate::load) fn new(protocol: Protocol, throttle: ThrottleNumbers, host: &str) -> Option<Self> {
        let ((before_key, after_key), decode): (_, fn(&[u8]) -> WireReply) = match protocol {
            Protocol::Resp => (resp::around_key(throttle), resp::decode),
            Protocol::Http => (http::around_key(throttle, host), http::decode),
            Protocol::MsgPack => (msgpack::around_key(throttle), msgpack::decode),
            Protocol::Grpc | Protocol::Rls => return None,
        };
        Some(StreamWire { before_key, after_key, decode })
    }

    /// Appends a request.
    #[inline]
    pub(in crate::load) fn encode(&self, out: &mut Vec<u8>, key: &[u8; 20]) {
        out.extend_from_slice(&self.before_key);
        out.extend_from_slice(key);
        out.extend_from_slice(&self.after_key);
    }

    /// Reads the reply that the input begins with.
    #[inline]
    pub(in crate::load) fn decode(&self, input: &[u8]) -> WireReply {
        (self.decode)(input)
    }
}
