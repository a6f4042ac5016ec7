//! `cargo xtask test`: builds and runs the tests. `flaky` runs them many times on a busy machine.

use std::collections::BTreeSet;
use std::hint::spin_loop;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::programs::{self, Program};
use crate::run::{self, UsageError, say, succeed};
use crate::setup::{self, Environment, Need};
use crate::side_by_side;
use crate::steps::Steps;
use crate::workspace::Workspace;

/// What `cargo xtask test` builds: no examples, no benches, and not the test target `slow`.
const TARGETS: [&str; 3] = ["--lib", "--bins", "--tests"];

/// How often `flaky` runs the tests unless it is told.
const RUNS: usize = 10;

/// What was asked for on the command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct TestOptions {
    /// Only the crates that the changes since the last commit can affect.
    is_changed: bool,
    /// How many of the slowest tests are listed.
    slowest: usize,
}

impl TestOptions {
    fn parse(options: &[&str]) -> Result<Self> {
        let mut parsed = TestOptions::default();
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match *option {
                "--changed" => parsed.is_changed = true,
                "--slowest" => parsed.slowest = number(option, options.next())?,
                _ => bail!("test: unknown option {option}; --changed or --slowest N"),
            }
        }
        Ok(parsed)
    }
}

fn number(option: &str, value: Option<&&str>) -> Result<usize> {
    let value = *value.with_context(|| format!("{option}: its value is missing"))?;
    value
        .parse()
        .ok()
        .filter(|number| *number > 0)
        .with_context(|| format!("{option}: `{value}`; a number from 1 on"))
}

/// Sets the machine up, builds the tests and runs them. Prints a table of what each step took.
pub(crate) fn run(workspace: &Workspace, options: &[&str]) -> Result<()> {
    let options = TestOptions::parse(options).context(UsageError)?;
    let packages = match options.is_changed {
        true => affected(workspace, &changed_files(&workspace.root)?),
        false => Some(BTreeSet::new()),
    };
    let Some(packages) = packages else {
        say("nothing has changed since the last commit");
        return Ok(());
    };
    let mut steps = Steps::default();
    let environment = prepare(&mut steps, workspace)?;
    let outcome =
        build(&mut steps, workspace, &environment, &packages, options.is_changed).and_then(|programs| {
            steps.run("test", || programs::run(workspace, &programs, &environment, options.slowest))
        });
    steps.print("test", environment.missing());
    outcome
}

