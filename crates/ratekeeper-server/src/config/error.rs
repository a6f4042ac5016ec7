//! What is wrong with a configuration file.

use std::fmt;
use std::path::{Path, PathBuf};

use super::secret_text::{may_hold_password, without_passwords};
use crate::one_line::{MOST_TOLD, one_line};

/// Returns the number of the line that a position of the text lies in, from 1.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// What is wrong with a configuration file, and in which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    path: PathBuf,
    line: Option<usize>,
    message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    /// Returns an error whose message is free of whatever may be a password: a URL may stand in any setting, by mistake.
    pub(crate) fn new(path: &Path, line: Option<usize>, message: &str) -> Self {
        ConfigError { path: path.to_owned(), line, message: one_line(without_passwords(message), MOST_TOLD) }
    }

    /// Returns the number of the line, if the mistake is in one.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// Returns what is wrong, without file and line.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns what the parser of TOML found, without the excerpt that it shows: there may be a password in it.
    pub(super) fn of_toml(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let message = without_addresses(&error.message().replace('\n', "; "));
        ConfigError::new(path, error.span().map(|span| line_at(text, span.start)), &message)
    }
}

/// Returns the message without quoted addresses that have a user or a password: a URL in the wrong place is quoted.
fn without_addresses(message: &str) -> String {
    let mask = |message: String, quote: char| {
        let parts = message.split(quote).enumerate();
        let masked =
            parts.map(|(index, part)| if index % 2 == 1 && may_hold_password(part) { "…" } else { part });
        masked.collect::<Vec<_>>().join(quote.encode_utf8(&mut [0; 4]))
    };
    ['`', '"'].into_iter().fold(message.to_owned(), mask)
}
