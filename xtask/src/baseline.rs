//! `cargo xtask baseline COMMIT`: the binary and the engine's benches of an earlier commit, to run beside those of today.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::run::{self, say, succeed};
use crate::workspace::Workspace;

/// Builds into `target/baseline` and says how to use what is there.
pub(crate) fn run(workspace: &Workspace, commit: &str) -> Result<()> {
    let folder = workspace.target_dir.join("baseline");
    let tree = folder.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    fs::create_dir_all(&folder)?;
    succeed(Command::new("git").args(["clone", "--quiet", "--shared"]).arg(&workspace.root).arg(&tree))?;
    succeed(Command::new("git").current_dir(&tree).args(["checkout", "--quiet", "--detach", commit]))
        .with_context(|| format!("`{commit}` is no commit of this repository"))?;
    // The tests start the debug build; benches and load generators want the release build.
    for profile in ["dev", "release"] {
        let args = ["build", "--package", "ratekeeper-cli", "--all-features", "--profile", profile];
        succeed(cargo(&tree, &folder).args(args))?;
        let built = folder.join("target").join(if profile == "dev" { "debug" } else { profile });
        let name = format!("ratekeeper-{}", if profile == "dev" { "debug" } else { profile });
        fs::copy(built.join("ratekeeper"), folder.join(name))?;
    }
    let mut benches = build_benches(&tree, &folder, &["--package", "ratekeeper", "--all-features"])?;
    if tree.join("compare").exists() {
        benches.extend(build_benches(&tree.join("compare"), &folder, &[])?);
    }
    let shown = folder.display();
    say(&format!("{shown}/ratekeeper-release: the server, for load generators"));
    say(&format!("RATEKEEPER_BIN={shown}/ratekeeper-debug cargo xtask test: today's tests of that server"));
    benches.iter().for_each(|name| say(&format!("{shown}/bench-{name}: a bench")));
    Ok(())
}

/// Cargo in a tree of the baseline, whose builds share one directory.
fn cargo(tree: &Path, folder: &Path) -> Command {
    let mut cargo = run::cargo();
    cargo.current_dir(tree).env("CARGO_TARGET_DIR", folder.join("target"));
    cargo
}

/// Builds the benches of a package and copies them to `bench-NAME`. Returns their names.
fn build_benches(tree: &Path, folder: &Path, package: &[&str]) -> Result<Vec<String>> {
    let mut cargo = cargo(tree, folder);
    cargo.args(["bench", "--no-run", "--message-format=json-render-diagnostics"]).args(package);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo bench")?;
    if !output.status.success() {
        bail!("the benches in {} do not build", tree.display());
    }
    let mut names = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let is_bench =
            message["target"]["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k == "bench"));
        if let (true, Some(executable), Some(name)) =
            (is_bench, message["executable"].as_str(), message["target"]["name"].as_str())
        {
            fs::copy(executable, folder.join(format!("bench-{name}")))?;
            names.push(name.to_owned());
        }
    }
    Ok(names)
}
