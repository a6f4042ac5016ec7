//! Requests that a server records and `simulate` replays.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::wire::http::get;
use crate::wire::mounts::{SMALL_DISK, mounted};
use test_support::server::{Folder, Server, not_started, ratekeeper, run, until};

const PLANS: &str = "\
[plans.few]
limits = [\"3/day\", \"5 per 30s fixed\"]
[plans.tokens]
limits = [\"100 tokens/day\"]
";

/// The lines of a record, without its header.
fn lines(path: &str) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let (header, lines) = text.split_once('\n').unwrap();
    assert_eq!(header, "# ratekeeper record 1: time key cost plans result [unit=amount]");
    lines.lines().map(str::to_owned).collect()
}

fn word(line: &str, index: usize) -> &str {
    line.split(' ').nth(index).unwrap()
}

/// Ends a server, which writes what waits.
fn end(server: Server) {
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn simulate_decides_as_the_server_has() {
    let folder = Folder::new("record");
    let (config, trace) = (folder.write("plans.toml", PLANS), folder.path("trace"));
    let server = Server::with(&["--config", &config, "--record", &trace, "--record-keys", "clear"]);
    let (mut one, mut other) = (server.connect(), server.connect());
    for round in 0..8 {
        // Different loops, and so hardly ever in order.
        one.ask(&format!("ACQUIRE user:{} few", round % 2));
        other.ask(&format!("ACQUIRE user:{} few COST 2", round % 3));
        one.ask(&format!("ACQUIRE team tokens UNIT tokens {}", 9 * round));
        other.ask("THROTTLE own 1 1 3600");
        one.ask("PEEK user:1 few");
    }
    assert!(get(&server, "/v1/plans").body.contains("few"));
    end(server);
    let recorded = lines(&trace);
    assert_eq!(recorded.len(), 32, "a look is not recorded: {recorded:?}");
    for (plan, count) in [("few", 16), ("tokens", 8), ("-", 8)] {
        let of_plan: Vec<&String> = recorded.iter().filter(|line| word(line, 3) == plan).collect();
        assert_eq!(of_plan.len(), count, "{plan}");
        let denied = of_plan.iter().filter(|line| word(line, 4) == "denied").count();
        assert!(denied > 0 && denied < count, "{plan}: {denied}");
    }
    let binary = ratekeeper(&[]).get_program().to_str().unwrap().to_owned();
    let said = run(&binary, &["simulate", "--config", &config, "--json", "--strict", &trace]);
    // One line for each request that has named a plan, in the order of the record.
    let decided: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let planned: Vec<&String> = recorded.iter().filter(|line| word(line, 3) != "-").collect();
    assert_eq!(decided.len(), planned.len());
    for (line, decision) in planned.iter().zip(&decided) {
        assert_eq!(decision["key"], word(line, 1));
        assert_eq!(decision["allowed"], word(line, 4) == "allowed", "{line}: {decision}");
    }
    let said = run(&binary, &["simulate", "--quota", "1/h", &trace]);
    assert!(said.contains("32 requests of 5 keys") && said.contains("recorded: "), "{said}");
}

#[test]
fn keys_are_hashed_and_of_some_all_requests_are_recorded() {
    let folder = Folder::new("record-sample");
    let trace = folder.path("trace");
    let flags = ["--record", &trace, "--record-sample", "30%"];
    let server = Server::with(&flags);
    let mut raw = server.connect();
    for round in 0..3 {
        for key in 0..300 {
            raw.ask(&format!("THROTTLE user:{key} 10 10 3600 {}", round + 1));
        }
    }
    end(server);
    let recorded = lines(&trace);
    let mut keys: BTreeMap<&str, usize> = BTreeMap::new();
    recorded.iter().for_each(|line| *keys.entry(word(line, 1)).or_default() += 1);
    assert!((30..180).contains(&keys.len()), "about 90: {}", keys.len());
    assert!(keys.values().all(|count| *count == 3), "all requests of each");
    let is_hash = |key: &&str| key.len() == 16 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(keys.keys().all(is_hash), "{keys:?}");
    // The secret outlives a restart: the same keys, under the same names, and the file goes on.
    let before: BTreeSet<String> = keys.keys().map(|key| (*key).to_owned()).collect();
    let server = Server::with(&flags);
    let mut raw = server.connect();
    (0..300).for_each(|key| drop(raw.ask(&format!("THROTTLE user:{key} 10 10 3600"))));
    end(server);
    let after = lines(&trace);
    assert_eq!(after.len(), recorded.len() + before.len());
    assert_eq!(after.iter().map(|line| word(line, 1).to_owned()).collect::<BTreeSet<_>>(), before);
    use std::os::unix::fs::PermissionsExt;
    for file in [&trace, &format!("{trace}.key")] {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
}

/// What the metrics say of recorded requests.
fn counted(server: &Server, result: &str) -> u64 {
    let page = get(server, "/metrics").body;
    let name = format!("ratekeeper_recorded_total{{result=\"{result}\"}} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("{page}")).parse().unwrap()
}

#[test]
fn files_are_bounded_and_the_oldest_go() {
    let folder = Folder::new("record-rotated");
    let trace = folder.path("trace");
    let flags = ["--record", &trace, "--record-max-bytes", "64KiB", "--record-files", "2"];
    let server = Server::with(&flags);
    let mut raw = server.connect();
    let asked = 5_000;
    (0..asked).for_each(|key| drop(raw.ask(&format!("THROTTLE k{key} 1 1 1"))));
    until("all are written", || counted(&server, "written") == asked);
    end(server);
    let files = [trace.clone(), format!("{trace}.1")];
    assert!(files.iter().all(|file| fs::metadata(file).unwrap().len() <= 64 << 10));
    assert!(!fs::exists(format!("{trace}.2")).unwrap());
    // The newest are there, without a gap.
    let times: Vec<String> =
        [lines(&files[1]), lines(&files[0])].concat().iter().map(|line| word(line, 0).to_owned()).collect();
    assert!(times.is_sorted() && times.len() > 1_000, "{}", times.len());
}

/// A line waited for a later one, however long that took.
#[test]
fn the_last_line_is_written_though_nobody_asks_again() {
    let folder = Folder::new("record-last");
    let trace = folder.path("trace");
    let server = Server::with(&["--record", &trace]);
    assert!(server.ask("THROTTLE k 1 1 1").starts_with("1 "));
    until("it is written", || counted(&server, "written") == 1);
    // Killed by SIGKILL.
    drop(server);
    assert_eq!(lines(&trace).len(), 1);
}

/// What was written half is of no use, and must not keep the server from starting.
#[test]
fn a_secret_that_was_not_written_is_made_again() {
    let folder = Folder::new("record-secret");
    let trace = folder.path("trace");
    folder.write("trace.key", "");
    end(Server::with(&["--record", &trace]));
    let secret = fs::read_to_string(folder.path("trace.key")).unwrap();
    assert_eq!(secret.trim().len(), 32, "{secret}");
    assert!(!fs::exists(folder.path("trace.key.part")).unwrap());
    end(Server::with(&["--record", &trace]));
    assert_eq!(fs::read_to_string(folder.path("trace.key")).unwrap(), secret);
}

#[test]
fn a_record_and_the_state_are_not_one_file() {
    let folder = Folder::new("record-state");
    let state = folder.write("state", "");
    std::os::unix::fs::symlink("state", folder.path("link")).unwrap();
    for record in ["state", "state.before", "state.part", "state.lock", "link"] {
        let record = folder.path(record);
        let (code, said) =
            not_started(&mut ratekeeper(&["serve", "--snapshot", &state, "--record", &record]));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("--record") && said.contains("name another file"), "{said}");
    }
    // The secret and the older ones of a record are its own, too.
    for snapshot in ["state.key", "state.1"] {
        let snapshot = folder.path(snapshot);
        let (code, said) =
            not_started(&mut ratekeeper(&["serve", "--snapshot", &snapshot, "--record", &state]));
        assert_eq!(code, Some(2), "{snapshot}: {said}");
    }
}

/// Blanks and the like are written as three bytes each.
#[test]
fn keys_in_clear_are_read_as_they_were_asked_for() {
    let folder = Folder::new("record-clear");
    let trace = folder.path("trace");
    let server = Server::with(&["--record", &trace, "--record-keys", "clear"]);
    let key = "%".repeat(1_024);
    assert!(server.ask(&format!("THROTTLE {key} 1 1 1")).starts_with("1 "));
    end(server);
    let binary = ratekeeper(&[]).get_program().to_str().unwrap().to_owned();
    let said = run(&binary, &["simulate", "--quota", "1/h", "--json", "--strict", &trace]);
    let decided: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!(decided["key"], key);
}

/// A file that is there for `simulate` alone does not keep the server down.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_at_the_start_is_told_and_used_when_there_is_room() {
    let folder = Folder::new("record-disk");
    let disk = folder.path("disk");
    fs::create_dir(&disk).unwrap();
    // Room for the secret, and for nothing else.
    let secret = format!("echo 000102030405060708090a0b0c0d0e0f > \"{disk}/trace.key\"; ");
    let fill = format!("head -c 70000 /dev/zero > \"{disk}/filler\" 2>/dev/null || true; exec \"$@\"");
    let Some(mut command) = mounted(&disk, SMALL_DISK, &format!("{secret}{fill}")) else { return };
    command.arg(ratekeeper(&[]).get_program());
    command.args(["serve", "--record", &format!("{disk}/trace")]);
    for transport in ["--resp", "--http", "--grpc", "--msgpack"] {
        command.args([transport, "127.0.0.1:0"]);
    }
    let server = Server::spawn(&mut command);
    let said = server.await_log("record: cannot be written");
    assert!(said.contains("No space left on device"), "{said}");
    fs::remove_file(format!("/proc/{}/root{disk}/filler", server.pid())).unwrap();
    let mut raw = server.connect();
    until("it is written again", || {
        raw.ask("THROTTLE k 1 1 1");
        counted(&server, "written") > 0
    });
}

/// A file that is mounted cannot be renamed. Each block moved the older files once more, until none was left.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_moved_costs_at_most_one_older_one() {
    let folder = Folder::new("record-mounted");
    let trace = folder.path("trace");
    folder.write("trace", "");
    (1..4).for_each(|number| drop(folder.write(&format!("trace.{number}"), format!("older {number}"))));
    let Some(mut command) = mounted(&trace, "mount --bind \"$1\" \"$1\"", "exec \"$@\"") else { return };
    command.arg(ratekeeper(&[]).get_program());
    command.args(["serve", "--record", &trace, "--record-max-bytes", "64KiB", "--record-files", "4"]);
    for transport in ["--resp", "--http", "--grpc", "--msgpack"] {
        command.args([transport, "127.0.0.1:0"]);
    }
    let server = Server::spawn(&mut command);
    let mut raw = server.connect();
    let mut ask = || {
        let lines: Vec<String> = (0..2_000).map(|key| format!("THROTTLE k{key} 1 1 1")).collect();
        for lines in lines.chunks(100) {
            raw.ask_at_once(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        }
    };
    ask();
    for _ in 0..5 {
        let before = counted(&server, "dropped");
        ask();
        until("they are counted", || counted(&server, "dropped") > before);
    }
    assert_eq!(fs::read_to_string(folder.path("trace.2")).unwrap(), "older 1");
    assert_eq!(fs::read_to_string(folder.path("trace.3")).unwrap(), "older 2");
}

#[test]
fn two_servers_do_not_record_to_one_file() {
    let folder = Folder::new("record-shared");
    let trace = folder.path("trace");
    let _first = Server::with(&["--record", &trace]);
    let output = ratekeeper(&["serve", "--resp", "127.0.0.1:0", "--record", &trace]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("--record {trace}: another server writes it")), "{said}");
    let output = ratekeeper(&["serve", "--record", &folder.path("no/such")]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("cannot be written"), "{said}");
}

#[test]
fn a_file_that_cannot_be_written_is_told_and_counted_and_the_server_goes_on() {
    let folder = Folder::new("record-full");
    let trace = folder.path("trace");
    let mut shell = Command::new("sh");
    // In blocks of 512 bytes.
    shell.args(["-c", "ulimit -f 8; exec \"$@\"", "sh"]).arg(ratekeeper(&[]).get_program());
    shell.args(["serve", "--record", &trace]);
    for transport in ["--resp", "--http", "--grpc", "--msgpack"] {
        shell.args([transport, "127.0.0.1:0"]);
    }
    let server = Server::spawn(&mut shell);
    let mut raw = server.connect();
    (0..1_000).for_each(|key| drop(raw.ask(&format!("THROTTLE k{key} 1 1 1"))));
    let said = server.await_log("record: cannot be written");
    assert!(said.contains("ERROR") && said.contains("File too large"), "{said}");
    until("they are counted", || counted(&server, "dropped") > 0);
    assert_eq!(raw.ask("PING"), "+PONG");
}
