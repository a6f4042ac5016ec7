//! Runs the test programs of a woven checkout against each mutant.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::{fs::PermissionsExt as _, process::CommandExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::sample::{Mutant, Sample};
use crate::weave::git;

/// Programs that run at the same time.
const WORKERS: usize = 2;
/// The time limit of a program without a mutant, in seconds.
const LONGEST: f64 = 1800.0;
/// Ends a program whose mutant allocates without end: 6 GiB per process.
const MEMORY: &str = "--data=6442450944";

/// A test program, and what its run without a mutant showed.
struct Program {
    /// Package and target.
    name: String,
    executable: String,
    folder: String,
    seconds: f64,
    /// Tests that fail without a mutant: they kill none.
    failing: BTreeSet<String>,
    /// The mutants that the program evaluates.
    reached: BTreeSet<usize>,
}

/// The outcome of a run of a program.
struct Outcome {
    /// The test that the run was stopped for, or what else ended it; `None` after success.
    killer: Option<String>,
    failed: BTreeSet<String>,
    seconds: f64,
    output: String,
}

/// Runs everything that has no result yet, and writes the score.
pub fn run(dir: &Path, sample: &Sample, list: Option<&str>, score: &Path) -> Result<()> {
    for folder in ["base", "reached", "mutants"] {
        fs::create_dir_all(dir.join("results").join(folder))?;
    }
    end_processes(&format!("MUTANT_RUN={}#", dir.display()))?;
    let list = list.map_or_else(|| build_programs(dir), |list| Ok(fs::read_to_string(list)?))?;
    let lines: Vec<&str> = list.lines().filter(|line| !line.is_empty()).collect();
    let mut programs = in_parallel(&lines, |line| base(dir, line))?;
    programs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let mutants: Vec<&Mutant> = sample.chosen().collect();
    let outcomes = in_parallel(&mutants, |mutant| attack(dir, mutant, &programs))?;
    let killed = outcomes.iter().filter(|outcome| outcome["killer"].is_string()).count();
    let (seed, commit) = (sample.seed, git(dir, &["rev-parse", "--short", "HEAD"])?);
    let mut text = format!("# Written by `mutants run`: the sample of seed {seed} at commit {commit}");
    text += &format!("# Score: {killed} of {} killed.\n", mutants.len());
    for program in programs.iter().filter(|program| !program.failing.is_empty()) {
        text += &format!("# Fails without a mutant: {} {:?}\n", program.name, program.failing);
    }
    for outcome in outcomes.iter().filter(|outcome| outcome["flaky"] != json!([])) {
        text += &format!("# Failed once, but not alone: {}\n", outcome["flaky"]);
    }
    for (mutant, outcome) in mutants.iter().zip(&outcomes) {
        let result = match (outcome["killer"].as_str(), outcome["programs"] == 0) {
            (Some(killer), _) => format!("killed by {killer}"),
            (None, true) => "survived: no test program reaches it".to_owned(),
            (None, false) => "survived".to_owned(),
        };
        text += &format!("{:>3} {result} | {}\n", mutant.number, mutant.describe());
    }
    fs::write(score, text).with_context(|| score.display().to_string())
}

/// Builds all test programs, and lists them: the executable, a tab, and the folder that it runs in.
fn build_programs(dir: &Path) -> Result<String> {
    let list = dir.join("results/programs.txt");
    if !list.exists() {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--workspace", "--all-features", "--lib", "--bins", "--tests"]);
        cargo.args(["--no-run", "--message-format=json"]);
        cargo.current_dir(dir).env("CARGO_TARGET_DIR", dir.join("target")).stderr(Stdio::inherit());
        let output = cargo.output()?;
        ensure!(output.status.success(), "the tests do not build");
        let mut text = String::new();
        for line in String::from_utf8(output.stdout)?.lines() {
            let line: Value = serde_json::from_str(line)?;
            if let (Some(executable), true) = (line["executable"].as_str(), line["profile"]["test"] == true) {
                let manifest = line["manifest_path"].as_str().context("a program has a manifest")?;
                text += &format!("{executable}\t{}\n", manifest.trim_end_matches("/Cargo.toml"));
            }
        }
        fs::write(&list, text)?;
    }
    Ok(fs::read_to_string(list)?)
}

/// Runs a program without a mutant, unless that was done before.
fn base(dir: &Path, line: &str) -> Result<Program> {
    let (executable, folder) = line.split_once('\t').context("EXECUTABLE<tab>FOLDER expected")?;
    let key = executable.rsplit('/').next().unwrap_or(executable);
    let package = Path::new(folder).strip_prefix(dir).unwrap_or(folder.as_ref()).display().to_string();
    let mut program = Program {
        name: format!("{package}:{}", key.rsplit_once('-').map_or(key, |(target, _hash)| target)),
        executable: executable.to_owned(),
        folder: folder.to_owned(),
        seconds: 0.0,
        failing: BTreeSet::new(),
        reached: BTreeSet::new(),
    };
    let [result, reached] = ["base", "reached"].map(|name| format!("{}/results/{name}/{key}", dir.display()));
    if !Path::new(&result).exists() {
        fs::write(&reached, "")?;
        let outcome = program.run(dir, &[], ("MUTANT_REACHED", &reached), LONGEST, None)?;
        eprintln!("{}: {:.0} s, {:?} {:?}", program.name, outcome.seconds, outcome.killer, outcome.failed);
        let is_usable = outcome.killer.is_none() || !outcome.failed.is_empty();
        fs::write(&result, json!([outcome.seconds, is_usable, outcome.failed]).to_string())?;
    }
    let is_usable: bool;
    (program.seconds, is_usable, program.failing) = serde_json::from_str(&fs::read_to_string(result)?)?;
    // A program that fails as a whole without a mutant kills none.
    let numbers = fs::read_to_string(reached)?;
    program.reached =
        numbers.lines().filter(|_| is_usable).filter_map(|number| number.parse().ok()).collect();
    Ok(program)
}

