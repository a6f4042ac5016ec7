//! `deploy/prometheus/` and `deploy/grafana/`: the rules pass their tests, and a real Prometheus reads a real server by them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::deploy::root;
use test_support::folder::Folder;
use test_support::port::free_port;
use test_support::server::{Raw, Server};
use test_support::wait::{PATIENCE, until, until_some};

/// A Prometheus, if there is one.
fn program(name: &str) -> Option<PathBuf> {
    let Some(prometheus) = std::env::var_os("RATEKEEPER_PROMETHEUS") else {
        eprintln!(
            "not run: RATEKEEPER_PROMETHEUS is not set; `cargo xtask test` installs one, or says why it cannot"
        );
        return None;
    };
    Some(PathBuf::from(prometheus).with_file_name(name))
}

#[test]
fn every_alert_fires_when_it_should_and_only_then() {
    let Some(promtool) = program("promtool") else { return };
    let folder = root().join("deploy/prometheus");
    for arguments in [
        ["check", "rules", "rules.yml"],
        ["test", "rules", "rules_test.yml"],
        ["check", "config", "prometheus.yml"],
    ] {
        let output = Command::new(&promtool).args(arguments).current_dir(&folder).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
    }
    // None is forgotten.
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let (rules, tests) = (read("rules.yml"), read("rules_test.yml"));
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 20, "{alerts:?}");
    for alert in alerts {
        let fires = format!("- alertname: {alert}\n");
        assert!(tests.contains(&fires) && tests.contains(&format!("{{alertname: {alert}, ")), "{alert}");
    }
}

/// The metrics that the guide lists.
fn documented() -> BTreeSet<String> {
    let guide = fs::read_to_string(root().join("docs/guide/operate.md")).unwrap();
    let (_, rest) = guide.split_once("## Metrics and what to do\n").unwrap();
    let section = rest.split_once("\n## ").map_or(rest, |(section, _)| section);
    section.split('`').filter_map(|code| names_in(code).into_iter().next()).collect()
}

/// The names of metrics in a text.
fn names_in(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_:".contains(c)));
    let ours = words.filter(|word| {
        (word.starts_with("ratekeeper_") || word.starts_with("process_")) && !word.contains(':')
    });
    let of_histogram = |word: &str| {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
        base.filter(|base| base.ends_with("_seconds")).unwrap_or(word).to_owned()
    };
    ours.map(of_histogram).collect()
}

/// The metrics of a server.
fn page(server: &Server) -> String {
    let (status, page) = crate::deploy::service::http(server.address("http"), "GET", "/metrics", "", None);
    assert_eq!(status, 200, "{page}");
    page
}

/// The names of the metrics on a page.
fn told(page: &str) -> BTreeSet<String> {
    page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).flat_map(names_in).collect()
}

/// A running Prometheus.
struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body of an answer.
fn get(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok((status, body.to_owned()))
}

impl Prometheus {
    /// Starts one by the configuration of `deploy/`, with this server for its target and no time to lose.
    fn start(program: &PathBuf, folder: &Folder, target: SocketAddr) -> Self {
        let deployed = root().join("deploy/prometheus");
        let config = fs::read_to_string(deployed.join("prometheus.yml")).unwrap();
        assert!(config.contains("127.0.0.1:8080") && config.contains(": 15s"));
        let config = config.replace("127.0.0.1:8080", &target.to_string()).replace(": 15s", ": 200ms");
        let config = config.replace("global:\n", "global:\n  scrape_timeout: 200ms\n");
        folder.write("rules.yml", fs::read_to_string(deployed.join("rules.yml")).unwrap());
        let config = folder.write("prometheus.yml", config);
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let child = Command::new(program)
            .args([&format!("--config.file={config}"), &format!("--web.listen-address={address}")])
            .arg(format!("--storage.tsdb.path={}", folder.path("data")))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let prometheus = Prometheus { child, address };
        until("Prometheus is ready", || get(address, "/-/ready").is_ok_and(|(status, _)| status == 200));
        prometheus
    }

    /// What it answers to an expression; an error in it is a failure.
    fn query(&self, expression: &str) -> Vec<Value> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let (_, body) = get(self.address, &format!("/api/v1/query?query={encoded}")).unwrap();
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["status"], "success", "{expression}: {body}");
        match &answer["data"]["result"] {
            Value::Array(results) => results.clone(),
            _ => Vec::new(),
        }
    }

    /// The value of the only series of an expression.
    fn value(&self, expression: &str) -> Option<f64> {
        self.query(expression).first()?["value"][1].as_str()?.parse().ok()
    }
}

