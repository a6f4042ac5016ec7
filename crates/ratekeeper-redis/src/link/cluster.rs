//! A cluster: which node has a slot, and following the slots when they move.
//!
//! Every node is reached by itself, behind a breaker of its own: one that is frozen or gone harms only the keys that
//! live on it. What was answered by a redirect was not executed, so it is followed; nothing else is sent twice.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::RwLock;
use ratekeeper::StoreError;
use ratekeeper::store::{Breaker, BreakerState};
use redis::{Cmd, ConnectionInfo, Value};
use tokio::runtime::Id;
use tokio::sync::watch;
use tokio::time::Instant;

use super::address::moved;
use super::breakers::BreakerFactory;
use super::deadline::Deadline;
use super::node::Node;
use super::options::LinkOptions;
use super::per_runtime::PerRuntime;
use super::resolve::{self, SeedContact};
use super::server::RedisServer;
use super::slot_map::{MappedNode, SlotMap};
use super::survey::{Candidate, Survey};
use super::target::NodeTarget;
use crate::error::{Redirect, RedisError, RedisErrorKind};

/// The least time between two refreshes of the map.
const BETWEEN_REFRESHES: Duration = Duration::from_millis(100);

/// How many redirects one command follows: an outdated map leads to a node that knows better, that one to the node that is
/// just getting the slot, and then the slot may move again.
const MOST_REDIRECTS: usize = 3;

/// The name of the breaker before the map.
const TOPOLOGY: &str = "topology";

/// The nodes of a cluster, and which slots each of them has.
pub(super) struct Cluster {
    seeds: Vec<ConnectionInfo>,
    options: LinkOptions,
    breakers: BreakerFactory,
    map: RwLock<SlotMap<Arc<RedisServer>>>,
    refreshes: PerRuntime<MapRefresh>,
    /// The breaker before a wait for the map: no caller waits for seeds that are gone.
    topology: Option<Arc<Breaker>>,
}

/// How far a runtime is with refreshing the map: one refresh at a time, since it is a task of its runtime.
#[derive(Default)]
enum MapRefresh {
    /// It has not begun to.
    #[default]
    Never,
    /// A task asks the nodes. The channel changes when that is over, and closes if its runtime ends first.
    Underway(watch::Receiver<()>),
    /// The last one has ended, at this time and with this outcome.
    Done { began: Instant, at: Instant, outcome: RefreshOutcome },
}

/// A node, as the map has it.
type ClusterNode = MappedNode<Arc<RedisServer>>;

/// What came of a refresh.
type RefreshOutcome = Result<(), RedisError>;

impl Cluster {
    /// Returns a cluster whose map is not known yet.
    pub(super) fn new(
        seeds: Vec<ConnectionInfo>,
        options: LinkOptions,
        breakers: BreakerFactory,
    ) -> Arc<Self> {
        let topology = breakers.make(TOPOLOGY);
        let (map, refreshes) = (RwLock::new(SlotMap::new()), PerRuntime::new());
        Arc::new(Cluster { seeds, options, breakers, map, refreshes, topology })
    }

    /// Returns the breakers: of the map, and of the nodes that are part of the cluster now.
    pub(super) fn breakers(&self) -> Vec<Arc<Breaker>> {
        let map = self.map.read();
        let nodes = map.nodes().iter().filter_map(|node| node.server.breaker());
        self.topology.iter().chain(nodes).cloned().collect()
    }

    /// Sends a command to the node that has the slot, and follows the slot if it has moved. One round trip, and one more for
    /// each redirect.
    pub(super) async fn send(
        self: &Arc<Self>,
        command: &Cmd,
        slot: usize,
        deadline: Deadline,
    ) -> Result<Value, RedisError> {
        let mut node = self.owner(slot, deadline).await?;
        let mut reply = node.server.send(command, deadline).await;
        for _ in 0..MOST_REDIRECTS {
            let redirect = reply.as_ref().err().and_then(RedisError::redirect);
            let Some(Redirect { host, port, is_for_good }) = redirect else { break };
            let host = if matches!(host, "" | "?") { node.host } else { host.to_owned() };
            let moved = is_for_good.then_some(slot);
            node = self.map.write().redirect((&host, port), moved, || self.server(&host, port))?;
            reply = if is_for_good {
                // One slot has moved: others may have.
                let _ = self.refresh();
                node.server.send(command, deadline).await
            } else {
                node.server.ask(command, deadline).await
            };
        }
        if reply.as_ref().is_err_and(is_reason_to_refresh) {
            let _ = self.refresh();
        }
        reply
    }

    /// Asks the cluster for its map as it is now, whatever a refresh before has found.
    pub(super) async fn check(self: &Arc<Self>) -> Result<(), RedisError> {
        let asked = Instant::now();
        // A refresh that is under way may have begun before something changed.
        loop {
            match self.refresh_unless(|began, _| began >= asked) {
                Ok(mut over) => over.changed().await.map_err(|_| RedisError::no_runtime())?,
                Err(outcome) => return outcome,
            }
        }
    }

    /// Returns every node that has a slot by the map.
    ///
    /// # Errors
    ///
    /// `Cluster` if no node serves some slot.
    pub(super) fn masters(&self) -> Result<Vec<Arc<RedisServer>>, RedisError> {
        self.map.read().masters().map_err(unserved)
    }

