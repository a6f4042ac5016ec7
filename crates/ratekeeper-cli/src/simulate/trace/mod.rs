//! Lines to entries: who asked, when, for how much.

mod access;
mod date;
mod plain;
#[cfg(test)]
mod reference;

use std::fmt;

use ratekeeper::{Key, Timestamp};

/// What the lines of a trace look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// `time_seconds [key [cost]]`.
    #[default]
    Plain,
    /// The common log format of web servers.
    Common,
    /// The combined one: the same, with referer and user agent.
    Combined,
}

impl Format {
    /// All of them, for guesses.
    const ALL: [Format; 3] = [Format::Combined, Format::Common, Format::Plain];

    /// The word for it on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Format::Plain => "plain",
            Format::Common => "common",
            Format::Combined => "combined",
        }
    }
}

/// Which part of an access log's line is the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// The client's address or name, the first field.
    #[default]
    Client,
    /// The user who was authenticated.
    User,
    /// The path of the request, without its query.
    Path,
    /// Nothing: all share one limit.
    All,
}

/// What one line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// When.
    pub at: Timestamp,
    /// Who; empty is nobody in particular.
    pub key: &'a [u8],
    /// For how much.
    pub cost: u64,
}

/// Reads lines of one format.
#[derive(Clone, Debug)]
pub struct Parser {
    format: Format,
    by: By,
    dates: date::Dates,
}

impl Parser {
    /// A parser of this format. `by` matters to access logs alone.
    pub fn new(format: Format, by: By) -> Self {
        Parser { format, by, dates: date::Dates::default() }
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What a line says.
    #[inline]
    pub fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Entry<'a>, LineError> {
        let entry = match self.format {
            Format::Plain => plain::parse(line, self.by)?,
            Format::Common => access::parse(line, self.by, &mut self.dates, false)?,
            Format::Combined => access::parse(line, self.by, &mut self.dates, true)?,
        };
        if entry.key.len() > Key::MAX_LEN {
            return Err(LineError::KeyTooLong);
        }
        Ok(entry)
    }

    /// Another format that the line could be in.
    pub fn guess(line: &[u8]) -> Option<Format> {
        Format::ALL.into_iter().find(|format| Parser::new(*format, By::Client).parse(line).is_ok())
    }
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineError {
    /// The first word of a plain line is no time.
    Time,
    /// The third word of a plain line is no cost.
    Cost,
    /// A plain line has more than three words.
    Surplus,
    /// No `[10/Oct/2000:13:55:36 -0700]` where it should be.
    Date,
    /// No client, identity and user before the date.
    Client,
    /// No `"GET / HTTP/1.1" 200 512` after the date.
    Request,
    /// No `"referer" "user agent"` at the end.
    Combined,
    /// A time before 1677 or after 2262.
    Range,
    /// A key that the engine would refuse.
    KeyTooLong,
    /// A line of more than a mebibyte.
    LineTooLong,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LineError::Time => "no time in seconds at the start; write `time_seconds [key [cost]]`",
            LineError::Cost => "the cost is no whole number; write `time_seconds [key [cost]]`",
            LineError::Surplus => "more than three words; write `time_seconds [key [cost]]`",
            LineError::Date => "no date such as [10/Oct/2000:13:55:36 -0700]",
            LineError::Client => "no client, identity and user before the date",
            LineError::Request => "no \"request\", status and size after the date",
            LineError::Combined => "no \"referer\" and \"user agent\" at the end",
            LineError::Range => "a time that is not between the years 1677 and 2262",
            LineError::KeyTooLong => "a key of more than 1024 bytes",
            LineError::LineTooLong => "a line of more than 1 MiB",
        })
    }
}

impl std::error::Error for LineError {}
