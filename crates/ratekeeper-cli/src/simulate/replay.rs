//! A trace, line by line, against all policies at once.

use std::fmt;
use std::io;

use ratekeeper::{Cost, Decision, Nanos, Timestamp};

use super::keys::Keys;
use super::lines::{Line, Lines};
use super::peak::Peak;
use super::progress::Progress;
use super::trace::{Entry, Format, LineError, Parser};
use super::{Policy, Source};

/// Lines at the start that may be unreadable before the file is taken for something else.
const PATIENCE: u64 = 1_000;

/// How to replay.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Reads the lines.
    pub parser: Parser,
    /// Whether a line that cannot be read, or is out of order, ends it.
    pub strict: bool,
    /// What is later than this is in the future.
    pub now: Timestamp,
}

/// What is remembered of the trace itself.
#[derive(Debug, Default)]
pub struct Overview {
    /// Requests.
    pub requests: u64,
    /// Who asked.
    pub keys: Keys,
    /// The earliest and the latest time.
    pub span: Option<(Timestamp, Timestamp)>,
    /// Lines that could not be read.
    pub skipped: Option<Skipped>,
    /// Lines that were earlier than one before them: how many, and the first.
    pub out_of_order: Option<(u64, u64)>,
    /// The furthest that such a line went back.
    pub furthest_back: Nanos,
    /// The first line that is in the future.
    pub in_future: Option<u64>,
    pub(super) peak: Peak,
}

/// Lines that could not be read.
#[derive(Clone, Copy, Debug)]
pub struct Skipped {
    /// How many.
    pub lines: u64,
    /// The number of the first of them.
    pub first: u64,
    /// What is wrong with it.
    pub error: LineError,
}

impl Overview {
    /// The most requests in one second, and that second.
    pub fn peak(&self) -> (u64, Timestamp) {
        (self.peak.most, self.peak.at)
    }

    #[inline]
    fn note_time(&mut self, at: Timestamp, line: u64, replay: &Replay) -> Result<(), u64> {
        match &mut self.span {
            Some((_, last)) if at >= *last => *last = at,
            Some((first, last)) => {
                if replay.strict {
                    return Err(line);
                }
                self.furthest_back = self.furthest_back.max(last.since(at));
                *first = (*first).min(at);
                self.out_of_order.get_or_insert((0, line)).0 += 1;
            }
            None => self.span = Some((at, at)),
        }
        if at > replay.now && self.in_future.is_none() {
            self.in_future = Some(line);
        }
        Ok(())
    }
}

impl Replay {
    /// Decides every line by every policy. `each` is told every decision, and by which policy.
    pub fn run(
        &mut self,
        source: &Source,
        policies: &mut [Policy],
        mut each: impl FnMut(&Entry<'_>, &Policy, &Decision) -> io::Result<()>,
    ) -> Result<Overview, SimulateError> {
        let fail = |kind| SimulateError { trace: source.name(), kind };
        let opened = source.open().map_err(|error| fail(Kind::Unreadable(error)))?;
        let mut progress = Progress::new(opened.len());
        let mut lines = Lines::new(opened);
        let mut overview = Overview::default();
        let mut number = 0;
        loop {
            progress.tell(number, lines.read);
            let line = match lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => return Err(fail(Kind::Unreadable(error))),
            };
            number += 1;
            let parsed = match line {
                Line::Text(text) if is_silent(text, self.parser.format()) => continue,
                Line::Text(text) => self.parser.parse(text).map_err(|error| (error, text)),
                Line::TooLong => Err((LineError::LineTooLong, &[][..])),
            };
            let entry = match parsed {
                Ok(entry) => entry,
                Err((error, text)) => {
                    let bad = self.note_bad(&mut overview, number, error, text);
                    bad.map_err(fail)?;
                    continue;
                }
            };
            overview.note_time(entry.at, number, self).map_err(|line| fail(Kind::OutOfOrder { line }))?;
            overview.requests += 1;
            overview.peak.count(entry.at);
            let key = overview
                .keys
                .ask(entry.key, entry.cost)
                .map_err(|_| fail(Kind::TooManyKeys { line: number }))?;
            for policy in &mut *policies {
                let decision = policy.decide(key, Cost::new(entry.cost), entry.at);
                each(&entry, policy, &decision).map_err(|error| fail(Kind::Output(error)))?;
            }
        }
        match (overview.requests, overview.skipped) {
            (0, None) => Err(fail(Kind::Empty)),
            (0, Some(Skipped { first, error, .. })) => {
                Err(fail(Kind::Foreign { line: first, error, format: self.parser.format(), guess: None }))
            }
            _ => Ok(overview),
        }
    }

