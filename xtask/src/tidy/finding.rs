//! What a check has to say, in the form that editors and people can follow: `file:line: what`.

use std::fmt;
use std::path::{Path, PathBuf};

/// One breach of a rule, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: PathBuf,
    /// Counted from 1.
    line: usize,
    what: String,
}

impl Finding {
    pub(crate) fn new(path: &Path, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }

    /// Returns whether the finding is about a file in this folder, or about this file.
    pub(crate) fn is_below(&self, folder: &Path) -> bool {
        self.path.starts_with(folder)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_that_editors_can_follow() {
        let finding = Finding::new(Path::new("src/lib.rs"), 7, "too long; split it");
        assert_eq!(finding.to_string(), "src/lib.rs:7: too long; split it");
    }
}
