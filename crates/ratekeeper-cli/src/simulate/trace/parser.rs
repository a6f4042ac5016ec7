//! A line to an entry.

use ratekeeper::Key;

use super::date::DateReader;
use super::entry::TraceEntry;
use super::format::{KeyField, TraceFormat};
use super::line_error::LineError;
use super::{access, plain};

/// Reads lines of one format.
#[derive(Clone, Debug)]
pub struct TraceParser {
    format: TraceFormat,
    by: KeyField,
    dates: DateReader,
}

impl TraceParser {
    /// Returns a parser of this format. A plain line has a key of its own, so for it `by` only says whether it is used.
    pub fn new(format: TraceFormat, by: KeyField) -> Self {
        TraceParser { format, by, dates: DateReader::default() }
    }

    /// Returns the format that lines are read in.
    pub fn format(&self) -> TraceFormat {
        self.format
    }

    /// Reads a line. Does not allocate.
    ///
    /// # Errors
    ///
    /// The line is not in this format, or tells a time or a key that the engine does not know.
    #[inline]
    pub fn parse<'a>(&mut self, line: &'a [u8]) -> Result<TraceEntry<'a>, LineError> {
        let entry = match self.format {
            TraceFormat::Plain => plain::parse(line, self.by)?,
            TraceFormat::Common => access::parse(line, self.by, &mut self.dates, false)?,
            TraceFormat::Combined => access::parse(line, self.by, &mut self.dates, true)?,
        };
        if entry.key.len() > Key::MAX_LEN {
            return Err(LineError::KeyTooLong);
        }
        Ok(entry)
    }

    /// Returns a format that the line could be in.
    pub fn guess(line: &[u8]) -> Option<TraceFormat> {
        let reads = |format: &TraceFormat| TraceParser::new(*format, KeyField::Client).parse(line).is_ok();
        TraceFormat::ALL.into_iter().find(reads)
    }
}
