//! Test programs: built by one command, run side by side.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::run::{self, say};
use crate::setup::Environment;
use crate::side_by_side;
use crate::workspace::Workspace;

/// A program that runs longer hangs.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Tests that a program runs at a time, unless `RUST_TEST_THREADS` says otherwise. As many programs run at a time as there are
/// processors. Most tests wait for servers more than they calculate.
const THREADS: &str = "6";

/// How many lines of a failed program's output are shown; the log has all of them.
const SHOWN: usize = 200;

/// A program that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) package: String,
    /// The folder of the package.
    folder: PathBuf,
    /// The library or binary whose unit tests it has, an integration test, or an example.
    pub(crate) target: String,
    pub(crate) executable: PathBuf,
}

/// What one program, or all of them, came to.
#[derive(Clone, Debug, Default, PartialEq)]
struct Count {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// Cargo in this workspace.
///
/// Notes for the next build cost a first build half a minute. So they are kept where someone edits: where `cargo test` or
/// `cargo xtask test --changed` has kept them before.
pub(crate) fn cargo(workspace: &Workspace) -> Command {
    let kept = fs::read_dir(workspace.target_dir.join("debug/incremental")).into_iter().flatten().flatten();
    let mut kept = kept.filter(|entry| entry.file_name().to_string_lossy().starts_with("ratekeeper"));
    let mut cargo = run::cargo();
    cargo.current_dir(&workspace.root);
    if kept.next().is_none() {
        cargo.env("CARGO_INCREMENTAL", "0");
    }
    cargo
}

/// Builds the tests that `selection` names. Keeps notes for the next build if this one is made while someone edits.
pub(crate) fn build(
    workspace: &Workspace,
    environment: &Environment,
    selection: &[&str],
    is_edit: bool,
) -> Result<Vec<Program>> {
    let args = [&["test", "--no-run", "--all-features"], selection].concat();
    let mut programs = compile(workspace, environment, &args, is_edit)?;
    // The largest programs have the most tests: they begin first, so that none runs alone at the end.
    let size = |program: &Program| fs::metadata(&program.executable).map_or(0, |file| file.len());
    programs.sort_by_key(|program| std::cmp::Reverse(size(program)));
    Ok(programs)
}

/// Builds every example, as someone who tries it does: not as a test.
pub(crate) fn build_examples(workspace: &Workspace, environment: &Environment) -> Result<Vec<Program>> {
    compile(workspace, environment, &["build", "--workspace", "--all-features", "--examples"], false)
}

fn compile(
    workspace: &Workspace,
    environment: &Environment,
    args: &[&str],
    is_edit: bool,
) -> Result<Vec<Program>> {
    let mut cargo = cargo(workspace);
    cargo.envs(environment.vars());
    if is_edit {
        cargo.env("CARGO_INCREMENTAL", "1");
    }
    eprintln!("$ cargo {}", args.join(" "));
    cargo.args(args).arg("--message-format=json-render-diagnostics");
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo {} failed", args.join(" "));
    }
    Ok(parse(workspace, &String::from_utf8_lossy(&output.stdout)))
}

/// Reads cargo's messages, one JSON object a line.
fn parse(workspace: &Workspace, messages: &str) -> Vec<Program> {
    let program = |message: Value| {
        let target = &message["target"];
        let is_example = target["kind"].as_array()?.iter().any(|kind| kind == "example");
        // Otherwise it is a binary that tests start, or an example that only looks for tests.
        if message["profile"]["test"].as_bool()? == is_example {
            return None;
        }
        let executable = PathBuf::from(message["executable"].as_str()?);
        let manifest = PathBuf::from(message["manifest_path"].as_str()?);
        let member = workspace.members.iter().find(|m| workspace.root.join(&m.manifest) == manifest)?;
        Some(Program {
            package: member.name.clone(),
            folder: manifest.parent()?.to_owned(),
            target: target["name"].as_str()?.to_owned(),
            executable,
        })
    };
    messages.lines().filter_map(|line| serde_json::from_str(line).ok()).filter_map(program).collect()
}

/// Runs the programs side by side, all of them whatever fails. Prints how many tests passed and, with `slowest`, how long the slowest
/// took.
///
/// # Errors
///
/// Names the programs that failed, and shows their output.
pub(crate) fn run(
    workspace: &Workspace,
    programs: &[Program],
    environment: &Environment,
    slowest: usize,
) -> Result<()> {
    let logs = workspace.target_dir.join("test-logs");
    fs::create_dir_all(&logs)?;
    let ended = side_by_side::run(programs, side_by_side::processors(), |program| {
        run_one(program, &logs, environment, slowest > 0)
    });
    let (mut sum, mut wrong, mut times) = (Count::default(), Vec::new(), Vec::new());
    for (program, outcome) in programs.iter().zip(ended) {
        let name = format!("{} {}", program.package, program.target);
        let (count, how, said) = match outcome {
            Ok(outcome) => outcome,
            Err(error) => (Count::default(), Some(format!("{error:#}")), String::new()),
        };
        sum.passed += count.passed;
        sum.failed += count.failed;
        sum.skipped += count.skipped;
        wrong.extend(how.map(|how| format!("{name} {how}")));
        times.extend(durations(&said).into_iter().map(|(took, test)| (took, format!("{name} {test}"))));
    }
    if slowest > 0 {
        times.sort_by(|one, other| other.0.total_cmp(&one.0));
        say("\n| slowest tests | s |\n|---|---|");
        times.iter().take(slowest).for_each(|(took, test)| say(&format!("| {test} | {took:.1} |")));
    }
    let skipped = if sum.skipped > 0 { format!(", {} skipped", sum.skipped) } else { String::new() };
    say(&format!("\ntests: {} passed, {} failed{skipped}", sum.passed, sum.failed));
    if !wrong.is_empty() {
        bail!("test programs failed:\n{}", wrong.join("\n"));
    }
    if sum.passed == 0 {
        bail!("no test was run");
    }
    Ok(())
}

