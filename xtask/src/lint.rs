//! `cargo xtask lint`: what is checked without running the tests.

use std::panic::resume_unwind;
use std::thread;

use anyhow::{Context, Result, bail};

use crate::run::{self, say, succeed};
use crate::setup::{self, Environment, Need};
use crate::steps::Steps;
use crate::workspace::Workspace;
use crate::{instructions, packages, programs, supply, tidy};

/// Runs every check, up to the first that fails, and prints a table of what each took.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut steps = Steps::default();
    let environment = steps.run("installs and downloads", || {
        components()?;
        setup::run(workspace, Need::Lint)
    })?;
    let cargo = |args: &str| succeed(programs::cargo(workspace).args(args.split(' ')));
    let outcome = checks(&mut steps, workspace, &environment, &cargo);
    steps.print("lint", environment.missing());
    outcome
}

fn checks(
    steps: &mut Steps,
    workspace: &Workspace,
    environment: &Environment,
    cargo: &dyn Fn(&str) -> Result<()>,
) -> Result<()> {
    steps.run("format", || cargo("fmt --all --check"))?;
    steps.run("tidy", || tidy::run(workspace, &[]))?;
    steps.run("clippy", || {
        cargo("clippy --workspace --all-targets --all-features -- -D warnings")?;
        cargo("clippy --package ratekeeper-cli --test slow --all-features -- -D warnings")
    })?;
    steps.run("rustdoc", || {
        let mut cargo = programs::cargo(workspace);
        cargo.env("RUSTDOCFLAGS", "-D warnings");
        succeed(cargo.args(["doc", "--workspace", "--no-deps", "--all-features"]))
    })?;
    steps.run("doc tests", || cargo("test --workspace --all-features --doc"))?;
    // Each builds an optimised engine in a directory of its own, and for a while on one processor.
    let counts = steps.run("loom, instruction counts", || {
        thread::scope(|scope| {
            let counts = scope.spawn(|| instructions::run(workspace, environment));
            loom(workspace)?;
            counts.join().unwrap_or_else(|cause| resume_unwind(cause))
        })
    })?;
    counts.iter().for_each(|line| say(line));
    steps.run("packages", || packages::run(workspace))?;
    steps.run("licences and sources", || supply::deny::check_rules(workspace))
}

/// rustfmt and clippy belong to the toolchain, which its owner installs.
fn components() -> Result<()> {
    for (command, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        run::quiet(run::cargo().args([command, "--version"]))
            .with_context(|| format!("{component} is missing: run `rustup component add rustfmt clippy`"))?;
    }
    Ok(())
}

/// Tries every interleaving of the engine's loom tests.
fn loom(workspace: &Workspace) -> Result<()> {
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    let mut cargo = run::cargo();
    cargo.current_dir(&workspace.root).env("RUSTFLAGS", format!("{flags} --cfg loom").trim());
    // `--cfg loom` changes every crate: in a directory of its own it spoils no other build.
    cargo.env("CARGO_TARGET_DIR", workspace.target_dir.join("loom"));
    // Loom needs optimised code; what else a release has would cost more than it saves here.
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    cargo.args(["test", "--release", "--package", "ratekeeper", "--test", "loom"]);
    let output = cargo.output().context("cannot run cargo test")?;
    let said = String::from_utf8_lossy(&output.stdout);
    eprint!("{said}");
    if !output.status.success() {
        bail!("loom tests failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    if !said.lines().any(|line| line.starts_with("test ") && line.ends_with(" ok")) {
        bail!("no loom test was run");
    }
    Ok(())
}
