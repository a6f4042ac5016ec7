//! No file is left over: every source file of a crate is a module of it.

use std::path::Path;

use super::super::finding::Finding;
use super::tree::{Sources, Tree};

/// Reports files in the folder of a crate's root that no module declares. `trees` are all crates: several may share a folder.
pub(crate) fn check(root: &Path, sources: &Sources, trees: &[Tree]) -> Vec<Finding> {
    let folder = root.parent().unwrap_or(Path::new(""));
    let is_module =
        |path: &Path| trees.iter().any(|tree| tree.modules.iter().any(|module| module.file == path));
    let left = sources.keys().filter(|path| path.starts_with(folder) && !is_module(path));
    let what = "no module declares this file; declare it, or delete it";
    left.map(|path| Finding::new(path, 1, what)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{sources, tree};
    use super::*;

    #[test]
    fn a_file_that_no_module_declares_is_found() {
        let files =
            [("lib.rs", "mod a; #[cfg(test)] mod tests;"), ("a.rs", ""), ("tests.rs", ""), ("b.rs", "")];
        let found = check(Path::new("lib.rs"), &sources(&files), &[tree(&files)]);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["b.rs:1: no module declares this file; declare it, or delete it"]);
    }
}
