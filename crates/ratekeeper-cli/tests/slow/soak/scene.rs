//! What the servers share their limits by, and what may become of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::soak::instance::{clock_variables, set_clock};
use crate::soak::schedule::StoreKind;
use test_support::redis::cluster::{Cluster, command, move_slot};
use test_support::redis::sentinel::{MASTER, Trio};
use test_support::redis::server::{Server as Node, redis_binary, valkey_binary};
use test_support::wait;
use test_support::wait::until_some;

/// A Redis or a Valkey, alone or in company.
pub(crate) enum Scene {
    Memory,
    Single(Box<Node>),
    Cluster(Cluster),
    Sentinel(Box<Trio>),
}

/// The program of the nodes, and the file that their clocks follow, if they can be faked.
#[derive(Debug)]
pub(crate) struct NodeProgram {
    binary: PathBuf,
    clock: Option<PathBuf>,
    pub(crate) name: &'static str,
}

impl NodeProgram {
    /// Valkey or Redis, if there are both. The program is started by a script that fakes its clock, if it starts under that:
    /// those that were built with jemalloc do not.
    pub(crate) fn choose(is_valkey: bool, library: Option<&Path>, folder: &Path) -> Self {
        let valkey = valkey_binary().filter(|_| is_valkey);
        let (binary, name) = valkey.map_or_else(|| (redis_binary(), "Redis"), |binary| (binary, "Valkey"));
        let faked = library.and_then(|library| {
            let clock = folder.join("node-clock");
            set_clock(&clock, 0);
            let variables: Vec<String> =
                clock_variables(library, &clock).iter().map(|(name, value)| format!("{name}='{value}'")).collect();
            let script = folder.join("node.sh");
            // Sentinels whose clock steps do nothing for half a minute: theirs is left alone.
            let text = format!(
                "#!/bin/sh\ncase \"$PWD\" in *rk-sentinel*) exec '{0}' \"$@\";; esac\nexec env {1} '{0}' \"$@\"\n",
                binary.display(),
                variables.join(" ")
            );
            fs::write(&script, text).unwrap();
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
            starts(&script).then_some((script, clock))
        });
        match faked {
            Some((script, clock)) => NodeProgram { binary: script, clock: Some(clock), name },
            None => NodeProgram { binary, clock: None, name },
        }
    }

    /// Whether the clocks of the nodes can be stepped.
    pub(crate) fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// Steps the clocks of all nodes, if they can be.
    pub(crate) fn step(&self, offset_ms: i64) {
        if let Some(clock) = &self.clock {
            set_clock(clock, offset_ms);
        }
    }
}

/// Whether a program says its version, and soon.
fn starts(program: &Path) -> bool {
    let mut child =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(3);
    let status = until_some("it has started, or its time is over", || match child.try_wait().unwrap() {
        Some(status) => Some(Some(status)),
        None => (std::time::Instant::now() >= deadline).then_some(None),
    });
    if status.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    status.is_some_and(|status| status.success())
}

/// After how many milliseconds of silence nodes are taken for dead by those who are patient.
const PATIENT_MS: &str = "30000";

/// A key whose slot is moved.
const MOVED: &str = "gcra";

impl Scene {
    /// Starts it. Those who are patient take nobody for dead: on a busy machine another master would take over that nobody
    /// has planned.
    pub(crate) fn start(store: StoreKind, program: &NodeProgram, is_patient: bool) -> Self {
        let scene = match store {
            StoreKind::Memory => Scene::Memory,
            StoreKind::Redis => Scene::Single(Box::new(Node::with(&program.binary, &[]))),
            StoreKind::Cluster => Scene::Cluster(Cluster::with_replicas(&program.binary)),
            StoreKind::Sentinel if is_patient => Scene::Sentinel(Box::new(Trio::patient(&program.binary))),
            StoreKind::Sentinel => Scene::Sentinel(Box::new(Trio::start(&program.binary))),
        };
        if is_patient {
            scene.be_patient();
        }
        scene
    }

    fn be_patient(&self) {
        match self {
            Scene::Memory | Scene::Single(_) => {}
            Scene::Cluster(cluster) => {
                for node in &cluster.nodes {
                    command(&mut node.connection(), &["CONFIG", "SET", "cluster-node-timeout", PATIENT_MS]);
                }
            }
            Scene::Sentinel(trio) => {
                let url = trio.url();
                let hosts = url.trim_start_matches("redis-sentinel://").split('/').next().unwrap_or_default();
                for host in hosts.split(',') {
                    let client = redis::Client::open(format!("redis://{host}/")).unwrap();
                    let words = ["SENTINEL", "SET", MASTER, "down-after-milliseconds", PATIENT_MS];
                    command(&mut client.get_connection().unwrap(), &words);
                }
            }
        }
    }

