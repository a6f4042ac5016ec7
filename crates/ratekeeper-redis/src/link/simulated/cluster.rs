//! The nodes of a cluster: three masters, a replica of each, and a node that has no slot at first.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::super::slot;
use super::network::{Machines, Session};
use super::wire;

/// How many nodes there are.
pub(super) const NODES: usize = 7;
const MASTERS: usize = 3;
/// The node that has no slot at first.
pub(super) const NEWCOMER: usize = 6;

/// Returns where a node is.
pub(super) fn host(node: usize) -> String {
    format!("10.0.0.{}:7000", node + 1)
}

/// Which node has which slot, as somebody knows it.
type Owners = Arc<[usize]>;

/// All nodes.
pub(super) struct SimulatedCluster {
    state: Mutex<ClusterState>,
}

struct ClusterState {
    owners: Owners,
    epoch: u64,
    /// What each node knows, and of which epoch. It always knows what it has itself.
    views: Vec<(Owners, u64)>,
    /// The replica that takes over from each node, if it has one.
    replicas: [Option<usize>; NODES],
    moving: BTreeMap<usize, Moving>,
    is_dead: [bool; NODES],
    has_script: [bool; NODES],
    /// The error that each node answers everything with.
    ill: [Option<&'static str>; NODES],
    /// What was executed, by its number: how often.
    executed: BTreeMap<u64, u32>,
}

/// A slot on its way.
#[derive(Clone, Copy)]
struct Moving {
    to: usize,
    /// Its keys are there already.
    has_arrived: bool,
}

impl SimulatedCluster {
    pub(super) fn new() -> Self {
        let owners: Owners = (0..slot::SLOTS).map(|slot| slot * MASTERS / slot::SLOTS).collect();
        SimulatedCluster {
            state: Mutex::new(ClusterState {
                views: vec![(Arc::clone(&owners), 1); NODES],
                owners,
                epoch: 1,
                replicas: [Some(3), Some(4), Some(5), None, None, None, None],
                moving: BTreeMap::new(),
                is_dead: [false; NODES],
                has_script: [false; NODES],
                ill: [None; NODES],
                executed: BTreeMap::new(),
            }),
        }
    }

    pub(super) fn executed(&self, number: u64) -> u32 {
        self.state.lock().executed.get(&number).copied().unwrap_or(0)
    }

    pub(super) fn owner(&self, slot: usize) -> usize {
        self.state.lock().owners[slot]
    }

    /// The replica of a node takes over all its slots. Both know it at once, the others when they are told.
    pub(super) fn fail_over(&self, master: usize) -> bool {
        let mut state = self.state.lock();
        let Some(replica) = state.replicas[master].take() else { return false };
        state.replicas[replica] = Some(master);
        let owners: Vec<usize> =
            state.owners.iter().map(|owner| if *owner == master { replica } else { *owner }).collect();
        for moving in state.moving.values_mut().filter(|moving| moving.to == master) {
            moving.to = replica;
        }
        state.replace(owners.into(), [master, replica]);
        true
    }

    /// The replica of a node takes over for good; false if it has none. Nothing comes to that node any more.
    pub(super) fn bury(&self, master: usize) -> bool {
        if !self.fail_over(master) {
            return false;
        }
        let mut state = self.state.lock();
        state.is_dead[master] = true;
        for replica in &mut state.replicas {
            replica.take_if(|replica| *replica == master);
        }
        true
    }

    /// A slot begins to move.
    pub(super) fn begin_move(&self, slot: usize, to: usize) {
        let mut state = self.state.lock();
        if state.owners[slot] != to && !state.is_dead[to] {
            state.moving.insert(slot, Moving { to, has_arrived: false });
        }
    }

    /// The keys of a slot that moves are at the other node now.
    pub(super) fn arrive(&self, slot: usize) {
        if let Some(moving) = self.state.lock().moving.get_mut(&slot) {
            moving.has_arrived = true;
        }
    }

    /// A slot has moved. Both nodes know it at once, the others when they are told.
    pub(super) fn end_move(&self, slot: usize) {
        let mut state = self.state.lock();
        let Some(Moving { to, .. }) = state.moving.remove(&slot) else { return };
        let from = state.owners[slot];
        let mut owners = state.owners.to_vec();
        owners[slot] = to;
        state.replace(owners.into(), [from, to]);
    }

