//! Relative links in Markdown lead to files that exist.

use std::path::{Component, Path, PathBuf};

use super::finding::Finding;
use super::text::numbered;

/// Reports links to nowhere. `text` comes without its code; `exists` is asked about paths from the root.
pub(crate) fn check(path: &Path, text: &str, exists: &dyn Fn(&Path) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, content) in numbered(text) {
        for target in targets(content) {
            let Some(file) = local(path, target) else { continue };
            if !exists(&file) {
                let what =
                    format!("link to {target}, but there is no {}; correct or remove it", file.display());
                findings.push(Finding::new(path, line, what));
            }
        }
    }
    findings
}

/// The targets of `[text](target "title")` and `[name]: target` in a line.
fn targets(line: &str) -> Vec<&str> {
    let mut targets: Vec<&str> = line.split("](").skip(1).map(until_closed).collect();
    let definition = line.trim_start().strip_prefix('[').filter(|rest| !rest.starts_with('^'));
    targets.extend(definition.and_then(|rest| rest.split_once(']')?.1.strip_prefix(':')));
    targets
        .into_iter()
        .map(str::trim)
        .filter_map(|target| match target.strip_prefix('<') {
            Some(bracketed) => bracketed.split('>').next(),
            None => target.split_whitespace().next(),
        })
        .collect()
}

/// Up to the parenthesis that closes the link; paths may hold pairs of them.
fn until_closed(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return &text[..at],
            ')' => depth -= 1,
            _ => {}
        }
    }
    text
}

/// The file that a link means, from the root; `None` for other sites, Rust paths and places in the same file.
fn local(path: &Path, target: &str) -> Option<PathBuf> {
    let target = target.split(['#', '?']).next()?.replace("%20", " ");
    let is_elsewhere = target.starts_with("//") || target.contains(':');
    if target.is_empty() || is_elsewhere {
        return None;
    }
    let joined = match target.strip_prefix('/') {
        Some(from_root) => PathBuf::from(from_root),
        None => path.parent().unwrap_or(Path::new("")).join(target),
    };
    Some(normal(&joined))
}

/// Resolves `.` and `..` by name; a path that leaves the root keeps its `..`, and so does not exist.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if normal.file_name().is_some() => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let exists = |path: &Path| [Path::new("README.md"), Path::new("docs/a b.md")].contains(&path);
        check(Path::new("docs/x.md"), text, &exists).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_link_to_nowhere_is_found() {
        let expected =
            "docs/x.md:2: link to gone.md#part, but there is no docs/gone.md; correct or remove it";
        assert_eq!(findings("x\n[a](gone.md#part)\n"), [expected]);
        assert_eq!(findings("![picture](gone.png \"title\") and [a](../gone(1).md)").len(), 2);
        assert_eq!(findings("[a]: gone.md\n").len(), 1);
        assert_eq!(findings("[out](../../README.md)\n").len(), 1);
    }

    #[test]
    fn links_to_files_are_followed_from_the_file_or_the_root() {
        let text =
            "[a](../README.md) [b](/README.md) [c](./a%20b.md#d) [e](<a b.md>)\n[f]: ../README.md 'f'\n";
        assert_eq!(findings(text), Vec::<String>::new());
    }

    #[test]
    fn other_links_are_not_ours() {
        let text =
            "[a](https://example.org) [b](#part) [c](crate::Keeper) [d](mailto:x@example.org) [e]: f\n";
        assert!(findings(text).is_empty());
        assert!(findings("[^1]: a footnote\n").is_empty());
    }
}
