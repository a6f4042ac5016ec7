//! What operators see: logs, spans, metrics, the service manager.

use std::os::unix::net::UnixDatagram;

use serde_json::Value;

use crate::wire::http::get;
use test_support::port::free_port;
use test_support::server::{Folder, PATIENCE, Raw, Server, command, ratekeeper, run, until};

#[test]
fn a_connection_is_a_span_and_every_line_an_object() {
    let server = Server::with(&["--log-format", "json", "--log-level", "debug"]);
    let mut raw = server.connect();
    assert_eq!(raw.ask("PING"), "+PONG");
    let object = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let opened = object(&server.await_log("connection: opened"));
    for field in ["timestamp", "level", "target", "message"] {
        assert!(opened[field].is_string(), "{opened}");
    }
    let span = &opened["span"];
    assert_eq!((&span["name"], &span["transport"]), (&"connection".into(), &"resp".into()));
    assert_eq!(span["peer"], raw.0.local_addr().unwrap().to_string());
    drop(raw);
    let closed = object(&server.await_log("connection: closed"));
    assert_eq!(closed["span"]["id"], span["id"], "the same connection");
}

#[test]
fn the_start_is_one_line_that_says_what_serves() {
    let folder = Folder::new("start-line");
    let plans: String = (0..20).map(|number| format!("[plans.p{number:02}]\nlimits = [\"1/s\"]\n")).collect();
    let config = folder.write("plans.toml", plans);
    let server = Server::with(&["--config", &config, "--msgpack", "off"]);
    let said = server.await_log("start: serving");
    assert!(
        said.contains("INFO") && said.contains("store=\"memory\"") && said.contains("plans=20"),
        "{said}"
    );
    assert!(said.contains(concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"")), "{said}");
    let resp = format!("resp={}", server.address("resp"));
    assert!(said.contains(&resp) && !said.contains("msgpack="), "{said}");
    assert!(said.contains("p00 p01") && said.contains("p15 …") && !said.contains("p16"), "{said}");
    let store = "redis://ann:sesame@127.0.0.1:1/0";
    let said = Server::with(&["--store", store]).await_log("start: serving");
    assert!(said.contains("127.0.0.1:1") && !said.contains("sesame"), "{said}");
}

#[test]
fn some_denials_are_logged_if_asked() {
    let folder = Folder::new("denials");
    let config = folder.write("plans.toml", "[plans.free]\nlimits = [\"1/day\"]\n");
    let server = Server::with(&["--config", &config, "--log-denials", "1"]);
    let mut raw = server.connect();
    (0..50).for_each(|_| drop(raw.send(command(&[b"ACQUIRE", b"user\n42", b"free"])).reply()));
    let first = server.await_log("denied: a request");
    for part in [
        "INFO",
        "key=\"user\\n42\"",
        "plan=\"free\"",
        "rule=\"per-day\"",
        "reason=\"quota_exceeded\"",
        "skipped=0",
    ] {
        assert!(first.contains(part), "{part}: {first}");
    }
    // One a second, and the next tells of those that have no line.
    until("there is another line", || {
        raw.ask("ACQUIRE user free");
        server.logged().iter().any(|line| line.contains("denied:") && !line.contains("skipped=0"))
    });
    let silent = Server::with(&["--config", &config]);
    (0..5).for_each(|_| drop(silent.ask("ACQUIRE user free")));
    silent.signal("TERM");
    assert!(!silent.log_to_the_end().iter().any(|line| line.contains("denied:")));
}

