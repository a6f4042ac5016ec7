//! `cargo xtask bench-server`: the server against its yardsticks, as one table.
//!
//! Every server is pinned to the first core and the load to the second; contenders take turns, and only ratios are
//! told: the median of the rounds, and the least and the most. By processor time is what a disturbed machine can still
//! tell; by answers is what counts on a quiet one.

mod idle;
mod process;
mod spread;
mod temp_file;

use std::ffi::{OsStr, OsString};
use std::net::TcpStream;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::run;
use crate::workspace::Workspace;
use process::{Process, SERVER};
use spread::Spread;
use temp_file::TempFile;

const LOAD: &str = "1";
const BOTH: &str = "0,1";
/// Rounds of each contender, unless told otherwise.
const ROUNDS: usize = 7;
/// Connections that are held without a word.
const IDLE: usize = 10_000;

const USAGE: &str = "cargo xtask bench-server [--ratekeeper SERVER] [--yardstick CEILING] \
                                [--throttlecrab SERVER] [--rounds N] [--seconds S] [--only idle|envoy]";

/// What Envoy's questions are held to: fixed windows, so that every hit is counted.
const ENVOY_RULES: &str = "\
domain: bench
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 1000}}
  - {key: ip, rate_limit: {unit: minute, requests_per_unit: 1000}}
  - {key: path, value: /*, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 100000}}]}
  - {key: tenant, rate_limit: {unit: day, requests_per_unit: 1000000}}
";

struct Bench {
    ratekeeper: OsString,
    rounds: usize,
    seconds: String,
}

/// What one round of load saw.
struct Seen {
    per_second: f64,
    /// Processor time of the server for one answer, in nanoseconds.
    nanos: f64,
    p99: f64,
}

/// Builds the server unless it is named, starts the others that are, and prints a line for each bar.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<()> {
    let (mut yardstick, mut throttlecrab) = (None, None);
    let mut only = None;
    let mut bench = Bench { ratekeeper: OsString::new(), rounds: ROUNDS, seconds: "1".to_owned() };
    for pair in args.chunks(2) {
        match *pair {
            ["--yardstick", path] => yardstick = Some(OsStr::new(path)),
            ["--throttlecrab", path] => throttlecrab = Some(OsStr::new(path)),
            ["--ratekeeper", path] => bench.ratekeeper = path.into(),
            ["--rounds", rounds] => bench.rounds = rounds.parse().context("--rounds: a whole number")?,
            ["--seconds", seconds] => seconds.clone_into(&mut bench.seconds),
            ["--only", part @ ("idle" | "envoy")] => only = Some(part),
            _ => bail!("{}: not understood; {USAGE}", pair.join(" ")),
        }
    }
    if bench.ratekeeper.is_empty() {
        bench.ratekeeper = build(workspace)?;
    }
    if only == Some("idle") {
        return idle::measure(&bench.ratekeeper);
    }
    run::say(
        "| | bar | by processor time | by answers a second | ns for one answer, ours and theirs |\n|---|---|---|---|---|",
    );
    if only == Some("envoy") {
        return bench.envoy();
    }
    if let Some(program) = yardstick {
        bench.against_the_yardstick(program)?;
    }
    if let Some(program) = throttlecrab {
        let (ours, theirs) = (bench.serve(SERVER, 1)?, Process::throttlecrab(program, SERVER)?);
        let load = ["--keys", "100000"];
        bench.compare("HTTP, of throttlecrab", "1.5", (&ours, "http"), (&theirs, "http"), &load)?;
        bench.compare("RESP P=1, of throttlecrab", "1.5", (&ours, "resp"), (&theirs, "resp"), &load)?;
    }
    let ours = bench.serve(SERVER, 1)?;
    for depth in ["1", "16", "64"] {
        let name = format!("MessagePack P={depth}, of RESP");
        bench.compare(&name, "0.9", (&ours, "msgpack"), (&ours, "resp"), &["--pipeline", depth])?;
    }
    bench.envoy()?;
    let (one, two) = (bench.serve(BOTH, 1)?, bench.serve(BOTH, 2)?);
    for depth in ["1", "64"] {
        let name = format!("two loops, of one, P={depth}; nothing pinned");
        bench.compare_on(BOTH, &name, "1.0", (&two, "resp"), (&one, "resp"), &["--pipeline", depth])?;
    }
    bench.memory()
}

fn build(workspace: &Workspace) -> Result<OsString> {
    let build = ["build", "--release", "--package", "ratekeeper-cli"];
    run::succeed(run::cargo().current_dir(&workspace.root).args(build))?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.root.join("target"), Into::into);
    Ok(target.join("release/ratekeeper").into())
}

impl Bench {
    fn serve(&self, cores: &str, loops: usize) -> Result<Process> {
        Process::ratekeeper(&self.ratekeeper, cores, loops)
    }

    /// Envoy's question beside our own, both over gRPC.
    fn envoy(&self) -> Result<()> {
        let rules = TempFile::new("bench.yaml", ENVOY_RULES)?;
        let ours = Process::ratekeeper_with(&self.ratekeeper, SERVER, 1, &["--rls", &rules.path()])?;
        for (name, bar, request) in [
            ("one descriptor", "0.8", "bench user=%"),
            ("four descriptors", "0.5", "bench user=% + ip=% + path=/x,user=% + tenant=%"),
            ("no rule", "0.9", "bench none=%"),
        ] {
            for depth in ["1", "16"] {
                let name = format!("ShouldRateLimit, {name}, of Throttle, {depth} calls at once");
                let (asked, throttled) = (["--request", request, "--pipeline", depth], ["--pipeline", depth]);
                let ours = ((&ours, "rls"), &asked[..]);
                let theirs = ((ours.0.0, "grpc"), &throttled[..]);
                self.compare_loads(LOAD, &name, bar, ours, theirs)?;
            }
        }
        Ok(())
    }

    fn against_the_yardstick(&self, program: &OsStr) -> Result<()> {
        let (ours, theirs) = (self.serve(SERVER, 1)?, Process::yardstick(program, SERVER)?);
        let (ours, theirs) = ((&ours, "resp"), (&theirs, "resp"));
        for keys in ["100000", "1000000"] {
            for (depth, bar) in [("1", "0.9"), ("16", "1.0"), ("64", "1.2")] {
                let name = format!("RESP P={depth}, {keys} keys, of the yardstick");
                self.compare(&name, bar, ours, theirs, &["--keys", keys, "--pipeline", depth])?;
            }
        }
        let mut ratios = Vec::new();
        for _ in 0..self.rounds {
            let p99 = |(process, scheme)| Ok(self.load(LOAD, process, scheme, &["--rate", "5000"])?.p99);
            let (first, second): (Result<f64>, Result<f64>) = (p99(ours), p99(theirs));
            ratios.push(first? / second?);
        }
        run::say(&format!(
            "| p99 at 5,000 requests/s, of the yardstick's | at most 1.1 | | {:.2} | |",
            Spread::of(ratios)
        ));
        Ok(())
    }

    fn compare(
        &self,
        name: &str,
        bar: &str,
        ours: (&Process, &str),
        theirs: (&Process, &str),
        load: &[&str],
    ) -> Result<()> {
        self.compare_on(LOAD, name, bar, ours, theirs, load)
    }

    /// The first to the second, in turns; the first round of each warms it up.
    fn compare_on(
        &self,
        cores: &str,
        name: &str,
        bar: &str,
        ours: (&Process, &str),
        theirs: (&Process, &str),
        load: &[&str],
    ) -> Result<()> {
        self.compare_loads(cores, name, bar, (ours, load), (theirs, load))
    }

    /// The same, under a load of each one's own.
    fn compare_loads(
        &self,
        cores: &str,
        name: &str,
        bar: &str,
        (ours, our_load): ((&Process, &str), &[&str]),
        (theirs, their_load): ((&Process, &str), &[&str]),
    ) -> Result<()> {
        let (mut time, mut answers, mut nanos) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
        for round in 0..=self.rounds {
            let first = self.load(cores, ours.0, ours.1, our_load)?;
            let second = self.load(cores, theirs.0, theirs.1, their_load)?;
            if round > 0 {
                time.push(second.nanos / first.nanos);
                answers.push(first.per_second / second.per_second);
                nanos[0].push(first.nanos);
                nanos[1].push(second.nanos);
            }
        }
        let (time, answers, [first, second]) = (Spread::of(time), Spread::of(answers), nanos.map(Spread::of));
        run::say(&format!("| {name} | {bar} | {time:.2} | {answers:.2} | {first:.0}, {second:.0} |"));
        Ok(())
    }

    fn load(&self, cores: &str, process: &Process, scheme: &str, more: &[&str]) -> Result<Seen> {
        let address = match scheme {
            "http" => process.http,
            "msgpack" => process.msgpack,
            "grpc" | "rls" => process.grpc,
            _ => process.resp,
        };
        let before = process.cpu()?;
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", cores]).arg(&self.ratekeeper);
        command.args(["bench", "--json", "--threads", "1", "--warm-up", "0", "--duration", &self.seconds]);
        command.args(["--target", &format!("{scheme}://{address}")]).args(more);
        let told = run::quiet(&mut command).context("`ratekeeper bench` failed")?;
        let told: Value = serde_json::from_str(&told)?;
        let number = |pointer| told.pointer(pointer).and_then(Value::as_f64).context("no such number");
        let nanos = (process.cpu()? - before) * 1e9 / number("/answered")?.max(1.0);
        if number("/errors")? > 0.0 {
            bail!("{scheme}://{address}: errors: {told}");
        }
        Ok(Seen { per_second: number("/per_second")?, nanos, p99: number("/latency_us/p99")? })
    }

    /// What a key and a silent connection take, of the whole process.
    fn memory(&self) -> Result<()> {
        let server = self.serve(SERVER, 1)?;
        self.load(LOAD, &server, "resp", &["--keys", "1", "--pipeline", "64"])?;
        let (before, none) = (server.resident()?, server.keys()?);
        // Draws are random: enough of them that almost all keys were drawn, and a quota under which none expires.
        let long = Bench { ratekeeper: self.ratekeeper.clone(), rounds: 1, seconds: "20".to_owned() };
        let load = ["--keys", "1000000", "--pipeline", "64", "--quota", "100/h burst 100"];
        long.load(LOAD, &server, "resp", &load)?;
        let keys = server.keys()? - none;
        let each = (server.resident()? - before) / keys;
        run::say(&format!("| bytes for a key, {keys:.0} keys | below 64 | {each:.1} | | |"));
        let server = self.serve(SERVER, 1)?;
        self.load(LOAD, &server, "resp", &[])?;
        let before = server.resident()?;
        let held = (0..IDLE).map(|_| TcpStream::connect(server.resp)).collect::<Result<Vec<_>, _>>();
        let held = held.context("10,000 connections need that many descriptors")?;
        // Connections are accepted in order: whoever is answered is behind all of them.
        self.load(LOAD, &server, "resp", &[])?;
        let each = (server.resident()? - before) / IDLE as f64;
        run::say(&format!(
            "| bytes for an idle RESP connection, {} held | below 3000 | {each:.0} | | |",
            held.len()
        ));
        Ok(())
    }
}
