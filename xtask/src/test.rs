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
use crate::slow;
use crate::steps::Steps;
use crate::workspace::{Member, Workspace};

/// What `cargo xtask test` builds: no examples, no benches, and not the test target `slow`.
pub(crate) const TARGETS: [&str; 3] = ["--lib", "--bins", "--tests"];

/// How often `flaky` runs the tests unless it is told.
const RUNS: usize = 10;

/// What was asked for on the command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct TestOptions {
    /// Only what the changes since the last commit affect most likely.
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
    let affected = match options.is_changed {
        true => affected(workspace, &changed_files(&workspace.root)?),
        false => Affected::Everything,
    };
    if affected == Affected::Nothing {
        say("nothing has changed since the last commit");
        return Ok(());
    }
    let mut steps = Steps::default();
    let environment = prepare(&mut steps, workspace)?;
    let outcome =
        build(&mut steps, workspace, &environment, &affected, options.is_changed).and_then(|programs| {
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
    let programs = build(&mut steps, workspace, &environment, &Affected::Everything, false)?;
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

/// Builds the tests of what is affected. The binary of the server is among it wherever tests start it.
fn build(
    steps: &mut Steps,
    workspace: &Workspace,
    environment: &Environment,
    affected: &Affected,
    is_edit: bool,
) -> Result<Vec<Program>> {
    let build = |targets: &[&str], packages: &BTreeSet<String>| {
        let packages = packages.iter().flat_map(|package| ["--package", package]);
        let selection: Vec<&str> = targets.iter().copied().chain(packages).collect();
        programs::build(workspace, environment, &selection, is_edit)
    };
    steps.run("build", || match affected {
        Affected::Nothing => Ok(Vec::new()),
        Affected::Everything => build(&[&TARGETS[..], &["--workspace"]].concat(), &BTreeSet::new()),
        Affected::Packages { changed, dependents } => {
            let mut programs = build(&TARGETS, changed)?;
            if !dependents.is_empty() {
                programs.extend(build(&["--lib"], dependents)?);
            }
            Ok(programs)
        }
    })
}

/// What a change affects.
#[derive(Debug, PartialEq, Eq)]
enum Affected {
    /// Prose, at most.
    Nothing,
    Everything,
    Packages {
        /// Those with a change, and packages in their folders, which have their tests: all of their tests are run.
        changed: BTreeSet<String>,
        /// The libraries that depend on them. Only their unit tests are run: who edits waits for the answer, and their other tests
        /// start servers, which takes minutes.
        dependents: BTreeSet<String>,
    },
}

/// The files that differ from the last commit, relative to the root.
fn changed_files(root: &Path) -> Result<Vec<String>> {
    let args = ["status", "--porcelain", "--no-renames", "--untracked-files=all"];
    let said = run::quiet(Command::new("git").current_dir(root).args(args)).context("git status failed")?;
    Ok(said.lines().filter_map(|line| line.get(3..)).map(|path| path.trim_matches('"').to_owned()).collect())
}

/// What a change of these files affects.
fn affected(workspace: &Workspace, files: &[String]) -> Affected {
    let mut changed: BTreeSet<&Path> = BTreeSet::new();
    for file in files {
        // Of nested packages, the innermost.
        let owners = workspace.members.iter().filter(|member| {
            member.manifest.parent().is_some_and(|folder| Path::new(file).starts_with(folder))
        });
        match owners.max_by_key(|member| member.manifest.as_os_str().len()) {
            Some(member) => {
                changed.extend(member.manifest.parent());
            }
            None if file.ends_with(".md") || slow::is_apart(Path::new(file)) => {}
            // The workspace's manifest, the lock file, proto/ and the like.
            None => return Affected::Everything,
        }
    }
    if changed.is_empty() {
        return Affected::Nothing;
    }
    let is_changed = |member: &&Member| changed.iter().any(|folder| member.manifest.starts_with(folder));
    let name = |member: &Member| member.name.clone();
    let changed: BTreeSet<String> = workspace.members.iter().filter(is_changed).map(name).collect();
    let mut affected = changed.clone();
    loop {
        let depends = |member: &&Member| {
            member.dependencies.iter().any(|dependency| affected.contains(&dependency.name))
        };
        let more: Vec<String> = workspace.members.iter().filter(depends).map(name).collect();
        let before = affected.len();
        affected.extend(more);
        if affected.len() == before {
            break;
        }
    }
    let is_library =
        |member: &&Member| member.targets.iter().any(|target| target.kinds.iter().any(|kind| kind == "lib"));
    let libraries = workspace.members.iter().filter(is_library).map(name);
    let dependents = libraries.filter(|name| affected.contains(name) && !changed.contains(name)).collect();
    Affected::Packages { changed, dependents }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workspace() -> Workspace {
        let package = |name: &str, folder: &str, on: &[&str]| {
            let dependencies: Vec<_> = on.iter().map(|name| json!({ "name": name, "kind": "dev" })).collect();
            let target = json!({ "kind": ["lib"], "src_path": format!("/w/{folder}/src/lib.rs") });
            json!({ "name": name, "manifest_path": format!("/w/{folder}/Cargo.toml"), "dependencies": dependencies, "targets": [target] })
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

    fn affected_by(file: &str) -> Affected {
        affected(&workspace(), &[file.to_owned()])
    }

    #[test]
    fn a_change_affects_its_package_with_its_tests_and_those_that_depend_on_it() {
        let packages = |changed: &[&str], dependents: &[&str]| {
            let [changed, dependents] =
                [changed, dependents].map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            Affected::Packages { changed, dependents }
        };
        assert_eq!(affected_by("crates/server/src/a.rs"), packages(&["server"], &["command"]));
        assert_eq!(affected_by("crates/engine/tests/it/a.rs"), packages(&["engine-tests"], &[]));
        let engine = packages(&["engine", "engine-tests"], &["command", "server"]);
        assert_eq!(affected_by("crates/engine/src/a.rs"), engine);
    }

    #[test]
    fn a_change_outside_of_the_packages_affects_all_unless_it_is_prose() {
        assert_eq!(affected_by("Cargo.lock"), Affected::Everything);
        assert_eq!(affected_by("docs/semantics.md"), Affected::Nothing);
        assert_eq!(affected_by("tests/mutants/score.txt"), Affected::Nothing);
        assert_eq!(affected_by("tests/mutants.txt"), Affected::Everything);
        assert_eq!(affected(&workspace(), &[]), Affected::Nothing);
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