/// Runs the programs that reach a mutant, the quickest first, until one kills it. A test that failed must fail again in
/// one of two runs of it alone. If not, it is flaky, and is excused.
fn attack(dir: &Path, mutant: &Mutant, programs: &[Program]) -> Result<Value> {
    let path = dir.join(format!("results/mutants/{}.json", mutant.number));
    if path.exists() {
        return Ok(serde_json::from_str(&fs::read_to_string(path)?)?);
    }
    let number = mutant.number.to_string();
    let reaching: Vec<_> =
        programs.iter().filter(|program| program.reached.contains(&mutant.number)).collect();
    let (mut flaky, mut killer) = (Vec::new(), None);
    for program in &reaching {
        let (mut excused, limit) = (program.failing.clone(), program.seconds * 3.0 + 30.0);
        let run = |arguments: &[&str], excused: Option<&BTreeSet<String>>| {
            program.run(dir, arguments, ("MUTANT", &number), limit, excused)
        };
        while killer.is_none() {
            let mut outcome = run(&[], Some(&excused))?;
            let Some(test) = outcome.killer else { break };
            if outcome.failed.contains(&test) {
                outcome = run(&["--exact", &test], None)?;
                if outcome.killer.is_none() {
                    outcome = run(&["--exact", &test], None)?;
                }
                if outcome.killer.is_none() {
                    flaky.push(format!("{} {test}", program.name));
                    excused.insert(test);
                    continue;
                }
            }
            fs::write(path.with_extension("log"), outcome.output)?;
            killer = Some(format!("{} {test}", program.name));
        }
    }
    eprintln!("{number}: {killer:?}");
    let result = json!({ "killer": killer, "flaky": flaky, "programs": reaching.len() });
    fs::write(path, result.to_string())?;
    Ok(result)
}

impl Program {
    /// Runs the program until it ends or, if some tests are excused, until another test fails.
    fn run(
        &self,
        dir: &Path,
        arguments: &[&str],
        variable: (&str, &str),
        limit: f64,
        excused: Option<&BTreeSet<String>>,
    ) -> Result<Outcome> {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let run = format!("{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
        let (mark, temporary) = (format!("{}#{run}", dir.display()), format!("/tmp/m{run}"));
        fs::create_dir_all(&temporary)?;
        // PostgreSQL may run as another user.
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o1777))?;
        let mut command = Command::new("prlimit");
        command
            .arg(MEMORY)
            .arg(&self.executable)
            .args(arguments)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder);
        command.env_remove("RATEKEEPER_BIN").env("MUTANT_RUN", &mark).env("TMPDIR", &temporary);
        command.env(variable.0, variable.1).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = Instant::now();
        let mut child = command.spawn().with_context(|| self.executable.clone())?;
        let stdout = BufReader::new(child.stdout.take().context("stdout is piped")?);
        let (sender, lines) = mpsc::channel();
        // Without it, there would be nothing to wait for once the pipe is closed.
        let _open = sender.clone();
        std::thread::spawn(move || {
            let mut lines = stdout.split(b'\n').map_while(Result::ok);
            lines.try_for_each(|line| sender.send(String::from_utf8_lossy(&line).into_owned()))
        });
        let (mut failed, mut output, mut status) = (BTreeSet::new(), String::new(), None);
        let killer = loop {
            if let Ok(line) = lines.recv_timeout(Duration::from_millis(100)) {
                output += &format!("{line}\n");
                if let Some(name) = failed_test(&line) {
                    failed.insert(name.to_owned());
                    if excused.is_some_and(|excused| !excused.contains(name)) {
                        break Some(name.to_owned());
                    }
                }
            } else if let Some(status) = status {
                // 101 is libtest's answer to tests that failed: here, those that are excused.
                let is_excused = status == "exit status: 101" && excused.is_some() && !failed.is_empty();
                break Some(status).filter(|status| !is_excused && status != "exit status: 0");
            } else {
                // A process that the tests left behind may hold the pipe open: only the exit ends the run.
                status = child.try_wait()?.map(|status| status.to_string());
            }
            if started.elapsed().as_secs_f64() > limit {
                break Some("(time limit)".to_owned());
            }
        };
        let seconds = started.elapsed().as_secs_f64();
        kill(&format!("-{}", child.id()))?;
        child.wait()?;
        end_processes(&format!("MUTANT_RUN={mark}\0"))?;
        let _ = fs::remove_dir_all(&temporary);
        Ok(Outcome { killer, failed, seconds, output })
    }
}

/// Returns the name in a line such as `test store::it_works ... FAILED`.
fn failed_test(line: &str) -> Option<&str> {
    let name = line.strip_prefix("test ")?.split_once(" ... FAILED")?.0;
    Some(name.strip_suffix(" - should panic").unwrap_or(name))
}

/// Ends the processes that a run left behind: their environment has its mark.
fn end_processes(mark: &str) -> Result<()> {
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.windows(mark.len()).any(|part| part == mark.as_bytes()) {
            kill(&entry.file_name().to_string_lossy())?;
        }
    }
    Ok(())
}

fn kill(process: &str) -> Result<()> {
    Command::new("kill").args(["-KILL", "--", process]).stderr(Stdio::null()).status()?;
    Ok(())
}

/// Does a job for each item, a few at a time.
fn in_parallel<T: Sync, R>(items: &[T], job: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            job(item)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker panicked"))
    })?;
    // All have results now, which the job only reads.
    items.iter().map(job).collect()
}
