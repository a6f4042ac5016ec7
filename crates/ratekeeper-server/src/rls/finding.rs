//! What is wrong, or strange, in a configuration.

use std::fmt;
use std::sync::Arc;

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
        RlsFinding { file: Arc::clone(file), line, message: in_one_line(message.into()) }
    }
}

/// The longest message, in characters: it may quote whatever a file has.
const MOST: usize = 400;

/// Returns a message without what would break a line of a log, and without the end of one that is too long.
fn in_one_line(message: String) -> String {
    let is_longer = message.len() > MOST && message.chars().nth(MOST).is_some();
    if !is_longer && !message.contains(char::is_control) {
        return message;
    }
    let letters =
        message.chars().take(MOST).map(|letter| if letter.is_control() { '\u{fffd}' } else { letter });
    let end = if is_longer { "…" } else { "" };
    letters.chain(end.chars()).collect()
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
