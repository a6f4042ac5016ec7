//! What is wrong, or strange, in a configuration.

use std::fmt;
use std::sync::Arc;

use crate::one_line::{MOST_TOLD, one_line};

/// A mistake or a warning, and where it is: `edge.yaml:7: invalid rate limit unit 'foo'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RlsFinding {
    /// The name of the file, or of whatever the configuration came from.
    pub file: Arc<str>,
    /// The line, from 1; none if it came without lines, or if the whole of it is meant.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl RlsFinding {
    pub(in crate::rls) fn new(file: &Arc<str>, line: Option<usize>, message: impl Into<String>) -> Self {
        RlsFinding { file: Arc::clone(file), line, message: one_line(message.into(), MOST_TOLD) }
    }
}

impl fmt::Display for RlsFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Why a configuration is refused, and what else is strange in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RlsRefusal {
    /// What is wrong: at least one, in the order of files and lines.
    pub mistakes: Vec<RlsFinding>,
    /// What may not be meant.
    pub warnings: Vec<RlsFinding>,
}

impl fmt::Display for RlsRefusal {
    /// Writes the first mistake, and how many more there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.mistakes {
            [] => f.write_str("the configuration is refused"),
            [only] => only.fmt(f),
            [first, more @ ..] => write!(f, "{first} (and {} more)", more.len()),
        }
    }
}

impl std::error::Error for RlsRefusal {}
