//! Steps, commands and deadlines.

use std::fmt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How often a child with a deadline is looked at: far below what a person notices, far above what costs.
const POLL: Duration = Duration::from_millis(10);

/// The context of an error about a command line that cannot be understood. It decides about the exit code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UsageError;

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot understand the command line")
    }
}

/// Announces a step, runs it, and says how long it took; a failure carries the step's name.
pub(crate) fn step(name: &str, body: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("\n=== {name}");
    let began = Instant::now();
    body().with_context(|| format!("step `{name}` failed"))?;
    eprintln!("--- {name}: {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// Prints a line of a result, for which standard output is kept.
#[expect(clippy::print_stdout, reason = "a result is what the command was started for")]
pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// The cargo that runs us.
///
/// `cargo run` describes the xtask package in the environment. Build scripts of some dependencies watch these
/// variables: passed on, they would rebuild whenever a person alternates between `cargo xtask` and `cargo`.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&*name);
        }
    }
    cargo
}

/// Shows a command, runs it on our own stdio, and fails unless it succeeds.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = command.status().with_context(|| format!("cannot run `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` ended with {status}");
    }
    Ok(())
}

/// Runs a command without showing anything and returns its stdout, or `None` if it does not succeed.
pub(crate) fn quiet(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command that must end by itself within `limit`; `None` says that it did not and was killed.
///
/// It has no stdin, so that one that asks for input fails at once instead of waiting for the limit.
pub(crate) fn within(limit: Duration, command: &mut Command) -> Result<Option<ExitStatus>> {
    let shown = show(command);
    let mut child = command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot run `{shown}`"))?;
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "std waits for a child with a deadline in no other way"
        )]
        std::thread::sleep(POLL);
    }
}

/// The command as a person would type it, the program without its directory.
fn show(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let mut words = vec![program.file_name().unwrap_or(program.as_os_str()).to_string_lossy()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_carries_the_steps_name() {
        let error = step("clippy", || bail!("exit 101")).unwrap_err();
        assert_eq!(format!("{error:#}"), "step `clippy` failed: exit 101");
    }

    #[test]
    fn a_wrong_command_line_is_told_from_work_that_failed() {
        let wrong: Result<()> = Err(anyhow::anyhow!("--minutes x")).context(UsageError);
        let wrong = wrong.context("fuzz").unwrap_err();
        assert!(wrong.is::<UsageError>());
        assert_eq!(format!("{wrong:#}"), "fuzz: cannot understand the command line: --minutes x");
        assert!(!anyhow::anyhow!("exit 101").is::<UsageError>());
    }

    #[test]
    fn a_command_that_fails_is_an_error() {
        let error = succeed(&mut Command::new("false")).unwrap_err();
        assert!(error.to_string().starts_with("`false` ended with"), "{error}");
        assert!(succeed(&mut Command::new("no-such-command-anywhere")).is_err());
    }

    #[test]
    fn a_child_is_killed_at_its_limit() {
        let began = Instant::now();
        let status = within(Duration::from_millis(50), Command::new("sleep").arg("60")).unwrap();
        assert!(status.is_none());
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_child_that_ends_in_time_gives_its_status() {
        let status = within(Duration::from_secs(30), &mut Command::new("true")).unwrap();
        assert!(status.is_some_and(|status| status.success()));
    }
}
