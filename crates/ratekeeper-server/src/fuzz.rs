//! What the targets in `fuzz/` call; nothing of it is in a server.

/// Reads any bytes as a client of HTTP/2 might send them, whole and in pieces, and answers what they ask.
///
/// # Panics
///
/// Answers depend on how the bytes came, or more is kept of them than may be.
pub fn http2(bytes: &[u8]) {
    crate::transport::grpc::exercise(bytes);
}
