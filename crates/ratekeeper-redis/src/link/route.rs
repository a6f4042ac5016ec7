//! The link to one server or to a cluster.

use std::sync::Arc;

use ratekeeper::store::Breaker;
use redis::{Arg, Cmd, Value};

use super::address::{RedisAddress, RedisEndpoint};
use super::breakers::BreakerFactory;
use super::cluster::Cluster;
use super::deadline::Deadline;
use super::holder::KeyHolder;
use super::options::LinkOptions;
use super::sentinel::Sentinels;
use super::server::RedisServer;
use super::slot;
use super::target::NodeTarget;
use crate::error::RedisError;
use crate::script::{Script, ScriptCall};

/// The way to one server or to a cluster. Clones share its connections.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    route: LinkRoute,
    options: LinkOptions,
}

#[derive(Clone, Debug)]
enum LinkRoute {
    Server(Arc<RedisServer>),
    Cluster(Arc<Cluster>),
}

impl Link {
    /// Returns a link to this address. Sends nothing: the server may be down for now.
    pub(crate) fn open(address: &RedisAddress, options: &LinkOptions, breakers: BreakerFactory) -> Link {
        let server = |name, target: &dyn Fn() -> NodeTarget| {
            LinkRoute::Server(RedisServer::new(name, options, &breakers, target))
        };
        let route = match address.endpoint.clone() {
            RedisEndpoint::Server(info) => {
                server(info.addr().to_string(), &|| NodeTarget::Fixed(info.clone()))
            }
            RedisEndpoint::Cluster { seeds } => LinkRoute::Cluster(Cluster::new(seeds, *options, breakers)),
            RedisEndpoint::Sentinel { sentinels, master, template } => server(master.clone(), &|| {
                let sentinels = Sentinels::new(sentinels.clone(), master.clone(), template.clone());
                NodeTarget::Master(Arc::new(sentinels))
            }),
        };
        Link { route, options: *options }
    }

    /// Returns the breaker of each server, in the order of their names.
    pub(crate) fn breakers(&self) -> Vec<Arc<Breaker>> {
        let mut breakers = match &self.route {
            LinkRoute::Server(server) => server.breaker().cloned().into_iter().collect(),
            LinkRoute::Cluster(cluster) => cluster.breakers(),
        };
        breakers.sort_by(|one, other| one.name().cmp(other.name()));
        breakers
    }

    /// Connects, whatever the breaker says, and reports what is wrong if that fails. May take as long as four attempts to
    /// connect.
    pub(crate) async fn check(&self) -> Result<(), RedisError> {
        // A cluster is asked for its map, and sentinels one after another: some attempts, each bounded.
        let deadline = Deadline::after(self.options.connect_timeout.saturating_mul(4))?;
        let checked = async {
            match &self.route {
                LinkRoute::Server(server) => server.lane().send(&redis::cmd("PING")).await.map(|_| ()),
                LinkRoute::Cluster(cluster) => cluster.check().await,
            }
        };
        deadline.bound(checked).await
    }

    /// Runs a script on the node that has its keys: by its SHA-1, and by its text only if the node does not know that. One
    /// round trip, and one more for each redirect and for a script that the node does not have yet.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the script was executed.
    pub(crate) async fn run(&self, script: &Script, call: &ScriptCall) -> Result<Value, RedisError> {
        let (slot, deadline) = (self.slot(call.parts().next()), self.deadline()?);
        match self.send(&call.command("EVALSHA", script.sha1()), slot, deadline).await {
            // Not executed, so it may be sent again.
            Err(error) if error.is_no_script() => {
                self.send(&call.command("EVAL", script.source()), slot, deadline).await
            }
            known => known,
        }
    }

    /// Sends a command to the node that has its key, the first argument. One round trip, and one more for each redirect.
    pub(crate) async fn command(&self, command: Cmd) -> Result<Value, RedisError> {
        let key = command.args_iter().nth(1).map(|arg| match arg {
            Arg::Simple(key) => key,
            _ => &[],
        });
        self.send(&command, self.slot(key), self.deadline()?).await
    }

    async fn send(&self, command: &Cmd, slot: usize, deadline: Deadline) -> Result<Value, RedisError> {
        match &self.route {
            LinkRoute::Server(server) => server.send(command, deadline).await,
            LinkRoute::Cluster(cluster) => cluster.send(command, slot, deadline).await,
        }
    }

    /// Returns the slot of a key; of no interest where there is one server.
    pub(crate) fn slot(&self, key: Option<&[u8]>) -> usize {
        match &self.route {
            LinkRoute::Server(_) => 0,
            LinkRoute::Cluster(_) => slot::of(key.unwrap_or_default()),
        }
    }

    /// Returns every server that holds keys: the one there is, or all masters of the cluster as its map is now. A cluster is
    /// asked for its map first.
    pub(crate) async fn holders(&self) -> Result<Vec<KeyHolder>, RedisError> {
        let servers = match &self.route {
            LinkRoute::Server(server) => vec![Arc::clone(server)],
            LinkRoute::Cluster(cluster) => {
                self.check().await?;
                cluster.masters()?
            }
        };
        let patience = self.options.command_timeout;
        Ok(servers.into_iter().map(|server| KeyHolder::new(server, patience)).collect())
    }

    /// Returns the end of the time that a command has from now.
    pub(crate) fn deadline(&self) -> Result<Deadline, RedisError> {
        Deadline::after(self.options.command_timeout)
    }
}
