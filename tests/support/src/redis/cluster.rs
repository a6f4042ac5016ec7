//! A cluster of three primaries.

use std::path::Path;

use super::server::Server;
use crate::port::free_port;
use crate::wait;

const SLOTS: u16 = 16_384;

/// After how many milliseconds of silence a node is taken for dead: nodes of a busy machine are not to be.
const LONG_SILENCE: &str = "300000";
/// The same where replicas are to take over by themselves.
const SHORT_SILENCE: &str = "4000";

/// Three primaries that share the slots.
#[derive(Debug)]
pub struct Cluster {
    /// The primaries as it was started, and behind them their replicas, if it was started with such.
    pub nodes: Vec<Server>,
    /// Of one of them, once it was given one.
    replica: Option<Server>,
    silence: &'static str,
}

impl Cluster {
    /// Starts one and waits until every node says that all slots are served.
    pub fn start(binary: &Path) -> Self {
        Self::of_silence(binary, LONG_SILENCE)
    }

    /// Starts one whose primaries have a replica each, which takes over some seconds after its primary has died.
    pub fn with_replicas(binary: &Path) -> Self {
        let mut cluster = Self::of_silence(binary, SHORT_SILENCE);
        for primary in 0..3 {
            let known = cluster.nodes.len() + 1;
            let replica = cluster.attach(binary, &cluster.nodes[primary], known);
            cluster.nodes.push(replica);
        }
        for node in &cluster.nodes[3..] {
            wait::until("the replica has its data", || {
                let info: String = query(&mut node.connection(), &["INFO", "replication"]);
                info.contains("role:slave") && info.contains("master_link_status:up")
            });
        }
        cluster
    }

