//! A cluster: which node has a slot, and following the slots when they move.
//!
//! Every node is reached by itself, behind a breaker of its own: one that is frozen or gone harms only the keys that
//! live on it. What was answered by a redirect was not executed, so it is followed; nothing else is sent twice.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use parking_lot::RwLock;
use ratekeeper::StoreError;
use ratekeeper::store::{Breaker, BreakerState};
use redis::{Cmd, ConnectionInfo, Value};
use tokio::runtime::Id;
use tokio::sync::watch;

use super::Options;
use super::address::moved;
use super::breakers::Breakers;
use super::deadline::Deadline;
use super::node::{Node, Target};
use super::per_runtime::PerRuntime;
use super::resolve::{self, Contact};
use super::server::Server;
use super::slot::SLOTS;
use super::survey::{Candidate, Survey};
use super::topology::Range;
use crate::error::{Redirect, RedisError, RedisErrorKind};

/// A look at the map is not worth repeating sooner.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// An outdated map leads to one that knows better, and that one to who is just getting the slot; then it moves again.
const MOST_REDIRECTS: usize = 3;

/// So many maps without it a node outlives that a redirect has named: longer than it takes until the next one names it.
const SPARE: u8 = 2;

/// The name of the breaker before the map.
const TOPOLOGY: &str = "topology";

/// No node.
const NOBODY: u16 = u16::MAX;

/// A cluster.
pub(super) struct Cluster {
    seeds: Vec<ConnectionInfo>,
    options: Options,
    breakers: Breakers,
    map: RwLock<Map>,
    looks: PerRuntime<Look>,
    /// Before waiting for a map: nobody waits for seeds that are gone.
    topology: Option<Arc<Breaker>>,
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
    server: Arc<Server>,
    /// How many more times the map may be drawn without it: a node that is just getting its first slot has none yet.
    spare: u8,
}

/// Looking at the map of the cluster: one at a time on each runtime, since a look is a task of its runtime.
#[derive(Default)]
enum Look {
    #[default]
    Never,
    /// The channel tells when the look is over, and closes if its runtime is.
    Underway(watch::Receiver<()>),
    Done {
        began: Instant,
        at: Instant,
        outcome: Outcome,
    },
}

/// What came of a look.
type Outcome = Result<(), RedisError>;

impl Cluster {
    pub(super) fn new(seeds: Vec<ConnectionInfo>, options: Options, breakers: Breakers) -> Arc<Self> {
        let map = Map { nodes: Vec::new(), owners: vec![NOBODY; SLOTS].into() };
        let topology = breakers.before(TOPOLOGY);
        let (map, looks) = (RwLock::new(map), PerRuntime::new());
        Arc::new(Cluster { seeds, options, breakers, map, looks, topology })
    }

    /// The breakers: of the map, and of the nodes that are part of the cluster now.
    pub(super) fn breakers(&self) -> Vec<Arc<Breaker>> {
        let map = self.map.read();
        let nodes = map.nodes.iter().filter_map(|member| member.server.breaker());
        self.topology.iter().chain(nodes).cloned().collect()
    }

    /// Sends a command to the node that has the slot, and after it if it has moved.
    pub(super) async fn send(
        self: &Arc<Self>,
        command: &Cmd,
        slot: usize,
        deadline: Deadline,
    ) -> Result<Value, RedisError> {
        let mut member = self.owner(slot, deadline).await?;
        let mut reply = member.server.send(command, deadline).await;
        for _ in 0..MOST_REDIRECTS {
            let redirect = reply.as_ref().err().and_then(RedisError::redirect);
            let Some(Redirect { host, port, is_for_good }) = redirect else { break };
            let host = if matches!(host, "" | "?") { member.host.clone() } else { host.to_owned() };
            if is_for_good {
                member = self.learn(slot, &host, port)?;
                // One slot has moved: others may have.
                let _ = self.look();
                reply = member.server.send(command, deadline).await;
            } else {
                member = self.named(&mut self.map.write(), &host, port)?;
                reply = member.server.ask(command, deadline).await;
            }
        }
        if reply.as_ref().is_err_and(is_reason_to_look) {
            let _ = self.look();
        }
        reply
    }

    /// Looks at the map as it is now, whoever has looked before.
    pub(super) async fn check(self: &Arc<Self>) -> Result<(), RedisError> {
        let asked = Instant::now();
        // One that is under way may have begun before something changed.
        loop {
            match self.look_unless(|began, _| began >= asked) {
                Ok(mut over) => over.changed().await.map_err(|_| RedisError::no_runtime())?,
                Err(outcome) => return outcome,
            }
        }
    }

