//! One server, and for each runtime the one connection to it that all callers there share.
//!
//! Connecting is done by a task of its own, once at a time; callers wait for it no longer than for a command. After
//! an attempt in vain there is a pause, in which everybody is told at once what went wrong. The task and the connection
//! are driven by the runtime of whoever asked, so callers on another runtime, which must not depend on that, have an
//! attempt and a connection of their own.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionInfo, Pipeline, Value};
use tokio::runtime::Id;
use tokio::sync::watch;

use super::Options;
use super::per_runtime::PerRuntime;
use super::resolve::Pinned;
use super::sentinel::Sentinels;
use super::silence::Silence;
use crate::error::{RedisError, RedisErrorKind};

/// The pause after the first attempt in vain; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// No pause is longer, so that service is back soon after the server.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A connection that was not used for so long may have been closed by the server: that is looked at before it is used.
const IDLE: Duration = Duration::from_millis(5);

/// Where a node is.
#[derive(Debug)]
pub(super) enum Target {
    /// At an address.
    Fixed(ConnectionInfo),
    /// At one of the addresses that a name stands for.
    Pinned(ConnectionInfo, SocketAddr),
    /// Wherever the sentinels say that the master is.
    Master(Sentinels),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Fixed(info) => info.addr().fmt(f),
            Target::Pinned(_, address) => address.fmt(f),
            Target::Master(sentinels) => f.write_str(sentinels.master()),
        }
    }
}

/// One server.
#[derive(Debug)]
pub(super) struct Node {
    target: Target,
    options: Options,
    states: PerRuntime<State>,
}

/// How far a runtime is with its connection.
#[derive(Debug, Default)]
enum State {
    /// Nobody has tried, or the connection was lost.
    #[default]
    Idle,
    /// Somebody is trying. The channel tells when the attempt is over, and closes if its runtime is.
    Connecting(watch::Receiver<()>),
    Connected(Live),
    /// The last attempt was in vain.
    Pausing {
        until: Instant,
        attempts: u32,
        error: RedisError,
    },
}

/// What a caller does next.
enum Next {
    /// Goes on with it.
    Known(Result<Live, RedisError>),
    /// Begins the attempt if it is a new one, waits for its end, and looks again.
    Wait(watch::Receiver<()>, Option<Attempt>),
}

/// A connection. Clones share it.
#[derive(Clone, Debug)]
struct Live {
    /// Which runtime drives it.
    runtime: Id,
    connection: MultiplexedConnection,
    silence: Arc<Silence>,
}

impl Live {
    /// True if the server has closed it. Nothing is sent.
    async fn is_closed(&self) -> bool {
        // Twice, so that the runtime looks at its sockets, and then runs the task that reads from this one: it ends with
        // the connection.
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        // That task takes nothing any more if it has ended. If not, it passes over what nobody waits for.
        let mut connection = self.connection.clone();
        let ping = redis::cmd("PING");
        connection.send_packed_command(&ping).now_or_never().is_some_and(|taken| taken.is_err())
    }
}

impl Node {
    pub(super) fn new(target: Target, options: Options) -> Arc<Self> {
        Arc::new(Node { target, options, states: PerRuntime::new() })
    }

    /// Sends a command, once. Must be called within a tokio runtime.
    pub(super) async fn send(self: &Arc<Self>, command: &Cmd) -> Result<Value, RedisError> {
        let mut live = self.connection().await?;
        live.silence.sent();
        let reply = live.connection.send_packed_command(command).await;
        if reply.is_ok() {
            live.silence.heard();
        }
        // An error reply is a value to this client.
        self.examine(&live, reply.and_then(Value::extract_error))
    }

