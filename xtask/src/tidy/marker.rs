//! No "to do" in any file: what is open is an issue, where it can be found and closed. `todo!` is a lint's matter.

use std::path::Path;

use super::finding::Finding;
use super::text::{has_word, numbered};

// In two parts, so that this file passes its own check.
const MARKERS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Reports markers anywhere in a text.
pub(crate) fn check(path: &Path, text: &str) -> Vec<Finding> {
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

    #[test]
    fn markers_are_found_and_longer_words_are_fine() {
        let [todo, fixme] = MARKERS;
        let text = format!("fn f() {{}}\n// {todo}: g\n-- {fixme}(me)\n{todo}S\n");
        let found: Vec<String> = check(Path::new("a.rs"), &text).iter().map(ToString::to_string).collect();
        let expected = |line, marker| format!("a.rs:{line}: {marker}; do it now, or open an issue");
        assert_eq!(found, [expected(2, todo), expected(3, fixme)]);
    }
}
