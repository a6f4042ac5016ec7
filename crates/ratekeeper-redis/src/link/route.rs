//! How commands get to a server, or to the right one of many.
//!
//! ```text
//! address    what a URL says                    server        one server: its breaker, and the ways to it
//! sentinel   where the master is                node          one way to it, connecting and reconnecting
//! cluster    which node has a slot, redirects   silence       for how long a connection has not answered
//! survey     asking nodes for the map           breakers      what leaves a server alone that fails
//! topology   the reply to CLUSTER SLOTS         deadline      until when an answer is waited for
//! slot       which slot a key lies in           per_runtime   what each runtime has for itself
//! resolve    the addresses behind a name        holders       all servers that have keys, each by itself
//! ```
//!
//! Opening a link does nothing yet: the first command connects. Concurrent callers on one runtime share one connection
//! for each node, and their commands travel together. Each runtime has its own, and waits for no other. One timer
//! bounds a command with everything it needs: connecting, a redirect, the script's text. A command whose fate is not
//! known is never sent again. A server that fails is left alone by its own breaker, which stands behind the routing: the
//! others do not notice.

mod address;
mod breakers;
mod cluster;
mod deadline;
mod holders;
mod node;
mod per_runtime;
mod resolve;
mod sentinel;
mod server;
mod silence;
mod slot;
mod survey;
mod topology;

pub(crate) use address::Address;
pub(crate) use breakers::Breakers;
pub(crate) use holders::Holder;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use address::Place;
use cluster::Cluster;
use deadline::Deadline;
use node::Target;
use ratekeeper::store::Breaker;
use redis::{Arg, Cmd, Value};
use sentinel::Sentinels;
use server::Server;

use crate::call::Call;
use crate::error::RedisError;
use crate::script::Script;

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// For a connection.
    pub(crate) connect_timeout: Duration,
    /// For the answer to a command, whatever it takes to get it.
    pub(crate) command_timeout: Duration,
    /// To each server, from each runtime.
    pub(crate) connections: NonZeroUsize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            connect_timeout: Duration::from_millis(500),
            command_timeout: Duration::from_millis(100),
            connections: NonZeroUsize::MIN,
        }
    }
}

/// The way to a server. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    route: Route,
    options: Options,
}

#[derive(Clone, Debug)]
enum Route {
    Server(Arc<Server>),
    Cluster(Arc<Cluster>),
}

impl Link {
    /// A link to this address. Nothing is sent: the server may be down for now.
    pub(crate) fn open(address: &Address, options: &Options, breakers: Breakers) -> Link {
        let server =
            |name, target: &dyn Fn() -> Target| Route::Server(Server::new(name, options, &breakers, target));
        let route = match address.place.clone() {
            Place::Server(info) => server(info.addr().to_string(), &|| Target::Fixed(info.clone())),
            Place::Cluster { seeds } => Route::Cluster(Cluster::new(seeds, *options, breakers)),
            Place::Sentinel { sentinels, master, template } => server(master.clone(), &|| {
                Target::Master(Sentinels::new(sentinels.clone(), master.clone(), template.clone()))
            }),
        };
        Link { route, options: *options }
    }

    /// The breaker of each server, by its name.
    pub(crate) fn breakers(&self) -> Vec<Arc<Breaker>> {
        let mut breakers = match &self.route {
            Route::Server(server) => server.breaker().cloned().into_iter().collect(),
            Route::Cluster(cluster) => cluster.breakers(),
        };
        breakers.sort_by(|one, other| one.name().cmp(other.name()));
        breakers
    }

    /// Connects, and tells what is wrong if that fails, whatever the breaker says. May take as long as connecting may.
    pub(crate) async fn check(&self) -> Result<(), RedisError> {
        // A cluster is asked for its map, and sentinels one after another: some attempts, each bounded.
        let deadline = Deadline::after(self.options.connect_timeout.saturating_mul(4))?;
        let checked = async {
            match &self.route {
                Route::Server(server) => server.lane().send(&redis::cmd("PING")).await.map(|_| ()),
                Route::Cluster(cluster) => cluster.check().await,
            }
        };
        deadline.bound(checked).await
    }

    /// Runs a script on the node that has its keys: by name, and by text only if the node does not know the name.
    pub(crate) async fn run(&self, script: &Script, call: &Call) -> Result<Value, RedisError> {
        let (slot, deadline) = (self.slot(call.parts().next()), self.deadline()?);
        match self.send(&call.command("EVALSHA", script.sha1()), slot, deadline).await {
            // Not executed, so it may be sent again.
            Err(error) if error.is_no_script() => {
                self.send(&call.command("EVAL", script.source()), slot, deadline).await
            }
            known => known,
        }
    }

    /// Sends a command to the node that has its key: the first argument.
    pub(crate) async fn command(&self, command: Cmd) -> Result<Value, RedisError> {
        let key = command.args_iter().nth(1).map(|arg| match arg {
            Arg::Simple(key) => key,
            _ => &[],
        });
        self.send(&command, self.slot(key), self.deadline()?).await
    }

    async fn send(&self, command: &Cmd, slot: usize, deadline: Deadline) -> Result<Value, RedisError> {
        match &self.route {
            Route::Server(server) => server.send(command, deadline).await,
            Route::Cluster(cluster) => cluster.send(command, slot, deadline).await,
        }
    }

    /// Where a key is; of no interest where there is one server.
    fn slot(&self, key: Option<&[u8]>) -> usize {
        match &self.route {
            Route::Server(_) => 0,
            Route::Cluster(_) => slot::of(key.unwrap_or_default()),
        }
    }

    fn deadline(&self) -> Result<Deadline, RedisError> {
        Deadline::after(self.options.command_timeout)
    }
}
