//! What is under `deploy/` is accepted by the tools that it is for, and names only what exists.

#[cfg(unix)]
mod dockerfile;
mod envoy;
mod kubernetes;
mod pods;
mod prometheus;
mod service;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use test_support::folder::Folder;

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn the_dockerfile_copies_what_exists() {
    let text = fs::read_to_string(root().join("deploy/Dockerfile")).unwrap();
    let copies: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("COPY ")).collect();
    assert!(copies.len() > 5);
    for copy in copies.iter().filter(|copy| !copy.starts_with("--from")) {
        let (sources, _) = copy.rsplit_once(' ').unwrap();
        for source in sources.split(' ') {
            assert!(root().join(source).exists(), "{source} does not exist");
        }
    }
    // Every member of the workspace must be there, or cargo refuses to look at any.
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = manifest.lines().find(|line| line.starts_with("members = ")).unwrap();
    for member in members.split('"').skip(1).step_by(2) {
        let folder = Path::new(member.trim_end_matches("/*"));
        let is_copied = copies.iter().any(|copy| copy.split(' ').any(|source| folder.starts_with(source)));
        assert!(is_copied, "{} is not copied", folder.display());
    }
}

/// systemd itself reads the unit, with a binary that exists in place of the installed one.
#[cfg(target_os = "linux")]
#[test]
fn systemd_accepts_the_unit() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("not run: there is no systemd-analyze");
        return;
    }
    let unit = fs::read_to_string(root().join("deploy/ratekeeper.service")).unwrap();
    let folder = Folder::new("unit");
    let unit = unit.replace("/usr/local/bin/ratekeeper", test_support::binary::path());
    let path = folder.write("ratekeeper.service", unit);
    let output = Command::new("systemd-analyze").arg("verify").arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // It also looks at the units of this machine, which are not ours.
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("ratekeeper")).collect();
    assert!(output.status.success() && ours.is_empty(), "{said}");
}

/// What the unit starts is started, killed, and started again as systemd would.
#[cfg(unix)]
#[test]
fn the_unit_starts_a_server_that_survives_a_kill() {
    let unit = fs::read_to_string(root().join("deploy/ratekeeper.service")).unwrap();
    let setting = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    assert_eq!(setting("Restart"), Some("on-failure"));
    assert_eq!(setting("RestartPreventExitStatus"), Some("2"), "wrong usage");
    let folder = Folder::new("unit-start");
    let config = folder.write("ratekeeper.toml", "[plans.free]\nlimits = [\"1/day\"]\n");
    let started = setting("ExecStart").unwrap();
    let (program, arguments) = started.split_once(' ').unwrap();
    assert_eq!(program, "/usr/local/bin/ratekeeper");
    let arguments = arguments
        .replace("/etc/ratekeeper/ratekeeper.toml", &config)
        .replace("${STATE_DIRECTORY}", &folder.path("."))
        // Nobody waits for half a minute here.
        .replace("--snapshot-every 30s", "--snapshot-every 50ms");
    let start = || {
        let mut command = test_support::binary::ratekeeper(&arguments.split(' ').collect::<Vec<_>>());
        for transport in ["--resp", "--http", "--grpc", "--msgpack"] {
            command.args([transport, "127.0.0.1:0"]);
        }
        test_support::server::Server::spawn(&mut command)
    };
    let server = start();
    assert!(server.ask("ACQUIRE k free").starts_with("1 "));
    let newest = || fs::metadata(folder.path("state.bin")).and_then(|metadata| metadata.modified()).ok();
    for _ in 0..3 {
        let before = newest();
        test_support::wait::until("it is written again", || newest() != before);
    }
    drop(server);
    assert!(start().ask("ACQUIRE k free").starts_with("0 "), "it knows");
    // An address that somebody has is no wrong usage: systemd tries again.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = test_support::binary::ratekeeper(&["serve", "--resp", &address]).output().unwrap();
    assert_eq!(output.status.code(), Some(75), "{}", String::from_utf8_lossy(&output.stderr));
}