    /// Sends several commands at once; each has its own reply.
    pub(super) async fn send_all(
        self: &Arc<Self>,
        commands: &Pipeline,
        count: usize,
    ) -> Result<Vec<Result<Value, RedisError>>, RedisError> {
        let mut live = self.connection().await?;
        live.silence.sent();
        match live.connection.send_packed_commands(commands, 0, count).await {
            Ok(replies) => {
                live.silence.heard();
                Ok(replies.into_iter().map(|reply| self.examine(&live, reply.extract_error())).collect())
            }
            Err(error) => self.examine(&live, Err(error)).map(|_: Value| Vec::new()),
        }
    }

    /// A reply as it is; a connection that is of no more use is given up.
    fn examine(&self, live: &Live, reply: redis::RedisResult<Value>) -> Result<Value, RedisError> {
        reply.map_err(|error| {
            let error = RedisError::from(error);
            match error.kind() {
                // The sentinels know another master, and a name may stand for another server by now: not more often
                // than one connects in vain.
                RedisErrorKind::ReadOnly | RedisErrorKind::MasterDown
                    if self.sentinels().is_some() || live.silence.is_older_than(LONGEST_PAUSE) =>
                {
                    self.give_up(live);
                }
                _ if error.is_of_the_connection() => self.give_up(live),
                _ => {}
            }
            match error.kind() {
                RedisErrorKind::Unreachable if live.silence.has_answered() => error.lost(),
                _ => error,
            }
        })
    }

    /// Forgets a connection, if it is still the one.
    fn give_up(&self, live: &Live) {
        self.states.change(live.runtime, |state| {
            if matches!(state, State::Connected(now) if Arc::ptr_eq(&now.silence, &live.silence)) {
                *state = State::Idle;
            }
        });
    }

    async fn connection(self: &Arc<Self>) -> Result<Live, RedisError> {
        loop {
            let next = self.states.with(|runtime, state| match state {
                State::Connected(live) => Next::Known(Ok(live.clone())),
                State::Pausing { until, error, .. } if Instant::now() < *until => {
                    Next::Known(Err(error.clone()))
                }
                State::Connecting(over) => Next::Wait(over.clone(), None),
                State::Idle => self.start(runtime, state, 0),
                State::Pausing { attempts, .. } => {
                    let attempts = *attempts;
                    self.start(runtime, state, attempts)
                }
            });
            match next {
                Next::Known(Ok(live)) => {
                    if live.silence.is_to_be_checked(self.options.command_timeout) {
                        tokio::spawn(Arc::clone(self).check(live.clone()));
                    }
                    if live.silence.is_idle(IDLE) && live.is_closed().await {
                        self.give_up(&live);
                        continue;
                    }
                    return Ok(live);
                }
                Next::Known(Err(error)) => return Err(error),
                Next::Wait(mut over, attempt) => {
                    // In a task of its own: a caller that gives up takes nobody's connection with it.
                    if let Some(attempt) = attempt {
                        tokio::spawn(attempt.run());
                    }
                    if over.changed().await.is_err() {
                        return Err(RedisError::no_runtime());
                    }
                }
            }
        }
    }

    /// Asks a connection that has been silent for long whether its other end is there, and gives it up if not: the other
    /// end may be gone without a word, and nobody else may be waiting long enough to notice.
    async fn check(self: Arc<Self>, mut live: Live) {
        let ping = redis::cmd("PING");
        let asked = live.connection.send_packed_command(&ping);
        match tokio::time::timeout(self.options.connect_timeout, asked).await {
            Ok(Ok(_)) => live.silence.checked(),
            _ => self.give_up(&live),
        }
    }

    /// The next attempt to connect.
    fn start(self: &Arc<Self>, runtime: Id, state: &mut State, attempts: u32) -> Next {
        let (ends, over) = watch::channel(());
        *state = State::Connecting(over.clone());
        let attempt = Attempt { node: Arc::clone(self), runtime, outcome: None, attempts, ends };
        Next::Wait(over, Some(attempt))
    }

