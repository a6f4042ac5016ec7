//! One version of Rust: what `Cargo.toml` promises is what CI and the image build with, and what the README says.

use std::path::Path;

use toml::Table;

use super::finding::Finding;
use super::text::numbered;

/// Files that name the version, and what stands before it there.
pub(crate) const PLACES: [(&str, &str); 4] = [
    (".github/workflows/ci.yml", "RUST: \""),
    ("deploy/Dockerfile", "FROM rust:"),
    ("README.md", "needs Rust "),
    ("CONTRIBUTING.md", "needs Rust "),
];

/// Reports files that name another version than the workspace's manifest, or none. `read` is asked for them.
pub(crate) fn check(manifest: &str, read: &dyn Fn(&Path) -> Option<String>) -> Vec<Finding> {
    let Some(promised) = promised(manifest) else {
        return vec![Finding::new(Path::new("Cargo.toml"), 1, "no rust-version in [workspace.package]")];
    };
    let mut findings = Vec::new();
    for (place, before) in PLACES {
        let text = read(Path::new(place)).unwrap_or_default();
        let mut named = numbered(&text)
            .filter_map(|(line, text)| Some((line, version(text.split_once(before)?.1))))
            .peekable();
        if named.peek().is_none() {
            findings.push(Finding::new(Path::new(place), 1, format!("`{before}{promised}` is missing")));
        }
        for (line, version) in named.filter(|(_, version)| *version != promised) {
            let what = format!("Rust {version}, but the workspace's rust-version is {promised}");
            findings.push(Finding::new(Path::new(place), line, what));
        }
    }
    findings
}

fn promised(manifest: &str) -> Option<String> {
    let manifest: Table = manifest.parse().ok()?;
    Some(manifest.get("workspace")?.get("package")?.get("rust-version")?.as_str()?.to_owned())
}

/// The numbers that a text begins with: `1.95-alpine` has `1.95`.
fn version(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_says_otherwise_or_nothing_is_found() {
        let manifest = "[workspace.package]\nrust-version = \"1.95\"\n";
        let said = |readme: &'static str| {
            move |path: &Path| {
                let text = PLACES.iter().find(|(place, _)| path == Path::new(place))?.1;
                if path == Path::new("README.md") {
                    Some(readme.to_owned())
                } else {
                    Some(format!("{text}1.95-x"))
                }
            }
        };
        let texts = |findings: Vec<Finding>| findings.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts(check(manifest, &said("It needs Rust 1.95."))), [""; 0]);
        let expected = "README.md:2: Rust 1.94, but the workspace's rust-version is 1.95";
        assert_eq!(texts(check(manifest, &said("\nIt needs Rust 1.94 or newer"))), [expected]);
        assert_eq!(texts(check(manifest, &said(""))), ["README.md:1: `needs Rust 1.95` is missing"]);
        assert_eq!(check("", &said("")).len(), 1);
    }
}
