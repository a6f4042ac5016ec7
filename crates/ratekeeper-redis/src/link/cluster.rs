//! A cluster: which node has a slot, and following the slots when they move.
//!
//! Every node is reached by itself: one that is frozen or gone harms only the keys that live on it. What was
//! answered by a redirect was not executed, so it is followed; nothing else is sent twice.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use redis::{Cmd, ConnectionAddr, ConnectionInfo, Value};
use tokio::runtime::Id;
use tokio::sync::watch;

use super::Options;
use super::address::moved;
use super::node::{Node, Target};
use super::per_runtime::PerRuntime;
use super::slot::SLOTS;
use super::topology::{self, Range};
use crate::error::{Redirect, RedisError, RedisErrorKind};

/// A look at the map is not worth repeating sooner.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// An outdated map leads to one that knows better, and that one to who is just getting the slot; then it moves again.
const MOST_REDIRECTS: usize = 3;

/// No node.
const NOBODY: u16 = u16::MAX;

/// A cluster.
pub(super) struct Cluster {
    seeds: Vec<ConnectionInfo>,
    options: Options,
    map: RwLock<Map>,
    looks: PerRuntime<Look>,
}

/// Who has what.
struct Map {
    nodes: Vec<Member>,
    /// For every slot, which of the nodes.
    owners: Box<[u16]>,
}

#[derive(Clone)]
struct Member {
    host: String,
    port: u16,
    node: Arc<Node>,
}

/// Looking at the map of the cluster: one at a time on each runtime, since a look is a task of its runtime.
#[derive(Default)]
enum Look {
    #[default]
    Never,
    Underway(watch::Receiver<()>),
    Done {
        at: Instant,
        outcome: Result<(), RedisError>,
    },
}

impl Cluster {
    pub(super) fn new(seeds: Vec<ConnectionInfo>, options: Options) -> Arc<Self> {
        let map = Map { nodes: Vec::new(), owners: vec![NOBODY; SLOTS].into() };
        Arc::new(Cluster { seeds, options, map: RwLock::new(map), looks: PerRuntime::new() })
    }

    /// Sends a command to the node that has the slot, and after it if it has moved.
    pub(super) async fn send(self: &Arc<Self>, command: &Cmd, slot: usize) -> Result<Value, RedisError> {
        let mut member = self.owner(slot).await?;
        let mut reply = member.node.send(command).await;
        for _ in 0..MOST_REDIRECTS {
            let redirect = reply.as_ref().err().and_then(RedisError::redirect);
            let Some(Redirect { host, port, is_for_good }) = redirect else { break };
            let host = if host.is_empty() { member.host.clone() } else { host.to_owned() };
            if is_for_good {
                member = self.learn(slot, &host, port)?;
                // One slot has moved: others may have.
                self.look();
                reply = member.node.send(command).await;
            } else {
                member = self.member(&mut self.map.write(), &host, port)?;
                reply = ask(&member.node, command).await;
            }
        }
        if let Err(error) = &reply
            && (error.is_of_the_connection()
                || matches!(error.kind(), RedisErrorKind::Cluster | RedisErrorKind::ReadOnly))
        {
            self.look();
        }
        reply
    }

    /// Looks at the map, if nobody has yet.
    pub(super) async fn check(self: &Arc<Self>) -> Result<(), RedisError> {
        self.owner(0).await.map(|_| ())
    }

    /// Every node that has a slot, by the map.
    pub(super) fn masters(&self) -> Vec<Arc<Node>> {
        let map = self.map.read();
        let has_slots = |at: usize| map.owners.iter().any(|owner| usize::from(*owner) == at);
        let masters = map.nodes.iter().enumerate().filter(|(at, _)| has_slots(*at));
        masters.map(|(_, member)| Arc::clone(&member.node)).collect()
    }

    async fn owner(self: &Arc<Self>, slot: usize) -> Result<Member, RedisError> {
        loop {
            {
                let map = self.map.read();
                let owner = map.owners.get(slot).and_then(|owner| map.nodes.get(usize::from(*owner)));
                if let Some(owner) = owner {
                    return Ok(owner.clone());
                }
            }
            match self.look() {
                Some(mut over) => {
                    // Nothing is ever sent: it closes.
                    let _ = over.changed().await;
                }
                None => {
                    return Err(self.looks.with(|_, look| match look {
                        Look::Done { outcome: Err(error), .. } => error.clone(),
                        _ => RedisError::new(
                            RedisErrorKind::Cluster,
                            format!("no node serves slot {slot}; see CLUSTER INFO for what is missing"),
                        ),
                    }));
                }
            }
        }
    }

    /// Notes that a slot has moved.
    fn learn(&self, slot: usize, host: &str, port: u16) -> Result<Member, RedisError> {
        let mut map = self.map.write();
        let member = self.member(&mut map, host, port)?;
        let at = map.nodes.iter().position(|known| Arc::ptr_eq(&known.node, &member.node));
        if let (Some(at), Some(owner)) = (at, map.owners.get_mut(slot)) {
            *owner = u16::try_from(at).unwrap_or(NOBODY);
        }
        Ok(member)
    }

