//! A full in-memory store: which keys are refused and which are not, where it is reported, and how to make room.

use serde_json::json;

use crate::wire::http::{get, post};
use test_support::port::free_port;
use test_support::server::{Folder, Server, command, until};

const PLANS: &str = "[plans.gold]\nlimits = [\"5/h\"]\n";
const MAX_KEYS: usize = 4_000;

/// Asks for long-lived keys, one after the other, and returns how many were admitted.
fn flood(server: &Server, keys: std::ops::Range<usize>) -> usize {
    let mut raw = server.connect();
    let mut admitted = 0;
    for batch in keys.collect::<Vec<_>>().chunks(500) {
        let sent = batch
            .iter()
            .flat_map(|key| command(&[b"THROTTLE", format!("j{key}").as_bytes(), b"1", b"1", b"2000000"]));
        raw.send(sent.collect::<Vec<u8>>());
        admitted += batch.iter().filter(|_| raw.reply().starts_with("1 ")).count();
    }
    admitted
}

fn metric(server: &Server, name: &str) -> u64 {
    let page = get(server, "/metrics").body;
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
}

/// A million `THROTTLE jN 1 1 1000000000` locked every new customer out for years, silently.
#[test]
fn keys_of_foreign_quotas_leave_room_for_plans_and_it_is_told_when_they_find_none() {
    let folder = Folder::new("full");
    let flags = ["--max-keys", &MAX_KEYS.to_string(), "--admin-token", "root"];
    let server = Server::with(&[&["--config", &folder.write("a.toml", PLANS)], &flags[..]].concat());
    assert_eq!(get(&server, "/health").json()["refusing_new_keys"], json!([]));
    let admitted = flood(&server, 0..2 * MAX_KEYS);
    assert!((MAX_KEYS / 2 - 200..=MAX_KEYS / 2).contains(&admitted), "half is kept for plans: {admitted}");
    let mut raw = server.connect();
    for customer in 0..300 {
        let said = raw.ask(&format!("ACQUIRE customer:{customer} gold"));
        assert!(said.starts_with("1 5 4 "), "a customer of a plan was refused: {said}");
    }
    assert!(raw.ask("THROTTLE j0 1 1 2000000").starts_with("0 1 0 "), "a key that is limited stays limited");
    let told = server.await_log("store full: new keys are refused");
    assert!(told.contains("WARN") && told.contains("of_plans=0"), "{told}");
    assert!(told.contains("bound=\"states\"") && told.contains("--max-keys"), "{told}");
    let refused = metric(&server, "ratekeeper_keys_refused_total{of=\"request\"}");
    assert!(refused >= (2 * MAX_KEYS - admitted) as u64, "{refused}");
    assert_eq!(metric(&server, "ratekeeper_keys_refused_total{of=\"plan\"}"), 0);
    assert_eq!(metric(&server, "ratekeeper_max_keys"), MAX_KEYS as u64);
    assert!(metric(&server, "ratekeeper_store_bytes") <= metric(&server, "ratekeeper_store_max_bytes"));
    assert_eq!(metric(&server, "ratekeeper_kept_for_plans_percent"), 50);
    let mut next = 3 * MAX_KEYS;
    until("health says it", || {
        // Health tells it for ten seconds after the last refusal.
        assert!(raw.ask(&format!("THROTTLE j{next} 1 1 2000000")).starts_with("0 "));
        next += 1;
        let health = get(&server, "/health");
        assert_eq!(health.status, 200, "the engine decides");
        health.json()["full"] == json!(true) && health.json()["refusing_new_keys"] == json!(["request"])
    });
    let info = raw.ask("INFO keyspace");
    assert!(
        info.contains("refusing_new_keys:request\r\n") && info.contains("kept_for_plans_percent:50"),
        "{info}"
    );
    // An operator makes room.
    assert_eq!(raw.ask("AUTH root"), "+OK");
    assert_eq!(raw.ask("FORGET j"), admitted.to_string());
    assert!(raw.ask("PEEK customer:0 gold").starts_with("1 5 4 "), "other keys are as they were");
    assert!(raw.ask("THROTTLE new 1 1 2000000").starts_with("1 1 0 "), "there is room again");
}

