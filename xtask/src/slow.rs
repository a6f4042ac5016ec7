//! `cargo xtask slow`: what takes minutes: all cases, soak, Envoy, a browser, the documentation's commands, examples, packages.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::dist;
use crate::programs::{self, Program};
use crate::run::{self, UsageError, succeed};
use crate::setup::{self, Environment, Need};
use crate::steps::Steps;
use crate::workspace::Workspace;

/// Has tests try all of their cases.
const THOROUGH: &str = "RATEKEEPER_THOROUGH";

/// The packages whose tests try more cases if they are to be thorough.
const THOROUGH_PACKAGES: [&str; 4] =
    ["engine-tests", "ratekeeper-postgres", "ratekeeper-redis", "ratekeeper-server"];

/// Workspaces of their own, which nothing else compiles, and what is done with them. The test of `codegen` fails if the committed
/// code is stale.
const APART: [(&str, &str); 3] =
    [("codegen", "test"), ("compare", "check --benches"), ("tests/mutants", "test")];

/// An example shows one thing; one that runs longer hangs.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(60);

/// The step that tries all cases of the random tests, which `--without-all-cases` leaves out.
const ALL_CASES: &str = "--without-all-cases";

/// Runs every step, up to the first that fails, and prints a table of what each took.
pub(crate) fn run(workspace: &Workspace, options: &[&str]) -> Result<()> {
    let has_all_cases = match options {
        [] => true,
        [ALL_CASES] => false,
        _ => {
            return Err(anyhow!("slow: unknown option {}; {ALL_CASES}", options.join(" ")))
                .context(UsageError);
        }
    };
    let mut steps = Steps::default();
    let environment = steps.run("installs and downloads", || setup::run(workspace, Need::All))?;
    let outcome = parts(&mut steps, workspace, &environment, has_all_cases);
    steps.print("slow", environment.missing());
    outcome
}

fn parts(
    steps: &mut Steps,
    workspace: &Workspace,
    environment: &Environment,
    has_all_cases: bool,
) -> Result<()> {
    let build = |selection: &[&str]| programs::build(workspace, environment, selection, false);
    let (slow, examples) = steps.run("build", || {
        let slow = build(&["--package", "ratekeeper-cli", "--bins", "--test", "slow"])?;
        Ok((slow, build(&["--workspace", "--examples"])?))
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
    steps.run("dist", || dist::run(workspace))?;
    if has_all_cases {
        let packages = THOROUGH_PACKAGES.map(|package| ["--package", package]);
        let selection = [packages.as_flattened(), &["--lib", "--tests"]].concat();
        let thorough = steps.run("build of the random tests", || build(&selection))?;
        let environment = environment.with(THOROUGH, "1");
        steps.run("all cases", || programs::run(workspace, &thorough, &environment, 0))?;
    }
    Ok(())
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
