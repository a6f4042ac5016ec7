//! A line to an entry.

use ratekeeper::Key;

use super::date::DateReader;
use super::entry::TraceEntry;
use super::format::{KeyField, TraceFormat};
use super::line_error::LineError;
use super::{access, plain, recorded};

/// Reads lines of one format, which it may find out by itself.
#[derive(Clone, Debug)]
pub struct TraceParser {
    /// None until it is found out.
    format: Option<TraceFormat>,
    by: KeyField,
    dates: DateReader,
    /// The last recorded key that was not written as it is.
    decoded: Vec<u8>,
}

impl TraceParser {
    /// Returns a parser of this format. A plain line has a key of its own, so for it `by` only says whether it is used; so has
    /// a recorded one.
    pub fn new(format: TraceFormat, by: KeyField) -> Self {
        TraceParser { format: Some(format), by, dates: DateReader::default(), decoded: Vec::new() }
    }

    /// Returns a parser of the format that the first line has which is in any.
    pub fn finding_out(by: KeyField) -> Self {
        TraceParser { format: None, by, dates: DateReader::default(), decoded: Vec::new() }
    }

    /// Returns the format that lines are read in; none if that is not known yet.
    pub fn format(&self) -> Option<TraceFormat> {
        self.format
    }

    /// Reads a line. Does not allocate, but for a recorded key with blanks or the like in it.
    ///
    /// # Errors
    ///
    /// The line is not in this format, or tells a time or a key that the engine does not know.
    #[inline]
    pub fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<TraceEntry<'a>, LineError> {
        let format = match self.format {
            Some(format) => format,
            None => self.find_out(line)?,
        };
        let mut entry = match format {
            TraceFormat::Plain => plain::parse(line, self.by)?,
            TraceFormat::Common => access::parse(line, self.by, &mut self.dates, false)?,
            TraceFormat::Combined => access::parse(line, self.by, &mut self.dates, true)?,
            TraceFormat::Recorded => recorded::parse(line, self.by)?,
        };
        if format == TraceFormat::Recorded && entry.key.contains(&b'%') {
            recorded::decode(entry.key, &mut self.decoded);
            entry.key = &self.decoded;
        }
        if entry.key.len() > Key::MAX_LEN {
            return Err(LineError::KeyTooLong);
        }
        Ok(entry)
    }

    #[cold]
    fn find_out(&mut self, line: &[u8]) -> Result<TraceFormat, LineError> {
        self.format = TraceParser::guess(line);
        // A line that begins like a plain one has a mistake that can be named.
        let mistake = || match TraceParser::new(TraceFormat::Plain, self.by).parse(line) {
            Ok(_) | Err(LineError::Time) => LineError::Unknown,
            Err(error) => error,
        };
        self.format.ok_or_else(mistake)
    }

    /// Returns a format that the line could be in.
    pub fn guess(line: &[u8]) -> Option<TraceFormat> {
        let reads = |format: &TraceFormat| TraceParser::new(*format, KeyField::Client).parse(line).is_ok();
        TraceFormat::ALL.into_iter().find(reads)
    }
}
