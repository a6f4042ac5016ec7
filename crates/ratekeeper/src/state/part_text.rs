//! One part as text, and several by position.

use std::fmt::Write;

use super::error::{StateError, StateErrorKind};
use super::float;
use super::part::{NamedWindow, NamedWindows, RecordPart};
use super::record::Record;
use super::storable::{self, BadEntry, LogReader};
use crate::algorithm::gcra::GcraState;
use crate::algorithm::leaky_bucket::LeakyBucketState;
use crate::algorithm::sliding_log::SlidingLogState;
use crate::algorithm::sliding_window::SlidingWindowState;
use crate::algorithm::token_bucket::TokenBucketState;
use crate::quote::quote;
use crate::{Name, Timestamp};

/// The longest text that is decoded: 16 MiB, a log of 400,000 entries at their longest. Everything but a log is
/// shorter than 2 KiB.
pub const MAX_LEN: usize = 16 << 20;

/// Appends one part as text.
pub(super) fn write_part(out: &mut String, part: &RecordPart) {
    // Writing to a string cannot fail.
    let _ = match part {
        RecordPart::TokenBucket(state) => write_level(out, "12|", storable::tokens(state.tokens), state.last),
        RecordPart::LeakyBucket(state) => write_level(out, "32|", storable::level(state.level), state.last),
        RecordPart::Gcra(state) => write!(out, "42|{}", state.tat.as_nanos()),
        RecordPart::SlidingWindow(SlidingWindowState { previous, current, start }) => {
            let (previous, current) = (storable::count(*previous), storable::count(*current));
            write!(out, "61|{previous}|{current}|{}", start.as_nanos())
        }
        RecordPart::FixedWindows(windows) => write!(out, "23|{}", windows.as_slice().len()).and_then(|()| {
            windows.as_slice().iter().try_for_each(|NamedWindow { name, count, start }| {
                write!(out, "|{name}|{}|{}", storable::count(*count), start.as_nanos())
            })
        }),
        RecordPart::SlidingLog(log) => write!(out, "71|{}", storable::entries(log).count()).and_then(|()| {
            storable::entries(log).try_for_each(|(at, cost)| write!(out, "|{}|{cost}", at.as_nanos()))
        }),
    };
}

fn write_level(out: &mut String, header: &str, level: f64, last: Timestamp) -> std::fmt::Result {
    out.push_str(header);
    float::write(out, level);
    write!(out, "|{}", last.as_nanos())
}

/// Reads parts by position: one, or a composite. Does not recurse.
pub(super) fn decode_parts(text: &str) -> Result<Record, StateError> {
    let Some(mut rest) = text.strip_prefix("51|") else { return Ok(read_part(text)?.into()) };
    let mut parts = Vec::new();
    loop {
        let number = parts.len() + 1;
        let in_part = |error: StateError| error.in_part(number);
        let composite = |remedy| in_part(StateError::wrong("composite", rest.as_bytes(), remedy));
        if number == Record::MAX_PARTS {
            return Err(composite("at most 16 parts are read"));
        }
        let (primary, secondary) =
            rest.split_once('$').ok_or_else(|| composite("two parts with a `$` between them"))?;
        parts.push(read_part(primary).map_err(in_part)?);
        match secondary.strip_prefix("51|") {
            Some(nested) => rest = nested,
            None => {
                parts.push(read_part(secondary).map_err(|error| error.in_part(number + 1))?);
                return Record::new(parts);
            }
        }
    }
}

/// Returns the bytes as text, if they are not too many. Only names and numbers follow a header, so whatever is not ASCII is
/// refused in its field.
pub(super) fn text_of(bytes: &[u8]) -> Result<&str, StateError> {
    if bytes.len() > MAX_LEN {
        return Err(too_long(bytes.len()));
    }
    str::from_utf8(bytes).map_err(|_| StateError::wrong("state", bytes, "ASCII text"))
}

/// Returns the error of more bytes than are read.
pub(super) fn too_long(bytes: usize) -> StateError {
    let found = format!("{bytes} bytes");
    StateError::new(StateErrorKind::TooLong, "state", found, "at most 16 MiB are read")
}

/// Returns a text as a name.
pub(super) fn name_of(text: &str) -> Result<Name, StateError> {
    Name::new(text).map_err(|_| StateError::wrong("name", text.as_bytes(), Name::REMEDY))
}

