//! Instruction counts of the engine's hot paths: the same for the same program, however busy the machine is.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run;
use crate::setup::{Environment, VALGRIND};
use crate::workspace::Workspace;

/// Calls in the shorter and the longer run of a path; their difference leaves out what starting costs.
const CALLS: [u64; 2] = [1_000, 11_000];

/// Counts the instructions of one call of each path of the bench `instructions`, and returns a table. Nothing without valgrind.
pub(crate) fn run(workspace: &Workspace, environment: &Environment) -> Result<Vec<String>> {
    let Some(valgrind) = environment.get(VALGRIND) else { return Ok(Vec::new()) };
    let mut cargo = run::cargo();
    // What a release has besides would only make the build longer.
    cargo
        .env("CARGO_PROFILE_BENCH_LTO", "off")
        .env("CARGO_TARGET_DIR", workspace.target_dir.join("instructions"));
    cargo.current_dir(&workspace.root);
    cargo.args(["bench", "--package", "ratekeeper", "--features", "testkit", "--bench", "instructions"]);
    let output =
        cargo.args(["--no-run", "--message-format=json"]).output().context("cannot run cargo bench")?;
    if !output.status.success() {
        bail!("the bench `instructions` does not build: {}", String::from_utf8_lossy(&output.stderr));
    }
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let executable = messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        (message["target"]["name"] == "instructions")
            .then(|| message["executable"].as_str().map(str::to_owned))?
    });
    let executable = executable.context("cargo built no bench `instructions`")?;
    let paths =
        run::quiet(&mut Command::new(&executable)).context("the bench `instructions` lists no paths")?;
    let mut table = vec!["\n| path | instructions |".to_owned(), "|---|---|".to_owned()];
    for path in paths.lines() {
        let count = |calls: u64| -> Result<u64> {
            let mut command = Command::new(valgrind);
            command.args([
                "--tool=callgrind",
                "--callgrind-out-file=/dev/null",
                &executable,
                path,
                &calls.to_string(),
            ]);
            let output = command.output().context("cannot run valgrind")?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let collected = said.lines().find_map(|line| line.split_once("Collected : "));
            let collected = collected.and_then(|(_, count)| count.trim().parse().ok());
            collected.with_context(|| format!("valgrind counted nothing: {said}"))
        };
        let calls = CALLS[1] - CALLS[0];
        table.push(format!("| {path} | {} |", (count(CALLS[1])? - count(CALLS[0])?) / calls));
    }
    Ok(table)
}
