//! Bytes to commands: the request half of the Redis protocol.
//!
//! A server receives only arrays of bulk strings, or inline commands, so that is all there is here. Nothing is
//! copied: a command is a list of ranges into the connection's buffer. What was understood of an unfinished command
//! is kept, so that no byte is looked at twice however slowly they arrive, and nothing is ever allocated, so that
//! no declared length can make it.

use std::fmt;
use std::ops::Range;

use super::number::Number;

/// The most bytes of one command, framing included.
pub const MAX_COMMAND: usize = crate::stream::MAX_REQUEST;
/// The most arguments of one command, its name included.
pub const MAX_ARGS: usize = 16;
/// What ends every line and every argument.
pub(super) const LINE_END: &[u8] = b"\r\n";

/// A command that is being read. Positions count from its first byte.
#[derive(Debug, Default)]
pub struct Parser {
    stage: Stage,
    /// The next byte to look at.
    at: usize,
    number: Number,
    expected: usize,
    args: Args,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nothing was seen.
    #[default]
    Start,
    /// Between `*` and the end of its line.
    Count,
    /// Where a `$` must be.
    Dollar,
    /// Between `$` and the end of its line.
    Length,
    /// Within so many bytes of an argument, or its line end.
    Body(usize),
    /// Within an inline command.
    Inline,
}

/// What the bytes so far amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A command of so many bytes; its arguments are in [`Parser::args`] until the next call. Without arguments it
    /// is to be skipped and not answered.
    Command(usize),
    /// The command goes on in bytes that have not come yet.
    Incomplete,
    /// This is not the Redis protocol. Where the next command begins is not known.
    Malformed(ProtocolError),
}

/// Where the arguments of a command lie, counted from its first byte.
#[derive(Clone, Debug, Default)]
pub struct Args {
    ranges: [(u32, u32); MAX_ARGS],
    len: usize,
}

impl Args {
    /// How many there are, the command's name included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for a command that is to be skipped.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where an argument lies in a buffer in which the command starts at `base`.
    #[inline]
    pub fn range(&self, index: usize, base: usize) -> Range<usize> {
        let (start, end) = self.ranges[index];
        base + start as usize..base + end as usize
    }

    #[inline]
    fn push(&mut self, start: usize, end: usize) -> Result<(), ProtocolError> {
        // Positions are within a command, so they fit.
        let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(end)) else {
            return Err(ProtocolError::TooLong);
        };
        let slot = self.ranges.get_mut(self.len).ok_or(ProtocolError::TooManyArguments)?;
        *slot = (start, end);
        self.len += 1;
        Ok(())
    }
}

impl Parser {
    /// The arguments of the command that was found last.
    pub fn args(&self) -> &Args {
        &self.args
    }

    /// True within a command: some bytes of it came, and more must.
    pub fn is_midway(&self) -> bool {
        self.at > 0
    }

    /// Goes on with a command whose first byte is `bytes[0]`; whatever was there at the last call still is.
    #[inline]
    pub fn step(&mut self, bytes: &[u8]) -> Step {
        match self.advance(bytes) {
            Ok(true) => {
                let len = self.at;
                (self.stage, self.at) = (Stage::Start, 0);
                Step::Command(len)
            }
            // Checked last: a command that is complete was within bounds.
            Ok(false) if bytes.len() >= MAX_COMMAND => Step::Malformed(ProtocolError::TooLong),
            Ok(false) => Step::Incomplete,
            Err(error) => Step::Malformed(error),
        }
    }

