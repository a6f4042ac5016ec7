//! Requests and replies as bytes, for the transports that are streams: `resp`, `http` and `msgpack` behind
//! [`StreamWire`].

#[cfg(any(test, fuzzing))]
mod exercise;
mod http;
mod msgpack;
mod reply;
mod resp;
mod stream;

#[cfg(any(test, fuzzing))]
pub(crate) use exercise::exercise_replies;
pub(super) use reply::WireReply;
pub(super) use stream::StreamWire;
