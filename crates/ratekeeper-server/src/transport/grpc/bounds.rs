//! How large messages may be.

/// The most bytes of one message.
pub(super) const MAX_MESSAGE: usize = 64 * 1024;
/// The most bytes of one message of Envoy: header fields of a request come in descriptors, some of them twice.
pub(super) const MAX_RLS_MESSAGE: usize = 1024 * 1024;
