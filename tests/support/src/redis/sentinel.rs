//! A master, a replica, and three sentinels that watch them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::server::Server;
use crate::port::free_port;
use crate::wait;

/// The name that the sentinels know the master by.
pub const MASTER: &str = "mymaster";

/// After how long a silence a sentinel takes the master for dead.
const SILENCE: Duration = Duration::from_millis(1_000);

/// The same where nobody is to die: on a busy machine one may be silent for a second and be well.
const LONG_SILENCE: Duration = Duration::from_secs(300);

/// Two servers and who watches them.
#[derive(Debug)]
pub struct Trio {
    pub master: Server,
    pub replica: Server,
    sentinels: Vec<Sentinel>,
}

impl Trio {
    /// Starts all five and waits until the sentinels know each other and the replica.
    pub fn start(binary: &Path) -> Self {
        Self::with_silence(binary, SILENCE)
    }

    /// Like [`start`](Trio::start), but the master is not taken for dead before they are told to
    /// [watch it closely](Trio::watch_closely).
    pub fn patient(binary: &Path) -> Self {
        Self::with_silence(binary, LONG_SILENCE)
    }

    fn with_silence(binary: &Path, silence: Duration) -> Self {
        let master = Server::with(binary, &[]);
        let port = master.port().to_string();
        let replica =
            Server::with(binary, &["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"]);
        let mut connection = replica.connection();
        wait::until("the replica has its data", || {
            info(&mut connection, "replication").contains("master_link_status:up")
        });
        let sentinels: Vec<Sentinel> =
            (0..3).map(|_| Sentinel::start(binary, master.port(), silence)).collect();
        for sentinel in &sentinels {
            wait::until("the sentinels know each other and the replica", || {
                let Some(mut connection) = sentinel.connection() else { return false };
                let info = info(&mut connection, "sentinel");
                info.contains("status=ok") && info.contains("slaves=1") && info.contains("sentinels=3")
            });
        }
        Trio { master, replica, sentinels }
    }

    /// Has the sentinels take the master for dead after a short silence, from now on: it is about to die.
    pub fn watch_closely(&self) {
        for sentinel in &self.sentinels {
            let mut connection = sentinel.connection().expect("a sentinel answers");
            let mut order = redis::cmd("SENTINEL");
            order.arg("SET").arg(MASTER).arg("down-after-milliseconds").arg(SILENCE.as_millis().to_string());
            order.exec(&mut connection).expect("it is told");
        }
    }

