//! The wires: each translates its bytes to a [`WireRequest`](crate::request::WireRequest), has it answered by the
//! [`Responder`](crate::responder::Responder), and translates the answer to bytes. None of them knows another, and none
//! decides anything.

pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod msgpack;
pub(crate) mod resp;
