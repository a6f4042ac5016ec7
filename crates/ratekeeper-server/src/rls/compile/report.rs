//! Mistakes and warnings, as they are found.

use std::sync::Arc;

use crate::rls::finding::RlsFinding;

/// How many mistakes of a set are told, and how many warnings: a file can be wrong in every line.
const MOST: usize = 1_000;

/// What was found so far.
#[derive(Debug, Default)]
pub(in crate::rls) struct Report {
    /// All files that were looked at; the last one is what is found in.
    files: Vec<Arc<str>>,
    pub(in crate::rls) mistakes: Vec<RlsFinding>,
    warnings: Vec<RlsFinding>,
}

impl Report {
    /// Says which file the following is about.
    pub(in crate::rls) fn of_file(&mut self, file: &Arc<str>) {
        self.files.push(Arc::clone(file));
    }

    /// Returns the file that it is about.
    pub(in crate::rls) fn file(&self) -> Arc<str> {
        self.files.last().cloned().unwrap_or_default()
    }

    pub(in crate::rls) fn mistake(&mut self, line: Option<usize>, message: impl Into<String>) {
        let mistake = RlsFinding::new(&self.file(), line, message);
        push(&mut self.mistakes, mistake);
    }

    pub(in crate::rls) fn warning(&mut self, line: Option<usize>, message: impl Into<String>) {
        self.add_warning(RlsFinding::new(&self.file(), line, message));
    }

    pub(in crate::rls) fn add_warning(&mut self, warning: RlsFinding) {
        push(&mut self.warnings, warning);
    }

    /// Returns mistakes and warnings, in the order of files and lines.
    pub(in crate::rls) fn finish(mut self) -> (Vec<RlsFinding>, Vec<RlsFinding>) {
        for findings in [&mut self.mistakes, &mut self.warnings] {
            let place = |file: &Arc<str>| self.files.iter().position(|known| Arc::ptr_eq(known, file));
            findings.sort_by_cached_key(|finding| (place(&finding.file), finding.line));
            if findings.len() > MOST {
                findings.truncate(MOST);
                let file = findings.last().map(|last| Arc::clone(&last.file)).unwrap_or_default();
                findings.push(RlsFinding::new(&file, None, format!("there are more than these {MOST}")));
            }
        }
        (self.mistakes, self.warnings)
    }
}

fn push(findings: &mut Vec<RlsFinding>, finding: RlsFinding) {
    // What stands behind an alias is looked at wherever the alias is.
    if findings.len() <= MOST && !findings.contains(&finding) {
        findings.push(finding);
    }
}