/// Reads one part: a header of strategy and version, then the fields of that strategy and no others.
pub(super) fn read_part(text: &str) -> Result<RecordPart, StateError> {
    let (header, rest) = match text.split_once('|') {
        Some((header, rest)) => (header, Some(rest)),
        None => (text, None),
    };
    let mut fields = PartFields { rest };
    let mut characters = header.chars();
    let (strategy, version) = (characters.next(), characters.as_str());
    let expect = |known: &'static str, remedy: &'static str| {
        if version == known {
            return Ok(());
        }
        Err(StateError::new(StateErrorKind::UnknownVersion, "version", quote(version.as_bytes()), remedy))
    };
    let part = match strategy {
        Some('1') => {
            expect("2", "a token bucket is read in version 2")?;
            let (tokens, last) = (fields.double("tokens")?, fields.instant("last")?);
            RecordPart::TokenBucket(TokenBucketState { tokens, last })
        }
        Some('2') => {
            expect("3", "fixed windows are read in version 3")?;
            RecordPart::FixedWindows(fields.windows()?)
        }
        Some('3') => {
            expect("2", "a leaky bucket is read in version 2")?;
            let (level, last) = (fields.double("level")?, fields.instant("last")?);
            RecordPart::LeakyBucket(LeakyBucketState { level, last })
        }
        Some('4') => {
            expect("2", "GCRA is read in version 2")?;
            RecordPart::Gcra(GcraState { tat: fields.instant("tat")? })
        }
        Some('5') => {
            expect("1", "a composite is read in version 1")?;
            let remedy = "two parts with a `$` between them, the first of which is no composite";
            return Err(StateError::wrong("composite", text.as_bytes(), remedy));
        }
        Some('8') => {
            expect("1", "states by name are read in version 1")?;
            return Err(StateError::wrong("rules", text.as_bytes(), "states by name stand alone"));
        }
        Some('6') => {
            expect("1", "a sliding window is read in version 1")?;
            let (previous, current) = (fields.count("previous")?, fields.count("current")?);
            RecordPart::SlidingWindow(SlidingWindowState {
                previous,
                current,
                start: fields.instant("start")?,
            })
        }
        Some('7') => {
            expect("1", "a log is read in version 1")?;
            RecordPart::SlidingLog(fields.log()?)
        }
        _ => {
            let remedy = "state begins with a strategy, 1 to 8, and a version, such as `12`";
            let kind = StateErrorKind::UnknownStrategy;
            return Err(StateError::new(kind, "strategy", quote(header.as_bytes()), remedy));
        }
    };
    fields.end()?;
    Ok(part)
}

/// The fields after a header, one at a time.
struct PartFields<'a> {
    rest: Option<&'a str>,
}

impl<'a> PartFields<'a> {
    fn next(&mut self, field: &'static str, remedy: &'static str) -> Result<&'a str, StateError> {
        let rest = self.rest.ok_or_else(|| StateError::missing(field, remedy))?;
        let (found, rest) = match rest.split_once('|') {
            Some((found, rest)) => (found, Some(rest)),
            None => (rest, None),
        };
        self.rest = rest;
        Ok(found)
    }

    fn end(&self) -> Result<(), StateError> {
        match self.rest {
            None => Ok(()),
            Some(rest) => Err(StateError::wrong("state", rest.as_bytes(), "nothing follows the last field")),
        }
    }

    fn double(&mut self, field: &'static str) -> Result<f64, StateError> {
        let remedy = "a finite number in decimal notation";
        let text = self.next(field, remedy)?;
        float::parse(text).ok_or_else(|| StateError::wrong(field, text.as_bytes(), remedy))
    }

    fn instant(&mut self, field: &'static str) -> Result<Timestamp, StateError> {
        let remedy = "nanoseconds since the epoch, an integer of 64 bits";
        let text = self.next(field, remedy)?;
        let nanos = text.parse().map_err(|_| StateError::wrong(field, text.as_bytes(), remedy))?;
        Ok(Timestamp::from_nanos(nanos))
    }

    fn count(&mut self, field: &'static str) -> Result<u64, StateError> {
        let remedy = "a whole number from 0 to 2^63 - 1";
        let text = self.next(field, remedy)?;
        let count: Option<i64> = text.parse().ok();
        let count = count.and_then(|count| u64::try_from(count).ok());
        count.ok_or_else(|| StateError::wrong(field, text.as_bytes(), remedy))
    }

    fn windows(&mut self) -> Result<NamedWindows, StateError> {
        let remedy = "one digit, 1 to 8, says how many windows follow";
        let windows = match self.next("windows", remedy)?.as_bytes() {
            [digit @ b'1'..=b'8'] => usize::from(digit - b'0'),
            other => return Err(StateError::wrong("windows", other, remedy)),
        };
        let windows = (0..windows).map(|_| {
            let name = name_of(self.next("name", Name::REMEDY)?)?;
            Ok(NamedWindow { name, count: self.count("count")?, start: self.instant("start")? })
        });
        let windows = NamedWindows::new(windows.collect::<Result<_, StateError>>()?);
        windows.map_err(|error| error.of_kind(StateErrorKind::Field))
    }

    fn log(&mut self) -> Result<SlidingLogState, StateError> {
        let mut log = LogReader::default();
        // Nothing is reserved for entries that are only announced.
        for _ in 0..self.count("entries")? {
            let (at, cost) = (self.instant("entry")?, self.count("cost")?);
            log.push(at, cost).map_err(|bad| match bad {
                BadEntry::Descends => {
                    let at = at.as_nanos().to_string();
                    StateError::wrong("entry", at.as_bytes(), "instants do not descend")
                }
                BadEntry::Cost => {
                    let remedy = "at least 1, and all costs together at most 2^63 - 1";
                    StateError::wrong("cost", cost.to_string().as_bytes(), remedy)
                }
            })?;
        }
        Ok(log.finish())
    }
}