/// Runs a program. Returns how many tests passed, how it failed, and what it printed.
fn run_one(
    program: &Program,
    logs: &Path,
    environment: &Environment,
    is_timed: bool,
) -> Result<(Count, Option<String>, String)> {
    let Program { package, folder, target, executable } = program;
    let log = logs.join(format!("{package}-{target}.log"));
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = run::of_no_package(Command::new(executable));
    // As cargo starts it.
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder).env("CARGO_PKG_NAME", package);
    command.envs(environment.vars());
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        command.env("RUST_TEST_THREADS", THREADS);
    }
    if is_timed {
        // The harness reports times on request only, and only where unstable options are allowed.
        command.env("RUSTC_BOOTSTRAP", "1").args(["-Zunstable-options", "--report-time"]);
    }
    command.stdout(output.try_clone()?).stderr(output);
    let began = Instant::now();
    let end = run::within(LIMIT, &mut command)?;
    let took = began.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let count = count(&said);
    let failure = failure(end);
    if let Some(how) = &failure {
        let lines: Vec<&str> = said.lines().collect();
        let shown = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
        say(&format!("\n{package} {target} {how}; the end of {}:\n{shown}\n", log.display()));
    }
    say(&format!("{package} {target}: {} passed, {} failed in {took:.1} s", count.passed, count.failed));
    Ok((count, failure, said))
}

/// How a program failed that ended so, or that did not end.
fn failure(end: Option<ExitStatus>) -> Option<String> {
    match end {
        None => Some(format!("ran for {} s and was killed", LIMIT.as_secs())),
        Some(status) if !status.success() => Some(format!("ended with {status}")),
        Some(_) => None,
    }
}

/// Reads `test result: ok. 12 passed; 0 failed; 1 ignored; …`.
fn count(said: &str) -> Count {
    let mut count = Count::default();
    for line in said.lines().filter(|line| line.starts_with("test result: ")) {
        let words: Vec<&str> = line.split([' ', ';']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let Ok(number) = pair[0].parse::<u64>() else { continue };
            match pair[1] {
                "passed" => count.passed += number,
                "failed" => count.failed += number,
                "ignored" => count.skipped += number,
                _ => {}
            }
        }
    }
    count
}

/// Reads `test laws::refund ... ok <0.123s>`.
fn durations(said: &str) -> Vec<(f64, String)> {
    let line = |line: &str| {
        let (test, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let seconds = rest.strip_suffix("s>")?.rsplit_once('<')?.1;
        Some((seconds.parse().ok()?, test.to_owned()))
    };
    said.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workspace() -> Workspace {
        Workspace::parse(&json!({
            "workspace_root": "/w",
            "target_directory": std::env::temp_dir().join(format!("xtask-programs-{}", std::process::id())),
            "packages": [{ "name": "a", "manifest_path": "/w/a/Cargo.toml", "targets": [] }],
        }))
        .unwrap()
    }

    #[test]
    fn programs_come_from_cargos_messages() {
        let built = |kind: &str, name: &str, is_test: bool, executable: Option<&str>| {
            json!({
                "reason": "compiler-artifact",
                "manifest_path": "/w/a/Cargo.toml",
                "target": { "kind": [kind], "name": name },
                "profile": { "test": is_test },
                "executable": executable,
            })
        };
        let messages = [
            json!("not an object"),
            built("lib", "a", false, None),
            built("lib", "a", true, Some("/t/a-1")),
            built("bin", "server", false, Some("/t/server")),
            built("example", "quick", false, Some("/t/examples/quick")),
            built("example", "quick", true, Some("/t/examples/quick-1")),
            json!({ "reason": "build-finished" }),
        ];
        let lines: Vec<String> = messages.iter().map(Value::to_string).collect();
        let found = parse(&workspace(), &format!("not json\n{}", lines.join("\n")));
        let found: Vec<_> =
            found.iter().map(|p| (p.target.as_str(), p.executable.to_str().unwrap())).collect();
        assert_eq!(found, [("a", "/t/a-1"), ("quick", "/t/examples/quick")]);
    }

    #[test]
    fn every_program_runs_and_the_failed_ones_are_named() {
        let workspace = workspace();
        let folder = workspace.target_dir.join("programs");
        fs::create_dir_all(&folder).unwrap();
        let program = |target: &str, script: &str| {
            let executable = folder.join(target);
            fs::write(&executable, script).unwrap();
            let executable = PathBuf::from("/bin/sh");
            Program { package: "a".to_owned(), folder: folder.clone(), target: target.to_owned(), executable }
        };
        // The programs of this test are a shell that gets no script: it ends well, and reports no test.
        let programs = [program("quiet", "")];
        let error = run(&workspace, &programs, &Environment::default(), 0).unwrap_err();
        assert_eq!(error.to_string(), "no test was run");
        let missing = Program { executable: "/bin/false".into(), ..program("broken", "") };
        let error = run(&workspace, &[missing], &Environment::default(), 0).unwrap_err();
        assert_eq!(error.to_string(), "test programs failed:\na broken ended with exit status: 1");
        fs::remove_dir_all(&workspace.target_dir).unwrap();
    }

    #[test]
    fn results_and_times_are_read_from_the_output() {
        let said = "test a::b ... ok <0.250s>\ntest c ... FAILED <12.000s>\n\
                    test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1s\n";
        assert_eq!(count(said), Count { passed: 3, failed: 1, skipped: 2 });
        assert_eq!(durations(said), [(0.25, "a::b".to_owned()), (12.0, "c".to_owned())]);
    }
}
