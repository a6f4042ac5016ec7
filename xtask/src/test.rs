//! `cargo xtask test`: the steps, in order, up to the first that fails.
//!
//! It is to take a quarter of an hour. What there are more cases of than that allows is tried in part, and by `--thorough` whole.

use std::panic;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::run::{self, step, succeed};
use crate::setup::{self, Environment};
use crate::test_programs::TestPrograms;
use crate::workspace::Workspace;
use crate::{artifacts, examples, loom, packages, supply, tidy};

/// Tells tests to try all of their cases.
const THOROUGH: &str = "RATEKEEPER_THOROUGH";

/// Runs every step; the error of the first that fails names it.
pub(crate) fn run(workspace: &Workspace, is_thorough: bool) -> Result<()> {
    let began = Instant::now();
    let cargo = |args: &str, environment: &Environment| {
        succeed(run::cargo().current_dir(&workspace.root).envs(environment.vars()).args(args.split(' ')))
    };

    let nothing = &Environment::default();
    setup::components()?;
    step("format", || cargo("fmt --all --check", nothing))?;
    // Set-up waits for the network, and clippy for the processor.
    let environment = thread::scope(|scope| {
        let setup = scope.spawn(|| setup::run(workspace));
        let clippy = step("clippy, and set-up beside it", || {
            cargo("clippy --workspace --all-targets --all-features -- -D warnings", nothing)
        });
        let environment = setup.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
        clippy.and(environment.context("set-up failed"))
    })?;
    let environment = &if is_thorough { environment.with(THOROUGH, "1") } else { environment };
    let mut built = Vec::new();
    step("build", || {
        built = artifacts::build(workspace, environment)?;
        Ok(())
    })?;
    let programs = TestPrograms::new(workspace, &built, environment)?;
    step("test", || programs.run_crowd())?;
    // Those that run alone mostly wait, and what is beside them gives way.
    thread::scope(|scope| {
        let humble = scope.spawn(|| {
            run::give_way();
            step("documentation", || document(workspace, environment))?;
            step("loom", || loom::run(workspace, environment))?;
            step("doc tests", || {
                let mut cargo = run::cargo();
                cargo.current_dir(&workspace.root).envs(environment.vars());
                succeed(cargo.args(["test", "--workspace", "--all-features", "--doc"]))
            })?;
            step("examples", || examples::run(workspace, &built, environment))?;
            step("packages", || packages::run(workspace))?;
            step("supply chain", || supply::deny::check_rules(workspace))?;
            step("tidy", || tidy::run(workspace, &[]))
        });
        let alone = step("tests that run alone", || programs.run_alone());
        let humble = humble.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
        match (alone, humble) {
            (Err(alone), Err(humble)) => Err(alone.context(format!("{humble:#}; and"))),
            (alone, humble) => alone.and(humble),
        }
    })?;
    let took = began.elapsed().as_secs_f64();
    match environment.missing().join(", ") {
        nothing if nothing.is_empty() => eprintln!("\nAll steps passed in {took:.1} s."),
        missing => eprintln!("\nAll steps passed in {took:.1} s, but for the tests that need: {missing}."),
    }
    Ok(())
}

/// Writes the documentation of all crates, in which nothing may be wrong.
fn document(workspace: &Workspace, environment: &Environment) -> Result<()> {
    let mut cargo = run::cargo();
    cargo.current_dir(&workspace.root).envs(environment.vars()).env("RUSTDOCFLAGS", "-D warnings");
    succeed(cargo.args(["doc", "--workspace", "--no-deps", "--all-features"]))
}