const CONFIG: &str = "\
[plans.free]
limits = [\"3/day\"]
shadow = [\"1/day\"]
[plans.llm]
limits = [\"100 tokens/day\", \"8 concurrent\"]
";

#[test]
fn a_real_prometheus_reads_a_real_server() {
    let Some(program) = program("prometheus") else { return };
    let folder = Folder::new("prometheus");
    let (config, state, record) =
        (folder.write("plans.toml", CONFIG), folder.path("state.bin"), folder.path("trace"));
    let server = Server::with(&[
        "--config",
        &config,
        "--snapshot",
        &state,
        "--snapshot-every",
        "100ms",
        "--record",
        &record,
        "--top-denied",
        "3",
    ]);
    let mut raw = server.connect();
    for _ in 0..5 {
        raw.ask("ACQUIRE user free");
    }
    raw.ask("HOLD user llm UNIT tokens 5");
    let prometheus = Prometheus::start(&program, &folder, server.address("http"));
    until("it reads the server", || prometheus.value("up{job=\"ratekeeper\"}") == Some(1.0));
    for (expression, expected) in [
        (r#"sum(ratekeeper_plan_decisions_total{plan="free",result="allowed"})"#, 3.0),
        (r#"sum(ratekeeper_plan_decisions_total{plan="free",result="denied"})"#, 2.0),
        (r#"sum(ratekeeper_plan_decisions_total{plan="free",result="would_deny"})"#, 2.0),
        (r#"sum(ratekeeper_plan_near_limit_total{plan="free"})"#, 1.0),
        (r#"ratekeeper_top_denied{key="user"}"#, 2.0),
        ("ratekeeper_holds", 1.0),
        ("count(ratekeeper_build_info)", 1.0),
        ("ratekeeper_reload_last_successful", 1.0),
        ("ratekeeper_snapshots_unreadable_total", 0.0),
    ] {
        until(expression, || prometheus.value(expression) == Some(expected));
    }
    until("snapshots are written", || {
        prometheus.value("time() - ratekeeper_snapshot_timestamp_seconds < 5").is_some()
    });
    // What it takes from the page is what is on the page: nothing was refused, or read twice.
    let page = page(&server);
    let on_page = told(&page);
    assert!(on_page.len() > 30, "{page}");
    let listed = |name: &String| !prometheus.query(&format!("{{__name__=~\"{name}(_bucket)?\"}}")).is_empty();
    let has_series = |name: &&String| page.lines().any(|line| line.starts_with(name.as_str()));
    // A page that came late once makes all of them stale until the next one.
    for name in on_page.iter().filter(has_series) {
        until(name, || listed(name));
    }
    // Every rule is evaluated without an error, and no alert fires but the one that should: most is denied, for now.
    let rules = until_some("all rules are evaluated", || {
        let (_, body) = get(prometheus.address, "/api/v1/rules").ok()?;
        let answer: Value = serde_json::from_str(&body).ok()?;
        let groups = answer["data"]["groups"].as_array()?;
        let rules: Vec<Value> =
            groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect();
        rules.iter().all(|rule| rule["health"] != "unknown").then_some(rules)
    });
    for rule in &rules {
        assert_eq!(rule["health"], "ok", "{rule}");
        assert_ne!(rule["state"], "firing", "{rule}");
    }
    drop(server);
    until("a server that is gone is noticed", || {
        prometheus.value("up{job=\"ratekeeper\"}") == Some(0.0)
            && prometheus.value("ALERTS{alertname=\"RatekeeperDown\"}").is_some()
    });
}

#[test]
fn the_dashboard_asks_what_can_be_asked() {
    let text = fs::read_to_string(root().join("deploy/grafana/ratekeeper.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let identifiers: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(identifiers.len(), panels.len(), "each has a number of its own");
    let expressions: Vec<&str> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().map(Vec::as_slice).unwrap_or_default())
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    assert!(expressions.len() > 25, "{}", expressions.len());
    let documented = documented();
    for expression in &expressions {
        for name in names_in(expression) {
            assert!(documented.contains(&name), "{name} is not in the guide");
        }
    }
    let Some(program) = program("prometheus") else { return };
    let folder = Folder::new("dashboard");
    let server = Server::start();
    let prometheus = Prometheus::start(&program, &folder, server.address("http"));
    until("it reads the server", || prometheus.value("up{job=\"ratekeeper\"}") == Some(1.0));
    for expression in expressions {
        let expression = expression.replace("$__rate_interval", "1m").replace("$instance", ".*");
        assert!(!expression.contains('$'), "{expression}");
        prometheus.query(&expression);
    }
}

/// What only servers with a certificate, or with a collector of traces, tell of.
const ELSEWHERE: [&str; 2] =
    ["ratekeeper_tls_certificate_expiry_timestamp_seconds", "ratekeeper_spans_total"];

/// The table of the guide lists what a server tells, and the rules use nothing else.
#[test]
fn every_metric_is_in_the_guide() {
    let documented = documented();
    let rules = fs::read_to_string(root().join("deploy/prometheus/rules.yml")).unwrap();
    for name in rules.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(names_in) {
        assert!(documented.contains(&name), "{name}, which a rule uses, is not in the guide");
    }
    let folder = Folder::new("metrics");
    let config = folder.write("plans.toml", CONFIG);
    let redis = test_support::redis::server::Server::redis();
    let store = format!("redis://127.0.0.1:{}/0", redis.port());
    let (state, record) = (folder.path("state.bin"), folder.path("trace"));
    let in_memory = [
        "--config",
        &config,
        "--snapshot",
        &state,
        "--snapshot-every",
        "100ms",
        "--record",
        &record,
        "--top-denied",
        "1",
    ];
    let over_redis = ["--config", &config, "--store", &store];
    let mut all = BTreeSet::new();
    for flags in [&in_memory[..], &over_redis] {
        let server = Server::with(flags);
        let mut raw: Raw = server.connect();
        (0..5).for_each(|_| drop(raw.ask("ACQUIRE user free")));
        until("a snapshot is told of", || {
            flags.contains(&"--store")
                || told(&page(&server)).contains("ratekeeper_snapshot_timestamp_seconds")
        });
        let on_page = told(&page(&server));
        for name in &on_page {
            assert!(documented.contains(name), "{name} is not in the guide");
        }
        all.extend(on_page);
    }
    // And nothing else is in the guide, and so in no rule and on no dashboard.
    let untold: Vec<&String> = documented
        .iter()
        .filter(|name| !all.contains(*name) && !ELSEWHERE.contains(&name.as_str()))
        .collect();
    assert!(untold.is_empty(), "no server tells of {untold:?}");
}
