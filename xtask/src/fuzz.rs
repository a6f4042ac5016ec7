//! `cargo xtask fuzz`: each target in `fuzz/` for some minutes, and a table of what came of it.
//!
//! As many run at a time as there are processors. Minutes are those of the processor, so that a busy machine tries as much as an idle one. What is found lies below the target
//! directory: inputs that reach something new, and those that made a target fail.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::run::{self, UsageError, say, step, succeed};
use crate::setup;
use crate::side_by_side;
use crate::workspace::Workspace;

/// How long each target is tried unless it is said otherwise: long enough to find what is not deep.
const MINUTES: f64 = 10.0;
/// How often a target is looked at.
const POLL: Duration = Duration::from_millis(200);
/// How long a target has to end after it was asked to.
const FAREWELL: Duration = Duration::from_secs(60);
/// What libFuzzer ends with when it is asked to end.
const INTERRUPTED: i32 = 72;
/// Ticks of `/proc` in a second: the same on every Linux.
const TICKS: f64 = 100.0;

/// What every target is started with. An input that takes much memory or time is a failure; libFuzzer's time is that of the wall,
/// and a machine may be busy. Readers may keep what they reuse, which is no leak.
const FLAGS: [&str; 6] = [
    "-timeout=120",
    "-report_slow_units=120",
    "-rss_limit_mb=3000",
    "-max_len=4096",
    "-detect_leaks=0",
    "-print_final_stats=1",
];

/// Builds the targets, runs them, and prints the table.
pub(crate) fn run(workspace: &Workspace, options: &[&str]) -> Result<()> {
    let all = targets(&workspace.root.join("fuzz/fuzz_targets"))?;
    let FuzzOptions { minutes, targets } = FuzzOptions::parse(options, &all).context(UsageError)?;
    let folder = workspace.target_dir.join("fuzz");
    let mut tool = PathBuf::new();
    step("set-up", || {
        tool = setup::cargo_fuzz(workspace)?;
        Ok(())
    })?;
    step("build", || build(workspace, &tool, &folder))?;
    let limit = Duration::from_secs_f64(minutes * 60.0);
    let run = |target: &String| {
        let mut row = None;
        step(target, || {
            row = Some(FuzzRun::of(workspace, &folder, target, limit)?);
            Ok(())
        })?;
        row.context("a step that passed has been run")
    };
    // One that could not be run does not hide what the others have found.
    let (mut rows, mut problems) = (Vec::new(), Vec::new());
    for ended in side_by_side::run(&targets, side_by_side::processors(), run) {
        match ended {
            Ok(row) => rows.push(row),
            Err(error) => problems.push(format!("{error:#}")),
        }
    }
    table(&rows).iter().for_each(|line| say(line));
    let failed: Vec<&str> = rows.iter().flat_map(|row| &row.failures).map(String::as_str).collect();
    if !failed.is_empty() {
        let failed = failed.join(", ");
        problems.push(format!("targets have failed: {failed}; mend it, and keep the inputs in fuzz/corpus"));
    }
    match problems.is_empty() {
        true => Ok(()),
        false => bail!("{}", problems.join("; ")),
    }
}

/// What was asked for.
#[derive(Debug, PartialEq)]
struct FuzzOptions {
    minutes: f64,
    targets: Vec<String>,
}

impl FuzzOptions {
    fn parse(options: &[&str], all: &[String]) -> Result<Self> {
        let (mut minutes, mut targets) = (MINUTES, Vec::new());
        let mut rest = options.iter();
        while let Some(option) = rest.next() {
            match *option {
                "--minutes" => {
                    let given = rest.next().context("--minutes: how many?")?;
                    minutes = given
                        .parse::<f64>()
                        .ok()
                        .filter(|minutes| *minutes > 0.0 && *minutes < 1e6)
                        .with_context(|| {
                            format!("--minutes {given}: not a number of minutes, such as 10 or 0.5")
                        })?;
                }
                target if all.iter().any(|known| known == target) => targets.push(target.to_owned()),
                other => bail!("{other}: no target of that name; there are {}", all.join(", ")),
            }
        }
        if targets.is_empty() {
            targets = all.to_vec();
        }
        // One that is named twice would run beside itself, in one folder.
        targets.sort();
        targets.dedup();
        Ok(FuzzOptions { minutes, targets })
    }
}

