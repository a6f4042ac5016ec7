//! Ten thousand plans, a million keys and a file of state: memory stays within what the guide says.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::http::get;
use crate::support::{DEADLINE, Folder, Server, command};

const PLANS: usize = 10_000;
const KEYS: usize = 1_000_000;

/// Requests that are on their way at once.
const BATCH: usize = 2_000;

/// For some snapshots of two million states: whoever writes them lets others run after each piece, and time is not what is tested.
const PATIENCE: Duration = Duration::from_secs(300);

/// Asks once for each of these keys, under one plan after the other.
fn ask(server: &Server, keys: std::ops::Range<usize>) {
    let stream = TcpStream::connect(server.address("resp")).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let (mut stream, mut line) = (BufReader::new(stream), Vec::new());
    let keys: Vec<usize> = keys.collect();
    for batch in keys.chunks(BATCH) {
        let asked = batch.iter().flat_map(|key| {
            let (key, plan) = (format!("user:{key}"), format!("p{}", key % PLANS));
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

/// One number of the metrics.
fn metric(server: &Server, name: &str) -> usize {
    let page = get(server, "/metrics").body;
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

/// Waits for so many more snapshots, and returns the most memory that the server had meanwhile.
fn most_memory(server: &Server, snapshots: usize) -> usize {
    let written = || metric(server, "ratekeeper_snapshots_total{result=\"success\"}");
    server.most_memory();
    let until = written() + snapshots;
    let deadline = Instant::now() + PATIENCE;
    while written() < until {
        assert!(Instant::now() < deadline, "{} of {until} snapshots", written());
        thread::park_timeout(Duration::from_millis(50));
    }
    server.most_memory()
}

#[test]
fn ten_thousand_plans_and_a_million_keys_stay_within_bounds() {
    let folder = Folder::in_memory("scale");
    let plans: String =
        (0..PLANS).map(|plan| format!("[plans.p{plan}]\nlimits = [\"10/day\", \"5/h fixed\"]\n")).collect();
    let config = folder.write("plans.toml", plans);
    let state = folder.path("state.bin");
    // Two states for each key.
    let server = Server::with(&[
        "--config",
        &config,
        "--snapshot",
        &state,
        "--snapshot-every",
        "1s",
        "--max-keys",
        "2000000",
    ]);
    let before = server.most_memory();
    thread::scope(|scope| {
        for part in 0..2 {
            let server = &server;
            scope.spawn(move || ask(server, part * KEYS / 2..(part + 1) * KEYS / 2));
        }
    });
    assert_eq!(metric(&server, "ratekeeper_keys"), 2 * KEYS);
    let first = most_memory(&server, 3);
    // As the guide says: 192 bytes for each key, and twice the file while it is made. What the allocator keeps is not counted.
    let (store, file) =
        (metric(&server, "ratekeeper_store_bytes"), metric(&server, "ratekeeper_snapshot_bytes"));
    assert!(store < 2 * KEYS * 192, "{store} bytes");
    let bound = before + 2 * store + 2 * file;
    assert!(first < bound, "{first} bytes, {before} before, {store} in the store, {file} in the file");
    // More of the same, and other keys that are refused, take no more.
    ask(&server, 0..KEYS / 10);
    ask(&server, KEYS..KEYS + KEYS / 10);
    let then = most_memory(&server, 3);
    assert!(then < bound && then < first + first / 10, "{then} bytes after {first}");
    drop(server);
    let server = Server::with(&["--config", &config, "--snapshot", &state, "--max-keys", "2000000"]);
    server.await_log("snapshot: restored");
    assert_eq!(metric(&server, "ratekeeper_keys"), 2 * KEYS);
}
