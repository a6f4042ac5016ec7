//! How much one client may have, and have unfinished.

/// Calls at once on one connection.
pub(super) const MAX_STREAMS: u32 = 128;
/// Calls beyond [`MAX_STREAMS`], and other mistakes on streams, that one client may make. Whoever makes more is sent away.
pub(super) const MAX_MISTAKES: u32 = 256;
/// Bytes that the fields of one request may have, each counted with 32 more as RFC 9113 does.
pub(super) const MAX_FIELDS: usize = 16 * 1024;
/// Bytes of a header block before it is decoded. A text can be longer in its code than it is, but not four times.
pub(super) const MAX_BLOCK: usize = 4 * MAX_FIELDS;
/// The most bytes of one frame, without its head: what HTTP/2 allows unless somebody asks for more.
pub(super) const MAX_FRAME: usize = 16 * 1024;
/// Bytes that a client may send on a stream before they are taken.
pub(super) const STREAM_WINDOW: u32 = 128 * 1024;
/// Bytes that a client may send on all streams before they are taken. What calls have taken, and is no whole message yet, is
/// bounded where they keep it.
pub(super) const CONNECTION_WINDOW: u32 = 1024 * 1024;
