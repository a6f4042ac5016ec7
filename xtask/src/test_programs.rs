//! Runs the test programs: most of them several at a time, because they mostly wait; those that measure, or fill the machine up, alone.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::artifacts::{Artifact, ArtifactKind};
use crate::run;
use crate::setup::Environment;
use crate::side_by_side;
use crate::workspace::Workspace;

/// A test program that runs longer hangs: the longest takes some minutes, and a quarter of an hour if it is thorough.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Tests of a program that run at a time beside other programs, of which there are as many as processors: they wait for servers more
/// than they calculate.
const CROWD_THREADS: usize = 4;

/// Tests that run at a time for each processor, if their program runs alone and they mostly wait.
const WAITING_THREADS: usize = 3;

/// A test program, or a part of one, that is run by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TestRun<'a> {
    program: &'a Artifact,
    part: Part<'a>,
    /// How many of its tests run at a time.
    threads: usize,
}

/// Which tests of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part<'a> {
    /// All but those in these modules.
    AllBut(Vec<&'a str>),
    /// Those in this module.
    Only(&'a str),
}

impl TestRun<'_> {
    /// The program with its module as a manifest names it.
    fn name(&self) -> String {
        match self.part {
            Part::AllBut(_) => self.program.target.clone(),
            Part::Only(module) => format!("{}::{module}", self.program.target),
        }
    }

    /// What the program is told. It looks for the text anywhere in the path of a test: what the one run skips, the other has.
    fn args(&self) -> Vec<String> {
        match &self.part {
            Part::AllBut(modules) => {
                modules.iter().flat_map(|module| ["--skip".to_owned(), format!("{module}::")]).collect()
            }
            Part::Only(module) => vec![format!("{module}::")],
        }
    }
}

/// The test programs, by how they are run.
#[derive(Debug)]
pub(crate) struct TestPrograms<'a> {
    /// What may run beside others. What takes long is first.
    crowd: Vec<TestRun<'a>>,
    /// What must not.
    alone: Vec<TestRun<'a>>,
    logs: PathBuf,
    environment: &'a Environment,
}

impl<'a> TestPrograms<'a> {
    /// Plans by what the packages' manifests say of them.
    pub(crate) fn new(
        workspace: &'a Workspace,
        built: &'a [Artifact],
        environment: &'a Environment,
    ) -> Result<Self> {
        let (crowd, alone) = plan(workspace, built)?;
        let logs = workspace.target_dir.join("test-logs");
        fs::create_dir_all(&logs)?;
        Ok(TestPrograms { crowd, alone, logs, environment })
    }

    /// Runs what may run beside others, whatever fails, and names what has failed.
    pub(crate) fn run_crowd(&self) -> Result<()> {
        self.run(&self.crowd, side_by_side::processors())
    }

    /// Runs the rest likewise, one after the other.
    pub(crate) fn run_alone(&self) -> Result<()> {
        self.run(&self.alone, 1)
    }