    fn of_silence(binary: &Path, silence: &'static str) -> Self {
        let nodes: Vec<Server> = (0..3).map(|_| start_node_of(binary, silence)).collect();
        let share = SLOTS.div_ceil(3);
        for (index, node) in (0u16..).zip(&nodes) {
            let mut connection = node.connection();
            let last = (share * (index + 1)).min(SLOTS) - 1;
            command(
                &mut connection,
                &["CLUSTER", "ADDSLOTSRANGE", &(share * index).to_string(), &last.to_string()],
            );
            command(&mut connection, &["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        let mut first = nodes[0].connection();
        for node in &nodes[1..] {
            let bus: Vec<String> = query(&mut node.connection(), &["CONFIG", "GET", "cluster-port"]);
            command(&mut first, &["CLUSTER", "MEET", "127.0.0.1", &node.port().to_string(), &bus[1]]);
        }
        for node in &nodes {
            let mut connection = node.connection();
            wait::until("all slots are served", || {
                let info: String = query(&mut connection, &["CLUSTER", "INFO"]);
                let is_whole = info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384");
                // The list that clients read may lack a node that the state counts already.
                let listed: i64 =
                    owners(&mut connection).iter().map(|(first, last, _)| last - first + 1).sum();
                is_whole && info.contains("cluster_known_nodes:3") && listed == i64::from(SLOTS)
            });
        }
        Cluster { nodes, replica: None, silence }
    }

    /// Its address, by two of its nodes.
    pub fn url(&self) -> String {
        format!("redis-cluster://127.0.0.1:{},127.0.0.1:{}", self.nodes[0].port(), self.nodes[1].port())
    }

    /// The slot of a key, and the nodes that have it and not.
    pub fn slot_of(&self, key: &str) -> (u16, &Server, &Server) {
        let slot: u16 = query(&mut self.nodes[0].connection(), &["CLUSTER", "KEYSLOT", key]);
        let owner = usize::from(slot / SLOTS.div_ceil(3));
        (slot, &self.nodes[owner], &self.nodes[(owner + 1) % 3])
    }
}

impl Cluster {
    /// The index of the node that has a key.
    pub fn owner_of(&self, key: &str) -> usize {
        let owner = self.slot_of(&format!("{{{key}}}")).1.port();
        self.nodes.iter().position(|node| node.port() == owner).expect("one of them")
    }

    /// Has a replica take over from a node by plan, as an operator does before work on the machine of that node. Waits
    /// until it has.
    pub fn fail_over(&mut self, binary: &Path, index: usize) {
        if self.replica.is_none() {
            self.replica = Some(self.attach(binary, &self.nodes[index], 4));
        }
        take_over(self.replica.as_ref().expect("there is one now"));
    }

    /// Starts a replica of a node, and waits until it knows so many nodes, itself included.
    fn attach(&self, binary: &Path, master: &Server, known: usize) -> Server {
        let replica = start_node_of(binary, self.silence);
        let mut connection = replica.connection();
        let bus: Vec<String> = query(&mut master.connection(), &["CONFIG", "GET", "cluster-port"]);
        command(&mut connection, &["CLUSTER", "MEET", "127.0.0.1", &master.port().to_string(), &bus[1]]);
        wait::until("it has met all", || {
            let info: String = query(&mut connection, &["CLUSTER", "INFO"]);
            info.contains(&format!("cluster_known_nodes:{known}\r")) && info.contains("cluster_state:ok")
        });
        let id: String = query(&mut master.connection(), &["CLUSTER", "MYID"]);
        command(&mut connection, &["CLUSTER", "REPLICATE", &id]);
        replica
    }

    /// The indices of the nodes that have slots by now, as one of those that answer says; of a cluster with replicas.
    pub fn primaries(&self, asked: usize) -> Vec<usize> {
        let ports = owners(&mut self.nodes[asked].connection());
        let has_slots = |index: &usize| ports.iter().any(|(_, _, port)| *port == self.nodes[*index].port());
        (0..self.nodes.len()).filter(has_slots).collect()
    }

    /// The index of the node that has a slot by now, as one of those that answer says.
    pub fn owner_now(&self, asked: usize, slot: u16) -> Option<usize> {
        let port = owner_by(&mut self.nodes[asked].connection(), slot)?;
        self.nodes.iter().position(|node| node.port() == port)
    }

    /// The index of a replica of a node, as that node says; none if no replica follows it.
    pub fn replica_of(&self, primary: usize) -> Option<usize> {
        let info: String = query(&mut self.nodes[primary].connection(), &["INFO", "replication"]);
        let port = info.lines().find_map(|line| line.strip_prefix("slave0:")?.split("port=").nth(1));
        let port: u16 = port?.split(',').next()?.parse().ok()?;
        self.nodes.iter().position(|node| node.port() == port)
    }

    /// Has a replica take over from its primary by plan, and waits until it has.
    pub fn promote(&self, replica: usize) {
        take_over(&self.nodes[replica]);
    }

    /// Waits until these nodes say that every slot is served, agree on the primaries, and each is one of them or has the
    /// data of one.
    pub fn wait_until_agreed(&self, asked: &[usize]) {
        wait::until("all slots are served, and all agree by whom", || {
            let primaries = self.primaries(asked[0]);
            asked.iter().all(|node| {
                let mut connection = self.nodes[*node].connection();
                let info: String = query(&mut connection, &["CLUSTER", "INFO"]);
                let role: String = query(&mut connection, &["INFO", "replication"]);
                let is_whole = info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384");
                let is_primary = primaries.contains(node);
                let follows = role.contains("role:slave") && role.contains("master_link_status:up");
                is_whole
                    && self.primaries(*node) == primaries
                    && if is_primary { role.contains("role:master") } else { follows }
            })
        });
    }

    /// Starts a node again that was killed: it finds its slots in its own file.
    pub fn restart(&mut self, index: usize) {
        let bus = free_port().to_string();
        self.nodes[index].restart(&node_arguments(&bus, self.silence));
    }

    /// A node that was part of it once: the others have forgotten it, and it was reset.
    pub fn decommissioned(&self, binary: &Path) -> Server {
        let node = start_node(binary);
        let mut connection = node.connection();
        let first = &self.nodes[0];
        let bus: Vec<String> = query(&mut first.connection(), &["CONFIG", "GET", "cluster-port"]);
        command(&mut connection, &["CLUSTER", "MEET", "127.0.0.1", &first.port().to_string(), &bus[1]]);
        let id: String = query(&mut connection, &["CLUSTER", "MYID"]);
        for known in &self.nodes {
            let mut connection = known.connection();
            wait::until("it is known", || {
                let nodes: String = query(&mut connection, &["CLUSTER", "NODES"]);
                nodes.lines().any(|line| line.starts_with(&id) && !line.contains("handshake"))
            });
        }
        for known in &self.nodes {
            command(&mut known.connection(), &["CLUSTER", "FORGET", &id]);
        }
        command(&mut connection, &["CLUSTER", "RESET", "HARD"]);
        node
    }

    /// One more node, which all know and which has no slots.
    pub fn join(&self, binary: &Path) -> Server {
        let node = start_node(binary);
        let mut connection = node.connection();
        let first = &self.nodes[0];
        let bus: Vec<String> = query(&mut first.connection(), &["CONFIG", "GET", "cluster-port"]);
        command(&mut connection, &["CLUSTER", "MEET", "127.0.0.1", &first.port().to_string(), &bus[1]]);
        for known in self.nodes.iter().chain([&node]) {
            let mut connection = known.connection();
            wait::until("all know each other", || {
                let nodes: String = query(&mut connection, &["CLUSTER", "NODES"]);
                let info: String = query(&mut connection, &["CLUSTER", "INFO"]);
                nodes.lines().count() == self.nodes.len() + 1
                    && !nodes.contains("handshake")
                    && info.contains("cluster_slots_ok:16384")
                    && info.contains("cluster_state:ok")
            });
        }
        node
    }

    /// Waits until everybody says that a node has a slot.
    pub fn agree(&self, slot: u16, owner: &Server) {
        for node in &self.nodes {
            let mut connection = node.connection();
            wait::until("all know who has the slot", || {
                owner_by(&mut connection, slot) == Some(owner.port())
            });
        }
    }

    /// A node that knows no other, and has the first hundred slots.
    pub fn loner(binary: &Path) -> Server {
        let node = start_node(binary);
        command(&mut node.connection(), &["CLUSTER", "ADDSLOTSRANGE", "0", "99"]);
        node
    }
}

/// Has a replica take over from its master, once it has its data.
fn take_over(replica: &Server) {
    let role = |is: &str| {
        let info: String = query(&mut replica.connection(), &["INFO", "replication"]);
        info.contains(is)
    };
    wait::until("the replica has its data", || role("master_link_status:up"));
    wait::until("the replica takes over", || {
        let mut order = redis::cmd("CLUSTER");
        // Refused while the others do not know it for a replica yet.
        let _ = order.arg("FAILOVER").exec(&mut replica.connection());
        role("role:master")
    });
}

/// Starts a node that is alone in its cluster.
pub fn start_node(binary: &Path) -> Server {
    start_node_of(binary, LONG_SILENCE)
}

fn start_node_of(binary: &Path, silence: &str) -> Server {
    Server::with(binary, &node_arguments(&free_port().to_string(), silence))
}

fn node_arguments<'a>(bus: &'a str, silence: &'a str) -> [&'a str; 8] {
    // One that gives its last slot away stays what it is.
    [
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        bus,
        "--cluster-node-timeout",
        silence,
        "--cluster-allow-replica-migration",
        "no",
    ]
}

/// Moves a slot with its keys from one node to another, as an operator does.
pub fn move_slot(slot: u16, from: &Server, to: &Server) {
    begin_move(slot, from, to);
    let (mut source, mut target) = (from.connection(), to.connection());
    let target_id: String = query(&mut target, &["CLUSTER", "MYID"]);
    let slot = slot.to_string();
    loop {
        let keys: Vec<String> = query(&mut source, &["CLUSTER", "GETKEYSINSLOT", &slot, "16"]);
        if keys.is_empty() {
            break;
        }
        for key in keys {
            let port = to.port().to_string();
            command(&mut source, &["MIGRATE", "127.0.0.1", &port, &key, "0", "60000"]);
        }
    }
    for connection in [&mut target, &mut source] {
        command(connection, &["CLUSTER", "SETSLOT", &slot, "NODE", &target_id]);
    }
}

/// Begins to move a slot: what it holds stays, and what it does not is on the other node.
pub fn begin_move(slot: u16, from: &Server, to: &Server) {
    let (mut source, mut target) = (from.connection(), to.connection());
    let id = |connection: &mut redis::Connection| query::<String>(connection, &["CLUSTER", "MYID"]);
    let (source_id, target_id) = (id(&mut source), id(&mut target));
    let slot = slot.to_string();
    command(&mut target, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source_id]);
    command(&mut source, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target_id]);
}

/// The port of the node that has a slot, as the node says that is connected to.
fn owner_by(connection: &mut redis::Connection, slot: u16) -> Option<u16> {
    let slot = i64::from(slot);
    owners(connection)
        .into_iter()
        .find(|(first, last, _)| (*first..=*last).contains(&slot))
        .map(|range| range.2)
}

/// The ranges of slots, first and last, and the port of the node that has each.
fn owners(connection: &mut redis::Connection) -> Vec<(i64, i64, u16)> {
    let ranges: Vec<Vec<redis::Value>> = query(connection, &["CLUSTER", "SLOTS"]);
    let range = |range: &Vec<redis::Value>| match range.as_slice() {
        [redis::Value::Int(first), redis::Value::Int(last), redis::Value::Array(owner), ..] => {
            let port = owner.iter().find_map(|part| match part {
                redis::Value::Int(port) => u16::try_from(*port).ok(),
                _ => None,
            });
            Some((*first, *last, port?))
        }
        _ => None,
    };
    ranges.iter().filter_map(range).collect()
}

fn query<T: redis::FromRedisValue>(connection: &mut redis::Connection, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query(connection).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

pub fn command(connection: &mut redis::Connection, words: &[&str]) {
    query::<redis::Value>(connection, words);
}