    fn known_owner(&self, slot: usize) -> Option<ClusterNode> {
        self.map.read().owner(slot).cloned()
    }

    async fn owner(self: &Arc<Self>, slot: usize, deadline: Deadline) -> Result<ClusterNode, RedisError> {
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

    /// Returns the owner of a slot, after a refresh of the map if the map does not say.
    async fn find(self: &Arc<Self>, slot: usize) -> Result<ClusterNode, RedisError> {
        loop {
            if let Some(owner) = self.known_owner(slot) {
                return Ok(owner);
            }
            match self.refresh() {
                Ok(mut over) => over.changed().await.map_err(|_| RedisError::no_runtime())?,
                Err(outcome) => return outcome.and_then(|()| Err(unserved(slot))),
            }
        }
    }

    /// Returns the server at an address that a node of this cluster has named.
    fn server(&self, host: &str, port: u16) -> Result<Arc<RedisServer>, RedisError> {
        let like = self.seeds.first().ok_or_else(RedisError::no_seeds)?;
        let info = moved(like, host, port)?;
        let (name, target) = (info.addr().to_string(), || NodeTarget::Fixed(info.clone()));
        Ok(RedisServer::new(name, &self.options, &self.breakers, target))
    }

    /// Has a task refresh the map. Returns a channel that changes when that is done, or the outcome of a refresh that was just done.
    fn refresh(self: &Arc<Self>) -> Result<watch::Receiver<()>, RefreshOutcome> {
        self.refresh_unless(|_, at| at.elapsed() < BETWEEN_REFRESHES)
    }

    /// Like [`refresh`](Cluster::refresh), unless the last refresh will do, by when it began and when it was done.
    fn refresh_unless(
        self: &Arc<Self>,
        will_do: impl FnOnce(Instant, Instant) -> bool,
    ) -> Result<watch::Receiver<()>, RefreshOutcome> {
        let (over, task) = self.refreshes.with(|runtime, refresh| {
            match refresh {
                MapRefresh::Underway(over) => return Ok((over.clone(), None)),
                MapRefresh::Done { began, at, outcome } if will_do(*began, *at) => {
                    return Err(outcome.clone());
                }
                MapRefresh::Done { .. } | MapRefresh::Never => {}
            }
            let (ends, over) = watch::channel(());
            *refresh = MapRefresh::Underway(over.clone());
            let (cluster, began) = (Arc::clone(self), Instant::now());
            let task = RefreshTask { cluster, runtime, began, outcome: None, ends };
            Ok((over, Some(task)))
        })?;
        if let Some(task) = task {
            tokio::spawn(task.run());
        }
        Ok(over)
    }

    /// Asks the known nodes for the map, those first that do not fail, and then the seeds.
    async fn explore(self: &Arc<Self>) -> Result<(), RedisError> {
        let mut known = self.map.read().nodes().to_vec();
        let is_failing =
            |breaker: Option<&Arc<Breaker>>| breaker.is_some_and(|one| one.state() != BreakerState::Closed);
        known.sort_by_key(|node| is_failing(node.server.breaker()));
        let known = known.into_iter().map(|MappedNode { host, server, .. }| {
            let address = server.name().to_owned();
            Candidate { node: Arc::clone(server.lane()), host, address }
        });
        let known: Vec<Candidate> = known.collect();
        let mut asked: HashSet<String> = known.iter().map(|candidate| candidate.address.clone()).collect();
        let mut survey = Survey::new(self.options.connect_timeout);
        if !survey.ask(known).await {
            let patience = self.options.connect_timeout;
            let contacts = self.seeds.iter().map(|seed| resolve::contacts(seed, patience));
            let contacts = join_all(contacts).await.into_iter().flatten();
            // Nobody is asked twice.
            let seeds = contacts.filter_map(|SeedContact { target, host }| {
                let address = target.to_string();
                let is_new = asked.insert(address.clone());
                is_new.then(|| Candidate { node: Node::new(target, self.options), host, address })
            });
            survey.ask(seeds.collect()).await;
        }
        let ranges = survey.ranges()?;
        self.map.write().redraw(&ranges, |host, port| self.server(host, port))
    }
}

/// Returns true if the slot may have another owner now.
fn is_reason_to_refresh(error: &RedisError) -> bool {
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

/// A refresh of the map. Its end is noticed however it ends: also when its runtime is shut down meanwhile.
struct RefreshTask {
    cluster: Arc<Cluster>,
    runtime: Id,
    began: Instant,
    outcome: Option<RefreshOutcome>,
    ends: watch::Sender<()>,
}

impl RefreshTask {
    async fn run(mut self) {
        self.outcome = Some(self.cluster.explore().await);
    }
}

impl Drop for RefreshTask {
    fn drop(&mut self) {
        let outcome = self.outcome.take();
        let has_ended = outcome.is_some();
        let (began, at) = (self.began, Instant::now());
        let done = outcome.map_or(MapRefresh::Never, |outcome| MapRefresh::Done { began, at, outcome });
        self.cluster.refreshes.change(self.runtime, |refresh| *refresh = done);
        if has_ended {
            self.ends.send_replace(());
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("nodes", &self.map.read().nodes().len()).finish_non_exhaustive()
    }
}
