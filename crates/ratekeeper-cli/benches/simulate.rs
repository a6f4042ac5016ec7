//! How fast `simulate` reads a combined log: `cargo bench -p ratekeeper-cli --bench simulate [-- LINES [KEYS]]`.
//!
//! A log is made up in a temporary file (5 million lines of some 150 bytes, requests of 100,000 addresses), replayed
//! against GCRA per address on one core, and deleted. Beside it stands the floor: the same file, split into lines and
//! nothing else. Memory is told after a fifth of the lines and after all: the keys are the same, so should it be.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use ratekeeper::Timestamp;
use ratekeeper_cli::simulate::trace::{KeyField, TraceFormat, TraceParser};
use ratekeeper_cli::simulate::{Replay, SimulatedPolicy, TraceSource};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Cargo passes flags of its own to every bench.
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let (lines, keys) = (numbers.next().unwrap_or(5_000_000), numbers.next().unwrap_or(100_000));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("access-{}.log", std::process::id()));
    let _gone_at_the_end = Temporary(path.clone());
    let (small, all) = (path.with_extension("small"), path);
    let _and_this = Temporary(small.clone());
    write_log(&small, lines / 5, keys)?;
    write_log(&all, lines, keys)?;
    let mut out = std::io::stdout();
    writeln!(out, "{lines} lines, {} MB, {keys} addresses", fs::metadata(&all)?.len() >> 20)?;

    let mut floors = Vec::new();
    let mut rates = Vec::new();
    let before = resident();
    replay(&small)?;
    let after_few = resident();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let found = floor(&all)?;
        floors.push(rate(found, began));
        let began = Instant::now();
        let requests = replay(&all)?;
        rates.push(rate(requests, began));
    }
    let after_all = resident();
    writeln!(out, "floor, lines only: {:.2} M lines/s (median of {ROUNDS})", median(floors) / 1e6)?;
    writeln!(out, "simulate, GCRA per address: {:.2} M lines/s (median of {ROUNDS})", median(rates) / 1e6)?;
    writeln!(out, "memory: {} KiB at first, {} after a fifth, {} after all", before, after_few, after_all)?;
    Ok(())
}

fn replay(path: &Path) -> Result<u64, Box<dyn std::error::Error>> {
    let mut replay = Replay {
        parser: TraceParser::new(TraceFormat::Combined, KeyField::Client),
        strict: true,
        now: Timestamp::MAX,
        checks_units: true,
    };
    let mut policies = [SimulatedPolicy::parse("10/s burst 20")?];
    let overview = replay.run(&TraceSource::File(path.to_owned()), &mut policies, |_, _, _| Ok(()))?;
    assert_eq!(policies[0].admitted() + policies[0].denied(), overview.requests);
    Ok(overview.requests)
}

fn floor(path: &Path) -> std::io::Result<u64> {
    let mut file = File::open(path)?;
    let mut block = vec![0; 1 << 20];
    let mut lines = 0;
    loop {
        match file.read(&mut block)? {
            0 => return Ok(lines),
            read => lines += memchr::memchr_iter(b'\n', &block[..read]).count() as u64,
        }
    }
}

/// Lines as servers write them: most requests from few addresses, some hundred in every second.
fn write_log(path: &Path, lines: u64, keys: u64) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for line in 0..lines {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = state >> 33;
        // The product of two draws prefers small numbers.
        let key = (draw % keys) * ((draw >> 7) % keys) / keys.max(1);
        let second = line / 400;
        let (hour, minute, second) = (second / 3_600 % 24, second / 60 % 60, second % 60);
        writeln!(
            file,
            "10.{}.{}.{} - - [10/Oct/2025:{hour:02}:{minute:02}:{second:02} +0200] \"GET /items/{}?page={} HTTP/1.1\" 200 {} \
             \"https://example.com/\" \"Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/128.0\"",
            key >> 16 & 255,
            key >> 8 & 255,
            key & 255,
            draw % 5_000,
            draw % 17,
            draw % 90_000,
        )?;
    }
    file.flush()
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn rate(lines: u64, began: Instant) -> f64 {
    lines as f64 / began.elapsed().as_secs_f64()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// KiB of memory in use, where the system tells.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// A file that is deleted at the end.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