/// The names of all targets, sorted.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let files = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names: Vec<String> = files
        .filter_map(|file| Some(file.ok()?.file_name().to_str()?.strip_suffix(".rs")?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

fn build(workspace: &Workspace, tool: &Path, folder: &Path) -> Result<()> {
    let mut command = Command::new(tool);
    command.current_dir(&workspace.root).args(["fuzz", "build", "--target-dir"]).arg(folder);
    // Sanitizers are not stable. The compiler has them all the same.
    if !run::quiet(Command::new("rustc").arg("--version")).is_some_and(|version| version.contains("nightly"))
    {
        command.env("RUSTC_BOOTSTRAP", "1");
    }
    succeed(&mut command)
}

/// What came of one target.
#[derive(Debug)]
struct FuzzRun {
    target: String,
    status: FuzzStatus,
    took: Duration,
    /// The inputs that made it fail; or how it ended, if it left none.
    failures: Vec<String>,
}

/// What a target says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FuzzStatus {
    executions: u64,
    /// Edges of the program that some input has reached.
    edges: u64,
    /// Edges, how often they were taken, and comparisons that were nearly met.
    features: u64,
    /// Inputs that are kept, because each reaches something.
    corpus: u64,
}

impl FuzzRun {
    /// Runs a target until it has taken so much of the processor, or has failed.
    fn of(workspace: &Workspace, folder: &Path, target: &str, limit: Duration) -> Result<Self> {
        let [found, artifacts, logs] = ["found", "artifacts", "log"].map(|name| folder.join(name));
        let found = found.join(target);
        for folder in [&found, &artifacts, &logs] {
            fs::create_dir_all(folder)?;
        }
        let prefix = format!("{target}-");
        set_aside(&artifacts, &prefix)?;
        let log = logs.join(format!("{target}.log"));
        let mut command = Command::new(folder.join(host()?).join("release").join(target));
        command.arg(&found).arg(workspace.root.join("fuzz/corpus").join(target)).args(FLAGS);
        command.arg(format!("-artifact_prefix={}", artifacts.join(&prefix).display()));
        let words = workspace.root.join("fuzz/dict").join(format!("{target}.dict"));
        if words.exists() {
            command.arg(format!("-dict={}", words.display()));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let mut child = command.spawn().with_context(|| format!("cannot run the target {target}"))?;
        let (took, end) = let_run(&mut child, limit)?;
        let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let mut status = said.lines().rev().find_map(FuzzStatus::parse).unwrap_or_default();
        // The last line that tells of edges may be an old one.
        let counted = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        status.executions = counted.and_then(|count| count.trim().parse().ok()).unwrap_or(status.executions);
        let inputs = listed(&artifacts, &prefix)?;
        let mut failures: Vec<String> = inputs.iter().map(|path| path.display().to_string()).collect();
        // Killed for want of memory, for one, it leaves no input.
        if let (Some(end), true) = (end, failures.is_empty()) {
            failures.push(format!("{target} ended with {end}, see {}", log.display()));
        }
        if status == FuzzStatus::default() && failures.is_empty() {
            bail!("the target {target} has tried nothing; see {}", log.display());
        }
        Ok(FuzzRun { target: target.to_owned(), status, took, failures })
    }
}

impl FuzzStatus {
    /// Reads `#18548 REDUCE cov: 930 ft: 2186 corp: 276/10231b lim: 132 exec/s: 9274 …`.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.strip_prefix('#')?.split_whitespace().collect();
        let after = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1)?.split('/').next()?.parse().ok()
        };
        Some(FuzzStatus {
            executions: words.first()?.parse().ok()?,
            edges: after("cov:")?,
            features: after("ft:")?,
            corpus: after("corp:")?,
        })
    }
}

/// Waits until a target has taken so much of the processor, and asks it to end. Returns how much it took; and how it ended, if that
/// was a failure.
fn let_run(child: &mut Child, limit: Duration) -> Result<(Duration, Option<ExitStatus>)> {
    let began = Instant::now();
    let mut took = Duration::ZERO;
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(end) = child.try_wait()? {
            let is_asked = asked.is_some() && end.code() == Some(INTERRUPTED);
            return Ok((took, (!is_asked && !end.success()).then_some(end)));
        }
        // By the clock on the wall where nobody tells.
        took = processor_time(child.id()).unwrap_or_else(|| began.elapsed());
        match asked {
            None if took >= limit => {
                run::quiet(Command::new("kill").args(["-INT", &child.id().to_string()]));
                asked = Some(Instant::now());
            }
            Some(asked) if asked.elapsed() >= FAREWELL => child.kill()?,
            _ => {}
        }
        #[expect(clippy::disallowed_methods, reason = "nobody tells when a process has used so much")]
        thread::sleep(POLL);
    }
}

/// How much of the processor a process has taken, by `/proc`.
fn processor_time(process: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    parse_ticks(&stat).map(|ticks| Duration::from_secs_f64(ticks / TICKS))
}

/// The sum of the 14th and the 15th field. The second may hold blanks, and ends with the last parenthesis.
fn parse_ticks(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?)
}

/// Moves what earlier runs of a target have left out of the way. An input that makes it fail has the same name in every run, so a name
/// that is there already would tell nothing.
fn set_aside(folder: &Path, prefix: &str) -> Result<()> {
    let before = folder.join("before");
    for path in listed(folder, prefix)? {
        fs::create_dir_all(&before)?;
        let name = path.file_name().context("a file has a name")?;
        fs::rename(&path, before.join(name))?;
    }
    Ok(())
}

/// The files in a folder whose names begin so.
fn listed(folder: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?.filter_map(|file| Some(file.ok()?.path())).collect();
    paths.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)));
    paths.sort();
    Ok(paths)
}

