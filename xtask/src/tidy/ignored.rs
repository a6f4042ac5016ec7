//! No `#[ignore]`: a test that does not run proves nothing and looks as if it did.

use super::finding::Finding;
use super::source::{Source, has_word, numbered};

/// Reports ignored tests, also those that are ignored under a condition.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let is_ignored = |line: &str| {
        let attributes = line.split("#[").skip(1).map(str::trim_start);
        attributes.into_iter().any(|attribute| {
            let name = attribute.split(|c: char| !c.is_alphanumeric() && c != '_').next();
            name == Some("ignore") || (name == Some("cfg_attr") && has_word(attribute, "ignore"))
        })
    };
    let lines = numbered(&source.code).filter(|(_, line)| is_ignored(line));
    let what = "ignored test; make it run, or remove it";
    lines.map(|(line, _)| Finding::new(&source.path, line, what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn findings(text: &str) -> Vec<String> {
        let source = Source::new(Path::new("tests/a.rs"), text);
        check(&source).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ignored_tests_are_found() {
        let found = findings("#[test]\n#[ignore]\nfn a() {}\n");
        assert_eq!(found, ["tests/a.rs:2: ignored test; make it run, or remove it"]);
        assert_eq!(findings("#[test] #[ignore = \"slow\"]\nfn a() {}\n").len(), 1);
        assert_eq!(findings("#[cfg_attr(miri, ignore)]\nfn a() {}\n").len(), 1);
    }

    #[test]
    fn other_uses_of_the_word_are_fine() {
        assert!(findings("#[ignore_me]\nfn ignore() {}\n// #[ignore]\n").is_empty());
        assert!(findings("let ignore = \"#[ignore]\"; #[test]\n").is_empty());
    }
}
