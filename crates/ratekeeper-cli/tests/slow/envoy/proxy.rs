//! An Envoy of one's own: on free ports, in a folder of its own, gone when dropped.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::envoy::browser::Browser;
use test_support::folder::Folder;
use test_support::wait::{until, until_some};

const BOOTSTRAP: &str = include_str!("bootstrap.yaml");

/// Long enough that only a server that does not answer is too late, on a machine that is busy with something else.
pub(crate) const PATIENT: &str = "20s";

/// Counts the calls to the rate limit service that failed.
pub(crate) const ERRORS: &str = "cluster.upstream.ratelimit.error";

/// A running Envoy.
pub(crate) struct Envoy {
    child: Child,
    admin: SocketAddr,
    http: SocketAddr,
    _folder: Folder,
}

/// The Envoy to test with; without one, a line that says so.
pub(crate) fn binary() -> Option<PathBuf> {
    let found = std::env::var_os("RATEKEEPER_ENVOY").map(PathBuf::from);
    if found.is_none() {
        eprintln!(
            "not run: RATEKEEPER_ENVOY is not set; `cargo xtask test` fetches an Envoy, or says why it cannot"
        );
    }
    found
}

impl Envoy {
    /// Starts one that asks these servers, each for so long at most, and waits until it knows that they are well.
    pub(crate) fn start(servers: &[SocketAddr], timeout: &str) -> Option<Self> {
        let binary = binary()?;
        let folder = Folder::new("envoy");
        let boot = folder.write("boot.yaml", boot(servers, timeout));
        let output = Command::new(&binary).args(["-c", &boot, "--mode", "validate"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told = folder.path("admin.txt");
        let mut child = Command::new(&binary)
            .args(["-c", &boot, "--concurrency", "1", "--log-level", "warn", "--disable-hot-restart"])
            .args(["--admin-address-path", &told])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let admin: SocketAddr = until_some("Envoy tells its admin address", || {
            assert!(child.try_wait().unwrap().is_none(), "Envoy has ended");
            std::fs::read_to_string(&told).ok()?.trim().parse().ok()
        });
        until("Envoy is ready", || Browser::connect(admin).get("/ready", &[]).status == 200);
        let http = listener(admin);
        let envoy = Envoy { child, admin, http, _folder: folder };
        envoy.await_stat("cluster.ratelimit.membership_healthy", servers.len() as u64);
        Some(envoy)
    }

    /// A new connection to it.
    pub(crate) fn browse(&self) -> Browser {
        Browser::connect(self.http)
    }

    /// One request on a connection of its own.
    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> crate::envoy::browser::Seen {
        self.browse().get(path, headers)
    }

    /// One of its statistics; 0 until it has something to say.
    pub(crate) fn stat(&self, name: &str) -> u64 {
        let stats = Browser::connect(self.admin).get(&format!("/stats?filter=^{name}$"), &[]).body;
        let value = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.map_or(0, |value| value.parse().unwrap())
    }

    /// Waits until one of its statistics is this.
    pub(crate) fn await_stat(&self, name: &str, value: u64) {
        until(&format!("{name} is {value}"), || self.stat(name) == value);
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bootstrap for these servers.
fn boot(servers: &[SocketAddr], timeout: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    // An abstract socket: there is no file to remove, nor a path that may be too long.
    let upstream = format!("@ratekeeper-upstream-{}-{number}", std::process::id());
    let endpoint = |server: &SocketAddr| {
        format!(
            "{{endpoint: {{address: {{socket_address: {{address: {}, port_value: {}}}}}}}}}",
            server.ip(),
            server.port()
        )
    };
    let endpoints: Vec<String> = servers.iter().map(endpoint).collect();
    BOOTSTRAP
        .replace("UPSTREAM", &upstream)
        .replace("TIMEOUT", timeout)
        .replace("ENDPOINTS", &endpoints.join(", "))
}

/// Where Envoy's clients connect to.
fn listener(admin: SocketAddr) -> SocketAddr {
    let told = Browser::connect(admin).get("/listeners?format=json", &[]).body;
    let told: Value = serde_json::from_str(&told).unwrap();
    let listeners = told["listener_statuses"].as_array().unwrap();
    let http = listeners.iter().find(|listener| listener["name"] == "http").unwrap();
    let address = &http["local_address"]["socket_address"];
    format!("{}:{}", address["address"].as_str().unwrap(), address["port_value"]).parse().unwrap()
}
