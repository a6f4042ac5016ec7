//! Resident memory per key, each contender in a process of its own.

use std::process::Command;

use crate::contender;
use crate::table;

const KEYS: usize = 1_000_000;

pub(crate) fn run() {
    let mut rows =
        vec![vec!["1 M keys".to_string(), "20-byte keys, bytes per key".into(), "200-byte keys".into()]];
    for name in ["ratekeeper", "governor", "throttlecrab"] {
        rows.push(vec![name.into(), measure(name), measure(&format!("{name} long"))]);
    }
    table::print("Resident memory per key", &rows);
}

fn measure(what: &str) -> String {
    let exe = std::env::current_exe().expect("the bench knows itself");
    let output = Command::new(exe).args(["--memory", what]).output().expect("the bench runs itself");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// In the child: fills the contender and prints by how many bytes a key the process has grown.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
pub(crate) fn child(what: &str) {
    let (name, length) = match what.strip_suffix(" long") {
        Some(name) => (name, 200),
        None => (what, 20),
    };
    let contender = contender::by_name(name, KEYS).expect("a contender");
    let mut key = vec![String::with_capacity(length)];
    let before = resident();
    for number in 0..KEYS {
        key[0].clear();
        key[0].extend(std::iter::repeat_n('k', length - 8).chain(format!("{number:08}").chars()));
        contender.decide(&key, &[0]);
    }
    println!("{:.1}", (resident() - before) as f64 / KEYS as f64);
}

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}
