//! Why a trace could not be replayed.

use std::fmt;
use std::io;

use ratekeeper::port::AmountError;

use super::trace::{LineError, TraceFormat};

/// Why a trace could not be replayed.
#[derive(Debug)]
pub struct ReplayError {
    pub(super) trace: String,
    pub(super) failure: ReplayFailure,
}

/// What went wrong, and in which line.
#[derive(Debug)]
pub(super) enum ReplayFailure {
    Unreadable(io::Error),
    Empty,
    Binary { line: u64 },
    Foreign { line: u64, error: LineError, format: Option<TraceFormat>, guess: Option<TraceFormat> },
    Strict { line: u64, error: LineError },
    OutOfOrder { line: u64 },
    TooManyKeys { line: u64 },
    Amounts { line: u64, error: AmountError },
    Output(io::Error),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trace = &self.trace;
        match &self.failure {
            ReplayFailure::Unreadable(error) => write!(f, "{trace}: cannot be read: {error}"),
            ReplayFailure::Empty => {
                write!(f, "{trace}: line 1: the trace is empty; it needs at least one line")
            }
            ReplayFailure::Binary { line } => write!(
                f,
                "{trace}: line {line}: not text; read a compressed log as `zcat FILE | ratekeeper simulate …`"
            ),
            ReplayFailure::Foreign { line, error, guess: Some(guess), .. } => {
                write!(f, "{trace}: line {line}: {error}; it looks like `--format {}`", guess.word())
            }
            ReplayFailure::Foreign { line, error, format: None, guess: None } => {
                write!(f, "{trace}: line {line}: {error}")
            }
            ReplayFailure::Foreign { line, error, format: Some(format), guess: None } => {
                let format = format.word();
                write!(
                    f,
                    "{trace}: line {line}: {error}; no line is in the format `{format}`, leave out --format"
                )
            }
            ReplayFailure::Strict { line, error } => write!(f, "{trace}: line {line}: {error} (--strict)"),
            ReplayFailure::OutOfOrder { line } => {
                write!(
                    f,
                    "{trace}: line {line}: earlier than a line before it; sort the trace, or leave out --strict"
                )
            }
            ReplayFailure::TooManyKeys { line } => {
                write!(f, "{trace}: line {line}: more than 4294967295 keys")
            }
            ReplayFailure::Amounts { line, error: error @ AmountError::Missing { unit, .. } } => {
                write!(f, "{trace}: line {line}: {error}; write `time_seconds key cost {unit}=amount`")
            }
            ReplayFailure::Amounts { line, error } => write!(f, "{trace}: line {line}: {error}"),
            ReplayFailure::Output(error) => write!(f, "standard output: {error}"),
        }
    }
}

impl std::error::Error for ReplayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.failure {
            ReplayFailure::Output(error) => Some(error),
            _ => None,
        }
    }
}
