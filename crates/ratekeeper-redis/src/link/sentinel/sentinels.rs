//! Where the master is, by those who watch it.
//!
//! ```text
//! known     which server is the master, as far as anybody has told     news      what a sentinel publishes
//! watcher   a task for each sentinel that listens to it and asks it    mod       connecting to the master
//! ```
//!
//! A master that is replaced by plan goes on to take writes for some ten seconds, until it is told to be a replica: what
//! it admits then is lost with it, and admitted once more by its successor. So every sentinel is listened to and asked,
//! and the connection to the master is left as soon as any of them says that there is another. Nothing depends on it
//! when a master dies: then the connection breaks, and the sentinels are asked anew.

mod known;
mod news;
mod watcher;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{ConnectionInfo, FromRedisValue, Value};
use tokio::runtime::Id;
use tokio::task::AbortHandle;

use super::Options;
use super::address::moved;
use super::node::{Node, open};
use super::per_runtime::PerRuntime;
use crate::error::{RedisError, RedisErrorKind};
use known::{Known, Server, Told};

/// So long the other sentinels are waited for once one has answered: one of them may know of a later master.
const FOR_THE_OTHERS: Duration = Duration::from_millis(50);

/// Between two looks at a server that is just being promoted.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// The sentinels of one master.
pub(super) struct Sentinels {
    addresses: Vec<ConnectionInfo>,
    master: String,
    /// Credentials and database of the master.
    template: ConnectionInfo,
    known: Mutex<Known>,
    followers: PerRuntime<Follower>,
}

/// What a runtime has for itself.
#[derive(Default)]
struct Follower {
    /// Where it was last connected to.
    at: Option<Server>,
    /// Its tasks that listen to the sentinels.
    watchers: Vec<Watcher>,
}

