//! What the targets in `fuzz/` call; nothing of it is in a server. What must hold is written where the reader is.

use crate::rls;
use crate::transport::{grpc, http, msgpack, resp};
use crate::xds;

/// Reads any bytes as a client of HTTP/2 might send them, whole and in pieces, and answers what they ask.
///
/// # Panics
///
/// Answers depend on how the bytes came, or more is kept of them than may be.
pub fn http2(bytes: &[u8]) {
    grpc::exercise_http2(bytes);
}

/// Decodes any bytes as header blocks of one connection.
///
/// # Panics
///
/// A plain decoder reads something else, or the table is larger than it may be.
pub fn hpack(bytes: &[u8]) {
    grpc::exercise_hpack(bytes);
}

/// Calls each method of gRPC with any bytes as its message, whole and in pieces.
///
/// # Panics
///
/// Answers depend on how the bytes came, or an error is not one short line.
pub fn grpc(bytes: &[u8]) {
    grpc::exercise_call(bytes);
}

/// Reads any bytes as a client of Redis might send them, whole and in pieces.
///
/// # Panics
///
/// Answers depend on how the bytes came, or are not one whole reply for each command.
pub fn resp(bytes: &[u8]) {
    resp::exercise(bytes);
}

/// Reads any bytes as a client over MessagePack might send them, whole and in pieces.
///
/// # Panics
///
/// Answers depend on how the bytes came, or are not one whole reply for each frame.
pub fn msgpack(bytes: &[u8]) {
    msgpack::exercise(bytes);
}

/// Reads any bytes as a client of HTTP/1 might send them, whole and in pieces.
///
/// # Panics
///
/// Answers depend on how the bytes came, or an error is not one short line.
pub fn http(bytes: &[u8]) {
    http::exercise(bytes);
}

/// Asks each route with any bytes as its body, or behind its `?`.
///
/// # Panics
///
/// An error is not one short line, or the server says that it is its own fault.
pub fn http_body(bytes: &[u8]) {
    http::exercise_body(bytes);
}

/// Reads any text as the fields by which a request says who asks.
///
/// # Panics
///
/// A page from elsewhere is let in, or a trace is not the one that was named.
pub fn request_fields(bytes: &[u8]) {
    http::exercise_fields(bytes);
}

/// Takes any bytes as a control plane might push them, whole and in pieces.
///
/// # Panics
///
/// What is accepted depends on how the bytes came, or a refusal changes the rules.
pub fn xds(bytes: &[u8]) {
    xds::exercise(bytes);
}

/// Reads any text as a file of rate limits for Envoy.
///
/// # Panics
///
/// A mistake names a line that the file does not have, or is not one short line.
pub fn read_rls(bytes: &[u8]) {
    rls::exercise(bytes);
}

/// The seeds of the fuzzer, replayed without one.
#[cfg(test)]
mod tests {
    use ratekeeper::testkit::fuzz::replay;

    #[test]
    fn http2() {
        replay("http2", super::http2);
    }

    #[test]
    fn hpack() {
        replay("hpack", super::hpack);
    }

    #[test]
    fn grpc() {
        replay("grpc", super::grpc);
    }

    #[test]
    fn resp() {
        replay("resp", super::resp);
    }

    #[test]
    fn msgpack() {
        replay("msgpack", super::msgpack);
    }

    #[test]
    fn http() {
        replay("http", super::http);
    }

    #[test]
    fn http_body() {
        replay("http_body", super::http_body);
    }

    #[test]
    fn request_fields() {
        replay("request_fields", super::request_fields);
    }

    #[test]
    fn read_rls() {
        replay("read_rls", super::read_rls);
    }

    #[test]
    fn xds() {
        replay("xds", super::xds);
    }
}