    /// Every node that has a slot, by the map; an error if a slot is nobody's.
    pub(super) fn masters(&self) -> Result<Vec<Arc<Server>>, RedisError> {
        let map = self.map.read();
        if let Some(slot) = map.owners.iter().position(|owner| usize::from(*owner) >= map.nodes.len()) {
            return Err(unserved(slot));
        }
        let has_slots = |at: usize| map.owners.iter().any(|owner| usize::from(*owner) == at);
        let masters = map.nodes.iter().enumerate().filter(|(at, _)| has_slots(*at));
        Ok(masters.map(|(_, member)| Arc::clone(&member.server)).collect())
    }

    fn known_owner(&self, slot: usize) -> Option<Member> {
        let map = self.map.read();
        map.owners.get(slot).and_then(|owner| map.nodes.get(usize::from(*owner))).cloned()
    }

    async fn owner(self: &Arc<Self>, slot: usize, deadline: Deadline) -> Result<Member, RedisError> {
        if let Some(owner) = self.known_owner(slot) {
            return Ok(owner);
        }
        let Some(breaker) = &self.topology else { return deadline.bound(self.find(slot)).await };
        let permit = breaker.admit().map_err(RedisError::refused)?;
        let found = deadline.bound(self.find(slot)).await;
        match &found {
            Ok(_) => permit.answered(),
            Err(error) => permit.failed(&StoreError::from(error.clone())),
        }
        found
    }

    /// The owner of a slot, after a look at the map if that is what it takes.
    async fn find(self: &Arc<Self>, slot: usize) -> Result<Member, RedisError> {
        loop {
            if let Some(owner) = self.known_owner(slot) {
                return Ok(owner);
            }
            match self.look() {
                Ok(mut over) => over.changed().await.map_err(|_| RedisError::no_runtime())?,
                Err(outcome) => return outcome.and_then(|()| Err(unserved(slot))),
            }
        }
    }

    /// Notes that a slot has moved.
    fn learn(&self, slot: usize, host: &str, port: u16) -> Result<Member, RedisError> {
        let mut map = self.map.write();
        let member = self.named(&mut map, host, port)?;
        let at = map.nodes.iter().position(|known| Arc::ptr_eq(&known.server, &member.server));
        if let (Some(at), Some(owner)) = (at, map.owners.get_mut(slot)) {
            *owner = u16::try_from(at).unwrap_or(NOBODY);
        }
        Ok(member)
    }

    /// The node that a redirect names: it may have no slot by any map yet.
    fn named(&self, map: &mut Map, host: &str, port: u16) -> Result<Member, RedisError> {
        let member = self.member(map, host, port)?;
        for known in &mut map.nodes {
            if Arc::ptr_eq(&known.server, &member.server) {
                known.spare = SPARE;
            }
        }
        Ok(member)
    }

    /// The node at an address, known or new.
    fn member(&self, map: &mut Map, host: &str, port: u16) -> Result<Member, RedisError> {
        if let Some(known) = map.nodes.iter().find(|known| known.host == host && known.port == port) {
            return Ok(known.clone());
        }
        let like = self.seeds.first().ok_or_else(|| RedisError::protocol("a cluster without seeds"))?;
        let info = moved(like, host, port)?;
        let name = info.addr().to_string();
        let target = || Target::Fixed(info.clone());
        let server = Server::new(name, &self.options, &self.breakers, target);
        let member = Member { host: host.into(), port, server, spare: 0 };
        map.nodes.push(member.clone());
        Ok(member)
    }

    /// Has a task look at the map, soon; tells when that is done, or what came of it if one just has.
    fn look(self: &Arc<Self>) -> Result<watch::Receiver<()>, Outcome> {
        self.look_unless(|_, at| at.elapsed() < BETWEEN_LOOKS)
    }