/// A task that ends with whoever holds this.
struct Watcher(AbortHandle);

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Sentinels {
    pub(super) fn new(addresses: Vec<ConnectionInfo>, master: String, template: ConnectionInfo) -> Self {
        let (known, followers) = (Mutex::default(), PerRuntime::new());
        Sentinels { addresses, master, template, known, followers }
    }

    /// The name of the master.
    pub(super) fn master(&self) -> &str {
        &self.master
    }

    /// Connects to the master: the one that is just being promoted if there is such news, or else the one of the latest
    /// epoch that a sentinel tells, or has told if nobody answers now. One that says that it is none was just demoted, or is not promoted yet.
    pub(super) async fn connect(&self, options: &Options) -> Result<MultiplexedConnection, RedisError> {
        let promised = self.known.lock().promised(Instant::now());
        let (server, connection) = match promised {
            Some(server) => (server.clone(), self.await_promotion(&server, options).await?),
            None => {
                let asked = self.ask_all(options).await;
                let known = self.known.lock().master(Instant::now());
                let server = match (asked, known) {
                    (Ok(()), known) => known.ok_or_else(|| self.unknown())?,
                    // Whether it still is, it says itself.
                    (Err(error), Some(server)) if error.kind() != RedisErrorKind::Address => {
                        tracing::warn!(%error, master = %server, "no sentinel answers: taking the last master");
                        server
                    }
                    (Err(error), _) => return Err(error),
                };
                (server.clone(), self.connect_to(&server, options).await?)
            }
        };
        self.followers.with(|_, follower| follower.at = Some(server));
        Ok(connection)
    }

    /// Has every sentinel listened to, from this runtime, until it ends or the node is dropped.
    pub(super) fn watch(&self, node: &Arc<Node>) {
        if self.followers.with(|_, follower| !follower.watchers.is_empty()) {
            return;
        }
        let tasks = (0..self.addresses.len()).map(|index| watcher::spawn(node, index));
        let watchers: Vec<Watcher> = tasks.map(Watcher).collect();
        // What was there already ends, not under the lock.
        let _ended = self.followers.with(|_, follower| std::mem::replace(&mut follower.watchers, watchers));
    }

    /// False if there was news of another master than the one that this runtime is connected to.
    pub(super) fn is_at_master(&self, runtime: Id) -> bool {
        let master = self.known.lock().master(Instant::now());
        let mut is_at_master = true;
        self.followers.change(runtime, |follower| {
            is_at_master = match (&master, &follower.at) {
                (Some(master), Some(at)) => master == at,
                _ => true,
            };
        });
        is_at_master
    }

    /// Looks at a server until it is the master, as long as it is the one to become it.
    async fn await_promotion(
        &self,
        server: &Server,
        options: &Options,
    ) -> Result<MultiplexedConnection, RedisError> {
        let deadline = Instant::now() + options.connect_timeout;
        loop {
            let error = match self.connect_to(server, options).await {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            let now = Instant::now();
            if now >= deadline || self.known.lock().promised(now).as_ref() != Some(server) {
                return Err(error);
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    async fn connect_to(
        &self,
        server: &Server,
        options: &Options,
    ) -> Result<MultiplexedConnection, RedisError> {
        let Server { host, port } = server;
        let mut connection = open(moved(&self.template, host, *port)?, options).await?;
        let role = exchange(&mut connection, &redis::cmd("ROLE"), options).await?;
        match role {
            Value::Array(parts) if is_master(parts.first()) => Ok(connection),
            _ => {
                let message = format!("{host}:{port} is no master; the sentinels will agree on another");
                Err(RedisError::new(RedisErrorKind::ReadOnly, message))
            }
        }
    }

    /// Asks all sentinels at once, and notes what they tell. The last error if none of them does.
    async fn ask_all(&self, options: &Options) -> Result<(), RedisError> {
        let mut asked: FuturesUnordered<_> =
            self.addresses.iter().map(|sentinel| self.ask_anew(sentinel, options)).collect();
        let (mut told, mut last_error, mut until) = (0, None, None);
        loop {
            let next = match until {
                Some(until) => tokio::time::timeout_at(until, asked.next()).await.unwrap_or(None),
                None => asked.next().await,
            };
            match next {
                Some(Ok(())) => {
                    told += 1;
                    until.get_or_insert_with(|| tokio::time::Instant::now() + FOR_THE_OTHERS);
                }
                Some(Err(error)) => last_error = Some(error),
                None => break,
            }
            // What most of them say has been agreed on.
            if told * 2 > self.addresses.len() {
                break;
            }
        }
        match last_error {
            Some(error) if told == 0 => Err(error),
            _ => Ok(()),
        }
    }

    async fn ask_anew(&self, sentinel: &ConnectionInfo, options: &Options) -> Result<(), RedisError> {
        let mut connection = open(sentinel.clone(), options).await?;
        self.ask(&mut connection, options).await
    }

    /// Asks one sentinel, and notes what it tells.
    async fn ask(&self, connection: &mut MultiplexedConnection, options: &Options) -> Result<(), RedisError> {
        let question = |verb: &str| {
            let mut question = redis::cmd("SENTINEL");
            question.arg(verb).arg(&self.master);
            question
        };
        // The epoch first: if the master changes in between, the new one has an epoch too early, and is not believed yet.
        // The other way round the old one would have the new one's epoch.
        let described = exchange(connection, &question("master"), options).await;
        let described = described.map_err(|error| match error.kind() {
            // It says that there is none.
            RedisErrorKind::Other => self.unknown(),
            _ => error,
        })?;
        let epoch = news::epoch(described).ok_or_else(|| self.unknown())?;
        let address = exchange(connection, &question("get-master-addr-by-name"), options).await?;
        let found = Option::<(String, u16)>::from_redis_value(address);
        let (host, port) = found.map_err(|_| self.unknown())?.ok_or_else(|| self.unknown())?;
        let told = Told { epoch, server: Server { host, port } };
        let master = format!("{}", told.server);
        if self.known.lock().tell(told, Instant::now()) {
            tracing::info!(%master, "the master has changed: connecting to the new one");
        }
        Ok(())
    }

    /// Notes that a server is being made the master.
    fn promise(&self, server: Server) {
        let replica = server.to_string();
        if self.known.lock().promise(server, Instant::now()) {
            tracing::info!(%replica, "a replica is being promoted: waiting for it to be the master");
        }
    }

    fn unknown(&self) -> RedisError {
        let message =
            format!("the sentinels know no master `{}`; see SENTINEL MASTERS", self.master.escape_debug());
        RedisError::new(RedisErrorKind::Address, message)
    }
}

async fn exchange(
    connection: &mut MultiplexedConnection,
    command: &redis::Cmd,
    options: &Options,
) -> Result<Value, RedisError> {
    let reply = tokio::time::timeout(options.connect_timeout, connection.send_packed_command(command)).await;
    Ok(reply.map_err(|_| RedisError::timeout(options.connect_timeout))??.extract_error()?)
}

fn is_master(role: Option<&Value>) -> bool {
    match role {
        Some(Value::BulkString(role)) => role == b"master",
        Some(Value::SimpleString(role)) => role == "master",
        _ => false,
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinels").field("master", &self.master).finish_non_exhaustive()
    }
}
