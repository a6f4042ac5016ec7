//! Crates for the tests of these checks, written as a few lines for each file.

use std::path::Path;

use super::super::source::SourceFile;
use super::tree::{Sources, Tree};

/// Reads a crate named `fixture` whose root is `lib.rs`.
pub(crate) fn tree(files: &[(&str, &str)]) -> Tree {
    named("fixture", files)
}

/// Reads a crate whose root is `lib.rs`.
pub(crate) fn named(name: &str, files: &[(&str, &str)]) -> Tree {
    Tree::read(name, Path::new("lib.rs"), &sources(files))
}

/// Parses files.
pub(crate) fn sources(files: &[(&str, &str)]) -> Sources {
    let source = |path: &str, text: &str| {
        let path = Path::new(path).to_owned();
        (path.clone(), SourceFile::parse(&path, text.to_owned()).unwrap())
    };
    files.iter().map(|(path, text)| source(path, text)).collect()
}
