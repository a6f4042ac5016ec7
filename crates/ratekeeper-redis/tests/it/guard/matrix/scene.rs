//! The topologies, and what happens to them.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::crowd::{Crowd, Edit};
use super::{Fault, Topology};
use test_support::redis::cluster::{Cluster, command, move_slot};
use test_support::redis::sentinel::Trio;
use test_support::redis::server::Server;
use test_support::wait;

/// The node of a cluster that everything happens to.
const VICTIM: usize = 2;

/// A booted topology.
pub(super) enum Scene {
    Single(Server),
    Cluster(Cluster),
    Sentinel(Trio),
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    /// Lives where the fault is.
    pub(super) hit: String,
    /// Lives elsewhere, if there is an elsewhere.
    pub(super) spared: Option<String>,
}

impl Scene {
    pub(super) fn start(topology: Topology, binary: &Path) -> Self {
        match topology {
            Topology::Single => Scene::Single(Server::with(binary, &[])),
            Topology::Cluster => Scene::Cluster(Cluster::start(binary)),
            Topology::Sentinel => Scene::Sentinel(Trio::patient(binary)),
        }
    }

    pub(super) fn url(&self) -> String {
        match self {
            Scene::Single(server) => server.url(),
            Scene::Cluster(cluster) => cluster.url(),
            Scene::Sentinel(trio) => trio.url(),
        }
    }

    /// Keys that nobody has asked for yet.
    pub(super) fn keys(&self, fault: Fault) -> Keys {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let fresh = || format!("{fault:?}{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let Scene::Cluster(cluster) = self else { return Keys { hit: fresh(), spared: None } };
        let of = |is_victims: bool| loop {
            let key = fresh();
            if (cluster.owner_of(&key) == VICTIM) == is_victims {
                return key;
            }
        };
        Keys { hit: of(true), spared: Some(of(false)) }
    }

    fn victim(&mut self) -> &mut Server {
        match self {
            Scene::Single(server) => server,
            Scene::Cluster(cluster) => &mut cluster.nodes[VICTIM],
            Scene::Sentinel(trio) => &mut trio.master,
        }
    }

    /// Begins a fault.
    pub(super) fn inflict(&mut self, fault: Fault, binary: &Path, keys: &Keys, crowd: &Crowd) {
        let order = |server: &mut Server, words: &[&str]| command(&mut server.connection(), words);
        match fault {
            Fault::Killed => self.victim().kill(),
            Fault::Frozen => self.victim().freeze(),
            Fault::CutOff => cut_off(self.victim()),
            Fault::OutOfMemory => {
                order(self.victim(), &["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
                order(self.victim(), &["CONFIG", "SET", "maxmemory", "1"]);
            }
            Fault::TooFewReplicas => order(self.victim(), &["CONFIG", "SET", "min-replicas-to-write", "9"]),
            // Of a master that nobody has seen, so that it keeps what it has.
            Fault::ReadOnly => order(self.victim(), &["REPLICAOF", "127.0.0.1", "1"]),
            Fault::PasswordChanged => {
                order(self.victim(), &["CONFIG", "SET", "requirepass", PASSWORD]);
                cut_off(self.victim());
            }
            Fault::ScriptsFlushed => order(self.victim(), &["SCRIPT", "FLUSH"]),
            Fault::DataFlushed => order(self.victim(), &["FLUSHALL"]),
            Fault::RuleAdded => crowd.edit(Edit::RuleAdded),
            Fault::RulesSwapped => crowd.edit(Edit::RulesSwapped),
            Fault::AlgorithmChanged => crowd.edit(Edit::OtherAlgorithm),
            Fault::SlotMoved => self.move_slot(keys, true),
            Fault::FailoverPlanned => match self {
                Scene::Single(_) => {}
                Scene::Cluster(cluster) => cluster.fail_over(binary, VICTIM),
                Scene::Sentinel(trio) => trio.fail_over(),
            },
        }
    }

    /// Ends it, as an operator would: the server is there again.
    pub(super) fn end(&mut self, fault: Fault, keys: &Keys, crowd: &Crowd) {
        let order = |server: &mut Server, words: &[&str]| command(&mut server.connection(), words);
        match (fault, &mut *self) {
            (Fault::Killed | Fault::Frozen, Scene::Sentinel(trio)) => {
                // Not before: by then enough was answered in its stead.
                trio.watch_closely();
                trio.wait_for_promotion();
            }
            (Fault::FailoverPlanned, Scene::Sentinel(trio)) => trio.wait_for_promotion(),
            (Fault::Killed, Scene::Cluster(cluster)) => {
                cluster.restart(VICTIM);
                let mut connection = cluster.nodes[VICTIM].connection();
                wait::until("it takes part again", || {
                    let info: String = redis::cmd("CLUSTER").arg("INFO").query(&mut connection).unwrap();
                    info.contains("cluster_state:ok")
                });
            }
            (Fault::Killed, _) => self.victim().restart(&[]),
            (Fault::Frozen, _) => self.victim().thaw(),
            (Fault::OutOfMemory, _) => order(self.victim(), &["CONFIG", "SET", "maxmemory", "0"]),
            (Fault::TooFewReplicas, _) => {
                order(self.victim(), &["CONFIG", "SET", "min-replicas-to-write", "0"]);
            }
            (Fault::ReadOnly, _) => order(self.victim(), &["REPLICAOF", "NO", "ONE"]),
            (Fault::PasswordChanged, _) => {
                let mut connection = self.victim().connection_with(PASSWORD);
                command(&mut connection, &["CONFIG", "SET", "requirepass", ""]);
            }
            (Fault::RuleAdded | Fault::RulesSwapped | Fault::AlgorithmChanged, _) => crowd.edit(Edit::None),
            (Fault::SlotMoved, _) => self.move_slot(keys, false),
            (Fault::CutOff | Fault::ScriptsFlushed | Fault::DataFlushed | Fault::FailoverPlanned, _) => {}
        }
    }

    /// True if the fault leaves another master behind: the next one needs servers of its own.
    pub(super) fn is_spent_by(&self, fault: Fault) -> bool {
        match self {
            Scene::Single(_) => false,
            Scene::Cluster(_) => fault == Fault::FailoverPlanned,
            Scene::Sentinel(_) => matches!(fault, Fault::Killed | Fault::Frozen | Fault::FailoverPlanned),
        }
    }

    fn move_slot(&self, keys: &Keys, is_away: bool) {
        let Scene::Cluster(cluster) = self else { return };
        let (slot, from, to) = cluster.slot_of(&format!("{{{}}}", keys.hit));
        let (from, to) = if is_away { (from, to) } else { (to, from) };
        move_slot(slot, from, to);
    }
}

const PASSWORD: &str = "sesame";

/// Closes the connections on which scripts are run, and only those: sentinels and replicas stay.
fn cut_off(server: &Server) {
    let mut connection = server.connection_with(PASSWORD);
    let ids = wait::until_some("there are such connections", || {
        let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut connection).unwrap();
        let of_stores = list.lines().filter(|line| line.contains(" cmd=eval"));
        let ids = of_stores.filter_map(|line| line.strip_prefix("id=")?.split(' ').next());
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        (!ids.is_empty()).then_some(ids)
    });
    for id in ids {
        let _ = redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).exec(&mut connection);
    }
}