    fn run(&self, runs: &[TestRun<'_>], at_a_time: usize) -> Result<()> {
        let ended = side_by_side::run(runs, at_a_time, |run| {
            let failure = run_one(run, &self.logs, self.environment);
            failure.unwrap_or_else(|error| Some(format!("could not be run: {error:#}")))
        });
        let mut failed = Vec::new();
        for (run, failure) in runs.iter().zip(ended) {
            failed.extend(failure.map(|how| format!("{} {} {how}", run.program.package, run.name())));
        }
        if !failed.is_empty() {
            bail!("test programs have failed:\n{}", failed.join("\n"));
        }
        Ok(())
    }
}

fn plan<'a>(workspace: &'a Workspace, built: &'a [Artifact]) -> Result<(Vec<TestRun<'a>>, Vec<TestRun<'a>>)> {
    let programs = || built.iter().filter(|artifact| artifact.kind == ArtifactKind::Test);
    let (mut first, mut crowd, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for member in &workspace.members {
        let manifest = member.manifest.display();
        let of_modules = member.tests_alone.iter().map(|name| name.split("::").next().unwrap_or_default());
        let of_programs = member.tests_first.iter().chain(&member.tests_waiting).map(String::as_str);
        for target in of_modules.chain(of_programs) {
            if !programs().any(|program| program.package == member.name && program.target == target) {
                bail!("{manifest}: there is no test program `{target}`");
            }
        }
        // What would be said in vain.
        if let Some(name) = member.tests_first.iter().find(|name| member.tests_alone.contains(name)) {
            bail!("{manifest}: `{name}` runs alone, so it cannot be among `tests-first`");
        }
        if let Some(name) = member.tests_waiting.iter().find(|name| !member.tests_alone.contains(name)) {
            bail!("{manifest}: `{name}` is among `tests-waiting`, so it must be among `tests-alone`");
        }
    }
    let processors = side_by_side::processors();
    for program in programs() {
        let Some(member) = workspace.members.iter().find(|member| member.name == program.package) else {
            bail!("{} is of no member of the workspace", program.target);
        };
        let is_waiting = member.tests_waiting.contains(&program.target);
        let threads = if is_waiting { processors * WAITING_THREADS } else { processors };
        let modules = |name: &'a String| {
            name.split_once("::").filter(|(target, _)| *target == program.target).map(|(_, module)| module)
        };
        let modules: Vec<&str> = member.tests_alone.iter().filter_map(modules).collect();
        let of_module = |module: &&'a str| TestRun { program, part: Part::Only(module), threads: processors };
        alone.extend(modules.iter().map(of_module));
        let part = Part::AllBut(modules);
        if member.tests_alone.contains(&program.target) {
            alone.push(TestRun { program, part, threads });
        } else {
            let is_first = member.tests_first.contains(&program.target);
            let runs = if is_first { &mut first } else { &mut crowd };
            runs.push(TestRun { program, part, threads: CROWD_THREADS });
        }
    }
    first.append(&mut crowd);
    Ok((first, alone))
}

/// Runs a program or its part, and prints what it has said when it has ended. Returns how it failed, if it did.
fn run_one(run: &TestRun<'_>, logs: &Path, environment: &Environment) -> Result<Option<String>> {
    let Artifact { package, folder, executable, .. } = run.program;
    let (name, args) = (run.name(), run.args());
    let file = executable.file_name().context("a program has a name")?.to_string_lossy();
    let part = if let Part::Only(module) = run.part { format!("-{module}") } else { String::new() };
    let log = logs.join(format!("{file}{part}.log"));
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = run::of_no_package(Command::new(executable));
    // As cargo starts it.
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder).envs(environment.vars()).args(&args);
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        command.env("RUST_TEST_THREADS", run.threads.to_string());
    }
    command.stdout(output.try_clone()?).stderr(output);
    let began = Instant::now();
    let end = run::within(LIMIT, &mut command)?;
    let (took, said) = (began.elapsed().as_secs_f64(), fs::read(&log)?);
    let said = String::from_utf8_lossy(&said);
    let failure = failure(&run.part, end, &said);
    let how = failure.as_ref().map_or_else(String::new, |how| format!(", {how}"));
    // At once, so that nothing of another one comes in between.
    run::say(&format!("\n$ {package}: {name} {}\n{said}{package}: {name}: {took:.1} s{how}", args.join(" ")));
    Ok(failure)
}

