//! How commands get to a server, or to the right one of many.
//!
//! ```text
//! address    what a URL says                   node          one server, connecting and reconnecting
//! sentinel   where the master is               cluster       which node has a slot, following redirects
//! slot       which slot a key lies in          topology      the reply to CLUSTER SLOTS
//! servers    all of them, each by itself       per_runtime   what each runtime has for itself
//! ```
//!
//! Opening a link does nothing yet: the first command connects. Concurrent callers on one runtime share one connection
//! for each node, and their commands travel together. Each runtime has its own, and waits for no other. One timer
//! bounds a command with everything it needs: connecting, a redirect, the script's text. A command whose fate is not
//! known is never sent again.

mod address;
mod cluster;
mod node;
mod per_runtime;
mod sentinel;
mod servers;
mod slot;
mod topology;

pub(crate) use address::Address;
pub(crate) use servers::Server;

use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use address::Place;
use cluster::Cluster;
use node::{Node, Target};
use redis::{Arg, Cmd, Value};
use sentinel::Sentinels;

use crate::call::Call;
use crate::error::{RedisError, RedisErrorKind};
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
    /// At least one.
    routes: Arc<[Route]>,
    options: Options,
}

#[derive(Clone, Debug)]
enum Route {
    Node(Arc<Node>),
    Cluster(Arc<Cluster>),
}

impl Link {
    /// A link to this address. Nothing is sent: the server may be down for now.
    pub(crate) fn open(address: &Address, options: &Options) -> Link {
        let node = |target| Route::Node(Node::new(target, *options));
        let route = || match address.place.clone() {
            Place::Server(info) => node(Target::Fixed(info)),
            Place::Cluster { seeds } => Route::Cluster(Cluster::new(seeds, *options)),
            Place::Sentinel { sentinels, master, template } => {
                node(Target::Master(Sentinels::new(sentinels, master, template)))
            }
        };
        Link { routes: (0..options.connections.get()).map(|_| route()).collect(), options: *options }
    }

    /// This thread's.
    fn route(&self) -> &Route {
        &self.routes[thread_number() % self.routes.len()]
    }

    /// Connects, and tells what is wrong if that fails. May take as long as connecting may.
    pub(crate) async fn check(&self) -> Result<(), RedisError> {
        // A cluster is asked for its map, and sentinels one after another: some attempts, each bounded.
        let patience = self.options.connect_timeout.saturating_mul(4);
        let checked = async {
            match self.route() {
                Route::Node(node) => node.send(&redis::cmd("PING")).await.map(|_| ()),
                Route::Cluster(cluster) => cluster.check().await,
            }
        };
        within(patience, checked).await
    }

    /// Runs a script on the node that has its keys: by name, and by text only if the node does not know the name.
    pub(crate) async fn run(&self, script: &Script, call: &Call) -> Result<Value, RedisError> {
        let slot = self.slot(call.parts().next());
        self.in_time(async {
            match self.send(&call.command("EVALSHA", script.sha1()), slot).await {
                // Not executed, so it may be sent again.
                Err(error) if error.is_no_script() => {
                    self.send(&call.command("EVAL", script.source()), slot).await
                }
                known => known,
            }
        })
        .await
    }

    /// Sends a command to the node that has its key: the first argument.
    pub(crate) async fn command(&self, command: Cmd) -> Result<Value, RedisError> {
        let key = command.args_iter().nth(1).map(|arg| match arg {
            Arg::Simple(key) => key,
            _ => &[],
        });
        let slot = self.slot(key);
        self.in_time(self.send(&command, slot)).await
    }

    async fn send(&self, command: &Cmd, slot: usize) -> Result<Value, RedisError> {
        match self.route() {
            Route::Node(node) => node.send(command).await,
            Route::Cluster(cluster) => cluster.send(command, slot).await,
        }
    }

    /// Where a key is; of no interest where there is one server.
    fn slot(&self, key: Option<&[u8]>) -> usize {
        match self.route() {
            Route::Node(_) => 0,
            Route::Cluster(_) => slot::of(key.unwrap_or_default()),
        }
    }

    async fn in_time<T>(
        &self,
        exchange: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, RedisError> {
        within(self.options.command_timeout, exchange).await
    }
}

/// Threads are counted as they first ask, so that as many of them as there are routes have one each.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    MINE.with(|mine| *mine)
}

/// What comes of it within this time. Outside of a tokio runtime there are neither timers nor connections.
async fn within<T>(
    patience: Duration,
    exchange: impl Future<Output = Result<T, RedisError>>,
) -> Result<T, RedisError> {
    if tokio::runtime::Handle::try_current().is_err() {
        let message = "there is no tokio runtime here: ask within one";
        return Err(RedisError::new(RedisErrorKind::Other, message));
    }
    tokio::time::timeout(patience, exchange).await.unwrap_or_else(|_| Err(RedisError::timeout(patience)))
}
