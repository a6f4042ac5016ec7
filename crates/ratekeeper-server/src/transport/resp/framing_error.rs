//! What is wrong with bytes that are no command.

use std::fmt;

/// The most bytes of one command, framing included.
pub(super) const MAX_COMMAND: usize = crate::stream::MAX_REQUEST;
/// The most arguments of one command, its name included.
pub(super) const MAX_ARGS: usize = 32;

/// Why bytes are not the Redis protocol, or not the part of it that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FramingError {
    /// The number after `*` is missing or far too large.
    InvalidCount,
    /// The number after `$` is missing, negative or far too large.
    InvalidLength,
    /// There is another byte where `$` must be.
    ExpectedBulk(u8),
    /// An argument does not end where its length says.
    Unterminated,
    /// More than [`MAX_ARGS`] arguments.
    TooManyArguments,
    /// More than [`MAX_COMMAND`] bytes.
    TooLong,
    /// An inline argument begins with a quote that is never closed, or closed within a word.
    UnbalancedQuotes,
    /// A backslash within quotes: an argument is a range of the buffer, which an escape is not.
    EscapedInline,
    /// The client speaks HTTP.
    Http,
}

impl fmt::Display for FramingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FramingError::InvalidCount => f.write_str("invalid multibulk length"),
            FramingError::InvalidLength => f.write_str("invalid bulk length"),
            FramingError::ExpectedBulk(byte) => {
                write!(f, "expected '$', got '{}'", byte.escape_ascii())
            }
            FramingError::Unterminated => f.write_str("expected CR LF after an argument"),
            FramingError::TooManyArguments => write!(f, "more than {MAX_ARGS} arguments"),
            FramingError::TooLong => write!(f, "a command of more than {MAX_COMMAND} bytes"),
            FramingError::UnbalancedQuotes => f.write_str("unbalanced quotes in request"),
            FramingError::EscapedInline => f.write_str("escapes in an inline command; send an array"),
            FramingError::Http => f.write_str("this port speaks the Redis protocol, not HTTP"),
        }
    }
}