    /// A line that cannot be read is counted, unless there is reason to give up.
    #[cold]
    fn note_bad(
        &self,
        overview: &mut Overview,
        line: u64,
        error: LineError,
        text: &[u8],
    ) -> Result<(), Kind> {
        let format = self.parser.format();
        if overview.requests == 0 {
            if is_binary(text) {
                return Err(Kind::Binary { line });
            }
            // The first line of all: a header perhaps, but if it is another format's, so are the others.
            let guess = Parser::guess(text);
            if overview.skipped.is_none() && guess.is_some() {
                return Err(Kind::Foreign { line, error, format, guess });
            }
        }
        if self.strict {
            return Err(Kind::Strict { line, error });
        }
        let skipped = overview.skipped.get_or_insert(Skipped { lines: 0, first: line, error });
        skipped.lines += 1;
        if overview.requests == 0 && skipped.lines >= PATIENCE {
            let Skipped { first, error, .. } = *skipped;
            return Err(Kind::Foreign { line: first, error, format, guess: None });
        }
        Ok(())
    }
}

/// Blank lines, and comments where no line could begin like that.
fn is_silent(line: &[u8], format: Format) -> bool {
    match line {
        [] => true,
        [b'#', ..] => format == Format::Plain,
        [first, ..] => first.is_ascii_whitespace() && line.trim_ascii().is_empty(),
    }
}

fn is_binary(line: &[u8]) -> bool {
    const MAGIC: [&[u8]; 3] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh"];
    memchr::memchr(0, line).is_some() || MAGIC.iter().any(|magic| line.starts_with(magic))
}

/// `retry_after` as a number: rounded up to a millisecond, 0 when allowed, −1 for never.
pub fn retry_after_ms(decision: &Decision) -> i64 {
    decision.retry_after.map_or(-1, |wait| i64::try_from(wait.ceil_millis()).unwrap_or(i64::MAX))
}

/// Why a trace could not be replayed.
#[derive(Debug)]
pub struct SimulateError {
    trace: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Unreadable(io::Error),
    Empty,
    Binary { line: u64 },
    Foreign { line: u64, error: LineError, format: Format, guess: Option<Format> },
    Strict { line: u64, error: LineError },
    OutOfOrder { line: u64 },
    TooManyKeys { line: u64 },
    Output(io::Error),
}

impl fmt::Display for SimulateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trace = &self.trace;
        match &self.kind {
            Kind::Unreadable(error) => write!(f, "{trace}: cannot be read: {error}"),
            Kind::Empty => write!(f, "{trace}: line 1: nothing there; a trace has at least one line"),
            Kind::Binary { line } => write!(
                f,
                "{trace}: line {line}: this is no text; a compressed log is read as `zcat FILE | ratekeeper simulate …`"
            ),
            Kind::Foreign { line, error, guess: Some(guess), .. } => {
                write!(f, "{trace}: line {line}: {error}; it looks like `--format {}`", guess.word())
            }
            Kind::Foreign { line, error, format, guess: None } => {
                let format = format.word();
                write!(
                    f,
                    "{trace}: line {line}: {error}; no line is in the format `{format}` (--format plain, common or combined)"
                )
            }
            Kind::Strict { line, error } => write!(f, "{trace}: line {line}: {error} (--strict)"),
            Kind::OutOfOrder { line } => {
                write!(
                    f,
                    "{trace}: line {line}: earlier than a line before it; sort the trace, or leave out --strict"
                )
            }
            Kind::TooManyKeys { line } => write!(f, "{trace}: line {line}: more than 4294967295 keys"),
            Kind::Output(error) => write!(f, "standard output: {error}"),
        }
    }
}

impl std::error::Error for SimulateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            Kind::Output(error) => Some(error),
            _ => None,
        }
    }
}