    /// The same, unless the last look will do, by when it began and when it was done.
    fn look_unless(
        self: &Arc<Self>,
        will_do: impl FnOnce(Instant, Instant) -> bool,
    ) -> Result<watch::Receiver<()>, Outcome> {
        let (over, expedition) = self.looks.with(|runtime, look| {
            match look {
                Look::Underway(over) => return Ok((over.clone(), None)),
                Look::Done { began, at, outcome } if will_do(*began, *at) => return Err(outcome.clone()),
                Look::Done { .. } | Look::Never => {}
            }
            let (ends, over) = watch::channel(());
            *look = Look::Underway(over.clone());
            let (cluster, began) = (Arc::clone(self), Instant::now());
            let expedition = Expedition { cluster, runtime, began, outcome: None, ends };
            Ok((over, Some(expedition)))
        })?;
        if let Some(expedition) = expedition {
            tokio::spawn(expedition.run());
        }
        Ok(over)
    }

    /// Asks the nodes that are known, those first that do not fail, and then the seeds.
    async fn explore(self: &Arc<Self>) -> Result<(), RedisError> {
        let mut known = self.map.read().nodes.clone();
        let is_failing =
            |breaker: Option<&Arc<Breaker>>| breaker.is_some_and(|one| one.state() != BreakerState::Closed);
        known.sort_by_key(|member| is_failing(member.server.breaker()));
        let known = known.into_iter().map(|Member { host, server, .. }| {
            let place = server.name().to_owned();
            Candidate { node: Arc::clone(server.lane()), host, place }
        });
        let known: Vec<Candidate> = known.collect();
        let mut places: HashSet<String> = known.iter().map(|candidate| candidate.place.clone()).collect();
        let mut survey = Survey::new(self.options.connect_timeout);
        if !survey.ask(known).await {
            let patience = self.options.connect_timeout;
            let contacts = self.seeds.iter().map(|seed| resolve::contacts(seed, patience));
            let contacts = join_all(contacts).await.into_iter().flatten();
            // Nobody is asked twice.
            let seeds = contacts.filter_map(|Contact { target, host }| {
                let place = target.to_string();
                let is_new = places.insert(place.clone());
                is_new.then(|| Candidate { node: Node::new(target, self.options), host, place })
            });
            survey.ask(seeds.collect()).await;
        }
        self.redraw(&survey.ranges()?)
    }

    fn redraw(&self, ranges: &[Range]) -> Result<(), RedisError> {
        let mut map = self.map.write();
        let mut owners: Box<[u16]> = vec![NOBODY; SLOTS].into();
        for range in ranges {
            let member = self.member(&mut map, &range.host, range.port)?;
            let at = map.nodes.iter().position(|known| Arc::ptr_eq(&known.server, &member.server));
            let at = at.and_then(|at| u16::try_from(at).ok()).unwrap_or(NOBODY);
            if let Some(owners) = owners.get_mut(range.first..=range.last) {
                owners.fill(at);
            }
        }
        // Nodes that serve nothing any more are let go, with their connections, unless a slot is on its way to them.
        let old = std::mem::take(&mut map.nodes);
        let mut places = vec![NOBODY; old.len()];
        for (at, mut member) in old.into_iter().enumerate() {
            let has_slots = owners.iter().any(|owner| usize::from(*owner) == at);
            if has_slots || member.spare > 0 {
                member.spare = member.spare.saturating_sub(1);
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

/// True if the slot may have another owner now.
fn is_reason_to_look(error: &RedisError) -> bool {
    if error.is_try_again() {
        return false;
    }
    error.is_of_the_connection()
        || matches!(
            error.kind(),
            RedisErrorKind::Timeout | RedisErrorKind::Cluster | RedisErrorKind::ReadOnly
        )
}

fn unserved(slot: usize) -> RedisError {
    let message = format!("no node serves slot {slot}; see CLUSTER INFO for what is missing");
    RedisError::new(RedisErrorKind::Cluster, message)
}

/// A look at the map. However it ends, its end is noticed: also when its runtime is shut down under it.
struct Expedition {
    cluster: Arc<Cluster>,
    runtime: Id,
    began: Instant,
    outcome: Option<Outcome>,
    ends: watch::Sender<()>,
}

impl Expedition {
    async fn run(mut self) {
        self.outcome = Some(self.cluster.explore().await);
    }
}

impl Drop for Expedition {
    fn drop(&mut self) {
        let outcome = self.outcome.take();
        let has_ended = outcome.is_some();
        let (began, at) = (self.began, Instant::now());
        let done = outcome.map_or(Look::Never, |outcome| Look::Done { began, at, outcome });
        self.cluster.looks.change(self.runtime, |look| *look = done);
        if has_ended {
            self.ends.send_replace(());
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("nodes", &self.map.read().nodes.len()).finish_non_exhaustive()
    }
}
