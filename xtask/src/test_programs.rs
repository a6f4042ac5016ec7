//! Runs the test programs: most of them several at a time, because they mostly wait; those that measure, or fill the machine up, alone.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::artifacts::{Artifact, ArtifactKind};
use crate::run;
use crate::setup::Environment;
use crate::side_by_side;
use crate::workspace::Workspace;

/// A test program that runs longer hangs: the longest takes some minutes, and a quarter of an hour if it is thorough.
const LIMIT: Duration = Duration::from_secs(3600);

/// Tests of a program that run at a time, for each processor: they wait for servers more than they calculate.
const THREADS: usize = 2;

/// The test programs, by how they are run.
#[derive(Debug)]
pub(crate) struct TestPrograms<'a> {
    /// Those that may run beside others. Those that take long are first.
    crowd: Vec<&'a Artifact>,
    /// Those that must not.
    alone: Vec<&'a Artifact>,
    logs: PathBuf,
    environment: &'a Environment,
}

impl<'a> TestPrograms<'a> {
    /// Plans by what the packages' manifests say of them.
    pub(crate) fn new(
        workspace: &Workspace,
        built: &'a [Artifact],
        environment: &'a Environment,
    ) -> Result<Self> {
        let (crowd, alone) = plan(workspace, built)?;
        let logs = workspace.target_dir.join("test-logs");
        fs::create_dir_all(&logs)?;
        Ok(TestPrograms { crowd, alone, logs, environment })
    }

    /// Runs those that may run beside others, whatever fails, and names those that have failed.
    pub(crate) fn run_crowd(&self) -> Result<()> {
        let processors = side_by_side::processors();
        self.run(&self.crowd, processors, processors * THREADS)
    }

    /// Runs the others likewise, one after the other.
    pub(crate) fn run_alone(&self) -> Result<()> {
        self.run(&self.alone, 1, side_by_side::processors())
    }

    fn run(&self, programs: &[&Artifact], at_a_time: usize, threads: usize) -> Result<()> {
        let ended = side_by_side::run(programs, at_a_time, |program| {
            let failure = run_one(program, threads, &self.logs, self.environment);
            failure.unwrap_or_else(|error| Some(format!("could not be run: {error:#}")))
        });
        let mut failed = Vec::new();
        for (program, failure) in programs.iter().zip(ended) {
            failed.extend(failure.map(|how| format!("{} {} {how}", program.package, program.target)));
        }
        if !failed.is_empty() {
            bail!("test programs have failed:\n{}", failed.join("\n"));
        }
        Ok(())
    }
}

fn plan<'a>(workspace: &Workspace, built: &'a [Artifact]) -> Result<(Vec<&'a Artifact>, Vec<&'a Artifact>)> {
    for member in &workspace.members {
        for name in member.tests_alone.iter().chain(&member.tests_first) {
            let mut programs = built.iter().filter(|artifact| artifact.kind == ArtifactKind::Test);
            if !programs.any(|program| program.package == member.name && program.target == *name) {
                bail!("{}: there is no test program `{name}`", member.manifest.display());
            }
        }
    }
    let is_named = |program: &Artifact, names: fn(&crate::workspace::Member) -> &[String]| {
        let mut members = workspace.members.iter().filter(|member| member.name == program.package);
        members.any(|member| names(member).contains(&program.target))
    };
    let programs = built.iter().filter(|artifact| artifact.kind == ArtifactKind::Test);
    let (alone, mut crowd): (Vec<_>, Vec<_>) =
        programs.partition(|program| is_named(program, |member| &member.tests_alone));
    crowd.sort_by_key(|program| !is_named(program, |member| &member.tests_first));
    Ok((crowd, alone))
}

/// Runs one program, and prints what it has said when it has ended. Returns how it failed, if it did.
fn run_one(
    program: &Artifact,
    threads: usize,
    logs: &Path,
    environment: &Environment,
) -> Result<Option<String>> {
    let Artifact { package, folder, target, executable, .. } = program;
    let name = executable.file_name().context("a program has a name")?;
    let log = logs.join(name).with_extension("log");
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = run::of_no_package(Command::new(executable));
    // As cargo starts it.
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder).envs(environment.vars());
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        command.env("RUST_TEST_THREADS", threads.to_string());
    }
    command.stdout(output.try_clone()?).stderr(output);
    let began = Instant::now();
    let end = run::within(LIMIT, &mut command)?;
    let failure = match end {
        Some(status) if status.success() => None,
        Some(status) => Some(format!("ended with {status}")),
        None => Some(format!("ran for {} s and was killed", LIMIT.as_secs())),
    };
    let (took, said) = (began.elapsed().as_secs_f64(), fs::read(&log)?);
    let how = failure.as_ref().map_or_else(String::new, |how| format!(", {how}"));
    // At once, so that nothing of another one comes in between.
    let said = String::from_utf8_lossy(&said);
    run::say(&format!("\n$ {package}: {target}\n{said}{package}: {target}: {took:.1} s{how}"));
    Ok(failure)
}

#[cfg(test)]
mod tests {
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

    fn workspace(alone: &[&str], first: &[&str]) -> Workspace {
        let target = std::env::temp_dir().join(format!("xtask-programs-{}", std::process::id()));
        Workspace::parse(&json!({
            "workspace_root": "/w",
            "target_directory": target,
            "packages": [{
                "name": "a",
                "manifest_path": "/w/a/Cargo.toml",
                "targets": [],
                "metadata": { "xtask": { "tests-alone": alone, "tests-first": first } },
            }],
        }))
        .unwrap()
    }

    #[test]
    fn who_runs_alone_and_who_first_is_said_by_the_manifest() {
        let built = ["loud", "quick", "slow"].map(|name| program(name, "true"));
        let names = |programs: Vec<&Artifact>| {
            programs.iter().map(|program| program.target.clone()).collect::<Vec<_>>()
        };
        let (crowd, alone) = plan(&workspace(&["loud"], &["slow"]), &built).unwrap();
        assert_eq!(
            (names(crowd), names(alone)),
            (vec!["slow".into(), "quick".into()], vec!["loud".to_owned()])
        );
        let error = plan(&workspace(&["gone"], &[]), &built).unwrap_err();
        assert_eq!(error.to_string(), "a/Cargo.toml: there is no test program `gone`");
    }

    #[test]
    fn all_are_run_and_those_that_failed_are_named() {
        let (workspace, nothing) = (workspace(&["d"], &[]), Environment::default());
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
