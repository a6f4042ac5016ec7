//! HTTP/2 for small calls, without a socket: RFC 9113 and RFC 7541, as far as a server of gRPC needs them.
//!
//! ```text
//! http2         bytes in, requests out              sending        answers in, bytes out
//! stream_table  the streams that are open           recent         those that were ended lately
//! windows       how much may be sent                peer_settings  what the client asks for
//! hpack         header blocks to fields             huffman        their texts; static_table: what is known
//! flood         too many control frames             limits         how much one client may have
//! frame_head    where frames begin                  frames         frames as they are written
//! code          why a stream ends                   echo, hpack_exercise   any bytes, for fuzzing
//! ```

mod code;
#[cfg(any(test, fuzzing))]
mod echo;
mod flood;
mod frame_head;
mod frames;
mod hpack;
#[cfg(any(test, fuzzing))]
mod hpack_exercise;
#[cfg(test)]
mod hpack_laws;
mod http2;
#[cfg(test)]
mod http2_laws;
mod huffman;
mod limits;
mod peer_settings;
mod recent;
#[cfg(test)]
mod rfc_errors;
mod sending;
mod static_table;
mod stream_table;
mod windows;

pub(super) use code::Http2Code;
#[cfg(any(test, fuzzing))]
pub(crate) use echo::exercise;
#[cfg(any(test, fuzzing))]
pub(crate) use hpack_exercise::exercise_hpack;
pub(super) use http2::{Http2, Http2Event, QueueProgress};
pub(super) use sending::FieldBlock;
