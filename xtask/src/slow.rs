//! `cargo xtask slow`: what takes minutes: all cases, soak, Envoy, a browser, the documentation's commands, examples, packages.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::dist::{self, Optimised};
use crate::programs::{self, Program};
use crate::run::{self, succeed};
use crate::setup::{self, Environment, Need};
use crate::steps::Steps;
use crate::test::TARGETS;
use crate::workspace::Workspace;

/// Has tests try all of their cases.
const THOROUGH: &str = "RATEKEEPER_THOROUGH";

/// Workspaces of their own, which nothing else compiles, and what is done with them. The test of `codegen` fails if the committed
/// code is stale.
const APART: [(&str, &str); 3] =
    [("codegen", "test"), ("compare", "check --benches"), ("tests/mutants", "test")];

/// Returns true for a file of a workspace of its own. `cargo xtask fuzz` tries the one in `fuzz`.
pub(crate) fn is_apart(file: &Path) -> bool {
    APART.iter().map(|(folder, _)| *folder).chain(["fuzz"]).any(|folder| file.starts_with(folder))
}

/// An example shows one thing; one that runs longer hangs.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(60);

/// Runs every step, up to the first that fails, and prints a table of what each took.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut steps = Steps::default();
    let environment = steps.run("installs and downloads", || setup::run(workspace, Need::All))?;
    let outcome = parts(&mut steps, workspace, &environment);
    steps.print("slow", environment.missing());
    outcome
}

fn parts(steps: &mut Steps, workspace: &Workspace, environment: &Environment) -> Result<()> {
    let build = |selection: &[&str]| programs::build(workspace, environment, selection, false);
    let (tests, slow, examples) = steps.run("build", || {
        let tests = build(&[&TARGETS[..], &["--workspace"]].concat())?;
        let slow = build(&["--package", "ratekeeper-cli", "--bins", "--test", "slow"])?;
        Ok((tests, slow, programs::build_examples(workspace, environment)?))
    })?;
    let slow: Vec<Program> = slow.into_iter().filter(|program| program.target == "slow").collect();
    steps.run("soak, Envoy, browser, documentation", || programs::run(workspace, &slow, environment, 0))?;
    steps.run("examples", || run_examples(workspace, &examples, environment))?;
    steps.run("workspaces apart", || {
        for (folder, command) in APART {
            let manifest = workspace.root.join(folder).join("Cargo.toml");
            let mut cargo = run::cargo();
            cargo.env("CARGO_TARGET_DIR", workspace.target_dir.join("apart"));
            succeed(cargo.args(command.split(' ')).arg("--manifest-path").arg(manifest))?;
        }
        Ok(())
    })?;
    steps.run("dist", || dist::run(workspace, Optimised::Barely))?;
    let thorough = environment.with(THOROUGH, "1");
    steps.run("tests with all their cases", || programs::run(workspace, &tests, &thorough, 0))
}

/// Runs each example that can run unattended: an example that no longer works is worse than none.
fn run_examples(workspace: &Workspace, built: &[Program], environment: &Environment) -> Result<()> {
    let is_manual = |program: &Program| {
        let member = workspace.members.iter().find(|member| member.name == program.package);
        member.is_some_and(|member| member.manual_examples.contains(&program.target))
    };
    for Program { package, target, executable, .. } in built.iter().filter(|program| !is_manual(program)) {
        eprintln!("$ cargo run --package {package} --example {target}");
        let mut command = Command::new(executable);
        match run::within(EXAMPLE_LIMIT, command.current_dir(&workspace.root).envs(environment.vars()))? {
            Some(status) if status.success() => {}
            Some(status) => bail!("example `{target}` of {package} ended with {status}"),
            None => bail!("example `{target}` of {package} ran for {} s", EXAMPLE_LIMIT.as_secs()),
        }
    }
    Ok(())
}