/// How a run has failed that ended so, or did not end, and said that.
fn failure(part: &Part<'_>, end: Option<ExitStatus>, said: &str) -> Option<String> {
    match end {
        None => Some(format!("ran for {} s and was killed", LIMIT.as_secs())),
        Some(status) if !status.success() => Some(format!("ended with {status}")),
        // A module that was renamed would not be missed.
        Some(_) if matches!(part, Part::Only(_)) && said.contains("\nrunning 0 tests\n") => {
            Some("has no tests".to_owned())
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use serde_json::json;

    fn program(target: &str, executable: &str) -> Artifact {
        Artifact {
            package: "a".to_owned(),
            folder: std::env::temp_dir(),
            target: target.to_owned(),
            kind: ArtifactKind::Test,
            executable: executable.into(),
        }
    }

    /// With a target directory of its own.
    fn workspace(alone: &[&str], first: &[&str], waiting: &[&str]) -> Workspace {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let target = std::env::temp_dir().join(format!("xtask-programs-{}-{number}", std::process::id()));
        Workspace::parse(&json!({
            "workspace_root": "/w",
            "target_directory": target,
            "packages": [{
                "name": "a",
                "manifest_path": "/w/a/Cargo.toml",
                "targets": [],
                "metadata": { "xtask": { "tests-alone": alone, "tests-first": first, "tests-waiting": waiting } },
            }],
        }))
        .unwrap()
    }

    #[test]
    fn who_runs_alone_and_who_first_is_said_by_the_manifest() {
        let built = ["loud", "quick", "slow"].map(|name| program(name, "true"));
        let names = |runs: &[TestRun<'_>]| {
            let command = |run: &TestRun<'_>| [vec![run.name()], run.args()].concat().join(" ");
            runs.iter().map(command).collect::<Vec<_>>()
        };
        let workspaces = workspace(&["loud", "slow::clocks", "slow::stalls"], &["slow"], &["loud"]);
        let (crowd, alone) = plan(&workspaces, &built).unwrap();
        assert_eq!(names(&crowd), ["slow --skip clocks:: --skip stalls::", "quick"]);
        assert_eq!(names(&alone), ["loud", "slow::clocks clocks::", "slow::stalls stalls::"]);
        let processors = side_by_side::processors();
        assert_eq!((alone[1].threads, crowd[0].threads), (processors, CROWD_THREADS));
        let workspaces = workspace(&["loud", "loud::clocks"], &[], &["loud"]);
        let (_, alone) = plan(&workspaces, &built).unwrap();
        assert_eq!(names(&alone), ["loud::clocks clocks::", "loud --skip clocks::"]);
        assert_eq!((alone[0].threads, alone[1].threads), (processors, processors * WAITING_THREADS));
    }

    #[test]
    fn what_a_manifest_says_in_vain_is_an_error() {
        let built = ["loud", "slow"].map(|name| program(name, "true"));
        let nobody = "there is no test program";
        for (alone, first, waiting, expected) in [
            ("gone", "slow", "gone", format!("{nobody} `gone`")),
            ("gone::clocks", "slow", "gone", format!("{nobody} `gone`")),
            ("loud", "slow::clocks", "loud", format!("{nobody} `slow::clocks`")),
            ("loud", "loud", "loud", "`loud` runs alone, so it cannot be among `tests-first`".to_owned()),
            (
                "loud",
                "slow",
                "slow",
                "`slow` is among `tests-waiting`, so it must be among `tests-alone`".to_owned(),
            ),
        ] {
            let workspace = workspace(&[alone], &[first], &[waiting]);
            let error = plan(&workspace, &built).unwrap_err();
            assert_eq!(error.to_string(), format!("a/Cargo.toml: {expected}"));
        }
    }

    #[test]
    fn a_module_without_tests_is_not_taken_for_one_that_passed() {
        let said = |part: &Part<'_>, count: u32| {
            failure(part, Some(ExitStatus::default()), &format!("\nrunning {count} tests\n"))
        };
        assert_eq!(said(&Part::Only("here"), 2), None);
        assert_eq!(said(&Part::Only("gone"), 0), Some("has no tests".to_owned()));
        assert_eq!(said(&Part::AllBut(Vec::new()), 0), None, "a binary may have none");
    }

    #[test]
    fn all_are_run_and_those_that_failed_are_named() {
        let (workspace, nothing) = (workspace(&["d"], &[], &[]), Environment::default());
        let built = [("a", "false"), ("b", "true"), ("c", "false"), ("d", "false")];
        let built = built.map(|(name, executable)| program(name, executable));
        let programs = TestPrograms::new(&workspace, &built, &nothing).unwrap();
        let expected =
            "test programs have failed:\na a ended with exit status: 1\na c ended with exit status: 1";
        assert_eq!(programs.run_crowd().unwrap_err().to_string(), expected);
        let expected = "test programs have failed:\na d ended with exit status: 1";
        assert_eq!(programs.run_alone().unwrap_err().to_string(), expected);
        assert!(TestPrograms::new(&workspace, &built[1..2], &nothing).is_err(), "`d` is missing");
        fs::remove_dir_all(&workspace.target_dir).unwrap();
    }
}