/// The machine that targets are built for, whose name is a folder.
fn host() -> Result<String> {
    let said = run::quiet(Command::new("rustc").arg("-vV")).context("cannot run rustc")?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not tell its host")?.to_owned())
}

/// The lines of the table, in Markdown.
fn table(rows: &[FuzzRun]) -> Vec<String> {
    let mut lines = vec![
        "| target | executions | edges | features | corpus | processor | failures |".to_owned(),
        "|---|--:|--:|--:|--:|--:|--:|".to_owned(),
    ];
    for FuzzRun { target, status, took, failures } in rows {
        let FuzzStatus { executions, edges, features, corpus } = status;
        let (minutes, failures) = (took.as_secs_f64() / 60.0, failures.len());
        lines.push(format!(
            "| `{target}` | {executions} | {edges} | {features} | {corpus} | {minutes:.1} min | {failures} |"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for() {
        let all = ["http2".to_owned(), "resp".to_owned()];
        let parsed = |options: &[&str]| FuzzOptions::parse(options, &all);
        assert_eq!(parsed(&[]).unwrap(), FuzzOptions { minutes: 10.0, targets: all.to_vec() });
        let some = parsed(&["--minutes", "0.5", "resp"]).unwrap();
        assert_eq!(some, FuzzOptions { minutes: 0.5, targets: vec!["resp".to_owned()] });
        for wrong in [&["--minutes"][..], &["--minutes", "x"], &["--minutes", "-1"], &["rsep"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
        let error = parsed(&["rsep"]).unwrap_err().to_string();
        assert_eq!(error, "rsep: no target of that name; there are http2, resp");
    }

    #[test]
    fn a_target_tells_how_far_it_is() {
        let line = "#18548\tREDUCE cov: 930 ft: 2186 corp: 276/10231b lim: 132 exec/s: 9274 rss: 103Mb";
        let expected = FuzzStatus { executions: 18_548, edges: 930, features: 2_186, corpus: 276 };
        assert_eq!(FuzzStatus::parse(line), Some(expected));
        assert_eq!(FuzzStatus::parse("INFO: Seed: 1"), None);
        assert_eq!(FuzzStatus::parse("#2\tINITED exec/s: 0 rss: 30Mb"), None);
    }

    #[test]
    fn time_of_the_processor_is_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 100 1000 10";
        assert_eq!(parse_ticks(stat), Some(300.0));
        assert_eq!(parse_ticks("7 (a) S 1"), None);
        assert!(!cfg!(target_os = "linux") || processor_time(std::process::id()).is_some());
    }

    #[test]
    fn a_row_for_each_target() {
        let status = FuzzStatus { executions: 5, edges: 4, features: 3, corpus: 2 };
        let (took, failures) = (Duration::from_secs(90), vec!["a".to_owned()]);
        let lines = table(&[FuzzRun { target: "resp".to_owned(), status, took, failures }]);
        assert_eq!(lines[2], "| `resp` | 5 | 4 | 3 | 2 | 1.5 min | 1 |");
    }

    #[test]
    fn an_input_that_fails_again_is_a_failure_again() {
        let folder = std::env::temp_dir().join(format!("xtask-artifacts-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for _ in 0..2 {
            set_aside(&folder, "resp-").unwrap();
            assert!(listed(&folder, "resp-").unwrap().is_empty());
            fs::write(folder.join("resp-crash-1"), "*").unwrap();
            assert_eq!(listed(&folder, "resp-").unwrap(), [folder.join("resp-crash-1")]);
        }
        assert!(folder.join("before/resp-crash-1").exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn whoever_ends_badly_has_failed() {
        let ended = |script: &str, limit: u64| {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let_run(&mut child, Duration::from_secs(limit)).unwrap().1
        };
        assert_eq!(ended("exit 0", 600), None);
        assert_eq!(ended("exit 77", 600).unwrap().code(), Some(77));
        assert_eq!(ended("exit 72", 600).unwrap().code(), Some(72), "nobody has asked it to");
        assert_eq!(ended("kill -KILL $$", 600).unwrap().code(), None);
    }

    /// What there is a target for is told in the README of the targets, and has seeds.
    #[test]
    fn every_target_is_told_of_and_has_seeds() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let readme = fs::read_to_string(fuzz.join("README.md")).unwrap();
        let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
        let names = targets(&fuzz.join("fuzz_targets")).unwrap();
        assert!(names.len() > 20);
        for name in names {
            assert!(readme.contains(&format!("| `{name}` |")), "{name} is not in fuzz/README.md");
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/Cargo.toml");
            let seeds: Vec<_> = fs::read_dir(fuzz.join("corpus").join(&name)).unwrap().flatten().collect();
            let bytes: u64 = seeds.iter().map(|seed| seed.metadata().unwrap().len()).sum();
            assert!(
                (5..=60).contains(&seeds.len()) && bytes <= 100_000,
                "{name}: {} seeds, {bytes} bytes",
                seeds.len()
            );
        }
    }
}
