//! Requests and replies as bytes, for the transports that are streams: `resp`, `http` and `msgpack` behind
//! [`StreamWire`].

mod http;
mod msgpack;
mod reply;
mod resp;
mod stream;

pub(super) use reply::WireReply;
pub(super) use stream::StreamWire;
