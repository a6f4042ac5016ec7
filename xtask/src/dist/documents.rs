//! What people read, as it is packed: the files of the repository, without links to what is left behind there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run;

/// Folders and files that are packed.
const DOCUMENTS: [&str; 5] = ["CHANGELOG.md", "README.md", "SECURITY.md", "deploy", "docs"];
/// Of those, what is of no use without the sources, or has a place of its own.
const LEFT_OUT: [&str; 6] = [
    "deploy/Dockerfile",
    "deploy/Dockerfile.dockerignore",
    "deploy/debian",
    "deploy/ratekeeper.service",
    "docs/Cargo.toml",
    "docs/guides.rs",
];

/// Returns the paths in the repository, and where each is to be copied from: pages are written anew, below a folder.
pub(super) fn collect(root: &Path, folder: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let packed = find(root)?;
    let mut documents = Vec::new();
    for path in &packed {
        let mut from = root.join(path);
        if path.extension().is_some_and(|extension| extension == "md") {
            let page =
                fs::read_to_string(&from).with_context(|| format!("cannot read {}", from.display()))?;
            from = folder.join(path);
            fs::create_dir_all(from.parent().unwrap_or(folder))?;
            fs::write(&from, without_links(&page, &|target| is_left_behind(root, path, target, &packed)))?;
        }
        documents.push((path.clone(), from));
    }
    Ok(documents)
}

/// The files, from the root. What an editor has left beside them is none of them.
fn find(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut open: Vec<PathBuf> = DOCUMENTS.iter().map(PathBuf::from).collect();
    while let Some(path) = open.pop() {
        if LEFT_OUT.iter().any(|left_out| path == Path::new(left_out)) {
            continue;
        }
        let from = root.join(&path);
        if from.is_dir() {
            for entry in fs::read_dir(&from)? {
                open.push(path.join(entry?.file_name()));
            }
        } else if from.is_file() {
            found.insert(path);
        } else {
            bail!("{} is to be packed, but does not exist", path.display());
        }
    }
    if let Some(committed) = committed(root) {
        found.retain(|path| committed.contains(path));
    }
    Ok(found)
}

/// The files of the repository below the documents; none where git does not know, as in a source archive.
fn committed(root: &Path) -> Option<BTreeSet<PathBuf>> {
    let mut git = Command::new("git");
    let said = run::quiet(git.current_dir(root).args(["ls-files", "-z", "--"]).args(DOCUMENTS))?;
    let files: BTreeSet<PathBuf> =
        said.split('\0').filter(|path| !path.is_empty()).map(PathBuf::from).collect();
    (!files.is_empty()).then_some(files)
}

/// Whether a link of a page leads to something that is in the repository and not packed.
fn is_left_behind(root: &Path, page: &Path, target: &str, packed: &BTreeSet<PathBuf>) -> bool {
    let target = target.split('#').next().unwrap_or_default();
    if target.is_empty() || target.contains("://") {
        return false;
    }
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for component in Path::new(target).components() {
        match component {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    root.join(&path).exists() && !packed.iter().any(|packed| packed.starts_with(&path))
}

/// Returns a page with the words of some links in place of the links.
fn without_links(page: &str, is_left_behind: &dyn Fn(&str) -> bool) -> String {
    let (mut out, mut rest) = (String::with_capacity(page.len()), page);
    while let Some(middle) = rest.find("](") {
        let (before, after) = (&rest[..middle], &rest[middle + 2..]);
        match (opening(before), after.find(')')) {
            (Some(start), Some(end)) if is_left_behind(&after[..end]) => {
                out.push_str(&before[..start]);
                out.push_str(&before[start + 1..]);
                rest = &after[end + 1..];
            }
            _ => {
                out.push_str(&rest[..middle + 2]);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Where the bracket opens that is closed at the end of a text.
fn opening(text: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, char) in text.char_indices().rev() {
        match char {
            ']' => depth += 1,
            '[' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has documents, and what an editor has left of one.
    fn repository(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("xtask-documents-{name}-{}", std::process::id()));
        for path in ["CHANGELOG.md", "README.md", "SECURITY.md", "deploy/a.toml", "docs/a.md", "docs/a.md~"] {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), "").unwrap();
        }
        root
    }

    #[test]
    fn what_is_not_committed_is_not_packed() {
        let root = repository("committed");
        let count = || find(&root).unwrap().len();
        // Whatever repository is around it, it knows none of these.
        assert_eq!(count(), 6, "an archive is packed as it is");
        let git = |args: &[&str]| run::quiet(Command::new("git").current_dir(&root).args(args)).is_some();
        if git(&["init", "--quiet"]) {
            assert!(git(&["add", "CHANGELOG.md", "README.md", "SECURITY.md", "deploy", "docs/a.md"]));
            assert_eq!(count(), 5);
        }
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn links_to_what_is_left_behind_are_words() {
        let root = repository("links");
        fs::create_dir_all(root.join("crates")).unwrap();
        fs::write(root.join("CONTRIBUTING.md"), "").unwrap();
        let page = "[a](a.md) [up](../README.md#x) [how to `[join]`](../CONTRIBUTING.md) [crates](../crates) \
                    [there](https://example.org/crates) [deploy](../deploy) [x](#x) f[0](crates)";
        fs::write(root.join("docs/a.md"), page).unwrap();
        let documents = collect(&root, &root.join("staged")).unwrap();
        let (_, from) = documents.iter().find(|(path, _)| path == Path::new("docs/a.md")).unwrap();
        let expected = "[a](a.md) [up](../README.md#x) how to `[join]` crates \
                        [there](https://example.org/crates) [deploy](../deploy) [x](#x) f[0](crates)";
        assert_eq!(fs::read_to_string(from).unwrap(), expected);
        assert!(documents.contains(&("deploy/a.toml".into(), root.join("deploy/a.toml"))));
        fs::remove_dir_all(root).unwrap();
    }
}
