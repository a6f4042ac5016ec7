//! What is built that is not ours: which crates, in which versions, under which licences.
//!
//! `cargo tree` is asked, and not `cargo metadata`, which also lists what no feature switches on.
//!
//! Layout:
//! - `expression`: licences; `unsafe_places`: where a crate is unsafe
//! - `deny`: cargo-deny, where it is; tidy checks most of what it does

pub(crate) mod deny;
pub(crate) mod expression;
mod unsafe_places;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::run;
use crate::workspace::Workspace;

/// What the figures and the tables of the documentation are about: other systems add a few crates of their own.
pub(crate) const LINUX: &str = "x86_64-unknown-linux-gnu";

/// The library, as `cargo add ratekeeper` has it.
pub(crate) const LIBRARY: &[&str] = &["--edges", "normal,build", "--package", "ratekeeper"];
/// The server, as `cargo install ratekeeper-cli` has it.
pub(crate) const SERVER: &[&str] = &["--edges", "normal,build", "--package", "ratekeeper-cli"];
/// The features of the program that is given away: all that it has.
pub(crate) const FEATURES: &str = "otel,postgres,tls";
/// The server with these, as packages have it.
pub(crate) const WHOLE_SERVER: &[&str] =
    &["--edges", "normal,build", "--package", "ratekeeper-cli", "--features", FEATURES];
/// Whatever is compiled here, tests and chores included.
pub(crate) const EVERYTHING: &[&str] = &["--workspace", "--all-features"];

/// A crate that somebody else wrote.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ForeignCrate {
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression; empty if the crate has none.
    pub(crate) licence: String,
}

/// Asks cargo which crates a selection is made of, on a target.
pub(crate) fn crates(
    workspace: &Workspace,
    target: &str,
    selection: &[&str],
) -> Result<BTreeSet<ForeignCrate>> {
    let output = run::cargo()
        .current_dir(&workspace.root)
        .args(["tree", "--locked", "--prefix", "none", "--format", "{p}|{l}", "--target", target])
        .args(selection)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree failed");
    }
    let is_ours = |name: &str| workspace.members.iter().any(|member| member.name == name);
    let said = String::from_utf8_lossy(&output.stdout);
    let read = said.lines().filter_map(parse).filter(|found| !is_ours(&found.name));
    Ok(read.collect())
}

/// Where the sources of a crate are, and who wrote it.
#[derive(Debug)]
pub(crate) struct CrateSource {
    pub(crate) folder: PathBuf,
    pub(crate) authors: Vec<String>,
}

/// Finds the sources of all crates, by name and version.
pub(crate) fn sources(
    workspace: &Workspace,
    target: &str,
) -> Result<BTreeMap<(String, String), CrateSource>> {
    let output = run::cargo()
        .current_dir(&workspace.root)
        .args(["metadata", "--format-version=1", "--locked", "--all-features", "--filter-platform", target])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let read = |package: &Value| {
        let text = |field: &str| package[field].as_str().map(str::to_owned);
        let folder = PathBuf::from(text("manifest_path")?).parent()?.to_owned();
        let authors = package["authors"].as_array().into_iter().flatten();
        let authors = authors.filter_map(Value::as_str).map(str::to_owned).collect();
        Some(((text("name")?, text("version")?), CrateSource { folder, authors }))
    };
    Ok(packages.filter_map(read).collect())
}

/// Prints the crates of the server with all its features: name, version, licence, and how often each is unsafe.
pub(crate) fn print(workspace: &Workspace) -> Result<()> {
    let sources = sources(workspace, LINUX)?;
    for ForeignCrate { name, version, licence } in crates(workspace, LINUX, WHOLE_SERVER)? {
        let source = sources.get(&(name.clone(), version.clone()));
        let source = source.with_context(|| format!("the sources of {name} {version} are not here"))?;
        let places = unsafe_places::count(&source.folder.join("src"))?;
        run::say(&format!("{places:>6}  {name} {version}  {licence}"));
    }
    Ok(())
}

/// Reads `name v1.2.3 (proc-macro)|MIT (*)`.
fn parse(line: &str) -> Option<ForeignCrate> {
    let (package, licence) = line.split_once('|')?;
    let mut words = package.split_whitespace();
    let name = words.next()?.to_owned();
    let version = words.next()?.strip_prefix('v')?.to_owned();
    let licence = licence.trim().trim_end_matches("(*)").trim().to_owned();
    Some(ForeignCrate { name, version, licence })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_tree_is_read_whatever_cargo_adds_to_it() {
        let read = |line: &str| {
            let found = parse(line).unwrap();
            (found.name, found.version, found.licence)
        };
        let expected = ("syn".to_owned(), "3.0.9".to_owned(), "MIT OR Apache-2.0".to_owned());
        assert_eq!(read("syn v3.0.9|MIT OR Apache-2.0"), expected);
        assert_eq!(read("syn v3.0.9 (proc-macro)|MIT OR Apache-2.0 (*)"), expected);
        assert_eq!(read("a v1.0.0|").2, "");
        assert_eq!(parse("[build-dependencies]"), None);
    }
}
