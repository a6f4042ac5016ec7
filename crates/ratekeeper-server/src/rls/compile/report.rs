//! Mistakes and warnings, as they are found.

use std::sync::Arc;

use crate::rls::finding::RlsFinding;

/// How many mistakes of a set are told, and how many warnings: a file can be wrong in every line.
const MOST: usize = 1_000;

/// What was found so far.
#[derive(Debug, Default)]
pub(in crate::rls) struct Report {
    file: Arc<str>,
    pub(in crate::rls) mistakes: Vec<RlsFinding>,
    pub(in crate::rls) warnings: Vec<RlsFinding>,
}

impl Report {
    /// Says which file the following is about.
    pub(in crate::rls) fn of_file(&mut self, file: &Arc<str>) {
        self.file = Arc::clone(file);
    }

    /// Returns the file that it is about.
    pub(in crate::rls) fn file(&self) -> &Arc<str> {
        &self.file
    }

    pub(in crate::rls) fn mistake(&mut self, line: Option<usize>, message: impl Into<String>) {
        push(&mut self.mistakes, RlsFinding::new(&self.file, line, message));
    }

    pub(in crate::rls) fn warning(&mut self, line: Option<usize>, message: impl Into<String>) {
        self.add_warning(RlsFinding::new(&self.file, line, message));
    }

    pub(in crate::rls) fn add_warning(&mut self, warning: RlsFinding) {
        push(&mut self.warnings, warning);
    }
}

fn push(findings: &mut Vec<RlsFinding>, finding: RlsFinding) {
    match findings.len() {
        0..MOST => findings.push(finding),
        MOST => {
            findings.push(RlsFinding::new(&finding.file, None, format!("more than {MOST}: no more are told")))
        }
        _ => {}
    }
}