    /// True when the command is complete.
    fn advance(&mut self, bytes: &[u8]) -> Result<bool, ProtocolError> {
        loop {
            match self.stage {
                Stage::Start => {
                    let Some(first) = bytes.first() else { return Ok(false) };
                    self.args.len = 0;
                    if *first == b'*' {
                        (self.stage, self.at, self.number) = (Stage::Count, 1, Number::default());
                    } else {
                        self.stage = Stage::Inline;
                    }
                }
                Stage::Count => {
                    let error = ProtocolError::InvalidCount;
                    let Some(count) = self.line(bytes, error)? else { return Ok(false) };
                    // Redis skips an array of nothing or less.
                    let Ok(count) = usize::try_from(count) else { return Ok(true) };
                    if count > MAX_ARGS {
                        return Err(ProtocolError::TooManyArguments);
                    }
                    if count == 0 {
                        return Ok(true);
                    }
                    (self.stage, self.expected) = (Stage::Dollar, count);
                    if self.whole_arguments(bytes)? {
                        return Ok(true);
                    }
                }
                Stage::Dollar => {
                    let Some(byte) = bytes.get(self.at) else { return Ok(false) };
                    if *byte != b'$' {
                        return Err(ProtocolError::ExpectedBulk(*byte));
                    }
                    self.at += 1;
                    (self.stage, self.number) = (Stage::Length, Number::default());
                }
                Stage::Length => {
                    let error = ProtocolError::InvalidLength;
                    let Some(length) = self.line(bytes, error)? else { return Ok(false) };
                    let length = usize::try_from(length).map_err(|_| error)?;
                    if length + 2 > MAX_COMMAND.saturating_sub(self.at) {
                        return Err(ProtocolError::TooLong);
                    }
                    self.stage = Stage::Body(length);
                }
                Stage::Body(length) => {
                    let end = self.at + length;
                    let Some(line_end) = bytes.get(end..end + 2) else { return Ok(false) };
                    if line_end != b"\r\n" {
                        return Err(ProtocolError::Unterminated);
                    }
                    self.args.push(self.at, end)?;
                    (self.stage, self.at) = (Stage::Dollar, end + 2);
                    if self.args.len == self.expected {
                        return Ok(true);
                    }
                }
                Stage::Inline => {
                    let Some(offset) = bytes[self.at..].iter().position(|byte| *byte == b'\n') else {
                        self.at = bytes.len();
                        return Ok(false);
                    };
                    let end = self.at + offset;
                    self.at = end + 1;
                    if self.at > MAX_COMMAND {
                        return Err(ProtocolError::TooLong);
                    }
                    super::inline::split(&bytes[..end], |start, end| self.args.push(start, end))?;
                    return Ok(true);
                }
            }
        }
    }

    /// Takes the arguments that are there as a whole and have lengths of one or two digits, which is almost all of
    /// them almost always. Whatever else there is, is left to [`advance`](Parser::advance). True when all are read.
    #[inline]
    fn whole_arguments(&mut self, bytes: &[u8]) -> Result<bool, ProtocolError> {
        let mut at = self.at;
        while self.args.len < self.expected {
            let Some(bulk) = bytes.get(at..).and_then(short_bulk) else { return Ok(false) };
            let (start, end) = (at + bulk.start, at + bulk.end);
            if bytes.get(end..end + 2) != Some(LINE_END) {
                return Ok(false);
            }
            self.args.push(start, end)?;
            at = end + 2;
            self.at = at;
        }
        Ok(true)
    }

    /// The number on the line that is being read, once its end has come.
    #[inline]
    fn line(&mut self, bytes: &[u8], error: ProtocolError) -> Result<Option<i64>, ProtocolError> {
        while let Some(byte) = bytes.get(self.at) {
            self.at += 1;
            match self.number.feed(*byte) {
                Ok(None) => {}
                Ok(Some(value)) => return Ok(Some(value)),
                Err(()) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Where the bytes of the argument lie that is at the beginning of `bytes`, if its length has one or two digits. Its
/// bytes and its end may not have come yet.
#[inline]
pub(super) fn short_bulk(bytes: &[u8]) -> Option<Range<usize>> {
    match bytes {
        [b'$', a @ b'0'..=b'9', b'\r', b'\n', ..] => Some(4..4 + usize::from(a - b'0')),
        [b'$', a @ b'0'..=b'9', b @ b'0'..=b'9', b'\r', b'\n', ..] => {
            Some(5..5 + usize::from(a - b'0') * 10 + usize::from(b - b'0'))
        }
        _ => None,
    }
}

/// What is wrong with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The number after `*` is none, or far too large.
    InvalidCount,
    /// The number after `$` is none, negative, or far too large.
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
    /// A backslash within quotes: an argument is a piece of the buffer, and an escape is none.
    EscapedInline,
    /// Somebody speaks HTTP.
    Http,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProtocolError::InvalidCount => f.write_str("invalid multibulk length"),
            ProtocolError::InvalidLength => f.write_str("invalid bulk length"),
            ProtocolError::ExpectedBulk(byte) => {
                write!(f, "expected '$', got '{}'", byte.escape_ascii())
            }
            ProtocolError::Unterminated => f.write_str("expected CR LF after an argument"),
            ProtocolError::TooManyArguments => write!(f, "more than {MAX_ARGS} arguments"),
            ProtocolError::TooLong => write!(f, "a command of more than {MAX_COMMAND} bytes"),
            ProtocolError::UnbalancedQuotes => f.write_str("unbalanced quotes in request"),
            ProtocolError::EscapedInline => f.write_str("escapes in an inline command; send an array"),
            ProtocolError::Http => f.write_str("this port speaks the Redis protocol, not HTTP"),
        }
    }
}

#[cfg(test)]
mod tests;