    /// Its address; none for memory.
    pub(crate) fn url(&self) -> Option<String> {
        match self {
            Scene::Memory => None,
            Scene::Single(node) => Some(node.url()),
            Scene::Cluster(cluster) => Some(cluster.url()),
            Scene::Sentinel(trio) => Some(trio.url()),
        }
    }

    /// Kills a node, and has it back after a while: the same, empty, or as the replica of who took its place.
    pub(crate) fn kill(&mut self, on: usize, wait: impl FnOnce()) {
        match self {
            Scene::Memory => {}
            Scene::Single(node) => {
                node.kill();
                wait();
                node.restart(&[]);
            }
            Scene::Cluster(cluster) => {
                let victim = victim(cluster, on);
                cluster.nodes[victim].kill();
                wait();
                taken_over(cluster, victim);
                cluster.restart(victim);
                agreed(cluster);
            }
            Scene::Sentinel(trio) => {
                follow(trio);
                trio.master.kill();
                wait();
                trio.wait_for_promotion();
                let port = trio.replica.port().to_string();
                trio.master.restart(&["--replicaof", "127.0.0.1", &port]);
                trio.swap();
            }
        }
    }

    /// Has a node stand still for a while. Others take its place if that is long.
    pub(crate) fn freeze(&mut self, on: usize, wait: impl FnOnce()) {
        match self {
            Scene::Memory => {}
            Scene::Single(node) => {
                node.freeze();
                wait();
                node.thaw();
            }
            Scene::Cluster(cluster) => {
                let victim = victim(cluster, on);
                cluster.nodes[victim].freeze();
                wait();
                cluster.nodes[victim].thaw();
                agreed(cluster);
            }
            Scene::Sentinel(trio) => {
                follow(trio);
                trio.master.freeze();
                wait();
                trio.master.thaw();
                if trio.is_replaced_soon() {
                    follow(trio);
                }
            }
        }
    }

    /// Has a replica take over by plan.
    pub(crate) fn fail_over(&mut self, on: usize) {
        match self {
            Scene::Memory | Scene::Single(_) => {}
            Scene::Cluster(cluster) => {
                let primary = victim(cluster, on);
                wait::until("a replica follows it", || cluster.replica_of(primary).is_some());
                let replica = cluster.replica_of(primary).unwrap();
                cluster.promote(replica);
                agreed(cluster);
            }
            Scene::Sentinel(trio) => {
                follow(trio);
                trio.fail_over();
                trio.wait_for_promotion();
                trio.demote_old_master();
                trio.swap();
            }
        }
    }

    /// Moves the slot of a busy key to another primary.
    pub(crate) fn move_slot(&self, on: usize) {
        let Scene::Cluster(cluster) = self else { return };
        let (slot, _, _) = cluster.slot_of(&format!("{{{MOVED}}}"));
        let Some(from) = cluster.owner_now(0, slot) else { return };
        let primaries = cluster.primaries(0);
        let others: Vec<usize> = primaries.into_iter().filter(|primary| *primary != from).collect();
        let to = others[on % others.len()];
        move_slot(slot, &cluster.nodes[from], &cluster.nodes[to]);
    }

    /// Has every primary forget its data, or its scripts.
    pub(crate) fn order(&mut self, words: &[&str]) {
        match self {
            Scene::Memory => {}
            Scene::Single(node) => command(&mut node.connection(), words),
            Scene::Cluster(cluster) => {
                for primary in cluster.primaries(0) {
                    command(&mut cluster.nodes[primary].connection(), words);
                }
            }
            Scene::Sentinel(trio) => {
                follow(trio);
                command(&mut trio.master.connection(), words);
            }
        }
    }
}

/// One of the primaries.
fn victim(cluster: &Cluster, on: usize) -> usize {
    let primaries = cluster.primaries(0);
    primaries[on % primaries.len()]
}

/// Waits until no slot is a node's any more, as the others say.
fn taken_over(cluster: &Cluster, dead: usize) {
    let others: Vec<usize> = (0..cluster.nodes.len()).filter(|node| *node != dead).collect();
    wait::until("another has taken its place", || !cluster.primaries(others[0]).contains(&dead));
    cluster.wait_until_agreed(&others);
}

/// Waits until all nodes agree.
fn agreed(cluster: &Cluster) {
    cluster.wait_until_agreed(&(0..cluster.nodes.len()).collect::<Vec<_>>());
}

/// The sentinels may have made the replica the master after a fault was over.
fn follow(trio: &mut Trio) {
    if trio.is_replaced() {
        trio.wait_for_promotion();
        trio.swap();
    }
}
