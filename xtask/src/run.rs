//! Steps, commands and deadlines.

use std::fmt;
use std::process::{Child, Command, ExitStatus, Stdio};
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
pub(crate) fn step<T>(name: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("\n=== {name}");
    let began = Instant::now();
    let outcome = body().with_context(|| format!("step `{name}` failed"));
    eprintln!("--- {name}: {:.1} s", began.elapsed().as_secs_f64());
    outcome
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
    let mut cargo = of_no_package(Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())));
    // Notes for the next build cost time, and where CI runs there is none.
    if std::env::var_os("CI").is_some() {
        cargo.env("CARGO_INCREMENTAL", "0");
    }
    cargo
}

/// Takes out of a command's environment what `cargo run` says of the xtask package.
pub(crate) fn of_no_package(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    command
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

/// Runs a command that must end by itself within `limit`; `None` says that it did not and was killed, with all that it had started.
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
            kill_with_descendants(&mut child)?;
            return Ok(None);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "std waits for a child with a deadline in no other way"
        )]
        std::thread::sleep(POLL);
    }
}

/// Kills a process and all processes that it started: a test program that hangs has servers.
fn kill_with_descendants(child: &mut Child) -> Result<()> {
    let descendants = descendants(child.id());
    child.kill()?;
    child.wait()?;
    for process in descendants {
        // It may have ended meanwhile.
        quiet(Command::new("kill").args(["-KILL", &process.to_string()]));
    }
    Ok(())
}

/// The processes that a process has started, and those that they have; none where there is no `/proc`.
fn descendants(process: u32) -> Vec<u32> {
    let mut found = vec![process];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    found.split_off(1)
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
        let error = step("clippy", || -> Result<()> { bail!("exit 101") }).unwrap_err();
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
        let status = within(Duration::from_millis(50), Command::new("sleep").arg("infinity")).unwrap();
        assert!(status.is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_is_killed_with_its_descendants() {
        let script = "(sleep infinity & echo $!; wait) & wait";
        let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut sleeper = String::new();
        std::io::BufRead::read_line(&mut output, &mut sleeper).unwrap();
        assert!(descendants(child.id()).contains(&sleeper.trim().parse().unwrap()));
        kill_with_descendants(&mut child).unwrap();
        // The pipe ends when no process has it open any more.
        assert_eq!(std::io::Read::read_to_end(&mut output, &mut Vec::new()).unwrap(), 0);
    }

    #[test]
    fn a_child_that_ends_in_time_gives_its_status() {
        let status = within(Duration::from_secs(30), &mut Command::new("true")).unwrap();
        assert!(status.is_some_and(|status| status.success()));
    }
}
