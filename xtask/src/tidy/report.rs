//! `cargo xtask tidy --report`: figures that nothing fails on.

use std::fmt::Write;
use std::path::Path;
use std::slice;

use super::house::arrows::Arrow;
use super::house::floors;
use super::house::tree::{Sources, Tree};

/// How many modules a folder has that the report shows by itself.
const LARGE: usize = 8;

/// Writes the floors that the arrows of each crate and each large folder demand, and how terse the documentation is.
pub(crate) fn write(sources: &Sources, trees: &[(Tree, Vec<Arrow>)]) -> String {
    let mut report = String::new();
    for (tree, arrows) in trees {
        for module in &tree.modules {
            let name = [slice::from_ref(&tree.name), &module.path].concat().join("::");
            let floors = floors::propose(&name, tree, arrows);
            let rooms = floors.split_whitespace().count();
            if rooms >= LARGE || (module.path.is_empty() && rooms > 0) {
                let _ = writeln!(report, "```floors {name}\n{floors}```\n");
            }
        }
    }
    let (mut all, mut terse) = (0, 0);
    let is_library = |path: &Path| path.starts_with("crates") && path.iter().nth(2) == Some("src".as_ref());
    for source in sources.values().filter(|source| is_library(&source.path) && !source.is_generated()) {
        for doc in one_line_docs(&source.text) {
            all += 1;
            terse += usize::from(doc.split_whitespace().count() <= 4);
        }
    }
    let _ = writeln!(report, "{terse} of {all} one-line docs in the crates' src have four words or fewer");
    report
}

/// The doc comments that are one line long.
fn one_line_docs(text: &str) -> Vec<&str> {
    let doc = |line: &'_ str| line.trim_start().starts_with("///");
    let lines: Vec<&str> = text.lines().collect();
    let is_alone = |at: usize| {
        let before = at.checked_sub(1).is_some_and(|before| doc(lines[before]));
        doc(lines[at]) && !before && !lines.get(at + 1).copied().is_some_and(doc)
    };
    let alone = (0..lines.len()).filter(|at| is_alone(*at));
    alone.map(|at| lines[at].trim_start().trim_start_matches('/').trim()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_of_one_line_are_told_from_longer_ones() {
        let text = "/// One line.\nfn a() {}\n    /// Two\n    /// lines.\nfn b() {}\n// None.\n/// Last.";
        assert_eq!(one_line_docs(text), ["One line.", "Last."]);
    }
}
