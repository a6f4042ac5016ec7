//! The texts under which the libraries in the program may be given away.
//!
//! Each is the crate's own, as it is in its sources; a text that several crates have is written once. A crate whose package
//! holds none gets the standard text of the licence that it names.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run;
use crate::supply::{self, ForeignCrate, expression};
use crate::workspace::Workspace;

/// How files with licences are called, whatever follows.
const NAMES: [&str; 6] = ["copying", "copyright", "licence", "license", "notice", "unlicense"];
/// What such a file may end with; a `license.rs` is none.
const ENDINGS: [&str; 4] = ["", "md", "txt", "rst"];

/// Returns all texts, each with the crates that it is for.
///
/// # Errors
///
/// If there is no text for a crate.
pub(super) fn collect(workspace: &Workspace) -> Result<String> {
    let target = host()?;
    let crates = supply::crates(workspace, &target, supply::WHOLE_SERVER)?;
    let sources = supply::sources(workspace, &target)?;
    let apache = fs::read_to_string(workspace.root.join("LICENSE-APACHE"))?;
    let mit = fs::read_to_string(workspace.root.join("LICENSE-MIT"))?;
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for used in &crates {
        let id = format!("{} {}", used.name, used.version);
        let source = sources
            .get(&(used.name.clone(), used.version.clone()))
            .with_context(|| format!("the sources of {id} are not here; run `cargo fetch`"))?;
        let mut own = own_texts(&source.folder)?;
        if own.is_empty() {
            own.push(standard_text(used, &source.authors, &mit, &apache)?);
        }
        for text in own {
            texts.entry(text).or_default().push(id.clone());
        }
    }
    Ok(document(&crates.into_iter().collect::<Vec<_>>(), &texts))
}

/// What this machine compiles for.
fn host() -> Result<String> {
    let said = run::quiet(Command::new("rustc").arg("-vV")).context("cannot run rustc")?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

/// The texts in a crate's sources, those of what it brings along included.
fn own_texts(folder: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(directory) = open.pop() {
        let mut entries = fs::read_dir(&directory)?.collect::<std::io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if is_licence(&path) {
                let text = normal(&String::from_utf8_lossy(&fs::read(&path)?));
                if !text.is_empty() && !texts.contains(&text) {
                    texts.push(text);
                }
            }
        }
    }
    Ok(texts)
}

fn is_licence(path: &Path) -> bool {
    let lower = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().to_lowercase();
    let (name, ending) = (lower(path.file_name()), lower(path.extension()));
    // `LICENSE-APACHE-2.0` has no ending, whatever follows its dot.
    let is_ending = ENDINGS.contains(&ending.as_str()) || ending.chars().all(|c| c.is_ascii_digit());
    NAMES.iter().any(|start| name.starts_with(start)) && is_ending
}

/// The same text, whoever has saved it: without blanks at the ends of lines, and without empty lines around.
fn normal(text: &str) -> String {
    let lines: Vec<&str> = text.trim_start_matches('\u{feff}').lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

/// The text of a licence that a crate names and does not hold.
fn standard_text(used: &ForeignCrate, authors: &[String], mit: &str, apache: &str) -> Result<String> {
    let accepts = |chosen: &'static str| move |name: &str| name == chosen;
    let by = |chosen| expression::is_satisfied(&used.licence, &accepts(chosen)).unwrap_or(false);
    if by("Apache-2.0") {
        return Ok(normal(apache));
    }
    if by("MIT") {
        let whose =
            if authors.is_empty() { format!("The authors of {}", used.name) } else { authors.join(", ") };
        let ours =
            mit.lines().find(|line| line.starts_with("Copyright ")).context("LICENSE-MIT names nobody")?;
        return Ok(normal(&mit.replace(ours, &format!("Copyright (c) {whose}"))));
    }
    bail!(
        "{} {} is under `{}`, and its package holds no text of that; add one to xtask/src/dist/licences.rs",
        used.name,
        used.version,
        used.licence
    )
}

fn document(crates: &[ForeignCrate], texts: &BTreeMap<String, Vec<String>>) -> String {
    let mut document =
        "ratekeeper is made with these libraries. The texts of their licences follow.\n\n".to_owned();
    for used in crates {
        let _ = writeln!(document, "{} {}: {}", used.name, used.version, used.licence);
    }
    let mut numbered: Vec<(&Vec<String>, &String)> =
        texts.iter().map(|(text, whose)| (whose, text)).collect();
    numbered.sort();
    for (whose, text) in numbered {
        let rule = "=".repeat(80);
        let _ = write!(document, "\n{rule}\n{}\n{rule}\n\n{text}\n", whose.join(", "));
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(licence: &str) -> ForeignCrate {
        ForeignCrate { name: "a".to_owned(), version: "1.0.0".to_owned(), licence: licence.to_owned() }
    }

    const MIT: &str = "MIT License\n\nCopyright (c) 2026 Us\n\nPermission is …\n";

    #[test]
    fn files_are_known_by_their_names() {
        for name in ["LICENSE", "LICENSE-MIT", "License.txt", "COPYING.md", "LICENSE-APACHE-2.0", "UNLICENSE"]
        {
            assert!(is_licence(Path::new(name)), "{name}");
        }
        for name in ["license.rs", "src/lib.rs", "README.md", "LICENSE.html"] {
            assert!(!is_licence(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn a_crate_without_a_text_gets_that_of_its_licence() {
        let authors = ["Ann <ann@example.org>".to_owned()];
        let text = |licence| standard_text(&of(licence), &authors, MIT, "Apache License\n");
        assert_eq!(text("MIT OR Apache-2.0").unwrap(), "Apache License");
        assert!(text("MIT").unwrap().contains("Copyright (c) Ann <ann@example.org>\n"));
        assert!(standard_text(&of("MIT"), &[], MIT, "").unwrap().contains("The authors of a\n"));
        let error = text("GPL-3.0").unwrap_err().to_string();
        assert!(error.starts_with("a 1.0.0 is under `GPL-3.0`"), "{error}");
        assert!(text("").is_err());
    }

    #[test]
    fn a_text_is_written_once_for_all_who_have_it() {
        let texts = BTreeMap::from([("T".to_owned(), vec!["a 1".to_owned(), "b 2".to_owned()])]);
        let document = document(&[of("MIT")], &texts);
        assert!(document.contains("\na 1.0.0: MIT\n"));
        assert!(document.contains("\na 1, b 2\n"));
        assert_eq!(normal("\r\n a \r\nb\n\n"), " a\nb");
    }
}