    /// A node hears of everything that has changed.
    pub(super) fn tell(&self, node: usize) {
        let mut state = self.state.lock();
        state.views[node] = (Arc::clone(&state.owners), state.epoch);
    }

    /// A node forgets its cluster.
    pub(super) fn forget(&self, node: usize) {
        let mut state = self.state.lock();
        if state.owners.contains(&node) {
            return;
        }
        state.views[node] = (Arc::from([]), 0);
    }

    pub(super) fn flush_script(&self, node: usize) {
        self.state.lock().has_script[node] = false;
    }

    pub(super) fn make_ill(&self, node: usize, error: Option<&'static str>) {
        self.state.lock().ill[node] = error;
    }
}

impl ClusterState {
    fn replace(&mut self, owners: Owners, knowing: [usize; 2]) {
        self.owners = owners;
        self.epoch += 1;
        for node in knowing {
            self.views[node] = (Arc::clone(&self.owners), self.epoch);
        }
    }

    /// Executes a script for a key, if both are here. Where the key is, is looked at first.
    fn run(&mut self, node: usize, is_asking: bool, has_text: bool, key: &str, number: &str) -> String {
        let slot = slot::of(key.as_bytes());
        let here = match self.moving.get(&slot) {
            Some(moving) if self.owners[slot] == node && moving.has_arrived => {
                return wire::error(&format!("ASK {slot} {}", host(moving.to)));
            }
            Some(moving) if is_asking && moving.to == node => true,
            _ => self.owners[slot] == node,
        };
        if !here {
            return match self.views[node].0.get(slot) {
                Some(owner) if *owner != node => wire::error(&format!("MOVED {slot} {}", host(*owner))),
                _ => wire::error("CLUSTERDOWN Hash slot not served"),
            };
        }
        if !has_text && !self.has_script[node] {
            return wire::error("NOSCRIPT No matching script. Please use EVAL.");
        }
        self.has_script[node] = true;
        let number = number.parse().unwrap();
        *self.executed.entry(number).or_default() += 1;
        wire::number(number)
    }

    /// The reply to `CLUSTER SLOTS`.
    fn slots(&self, node: usize) -> String {
        let view = &self.views[node].0;
        let mut first = 0;
        let ranges = view.chunk_by(|one, other| one == other).map(|same| {
            let (from, to) = (first, first + same.len() - 1);
            first += same.len();
            let host = wire::text(host(same[0]).trim_end_matches(":7000"));
            let primary = wire::array(&[host, wire::number(7000)]);
            wire::array(&[wire::number(from as u64), wire::number(to as u64), primary])
        });
        wire::array(&ranges.collect::<Vec<String>>())
    }
}

impl Machines for SimulatedCluster {
    fn execute(&self, at: &str, session: &mut Session, command: &[String]) -> String {
        let node = (0..NODES).find(|node| host(*node) == at).unwrap();
        let mut state = self.state.lock();
        let is_asking = std::mem::take(&mut session.is_asking);
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        match (words.as_slice(), state.ill[node]) {
            (["PING"], _) => "+PONG\r\n".to_owned(),
            (["CLIENT" | "HELLO" | "SELECT", ..], _) => wire::ok(),
            (_, Some(error)) => wire::error(error),
            (["ASKING"], None) => {
                session.is_asking = true;
                wire::ok()
            }
            (["CLUSTER", "SLOTS"], None) => state.slots(node),
            (["CLUSTER", "INFO"], None) => {
                let (view, epoch) = &state.views[node];
                let well = if view.is_empty() { "fail" } else { "ok" };
                wire::text(&format!("cluster_state:{well}\r\ncluster_current_epoch:{epoch}\r\n"))
            }
            (["EVALSHA", _, "1", key, number], None) => state.run(node, is_asking, false, key, number),
            (["EVAL", _, "1", key, number], None) => state.run(node, is_asking, true, key, number),
            _ => panic!("{at}: {command:?}"),
        }
    }
}
