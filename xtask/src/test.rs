//! `cargo xtask test`: the steps, in order, up to the first that fails.

use std::panic;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::run::{self, step, succeed};
use crate::setup::{self, Environment};
use crate::workspace::Workspace;
use crate::{examples, loom, packages, supply, tidy};

/// Runs every step; the error of the first that fails names it.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let began = Instant::now();
    let cargo = |args: &str, environment: &Environment, vars: &[(&str, &str)]| {
        succeed(
            run::cargo()
                .current_dir(&workspace.root)
                .envs(environment.vars())
                .envs(vars.iter().copied())
                .args(args.split(' ')),
        )
    };

    let nothing = &Environment::default();
    setup::components()?;
    step("format", || cargo("fmt --all --check", nothing, &[]))?;
    // Set-up waits for the network, and clippy for the processor.
    let environment = thread::scope(|scope| {
        let setup = scope.spawn(|| setup::run(workspace));
        let clippy = step("clippy, and set-up beside it", || {
            cargo("clippy --workspace --all-targets --all-features -- -D warnings", nothing, &[])
        });
        let environment = setup.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
        clippy.and(environment.context("set-up failed"))
    })?;
    let environment = &environment;
    step("build", || {
        // Naming target kinds adds the tests inside examples and leaves benches out, but turns doc tests off.
        cargo("test --workspace --all-features --tests --examples --no-run", environment, &[])
    })?;
    step("test", || {
        cargo("test --workspace --all-features --tests --examples", environment, &[])?;
        cargo("test --workspace --all-features --doc", environment, &[])
    })?;
    step("doc", || {
        let strict = [("RUSTDOCFLAGS", "-D warnings")];
        cargo("doc --workspace --no-deps --all-features", environment, &strict)
    })?;
    step("examples", || examples::run(workspace, environment))?;
    step("packages", || packages::run(workspace))?;
    step("loom", || loom::run(workspace, environment))?;
    step("supply chain", || supply::deny::check_rules(workspace))?;
    step("tidy", || tidy::run(workspace, &[]))?;
    eprintln!("\nAll steps passed in {:.1} s.", began.elapsed().as_secs_f64());
    Ok(())
}
