//! A trace, line by line, against all policies at once.

use std::collections::BTreeSet;
use std::io::{self, Read};

use ratekeeper::port::AmountError;
use ratekeeper::{Decision, Timestamp};

use super::lines::{LineReader, TraceLine};
use super::overview::{SkippedLines, TraceOverview};
use super::policy::SimulatedPolicy;
use super::progress::ReplayProgress;
use super::replay_error::{ReplayError, ReplayFailure};
use super::source::TraceSource;
use super::trace::{LineError, TraceEntry, TraceFormat, TraceParser};

/// Lines at the start that may be unreadable before the file is taken for something else.
const PATIENCE: u64 = 1_000;

/// Replays traces against policies, in the time that the trace tells.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The parser of the lines.
    pub parser: TraceParser,
    /// Whether to stop at a line that cannot be read or is out of order.
    pub strict: bool,
    /// The present: what is later is reported as being in the future.
    pub now: Timestamp,
    /// Whether a unit that no policy counts is a mistake. Not if other policies have been asked before, which may count it.
    pub checks_units: bool,
}

impl Replay {
    /// Decides every line by every policy, and calls `each` with every decision and the policy that made it.
    ///
    /// Reads the trace once, in blocks of a mebibyte. Memory grows with the keys, not with the lines.
    ///
    /// # Errors
    ///
    /// The trace cannot be read, has no request, or has a line that `strict` forbids; or `each` fails.
    pub fn run(
        &mut self,
        source: &TraceSource,
        policies: &mut [SimulatedPolicy],
        each: impl FnMut(&TraceEntry<'_>, &SimulatedPolicy, &Decision) -> io::Result<()>,
    ) -> Result<TraceOverview, ReplayError> {
        let fail = |failure| ReplayError { trace: source.name(), failure };
        let opened = source.open().map_err(|error| fail(ReplayFailure::Unreadable(error)))?;
        let progress = ReplayProgress::new(opened.len());
        self.run_lines(LineReader::new(opened), progress, policies, each).map_err(fail)
    }

    /// Decides every line of an opened trace.
    pub(super) fn run_lines(
        &mut self,
        mut lines: LineReader<impl Read>,
        mut progress: ReplayProgress,
        policies: &mut [SimulatedPolicy],
        mut each: impl FnMut(&TraceEntry<'_>, &SimulatedPolicy, &Decision) -> io::Result<()>,
    ) -> Result<TraceOverview, ReplayFailure> {
        let mut overview = TraceOverview::default();
        let mut number = 0;
        loop {
            progress.tell(number, lines.read);
            let line = match lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => return Err(ReplayFailure::Unreadable(error)),
            };
            number += 1;
            let parsed = match line {
                TraceLine::Text(text) if is_silent(text, self.parser.format()) => continue,
                TraceLine::Text(text) => self.parser.parse(text).map_err(|error| (error, text)),
                TraceLine::TooLong => Err((LineError::LineTooLong, &[][..])),
            };
            let entry = match parsed {
                Ok(entry) => entry,
                Err((error, text)) => {
                    let bad = self.note_bad(&mut overview, number, error, text);
                    bad?;
                    continue;
                }
            };
            let noted = overview.note_time(entry.at, number, self.strict, self.now);
            noted.map_err(|line| ReplayFailure::OutOfOrder { line })?;
            overview.note_record(&entry);
            // What a server has accepted is not misspelt.
            if self.checks_units && !entry.units.is_empty() && entry.was_allowed.is_none() {
                check_units(&entry, policies)
                    .map_err(|error| ReplayFailure::Amounts { line: number, error })?;
            }
            overview.requests += 1;
            overview.peak.count(entry.at);
            let key = overview
                .keys
                .ask(entry.key, entry.cost)
                .map_err(|_| ReplayFailure::TooManyKeys { line: number })?;
            for policy in policies.iter_mut().filter(|policy| policy.concerns(&entry)) {
                let decision = match policy.decide(key, &entry) {
                    Ok(decision) => decision,
                    // What a server has accepted is not wrong: it was asked for something that this policy does not count.
                    Err(_) if entry.was_allowed.is_some() => continue,
                    Err(error) => return Err(ReplayFailure::Amounts { line: number, error }),
                };
                each(&entry, policy, &decision).map_err(ReplayFailure::Output)?;
            }
        }
        match (overview.requests, overview.skipped) {
            (0, None) => Err(ReplayFailure::Empty),
            (0, Some(SkippedLines { first, error, .. })) => {
                Err(ReplayFailure::Foreign { line: first, error, format: self.parser.format(), guess: None })
            }
            _ => Ok(overview),
        }
    }

    /// A line that cannot be read is counted, unless there is reason to give up.
    #[cold]
    fn note_bad(
        &self,
        overview: &mut TraceOverview,
        line: u64,
        error: LineError,
        text: &[u8],
    ) -> Result<(), ReplayFailure> {
        let format = self.parser.format();
        if overview.requests == 0 {
            if is_binary(text) {
                return Err(ReplayFailure::Binary { line });
            }
            // The first line of all: a header perhaps, but if it is another format's, so are the others.
            let guess = TraceParser::guess(text);
            if overview.skipped.is_none() && guess.is_some() {
                return Err(ReplayFailure::Foreign { line, error, format, guess });
            }
        }
        if self.strict {
            return Err(ReplayFailure::Strict { line, error });
        }
        let skipped = overview.skipped.get_or_insert(SkippedLines { lines: 0, first: line, error });
        skipped.lines += 1;
        if overview.requests == 0 && skipped.lines >= PATIENCE {
            let SkippedLines { first, error, .. } = *skipped;
            return Err(ReplayFailure::Foreign { line: first, error, format, guess: None });
        }
        Ok(())
    }
}

/// Refuses a unit that no policy counts: it is misspelt, or nobody is asked for it.
fn check_units(entry: &TraceEntry<'_>, policies: &[SimulatedPolicy]) -> Result<(), AmountError> {
    let is_counted = |unit: &str| policies.iter().flat_map(SimulatedPolicy::units).any(|known| known == unit);
    let Some((unit, _)) = entry.units.iter().find(|(unit, _)| !is_counted(unit)) else { return Ok(()) };
    let counted: BTreeSet<&str> = policies.iter().flat_map(SimulatedPolicy::units).collect();
    let counted = counted.into_iter().map(str::to_owned).collect();
    Err(AmountError::Uncounted { unit: unit.to_owned(), counted })
}

/// Blank lines, and comments where no line could begin like that.
fn is_silent(line: &[u8], format: Option<TraceFormat>) -> bool {
    match line {
        [] => true,
        [b'#', ..] => !matches!(format, Some(TraceFormat::Common | TraceFormat::Combined)),
        [first, ..] => first.is_ascii_whitespace() && line.trim_ascii().is_empty(),
    }
}

fn is_binary(line: &[u8]) -> bool {
    const MAGIC: [&[u8]; 3] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh"];
    memchr::memchr(0, line).is_some() || MAGIC.iter().any(|magic| line.starts_with(magic))
}
