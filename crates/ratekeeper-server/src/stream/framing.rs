//! What a protocol says about the frames of its throttles, so that those which repeat can be recognised.

use std::ops::Range;

/// How a protocol frames a throttle, as far as that depends on the key: everything else is the same bytes again.
pub(crate) trait ThrottleFraming {
    /// The protocol.
    const WIRE: ThrottleWire;

    /// Bytes at the beginning of a throttle that tell its length, and so differ with the key's.
    const PREFIX: usize;

    /// Returns true if a throttle that begins with this prefix has `len` bytes, the prefix included.
    fn is_prefix_of(prefix: &[u8], len: usize) -> bool;

    /// Returns where the key lies in bytes that begin with its framing; some of them may not have come yet. The length
    /// must stand before the key, so that the key can neither be cut short nor reach into what follows.
    fn locate_key(bytes: &[u8]) -> Option<Range<usize>>;
}

/// The protocols over streams. Clients of all of them share their buffers, and a throttle of one must never be taken for
/// one of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThrottleWire {
    Resp,
    MsgPack,
}

impl ThrottleWire {
    /// How many there are.
    pub(super) const COUNT: usize = 2;
}
