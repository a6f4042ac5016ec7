//! No `todo!`, no "to do" in comments: what is open is an issue, where it can be found and closed.

use std::path::Path;

use super::finding::Finding;
use super::source::{Source, has_word, numbered};

const MARKERS: [&str; 2] = ["TODO", "FIXME"];

/// Reports markers in a Rust file's comments and `todo!` in its code.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = check_text(&source.path, &source.comments);
    let macros = numbered(&source.code).filter(|(_, line)| has_word(line, "todo!"));
    let what = "todo!; finish it, or leave it out";
    findings.extend(macros.map(|(line, _)| Finding::new(&source.path, line, what)));
    findings
}

/// Reports markers anywhere in a text.
pub(crate) fn check_text(path: &Path, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, content) in numbered(text) {
        let found = MARKERS.iter().filter(|marker| has_word(content, marker));
        let what = |marker| format!("{marker}; do it now, or open an issue");
        findings.extend(found.map(|marker| Finding::new(path, line, what(marker))));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let source = Source::new(Path::new("a.rs"), text);
        check(&source).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn markers_are_found() {
        let found = findings("fn f() {}\n// TODO: g\n");
        assert_eq!(found, ["a.rs:2: TODO; do it now, or open an issue"]);
        assert_eq!(findings("/* FIXME(me) */").len(), 1);
        assert_eq!(findings("fn f() { todo!() }").len(), 1);
        assert_eq!(check_text(Path::new("a.lua"), "x\n-- TODO y\n").len(), 1);
    }

    #[test]
    fn data_and_longer_words_are_fine() {
        assert!(findings("const MARKER: &str = \"TODO\"; // TODOS\nfn todo() {}\n").is_empty());
    }
}
