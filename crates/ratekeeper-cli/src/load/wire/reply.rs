//! What a server answered, as its bytes show it.

use super::super::measurement::LoadAnswer;

/// What the next bytes of a server are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::load) enum WireReply {
    /// The start of a reply: more bytes are needed.
    Partial,
    /// A reply of so many bytes, and what it says.
    Whole(usize, LoadAnswer),
    /// An error of so many bytes, and its message.
    Error(usize, String),
    /// Something that is not a reply in this protocol.
    Foreign,
}
