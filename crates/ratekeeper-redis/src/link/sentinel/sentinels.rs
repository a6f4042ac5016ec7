//! The sentinels of one master, and connecting to it.

use std::fmt;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{ConnectionInfo, FromRedisValue, Value};
use tokio::runtime::Id;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::super::address::moved;
use super::super::connect::open;
use super::super::options::LinkOptions;
use super::super::per_runtime::PerRuntime;
use super::event;
use super::master::{KnownMaster, MasterReport, ServerAddress};
use crate::error::{RedisError, RedisErrorKind};

/// How long the other sentinels are waited for once one has answered: one of them may know of a later master.
const FOR_THE_OTHERS: Duration = Duration::from_millis(50);

/// The time between two looks at a server that is being promoted.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// The sentinels of one master.
pub(in super::super) struct Sentinels {
    pub(super) addresses: Vec<ConnectionInfo>,
    master: String,
    /// Credentials and database of the master.
    template: ConnectionInfo,
    known: Mutex<KnownMaster>,
    followers: PerRuntime<MasterFollower>,
}

/// What a runtime has for itself.
#[derive(Default)]
struct MasterFollower {
    /// The server that it was last connected to.
    at: Option<ServerAddress>,
    /// Its tasks that listen to the sentinels.
    watchers: Vec<WatcherTask>,
}

/// A task that ends when this is dropped.
struct WatcherTask(AbortHandle);

impl Drop for WatcherTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Sentinels {
    /// Returns the sentinels at these addresses. Sends nothing.
    pub(in super::super) fn new(
        addresses: Vec<ConnectionInfo>,
        master: String,
        template: ConnectionInfo,
    ) -> Self {
        let (known, followers) = (Mutex::default(), PerRuntime::new());
        Sentinels { addresses, master, template, known, followers }
    }

    /// Returns the name of the master.
    pub(in super::super) fn master(&self) -> &str {
        &self.master
    }