/// 242 states took 66 MB where `--max-keys` promised 40 bytes each.
#[test]
fn logs_cannot_take_more_bytes_than_there_may_be() {
    const MAX_BYTES: u64 = 1 << 20;
    const KEYS: usize = 256;
    let folder = Folder::new("full-logs");
    let config = folder.write("a.toml", "[plans.log]\nlimits = [\"60000/day log\"]\n");
    let flags = ["--max-bytes", "1MiB", "--allow-log", "--max-log-entries", "65536", "--config", &config];
    let server = Server::with(&flags);
    let body = json!({ "key": "own", "quota": "60000/day log" });
    assert_eq!(post(&server, "/v1/acquire", &body).status, 200, "so long a log is allowed");
    let mut raw = server.connect();
    // One request of each key at a time: entries of one instant are one. A key that finds no room is refused.
    let round: Vec<String> = (0..KEYS).map(|key| format!("ACQUIRE log{key} log")).collect();
    let round: Vec<&str> = round.iter().map(String::as_str).collect();
    let mut rounds = 0;
    while raw.ask_at_once(&round).iter().all(|answer| answer.starts_with("1 ")) {
        rounds += 1;
        assert!(rounds * KEYS < 72_600, "72,600 entries of 16 bytes are more than there may be");
    }
    // The logs are counted: their keys alone would take 25 KB.
    let bytes = metric(&server, "ratekeeper_store_bytes");
    assert!((MAX_BYTES / 8..=MAX_BYTES).contains(&bytes), "{bytes}");
    assert_eq!(metric(&server, "ratekeeper_store_max_bytes"), MAX_BYTES);
    let told = server.await_log("store full: new keys are refused");
    assert!(told.contains("bound=\"bytes\""), "{told}");
}

/// Room is kept for plans only once there are some.
#[test]
fn room_is_kept_once_there_are_plans() {
    let folder = Folder::new("full-reload");
    let path = folder.write("a.toml", "[store]\nmax_keys = 1000\nkept_for_plans = \"20%\"\n");
    let server = Server::with(&["--config", &path]);
    assert_eq!(metric(&server, "ratekeeper_kept_for_plans_percent"), 0);
    folder.write("a.toml", format!("[store]\nmax_keys = 1000\nkept_for_plans = \"20%\"\n{PLANS}"));
    server.signal("HUP");
    until("room is kept", || metric(&server, "ratekeeper_kept_for_plans_percent") == 20);
    let admitted = flood(&server, 0..2_000);
    assert!((700..=800).contains(&admitted), "{admitted}");
    let none = Server::with(&["--config", &path, "--kept-for-plans", "0%", "--max-keys", "1000"]);
    assert_eq!(metric(&none, "ratekeeper_kept_for_plans_percent"), 0);
}

/// The store that decides instead of a Redis was never watched, and half of it was kept for plans that did not exist.
#[test]
fn the_local_store_has_room_for_all_and_is_told_of_when_it_is_full() {
    let url = format!("redis://127.0.0.1:{}", free_port());
    let flags = ["--store", &url, "--on-store-error", "local", "--max-keys", "1000"];
    let server = Server::with(&flags);
    let admitted = flood(&server, 0..2_000);
    assert!((900..=1_000).contains(&admitted), "{admitted}");
    let told = server.await_log("store full: new keys are refused");
    assert!(
        told.contains("WARN") && told.contains("store=\"local\"") && told.contains("of_plans=0"),
        "{told}"
    );
    let folder = Folder::new("full-local");
    let config = folder.write("a.toml", PLANS);
    let server = Server::with(&[&flags[..], &["--config", &config]].concat());
    let admitted = flood(&server, 0..2_000);
    assert!((400..=500).contains(&admitted), "half is kept for plans: {admitted}");
}
