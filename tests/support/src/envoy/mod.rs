//! Starts an Envoy on free ports, with its files in a temporary folder, and stops it when dropped.

mod client;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

pub use self::client::{Client, Response};
use crate::folder::Folder;
use crate::wait::{until, until_some};

const BOOTSTRAP: &str = include_str!("bootstrap.yaml");

/// A timeout that only a server that hangs exceeds.
pub const PATIENT: &str = "20s";

/// The statistic that counts failed calls to the rate limit service.
pub const ERRORS: &str = "cluster.upstream.ratelimit.error";

/// A running Envoy.
pub struct Envoy {
    child: Child,
    admin: SocketAddr,
    http: SocketAddr,
    _folder: Folder,
}

/// Returns the path of Envoy. Without one, prints why the test is skipped.
pub fn binary() -> Option<PathBuf> {
    let found = std::env::var_os("RATEKEEPER_ENVOY").map(PathBuf::from);
    if found.is_none() {
        eprintln!("skipped: RATEKEEPER_ENVOY is not set; `cargo xtask slow` installs an Envoy and sets it");
    }
    found
}

impl Envoy {
    /// Starts an Envoy that calls these rate limit services with this timeout, and waits until all of them are healthy.
    pub fn start(servers: &[SocketAddr], timeout: &str) -> Option<Self> {
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
        until("Envoy is ready", || Client::connect(admin).get("/ready", &[]).status == 200);
        let http = listener(admin);
        let envoy = Envoy { child, admin, http, _folder: folder };
        envoy.await_stat("cluster.ratelimit.membership_healthy", servers.len() as u64);
        Some(envoy)
    }

    /// Opens a connection.
    pub fn connect(&self) -> Client {
        Client::connect(self.http)
    }

    /// Sends one request on a new connection.
    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.connect().get(path, headers)
    }

    /// Returns a statistic, 0 if Envoy has no value yet.
    pub fn stat(&self, name: &str) -> u64 {
        let stats = Client::connect(self.admin).get(&format!("/stats?filter=^{name}$"), &[]).body;
        let value = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.map_or(0, |value| value.parse().unwrap())
    }

    /// Waits until a statistic has this value.
    pub fn await_stat(&self, name: &str, value: u64) {
        until(&format!("{name} is {value}"), || self.stat(name) == value);
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the bootstrap configuration for these servers.
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

/// Returns the address of the HTTP listener.
fn listener(admin: SocketAddr) -> SocketAddr {
    let told = Client::connect(admin).get("/listeners?format=json", &[]).body;
    let told: Value = serde_json::from_str(&told).unwrap();
    let listeners = told["listener_statuses"].as_array().unwrap();
    let http = listeners.iter().find(|listener| listener["name"] == "http").unwrap();
    let address = &http["local_address"]["socket_address"];
    format!("{}:{}", address["address"].as_str().unwrap(), address["port_value"]).parse().unwrap()
}
