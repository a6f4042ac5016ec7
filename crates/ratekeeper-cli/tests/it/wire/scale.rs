//! Many plans, many keys and a snapshot file: memory stays within the bounds of the guide.
//!
//! Ten thousand plans and a million keys in a thorough run, and the fiftieth part otherwise.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread;

use crate::wire::http::get;
use test_support::cases;
use test_support::server::{Folder, PATIENCE, Server, command, until};

/// Requests that are sent before their answers are read.
const BATCH: usize = 2_000;

/// How much there is of everything.
#[derive(Clone, Copy)]
struct Scale {
    plans: usize,
    keys: usize,
}

impl Scale {
    /// Two states for each key.
    fn states(self) -> usize {
        2 * self.keys
    }
}

/// Sends a request for each of these keys, under one plan after the other.
fn ask(server: &Server, scale: Scale, keys: std::ops::Range<usize>) {
    let stream = TcpStream::connect(server.address("resp")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut stream, mut line) = (BufReader::new(stream), Vec::new());
    let keys: Vec<usize> = keys.collect();
    for batch in keys.chunks(BATCH) {
        let asked = batch.iter().flat_map(|key| {
            let (key, plan) = (format!("user:{key}"), format!("p{}", key % scale.plans));
            command(&[b"ACQUIRE", key.as_bytes(), plan.as_bytes()])
        });
        stream.get_mut().write_all(&asked.collect::<Vec<u8>>()).unwrap();
        // An array of five numbers and the name of the rule.
        for _ in 0..batch.len() * 8 {
            line.clear();
            stream.read_until(b'\n', &mut line).unwrap();
            assert!(!line.starts_with(b"-"), "{}", String::from_utf8_lossy(&line));
        }
    }
}

/// Returns one number of the metrics.
fn metric(server: &Server, name: &str) -> usize {
    let page = get(server, "/metrics").body;
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

/// Waits for so many more snapshots, and returns the peak of the server's memory meanwhile.
fn most_memory(server: &Server, snapshots: usize) -> usize {
    let written = || metric(server, "ratekeeper_snapshots_total{result=\"success\"}");
    server.most_memory();
    for _ in 0..snapshots {
        let before = written();
        until("a snapshot is written", || written() > before);
    }
    server.most_memory()
}

#[test]
fn many_plans_and_keys_stay_within_the_bounds_of_memory() {
    let scale = match cases::is_thorough() {
        true => Scale { plans: 10_000, keys: 1_000_000 },
        false => Scale { plans: 200, keys: 20_000 },
    };
    let folder = Folder::in_memory("scale");
    let plans: String = (0..scale.plans)
        .map(|plan| format!("[plans.p{plan}]\nlimits = [\"10/day\", \"5/h fixed\"]\n"))
        .collect();
    let config = folder.write("plans.toml", plans);
    let (state, max_keys) = (folder.path("state.bin"), scale.states().to_string());
    let flags = ["--config", &config, "--snapshot", &state, "--max-keys", &max_keys];
    let server = Server::with(&[&flags[..], &["--snapshot-every", "1s"]].concat());
    let before = server.most_memory();
    thread::scope(|scope| {
        for part in 0..2 {
            let (server, half) = (&server, scale.keys / 2);
            scope.spawn(move || ask(server, scale, part * half..(part + 1) * half));
        }
    });
    assert_eq!(metric(&server, "ratekeeper_keys"), scale.states());
    let first = most_memory(&server, 2);
    // As the guide says: 192 bytes for each state, and twice the file while it is made. What the allocator keeps is not counted.
    let (store, file) =
        (metric(&server, "ratekeeper_store_bytes"), metric(&server, "ratekeeper_snapshot_bytes"));
    assert!(store < scale.states() * 192, "{store} bytes");
    let bound = before + 2 * store + 2 * file;
    // Only among many keys does what the allocator keeps, and code that runs for the first time, make no difference.
    let is_bounded = |most: usize| most < bound || !cases::is_thorough();
    assert!(is_bounded(first), "{first} bytes, {before} before, {store} in the store, {file} in the file");
    // More of the same, and other keys that are refused, take no more.
    ask(&server, scale, 0..scale.keys / 10);
    ask(&server, scale, scale.keys..scale.keys + scale.keys / 10);
    let then = most_memory(&server, 2);
    assert!(is_bounded(then), "{then} bytes after {first}");
    assert_eq!(metric(&server, "ratekeeper_store_bytes"), store);
    drop(server);
    let server = Server::with(&flags);
    server.await_log("snapshot: restored");
    assert_eq!(metric(&server, "ratekeeper_keys"), scale.states());
}