    /// Its address, by all sentinels.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port)).collect();
        format!("redis-sentinel://{}/{MASTER}", hosts.join(","))
    }

    /// Its address, by a sentinel that does not lead a failover by plan.
    pub fn url_by_one(&self) -> String {
        format!("redis-sentinel://127.0.0.1:{}/{MASTER}", self.sentinels[2].port)
    }

    /// Has the replica made the master by plan, as an operator does before work on the machine of the master.
    pub fn fail_over(&self) {
        wait::until("a sentinel begins the failover", || {
            let Some(mut connection) = self.sentinels[0].connection() else { return false };
            redis::cmd("SENTINEL").arg("FAILOVER").arg(MASTER).exec(&mut connection).is_ok()
        });
    }

    /// Whether a sentinel has taken the replica for the master.
    pub fn is_replaced(&self) -> bool {
        self.sentinels.iter().any(|sentinel| sentinel.master_port() == Some(self.replica.port()))
    }

    /// The same, asked for as long as they may need for it.
    pub fn is_replaced_soon(&self) -> bool {
        let deadline = Instant::now() + 3 * SILENCE;
        while !self.is_replaced() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::park_timeout(SILENCE / 20);
        }
        true
    }

    /// Makes the old master the replica of the new one, and waits until the sentinels know it for that: then there may be
    /// another failover. One that was killed must run again.
    pub fn swap(&mut self) {
        std::mem::swap(&mut self.master, &mut self.replica);
        let follows = |connection: &mut redis::Connection| {
            let info = info(connection, "replication");
            info.contains("role:slave") && info.contains("master_link_status:up")
        };
        wait::until("the old master follows the new one", || {
            let Some(mut connection) = self.replica.try_connection() else { return false };
            if follows(&mut connection) {
                return true;
            }
            let port = self.master.port();
            let _ = redis::cmd("REPLICAOF").arg("127.0.0.1").arg(port).exec(&mut connection);
            false
        });
        wait::until("the sentinels know the new replica", || {
            self.sentinels.iter().all(|sentinel| {
                let Some(mut connection) = sentinel.connection() else { return false };
                let mut question = redis::cmd("SENTINEL");
                question.arg("REPLICAS").arg(MASTER);
                let replicas: Vec<std::collections::HashMap<String, String>> =
                    question.query(&mut connection).unwrap_or_default();
                replicas.iter().any(|replica| {
                    replica.get("port") == Some(&self.replica.port().to_string())
                        && replica.get("flags").is_some_and(|flags| flags == "slave")
                        && replica.get("master-link-status").is_some_and(|status| status == "ok")
                }) && info(&mut connection, "sentinel").contains("status=ok")
            })
        });
    }

    /// Kills all sentinels.
    pub fn kill_sentinels(&mut self) {
        for sentinel in &mut self.sentinels {
            let _ = sentinel.process.kill();
            let _ = sentinel.process.wait();
        }
    }

    /// How many connections listen to what the sentinels publish.
    pub fn listeners(&self) -> usize {
        let of = |sentinel: &Sentinel| {
            let mut connection = sentinel.connection().expect("a sentinel answers");
            let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut connection).expect("a list");
            list.lines().filter(|line| !line.contains(" sub=0 ") && line.contains(" sub=")).count()
        };
        self.sentinels.iter().map(of).sum()
    }

    /// Tells the old master to be a replica, as the sentinels do some ten seconds after a failover by plan.
    pub fn demote_old_master(&self) {
        let mut connection = self.master.connection();
        let mut commands = redis::pipe();
        commands.cmd("REPLICAOF").arg("127.0.0.1").arg(self.replica.port());
        commands.cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes");
        commands.exec(&mut connection).expect("it is demoted");
    }

    /// Which server takes writes, by what most sentinels and the server itself say.
    pub fn wait_for_promotion(&self) {
        let port = self.replica.port();
        wait::until("the replica is promoted", || {
            let agreed = self.sentinels.iter().filter(|sentinel| sentinel.master_port() == Some(port));
            // Who promotes it closes what was connected.
            agreed.count() >= 2 && info(&mut self.replica.connection(), "replication").contains("role:master")
        });
    }
}

fn info(connection: &mut redis::Connection, section: &str) -> String {
    redis::cmd("INFO").arg(section).query(connection).unwrap_or_default()
}

/// One sentinel, with a configuration of its own, which it rewrites.
#[derive(Debug)]
struct Sentinel {
    process: Child,
    port: u16,
    directory: PathBuf,
}

impl Sentinel {
    fn start(binary: &Path, master: u16, silence: Duration) -> Self {
        let port = free_port();
        let directory = std::env::temp_dir().join(format!("rk-sentinel-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a temporary directory");
        let configuration = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor {MASTER} 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds {MASTER} {}\nsentinel failover-timeout {MASTER} 3000\n\
             sentinel parallel-syncs {MASTER} 1\n",
            silence.as_millis()
        );
        let file = directory.join("sentinel.conf");
        std::fs::write(&file, configuration).expect("its configuration");
        let process = Command::new(binary)
            .current_dir(&directory)
            .arg(&file)
            .arg("--sentinel")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a sentinel starts");
        Sentinel { process, port, directory }
    }

    fn connection(&self) -> Option<redis::Connection> {
        redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).ok()?.get_connection().ok()
    }

    fn master_port(&self) -> Option<u16> {
        let mut question = redis::cmd("SENTINEL");
        question.arg("get-master-addr-by-name").arg(MASTER);
        let (_, port): (String, u16) = question.query(&mut self.connection()?).ok()?;
        Some(port)
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
