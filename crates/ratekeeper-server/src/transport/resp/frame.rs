//! Bytes to commands: the request half of the Redis protocol.
//!
//! A server receives only arrays of bulk strings, or inline commands, so nothing else is parsed. Nothing is copied: a
//! command is a list of ranges of the connection's buffer. What was parsed of an unfinished command is kept, so that no
//! byte is looked at twice however slowly they arrive. Nothing is allocated, so that no declared length can make it.

use std::ops::Range;

use super::framing_error::{FramingError, MAX_ARGS, MAX_COMMAND};
use super::number::NumberLine;

/// What ends every line and every argument.
pub(super) const LINE_END: &[u8] = b"\r\n";

/// A command that is being read. Positions count from its first byte.
#[derive(Debug, Default)]
pub(super) struct CommandParser {
    stage: FrameStage,
    /// The next byte to look at.
    at: usize,
    number: NumberLine,
    expected: usize,
    args: CommandArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FrameStage {
    /// Before the first byte.
    #[default]
    Start,
    /// Between `*` and the end of its line.
    Count,
    /// Where a `$` must be.
    Dollar,
    /// Between `$` and the end of its line.
    Length,
    /// Within an argument of this many bytes, or its line end.
    Body(usize),
    /// Within an inline command.
    Inline,
}

/// What the bytes so far are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameStep {
    /// A command of this many bytes; its arguments are in [`CommandParser::args`] until the next call. A command without
    /// arguments is skipped and not answered.
    Command(usize),
    /// The command goes on in bytes that have not come yet.
    Incomplete,
    /// The bytes are not the Redis protocol. Where the next command begins is not known.
    Malformed(FramingError),
}

/// Where the arguments of a command lie, counted from its first byte.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandArgs {
    ranges: [(u32, u32); MAX_ARGS],
    len: usize,
}

impl CommandArgs {
    /// Returns how many arguments there are, the command's name included.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns true for a command that is to be skipped.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns where an argument lies in a buffer in which the command starts at `base`.
    #[inline]
    pub(super) fn range(&self, index: usize, base: usize) -> Range<usize> {
        let (start, end) = self.ranges[index];
        base + start as usize..base + end as usize
    }

    #[inline]
    fn push(&mut self, start: usize, end: usize) -> Result<(), FramingError> {
        // Positions are within a command, so they fit.
        let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(end)) else {
            return Err(FramingError::TooLong);
        };
        let slot = self.ranges.get_mut(self.len).ok_or(FramingError::TooManyArguments)?;
        *slot = (start, end);
        self.len += 1;
        Ok(())
    }
}

impl CommandParser {
    /// Returns the arguments of the command that was found last.
    pub(super) fn args(&self) -> &CommandArgs {
        &self.args
    }

    /// Returns true within a command: some of its bytes were parsed, and more must come.
    pub(super) fn is_midway(&self) -> bool {
        self.at > 0
    }

    /// Continues with a command whose first byte is `bytes[0]`. What was there at the last call must still be there.
    #[inline]
    pub(super) fn step(&mut self, bytes: &[u8]) -> FrameStep {
        match self.advance(bytes) {
            Ok(true) => {
                let len = self.at;
                (self.stage, self.at) = (FrameStage::Start, 0);
                FrameStep::Command(len)
            }
            // Checked last: a command that is complete was within bounds.
            Ok(false) if bytes.len() >= MAX_COMMAND => FrameStep::Malformed(FramingError::TooLong),
            Ok(false) => FrameStep::Incomplete,
            Err(error) => FrameStep::Malformed(error),
        }
    }

    /// Returns true when the command is complete.
    fn advance(&mut self, bytes: &[u8]) -> Result<bool, FramingError> {
        loop {
            match self.stage {
                FrameStage::Start => {
                    let Some(first) = bytes.first() else { return Ok(false) };
                    self.args.len = 0;
                    if *first == b'*' {
                        (self.stage, self.at, self.number) = (FrameStage::Count, 1, NumberLine::default());
                    } else {
                        self.stage = FrameStage::Inline;
                    }
                }
                FrameStage::Count => {
                    let error = FramingError::InvalidCount;
                    let Some(count) = self.line(bytes, error)? else { return Ok(false) };
                    // Redis skips an array of nothing or less.
                    let Ok(count) = usize::try_from(count) else { return Ok(true) };
                    if count > MAX_ARGS {
                        return Err(FramingError::TooManyArguments);
                    }
                    if count == 0 {
                        return Ok(true);
                    }
                    (self.stage, self.expected) = (FrameStage::Dollar, count);
                    if self.whole_arguments(bytes)? {
                        return Ok(true);
                    }
                }
                FrameStage::Dollar => {
                    let Some(byte) = bytes.get(self.at) else { return Ok(false) };
                    if *byte != b'$' {
                        return Err(FramingError::ExpectedBulk(*byte));
                    }
                    self.at += 1;
                    (self.stage, self.number) = (FrameStage::Length, NumberLine::default());
                }
                FrameStage::Length => {
                    let error = FramingError::InvalidLength;
                    let Some(length) = self.line(bytes, error)? else { return Ok(false) };
                    let length = usize::try_from(length).map_err(|_| error)?;
                    if length + 2 > MAX_COMMAND.saturating_sub(self.at) {
                        return Err(FramingError::TooLong);
                    }
                    self.stage = FrameStage::Body(length);
                }
                FrameStage::Body(length) => {
                    let end = self.at + length;
                    let Some(line_end) = bytes.get(end..end + 2) else { return Ok(false) };
                    if line_end != b"\r\n" {
                        return Err(FramingError::Unterminated);
                    }
                    self.args.push(self.at, end)?;
                    (self.stage, self.at) = (FrameStage::Dollar, end + 2);
                    if self.args.len == self.expected {
                        return Ok(true);
                    }
                }
                FrameStage::Inline => {
                    let Some(offset) = bytes[self.at..].iter().position(|byte| *byte == b'\n') else {
                        self.at = bytes.len();
                        return Ok(false);
                    };
                    let end = self.at + offset;
                    self.at = end + 1;
                    if self.at > MAX_COMMAND {
                        return Err(FramingError::TooLong);
                    }
                    super::inline::split(&bytes[..end], |start, end| self.args.push(start, end))?;
                    return Ok(true);
                }
            }
        }
    }

    /// Takes arguments that are complete and have lengths of one or two digits: almost all, almost always. The others are
    /// left to [`advance`](CommandParser::advance). Returns true when all are read.
    #[inline]
    fn whole_arguments(&mut self, bytes: &[u8]) -> Result<bool, FramingError> {
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

    /// Returns the number on the line that is being read, once its end has come.
    #[inline]
    fn line(&mut self, bytes: &[u8], error: FramingError) -> Result<Option<i64>, FramingError> {
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

/// Returns where the argument at the beginning of `bytes` lies, if its length has one or two digits. Its bytes and its
/// end may not have come yet.
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

#[cfg(test)]
mod tests;