#[test]
fn answers_of_failure_modes_and_refused_connections_are_counted() {
    let folder = Folder::new("failure-answers");
    let config = folder.write(
        "plans.toml",
        "[plans.a]\nlimits = [\"9/s\"]\n[plans.b]\nlimits = [\"9/s\"]\non_store_error = \"closed\"\n\
         [plans.c]\nlimits = [\"9/s\"]\non_store_error = \"local\"\n",
    );
    let flags = ["--config", &config, "--store", "redis://127.0.0.1:1/0", "--max-connections", "2"];
    let server = Server::with(&flags);
    let mut raw = server.connect();
    for plan in ["a", "a", "b", "c", "c", "c"] {
        raw.ask(&format!("ACQUIRE k {plan}"));
    }
    raw.ask("THROTTLE k 1 1 60");
    // Nothing is decided by a look.
    raw.ask("PEEK k a");
    let metrics = get(&server, "/metrics").body;
    for line in [
        "plan=\"-\",mode=\"error\"} 1",
        "plan=\"a\",mode=\"open\"} 2",
        "plan=\"b\",mode=\"closed\"} 1",
        "plan=\"c\",mode=\"local\"} 3",
    ] {
        assert!(
            metrics.contains(&format!("ratekeeper_failure_answers_total{{{line}\n")),
            "{line}: {metrics}"
        );
    }
    let mut second = server.connect();
    assert_eq!(second.ask("PING"), "+PONG", "it has its place");
    let refused = |page: &str| {
        let name = "ratekeeper_connections_total{transport=\"resp\",result=\"refused\"} ";
        page.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(refused(&metrics), 0);
    assert!(server.connect().rest().contains("max number of clients"), "one too many");
    until("it is counted", || refused(&get(&server, "/metrics").body) >= 1);
    let metrics = get(&server, "/metrics").body;
    assert!(metrics.contains("ratekeeper_max_connections{transport=\"resp\"} 2\n"), "{metrics}");
}

#[test]
fn connections_are_not_told_of_unless_asked() {
    let server = Server::start();
    assert_eq!(server.ask("PING"), "+PONG");
    server.signal("TERM");
    let said = server.log_to_the_end();
    assert!(said.iter().any(|line| line.contains("stopping")), "{said:?}");
    assert!(!said.iter().any(|line| line.contains("opened") || line.contains("closed")), "{said:?}");
}

fn top_denied(server: &Server) -> Vec<String> {
    let metrics = get(server, "/metrics").body;
    metrics.lines().filter(|line| line.starts_with("ratekeeper_top_denied{")).map(str::to_owned).collect()
}

#[test]
fn who_is_denied_most_is_told_only_if_asked_and_escaped() {
    let server = Server::with(&["--top-denied", "2"]);
    let mut raw = server.connect();
    for (key, denials) in [(&b"often"[..], 3), (b"a\"b\n\xff", 2), (b"seldom", 1), (b"never", 0)] {
        for _ in 0..=denials {
            raw.send(command(&[b"THROTTLE", key, b"1", b"1", b"3600"])).reply();
        }
    }
    let expected = [
        r#"ratekeeper_top_denied{key="often",rank="1"} 3"#,
        r#"ratekeeper_top_denied{key="a\"b\\u{a}\\xff",rank="2"} 2"#,
    ];
    assert_eq!(top_denied(&server), expected);
    let silent = Server::start();
    for _ in 0..2 {
        silent.ask("THROTTLE k 1 1 3600");
    }
    assert!(top_denied(&silent).is_empty(), "keys are personal data");
}

#[test]
fn whoever_gives_back_is_counted_too() {
    let server = Server::start();
    assert!(server.ask("CL.THROTTLE k 2 1 3600 -1").starts_with("0 3 3 "));
    let metrics = get(&server, "/metrics").body;
    assert!(metrics.contains("{transport=\"resp\",result=\"allowed\"} 1\n"), "{metrics}");
}

#[test]
fn a_flood_of_denied_keys_does_not_grow_the_list() {
    let server = Server::with(&["--top-denied", "1"]);
    let mut raw = server.connect();
    for _ in 0..500 {
        raw.ask("THROTTLE heavy 1 1 3600");
    }
    // A cost above the burst is denied, also to a new key.
    for index in 0..1_000 {
        assert!(raw.ask(&format!("THROTTLE once{index} 1 1 3600 2")).starts_with("0 1 "));
    }
    let top = top_denied(&server);
    assert_eq!(top.len(), 1);
    assert!(top[0].starts_with(r#"ratekeeper_top_denied{key="heavy",rank="1"}"#), "{top:?}");
}

#[test]
fn the_service_manager_is_told_when_it_is_ready_and_when_it_stops() {
    let folder = Folder::new("notify");
    let path = folder.path("socket");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command =
        ratekeeper(&["serve", "--resp", "127.0.0.1:0", "--http", "off", "--grpc", "off", "--msgpack", "off"]);
    let server = Server::spawn(command.env("NOTIFY_SOCKET", &path));
    let told = || {
        let mut bytes = [0; 64];
        let len = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    assert_eq!(told(), "READY=1");
    server.signal("TERM");
    assert_eq!(told(), "STOPPING=1");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn the_soft_limit_of_descriptors_is_raised_to_the_hard_one() {
    let binary = ratekeeper(&[]).get_program().to_owned();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -Hn 500; ulimit -Sn 40; exec \"$@\"", "sh"]).arg(binary);
    shell.args([
        "serve",
        "--resp",
        "127.0.0.1:0",
        "--http",
        "off",
        "--grpc",
        "off",
        "--msgpack",
        "off",
        "--loops",
        "1",
    ]);
    let server = Server::spawn(&mut shell);
    let mut held: Vec<Raw> = (0..100).map(|_| server.connect()).collect();
    for raw in &mut held {
        assert_eq!(raw.ask("PING"), "+PONG");
    }
}

/// A client that vanished without a word is noticed by the kernel, on every transport.
#[cfg(target_os = "linux")]
#[test]
fn keep_alive_is_on() {
    /// How `/proc/net/tcp` writes the timer that probes a silent peer.
    const KEEP_ALIVE: &str = "02";
    let server = Server::start();
    for transport in ["resp", "http", "grpc", "msgpack"] {
        let address = server.address(transport);
        let raw = Raw::connect(address);
        let port = |port: u16| format!(":{port:04X}");
        let (ours, theirs) = (port(raw.0.local_addr().unwrap().port()), port(address.port()));
        until("the server's socket has its timer", || {
            let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
            let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            table.lines().map(fields).any(|line| {
                line[1].ends_with(&theirs) && line[2].ends_with(&ours) && line[5].starts_with(KEEP_ALIVE)
            })
        });
    }
}

#[test]
fn health_can_be_asked_for_by_the_binary_itself() {
    let address = format!("127.0.0.1:{}", free_port());
    let server = Server::with(&["--http", &address]);
    assert_eq!(run(ratekeeper(&[]).get_program().to_str().unwrap(), &["health", "--http", &address]), "ok\n");
    drop(server);
    let output = ratekeeper(&["health", "--http", &address]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&address) && said.lines().count() == 1, "{said}");
    let off = ratekeeper(&["health", "--http", "off"]).output().unwrap();
    assert_eq!(off.status.code(), Some(2));
}