    /// The sentinels that tell where it is, if it is a master that they watch.
    pub(super) fn sentinels(&self) -> Option<&Sentinels> {
        match &self.target {
            Target::Fixed(_) | Target::Pinned(..) => None,
            Target::Master(sentinels) => Some(sentinels),
        }
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Leaves the server that a runtime is connected to: the next command connects anew. What is under way there is
    /// still answered.
    pub(super) fn leave(&self, runtime: Id) {
        let mut left = State::Idle;
        self.states.change(runtime, |state| {
            if matches!(state, State::Connected(_)) {
                left = std::mem::take(state);
            }
        });
        // It may wake whoever waits for it: not under the lock.
        drop(left);
    }

    async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        match &self.target {
            Target::Fixed(info) => open(info.clone(), &self.options).await,
            Target::Pinned(info, address) => open_at(info.clone(), Some(*address), &self.options).await,
            Target::Master(sentinels) => sentinels.connect(&self.options).await,
        }
    }
}

/// Connects, and makes sure that it is a Redis that answers.
pub(super) async fn open(
    info: ConnectionInfo,
    options: &Options,
) -> Result<MultiplexedConnection, RedisError> {
    open_at(info, None, options).await
}

/// The same at this one of the addresses that the host's name stands for.
async fn open_at(
    info: ConnectionInfo,
    address: Option<SocketAddr>,
    options: &Options,
) -> Result<MultiplexedConnection, RedisError> {
    let place = address.map_or_else(|| info.addr().to_string(), |address| address.to_string());
    let within = options.connect_timeout;
    let attempt = async {
        // The time limits are ours: one timer for a command, however many parts it has.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let config = match address {
            Some(address) => config.set_dns_resolver(Pinned(address)),
            None => config,
        };
        let client = Client::open(info)?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let reply = connection.send_packed_command(&redis::cmd("PING")).await?.extract_error()?;
        match reply {
            Value::SimpleString(pong) if pong == "PONG" => Ok(connection),
            _ => Err(RedisError::not_redis()),
        }
    };
    let outcome = tokio::time::timeout(within, attempt).await.unwrap_or_else(|_| {
        let message = format!("no Redis answered within {within:?}; is it frozen, or something else?");
        Err(RedisError::new(RedisErrorKind::Unreachable, message))
    });
    outcome.map_err(|error| error.at(&place))
}

/// An attempt to connect. However it ends, its end is noticed: also when its runtime is shut down under it.
struct Attempt {
    node: Arc<Node>,
    runtime: Id,
    outcome: Option<Result<MultiplexedConnection, RedisError>>,
    /// How many were in vain before.
    attempts: u32,
    ends: watch::Sender<()>,
}

impl Attempt {
    async fn run(mut self) {
        self.outcome = Some(self.node.connect().await);
        if let (Some(Ok(_)), Some(sentinels)) = (&self.outcome, self.node.sentinels()) {
            sentinels.watch(&self.node);
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let has_ended = self.outcome.is_some();
        let state = match self.outcome.take() {
            Some(Ok(connection)) => State::Connected(Live {
                runtime: self.runtime,
                connection,
                silence: Arc::new(Silence::new()),
            }),
            Some(Err(error)) => {
                let pause = FIRST_PAUSE.saturating_mul(1 << self.attempts.min(10)).min(LONGEST_PAUSE);
                if self.attempts == 0 {
                    tracing::warn!(%error, "cannot connect; trying on");
                }
                State::Pausing { until: Instant::now() + pause, attempts: self.attempts + 1, error }
            }
            None => State::Idle,
        };
        if self.attempts > 0 && matches!(state, State::Connected(_)) {
            tracing::info!(node = %self.node.target, attempts = self.attempts + 1, "connected again");
        }
        self.node.states.change(self.runtime, |now| *now = state);
        // News of another master may have come since it was asked for, when there was nothing to leave yet.
        if self.node.sentinels().is_some_and(|sentinels| !sentinels.is_at_master(self.runtime)) {
            self.node.leave(self.runtime);
        }
        if has_ended {
            self.ends.send_replace(());
        }
    }
}
