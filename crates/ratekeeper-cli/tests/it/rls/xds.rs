//! `ratekeeper ratelimit` whose rules a control plane pushes, as Envoy Gateway does it: stock gRPC on the other side.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use serde_json::{Value, json};

use test_support::server::{Raw, Server, ratekeeper, wait};

/// A control plane, in a process of its own.
struct ControlPlane {
    child: Child,
    /// Closed, it ends.
    told: Option<ChildStdin>,
    says: BufReader<ChildStdout>,
    port: u16,
}

impl ControlPlane {
    /// Starts one; none without an interpreter that has gRPC.
    fn start() -> Option<Self> {
        let Ok(python) = std::env::var("RATEKEEPER_PYTHON") else {
            eprintln!("xds: not run; `cargo xtask test` fetches the Python clients");
            return None;
        };
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(python);
        command
            .arg("-B")
            .arg(here.join("tests/it/rls/python/control_plane.py"))
            .arg(here.join("../../proto"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let told = child.stdin.take().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        let mut plane = ControlPlane { child, told: Some(told), says, port: 0 };
        plane.port = plane.line().parse().unwrap();
        Some(plane)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn tell(&mut self, command: &str) -> Value {
        writeln!(self.told.as_mut().unwrap(), "{command}").unwrap();
        let said = self.line();
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{command}: {said:?}"))
    }

    /// Waits until a node has opened a stream, and returns the version that it has.
    fn stream(&mut self) -> String {
        let first = self.tell("stream");
        assert_eq!((&first["node"], &first["nonce"]), (&json!("edge-7"), &json!("")));
        first["version"].as_str().unwrap().to_owned()
    }

    /// Pushes one domain that lets each user do so much; returns the version that is in force then, and the error.
    fn push(&mut self, version: &str, domain: &str, user: u32, unit: &str) -> (String, Option<String>) {
        let push = json!({"version": version, "domains": {domain: {"user": user, "unit": unit}}});
        let said = self.tell(&format!("push {push}"));
        (said["version"].as_str().unwrap().to_owned(), said["error"].as_str().map(str::to_owned))
    }

    /// The service that asks it.
    fn node(&self) -> Command {
        let mut command = ratekeeper(&["ratelimit"]);
        for listener in ["HOST", "GRPC_HOST", "DEBUG_HOST"] {
            command.env(listener, "127.0.0.1");
        }
        for port in ["PORT", "GRPC_PORT", "DEBUG_PORT"] {
            command.env(port, "0");
        }
        command
            .env("CONFIG_TYPE", "GRPC_XDS_SOTW")
            .env("CONFIG_GRPC_XDS_SERVER_URL", format!("127.0.0.1:{}", self.port))
            .env("CONFIG_GRPC_XDS_NODE_ID", "edge-7")
            .env("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "10ms")
            .env("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "100ms");
        command
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // It removes its folder, unless it hangs.
        self.told = None;
        if !thread::panicking() {
            wait(&mut self.child);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The status of a request of this user.
fn ask(server: &Server, domain: &str, user: &str) -> u16 {
    let entries = json!([{"entries": [{"key": "user", "value": user}]}]);
    let body = json!({"domain": domain, "descriptors": entries}).to_string();
    let length = body.len();
    let mut raw = Raw::connect(server.address("http"));
    raw.send(format!(
        "POST /json HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    ));
    raw.rest().split(' ').nth(1).unwrap().parse().unwrap()
}

fn accepted(version: &str) -> (String, Option<String>) {
    (version.to_owned(), None)
}

#[test]
fn rules_that_are_pushed_hold() {
    let Some(mut plane) = ControlPlane::start() else { return };
    let mut command = plane.node();
    // It is not ready before the first push.
    let starting = thread::spawn(move || Server::spawn(&mut command));
    assert_eq!(plane.stream(), "");
    assert_eq!(plane.push("1", "edge", 2, "YEAR"), accepted("1"));
    let server = starting.join().unwrap();
    let bob = || ask(&server, "edge", "bob");
    assert_eq!([bob(), bob(), bob()], [200, 200, 429]);

    assert_eq!(plane.push("2", "edge", 4, "YEAR"), accepted("2"));
    assert_eq!([bob(), bob()], [200, 429], "three were counted");

    let error = "config/edge: invalid rate limit unit 'UNKNOWN'".to_owned();
    let long = "3".repeat(4000);
    assert_eq!(plane.push(&long, "edge", 9, "UNKNOWN"), ("2".to_owned(), Some(error)));
    let logged = server.await_log("a push was refused");
    assert!(logged.contains("'UNKNOWN'") && logged.len() < 600, "{} bytes: {logged}", logged.len());
    assert_eq!([bob(), ask(&server, "edge", "eve")], [429, 200], "the rules before stay");

    plane.tell("stop");
    assert_eq!([bob(), ask(&server, "edge", "eve")], [429, 200], "while it is away, too");
    plane.tell("start");
    assert_eq!(plane.stream(), "2", "what is in force is told anew");
    assert_eq!(plane.push("1", "api", 1, "YEAR"), accepted("1"));
    assert_eq!([bob(), bob()], [200, 200], "a domain that is not pushed is gone");
    assert_eq!([ask(&server, "api", "bob"), ask(&server, "api", "bob")], [200, 429]);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}

/// As the first process of a container it would not hear of a signal that it has no handler for.
#[test]
fn a_signal_before_the_first_push_ends_it() {
    let Some(mut plane) = ControlPlane::start() else { return };
    let mut child = plane.node().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(plane.stream(), "");
    for signal in ["-HUP", "-TERM"] {
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    }
    assert_eq!(wait(&mut child).code(), Some(0));
}