    /// The node at an address, known or new.
    fn member(&self, map: &mut Map, host: &str, port: u16) -> Result<Member, RedisError> {
        if let Some(known) = map.nodes.iter().find(|known| known.host == host && known.port == port) {
            return Ok(known.clone());
        }
        let like = self.seeds.first().ok_or_else(|| RedisError::protocol("a cluster without seeds"))?;
        let node = Node::new(Target::Fixed(moved(like, host, port)?), self.options);
        let member = Member { host: host.into(), port, node };
        map.nodes.push(member.clone());
        Ok(member)
    }

    /// Has a task look at the map, soon; tells when that is done. None if one just has.
    fn look(self: &Arc<Self>) -> Option<watch::Receiver<()>> {
        let (over, expedition) = self.looks.with(|runtime, look| {
            match look {
                Look::Underway(over) => return Some((over.clone(), None)),
                Look::Done { at, .. } if at.elapsed() < BETWEEN_LOOKS => return None,
                Look::Done { .. } | Look::Never => {}
            }
            let (ends, over) = watch::channel(());
            *look = Look::Underway(over.clone());
            let expedition = Expedition { cluster: Arc::clone(self), runtime, outcome: None, _ends: ends };
            Some((over, Some(expedition)))
        })?;
        if let Some(expedition) = expedition {
            tokio::spawn(expedition.run());
        }
        Some(over)
    }

    /// Asks one node after another until one tells. Those that are known first, then the seeds.
    async fn explore(self: &Arc<Self>) -> Result<(), RedisError> {
        let known = self.map.read().nodes.clone();
        let mut last_error = None;
        for member in &known {
            match self.inquire(&member.node, &member.host).await {
                Ok(ranges) => return self.redraw(&ranges),
                Err(error) => last_error = Some(error),
            }
        }
        for seed in &self.seeds {
            let host = match seed.addr() {
                ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
                _ => String::new(),
            };
            let node = Node::new(Target::Fixed(seed.clone()), self.options);
            match self.inquire(&node, &host).await {
                Ok(ranges) => return self.redraw(&ranges),
                Err(error) => last_error = Some(error),
            }
        }
        Err(last_error.unwrap_or_else(|| RedisError::protocol("a cluster without seeds")))
    }

    async fn inquire(&self, node: &Arc<Node>, host: &str) -> Result<Vec<Range>, RedisError> {
        let within = self.options.connect_timeout;
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        let reply = tokio::time::timeout(within, node.send(&question)).await;
        topology::read(reply.map_err(|_| RedisError::timeout(within))??, host)
    }

    fn redraw(&self, ranges: &[Range]) -> Result<(), RedisError> {
        let mut map = self.map.write();
        let mut owners: Box<[u16]> = vec![NOBODY; SLOTS].into();
        for range in ranges {
            let member = self.member(&mut map, &range.host, range.port)?;
            let at = map.nodes.iter().position(|known| Arc::ptr_eq(&known.node, &member.node));
            let at = at.and_then(|at| u16::try_from(at).ok()).unwrap_or(NOBODY);
            if let Some(owners) = owners.get_mut(range.first..=range.last) {
                owners.fill(at);
            }
        }
        // Nodes that serve nothing any more are let go, with their connections.
        let old = std::mem::take(&mut map.nodes);
        let mut places = vec![NOBODY; old.len()];
        for (at, member) in old.into_iter().enumerate() {
            if owners.iter().any(|owner| usize::from(*owner) == at) {
                places[at] = u16::try_from(map.nodes.len()).unwrap_or(NOBODY);
                map.nodes.push(member);
            }
        }
        for owner in &mut owners {
            *owner = places.get(usize::from(*owner)).copied().unwrap_or(NOBODY);
        }
        map.owners = owners;
        Ok(())
    }
}

/// Sends a command to a node that is just getting the slot.
async fn ask(node: &Arc<Node>, command: &Cmd) -> Result<Value, RedisError> {
    let mut pipeline = redis::pipe();
    pipeline.cmd("ASKING").add_command(command.clone());
    let mut replies = node.send_all(&pipeline, 2).await?;
    replies.pop().unwrap_or_else(|| Err(RedisError::protocol("no reply to a command after ASKING")))
}

/// A look at the map. However it ends, its end is noticed: also when its runtime is shut down under it.
struct Expedition {
    cluster: Arc<Cluster>,
    runtime: Id,
    outcome: Option<Result<(), RedisError>>,
    _ends: watch::Sender<()>,
}

impl Expedition {
    async fn run(mut self) {
        self.outcome = Some(self.cluster.explore().await);
    }
}

impl Drop for Expedition {
    fn drop(&mut self) {
        let done = match self.outcome.take() {
            Some(outcome) => Look::Done { at: Instant::now(), outcome },
            None => Look::Never,
        };
        self.cluster.looks.change(self.runtime, |look| *look = done);
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("nodes", &self.map.read().nodes.len()).finish_non_exhaustive()
    }
}
