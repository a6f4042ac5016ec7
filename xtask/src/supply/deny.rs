//! cargo-deny, which knows the advisories, and checks the rules of `deny.toml` as tidy does.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::LINUX;
use crate::run;
use crate::workspace::Workspace;

/// Pinned: everyone is told the same, and an older one cannot read `deny.toml`.
const VERSION: &str = "0.20.2";

/// What a test run asks it: all that needs no network.
const RULES: [&str; 3] = ["bans", "licenses", "sources"];

/// Checks the rules if cargo-deny is there in this version. It takes minutes to build, and tidy checks the same rules without it.
pub(crate) fn check_rules(workspace: &Workspace) -> Result<()> {
    match find(workspace) {
        Ok(deny) => check(workspace, deny, &RULES),
        Err(other) => {
            let there = other.map_or_else(|| "none".to_owned(), |version| format!("cargo-deny {version}"));
            eprintln!(
                "not run: cargo-deny {VERSION} is needed, and there is {there} (`cargo xtask advisories` builds one); \
                 tidy checks its rules"
            );
            Ok(())
        }
    }
}

/// Checks the rules and the advisories, whose database is fetched, with a cargo-deny that is built first if there is none.
pub(crate) fn check_all(workspace: &Workspace) -> Result<()> {
    if find(workspace).is_err() {
        let root = tools(workspace);
        let args = ["install", "--locked", "--version", VERSION, "cargo-deny", "--root"];
        // Not into the workspace's own folder of builds, whose locks are held elsewhere.
        run::succeed(run::cargo().args(args).arg(&root).env("CARGO_TARGET_DIR", root.join("build")))?;
        // The program stays, and a gigabyte that built it goes.
        let _ = std::fs::remove_dir_all(root.join("build"));
    }
    let deny = find(workspace).ok().context("cargo-deny was installed and is not there")?;
    check(workspace, deny, &["advisories", "bans", "licenses", "sources"])
}

/// A folder of its own: a newer version is built anew.
fn tools(workspace: &Workspace) -> PathBuf {
    workspace.target_dir.join(format!("tools/cargo-deny-{VERSION}"))
}

/// Ours, or the machine's if it is of the same version.
///
/// # Errors
///
/// The version that the machine has instead, if it has any.
fn find(workspace: &Workspace) -> Result<PathBuf, Option<String>> {
    let mut other = None;
    for path in [tools(workspace).join("bin/cargo-deny"), PathBuf::from("cargo-deny")] {
        match version(&path) {
            Some(version) if version == VERSION => return Ok(path),
            Some(version) => other = Some(version),
            None => {}
        }
    }
    Err(other)
}

/// What a cargo-deny says of itself: `cargo-deny 0.20.2`.
fn version(program: &Path) -> Option<String> {
    let said = run::quiet(Command::new(program).arg("--version"))?;
    said.split_whitespace().nth(1).map(str::to_owned)
}

fn check(workspace: &Workspace, deny: PathBuf, what: &[&str]) -> Result<()> {
    let mut command = Command::new(deny);
    command.current_dir(&workspace.root).args(["--all-features", "--locked", "--target", LINUX, "check"]);
    run::succeed(command.arg("--hide-inclusion-graph").args(what))
}