/// Runs the tests again and again beside a busy loop on each processor, and names each failure.
pub(crate) fn flaky(workspace: &Workspace, options: &[&str]) -> Result<()> {
    let runs = match options {
        [] => RUNS,
        ["--runs", value] => number("--runs", Some(value)).context(UsageError)?,
        _ => {
            return Err(anyhow::anyhow!("flaky: unknown option {}; --runs N", options.join(" ")))
                .context(UsageError);
        }
    };
    let mut steps = Steps::default();
    let environment = prepare(&mut steps, workspace)?;
    let programs = build(&mut steps, workspace, &environment, &BTreeSet::new(), false)?;
    let is_over = AtomicBool::new(false);
    let failures = thread::scope(|scope| {
        for _ in 0..side_by_side::processors() {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        let mut failures = Vec::new();
        for number in 1..=runs {
            let run =
                steps.run(&format!("run {number}"), || programs::run(workspace, &programs, &environment, 0));
            failures.extend(run.err().map(|error| format!("{error:#}")));
        }
        is_over.store(true, Ordering::Relaxed);
        failures
    });
    steps.print("flaky", environment.missing());
    say(&format!(
        "{} of {runs} runs failed beside {} busy loops",
        failures.len(),
        side_by_side::processors()
    ));
    if !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    Ok(())
}

/// Fetches the crates and installs the tools that the tests need.
fn prepare(steps: &mut Steps, workspace: &Workspace) -> Result<Environment> {
    steps.run("installs and downloads", || {
        succeed(run::cargo().current_dir(&workspace.root).args(["fetch", "--locked"]))?;
        setup::run(workspace, Need::Tests)
    })
}

/// Builds the tests of these packages, or of all if there are none. The binary of the server is always among it: tests start it.
fn build(
    steps: &mut Steps,
    workspace: &Workspace,
    environment: &Environment,
    packages: &BTreeSet<String>,
    is_edit: bool,
) -> Result<Vec<Program>> {
    let mut selection = TARGETS.to_vec();
    if packages.is_empty() {
        selection.push("--workspace");
    }
    packages.iter().for_each(|package| selection.extend(["--package", package]));
    steps.run("build", || programs::build(workspace, environment, &selection, is_edit))
}

/// The files that differ from the last commit, relative to the root.
fn changed_files(root: &Path) -> Result<Vec<String>> {
    let args = ["status", "--porcelain", "--no-renames", "--untracked-files=all"];
    let said = run::quiet(Command::new("git").current_dir(root).args(args)).context("git status failed")?;
    Ok(said.lines().filter_map(|line| line.get(3..)).map(|path| path.trim_matches('"').to_owned()).collect())
}

/// The packages that a change of these files can affect: their own, and those that depend on them. An empty set stands for all
/// packages; none says that no test can be affected.
fn affected(workspace: &Workspace, files: &[String]) -> Option<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for file in files {
        // Of nested packages, the innermost.
        let owners = workspace.members.iter().filter(|member| {
            member.manifest.parent().is_some_and(|folder| Path::new(file).starts_with(folder))
        });
        match owners.max_by_key(|member| member.manifest.as_os_str().len()) {
            Some(member) => {
                found.insert(member.name.clone());
            }
            None if file.ends_with(".md") => {}
            // The workspace's manifest, the lock file, proto/ and the like.
            None => return Some(BTreeSet::new()),
        }
    }
    if found.is_empty() {
        return None;
    }
    loop {
        let depends = |member: &&crate::workspace::Member| {
            member.dependencies.iter().any(|dependency| found.contains(&dependency.name))
        };
        let more: Vec<String> =
            workspace.members.iter().filter(depends).map(|member| member.name.clone()).collect();
        let before = found.len();
        found.extend(more);
        if found.len() == before {
            return Some(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workspace() -> Workspace {
        let package = |name: &str, folder: &str, on: &[&str]| {
            let dependencies: Vec<_> = on.iter().map(|name| json!({ "name": name, "kind": "dev" })).collect();
            json!({ "name": name, "manifest_path": format!("/w/{folder}/Cargo.toml"), "dependencies": dependencies, "targets": [] })
        };
        Workspace::parse(&json!({
            "workspace_root": "/w",
            "target_directory": "/w/target",
            "packages": [
                package("engine", "crates/engine", &[]),
                package("engine-tests", "crates/engine/tests", &["engine"]),
                package("server", "crates/server", &["engine"]),
                package("command", "crates/command", &["server"]),
                package("chores", "chores", &[]),
            ],
        }))
        .unwrap()
    }

    fn affected_by(file: &str) -> Option<Vec<String>> {
        affected(&workspace(), &[file.to_owned()]).map(|packages| packages.into_iter().collect())
    }

    #[test]
    fn a_change_affects_its_package_and_those_that_depend_on_it() {
        assert_eq!(affected_by("crates/server/src/a.rs").unwrap(), ["command", "server"]);
        assert_eq!(affected_by("crates/engine/tests/it/a.rs").unwrap(), ["engine-tests"]);
        let all_but_chores = ["command", "engine", "engine-tests", "server"];
        assert_eq!(affected_by("crates/engine/src/a.rs").unwrap(), all_but_chores);
    }

    #[test]
    fn a_change_outside_of_the_packages_affects_all_unless_it_is_prose() {
        assert_eq!(affected_by("Cargo.lock"), Some(Vec::new()));
        assert_eq!(affected_by("docs/semantics.md"), None);
        assert_eq!(affected(&workspace(), &[]), None);
    }

    #[test]
    fn options_are_checked() {
        let expected = TestOptions { is_changed: true, slowest: 50 };
        assert_eq!(TestOptions::parse(&["--changed", "--slowest", "50"]).unwrap(), expected);
        for (options, wrong) in [
            (&["--slowest"][..], "--slowest: its value is missing"),
            (&["--slowest", "0"], "--slowest: `0`; a number from 1 on"),
            (&["--fast"], "test: unknown option --fast; --changed or --slowest N"),
        ] {
            assert_eq!(TestOptions::parse(options).unwrap_err().to_string(), wrong);
        }
    }
}