    /// Connects to the master: the server that is being promoted, if there is one, or else the one of the latest report; the
    /// last known one if no sentinel answers now.
    ///
    /// # Errors
    ///
    /// `ReadOnly` if the server says that it is no master: it was just demoted, or is not promoted yet. `Address` if the
    /// sentinels know no master of this name.
    pub(in super::super) async fn connect(
        &self,
        options: &LinkOptions,
    ) -> Result<MultiplexedConnection, RedisError> {
        let promoting = self.known.lock().promoting(Instant::now());
        let (server, connection) = match promoting {
            Some(server) => (server.clone(), self.await_promotion(&server, options).await?),
            None => {
                let asked = self.ask_all(options).await;
                let known = self.known.lock().master(Instant::now());
                let server = match (asked, known) {
                    (Ok(()), known) => known.ok_or_else(|| self.unknown())?,
                    // Whether it still is the master, it says itself.
                    (Err(error), Some(server)) if error.kind() != RedisErrorKind::Address => {
                        tracing::warn!(%error, master = %server, "no sentinel answers: connecting to the last known master");
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

    /// Returns true if tasks of this runtime listen to the sentinels already.
    pub(super) fn is_watched(&self) -> bool {
        self.followers.with(|_, follower| !follower.watchers.is_empty())
    }

    /// Keeps the tasks of this runtime that listen to the sentinels: they end with it, or with these sentinels.
    pub(super) fn keep_watchers(&self, tasks: impl Iterator<Item = AbortHandle>) {
        let watchers: Vec<WatcherTask> = tasks.map(WatcherTask).collect();
        // Those that were there end here, not under the lock.
        let _ended = self.followers.with(|_, follower| std::mem::replace(&mut follower.watchers, watchers));
    }

    /// Returns false if another master was reported than the one that this runtime is connected to.
    pub(in super::super) fn is_at_master(&self, runtime: Id) -> bool {
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

    /// Connects to a server that is being promoted, again and again until it is the master or the promotion is over.
    async fn await_promotion(
        &self,
        server: &ServerAddress,
        options: &LinkOptions,
    ) -> Result<MultiplexedConnection, RedisError> {
        let deadline = Instant::now() + options.connect_timeout;
        loop {
            let error = match self.connect_to(server, options).await {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            let now = Instant::now();
            if now >= deadline || self.known.lock().promoting(now).as_ref() != Some(server) {
                return Err(error);
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    async fn connect_to(
        &self,
        server: &ServerAddress,
        options: &LinkOptions,
    ) -> Result<MultiplexedConnection, RedisError> {
        let ServerAddress { host, port } = server;
        let mut connection = open(moved(&self.template, host, *port)?, options).await?;
        let role = exchange(&mut connection, &redis::cmd("ROLE"), options).await?;
        match role {
            Value::Array(parts) if is_master(parts.first()) => Ok(connection),
            _ => {
                let message =
                    format!("{host}:{port} is not the master; wait until the sentinels agree on one");
                Err(RedisError::new(RedisErrorKind::ReadOnly, message))
            }
        }
    }

    /// Asks all sentinels at once, and takes their reports. The last error if none of them answers.
    async fn ask_all(&self, options: &LinkOptions) -> Result<(), RedisError> {
        let mut asked: FuturesUnordered<_> =
            self.addresses.iter().map(|sentinel| self.ask_anew(sentinel, options)).collect();
        let (mut reports, mut last_error, mut until) = (0, None, None);
        loop {
            let next = match until {
                Some(until) => tokio::time::timeout_at(until, asked.next()).await.unwrap_or(None),
                None => asked.next().await,
            };
            match next {
                Some(Ok(())) => {
                    reports += 1;
                    until.get_or_insert_with(|| Instant::now() + FOR_THE_OTHERS);
                }
                Some(Err(error)) => last_error = Some(error),
                None => break,
            }
            // What most of them report has been agreed on.
            if reports * 2 > self.addresses.len() {
                break;
            }
        }
        match last_error {
            Some(error) if reports == 0 => Err(error),
            _ => Ok(()),
        }
    }

    async fn ask_anew(&self, sentinel: &ConnectionInfo, options: &LinkOptions) -> Result<(), RedisError> {
        let mut connection = open(sentinel.clone(), options).await?;
        self.ask(&mut connection, options).await
    }

    /// Asks one sentinel, and takes its report. Two round trips.
    pub(super) async fn ask(
        &self,
        connection: &mut MultiplexedConnection,
        options: &LinkOptions,
    ) -> Result<(), RedisError> {
        let question = |verb: &str| {
            let mut question = redis::cmd("SENTINEL");
            question.arg(verb).arg(&self.master);
            question
        };
        // The epoch first: if the master changes in between, the new one gets an epoch too early, and is not believed yet.
        // The other way round the old one would get the new one's epoch.
        let described = exchange(connection, &question("master"), options).await;
        let described = described.map_err(|error| match error.kind() {
            // The sentinel says that it knows no such master.
            RedisErrorKind::Other => self.unknown(),
            _ => error,
        })?;
        let epoch = event::epoch(described).ok_or_else(|| self.unknown())?;
        let address = exchange(connection, &question("get-master-addr-by-name"), options).await?;
        let found = Option::<(String, u16)>::from_redis_value(address);
        let (host, port) = found.map_err(|_| self.unknown())?.ok_or_else(|| self.unknown())?;
        let report = MasterReport { epoch, server: ServerAddress { host, port } };
        let master = report.server.to_string();
        if self.known.lock().report(report, Instant::now()) {
            tracing::info!(%master, "master changed: connecting to the new one");
        }
        Ok(())
    }

    /// Notes that a server is being promoted.
    pub(super) fn promote(&self, server: ServerAddress) {
        let replica = server.to_string();
        if self.known.lock().promote(server, Instant::now()) {
            tracing::info!(%replica, "replica is being promoted: waiting until it is the master");
        }
    }

    /// Notes that the promotion was given up.
    pub(super) fn abort_promotion(&self) {
        self.known.lock().abort_promotion();
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
    options: &LinkOptions,
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
