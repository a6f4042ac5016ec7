//! One server, and for each runtime the one connection to it that all callers there share.
//!
//! Connecting is done by a task of its own, once at a time; callers wait for it no longer than for a command. After
//! an attempt in vain there is a pause, in which everybody is told at once what went wrong. The task and the connection
//! are driven by the runtime of whoever asked, so callers on another runtime, which must not depend on that, have an
//! attempt and a connection of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionInfo, Pipeline, Value};
use tokio::runtime::Id;
use tokio::sync::watch;

use super::Options;
use super::per_runtime::PerRuntime;
use super::sentinel::Sentinels;
use crate::error::{RedisError, RedisErrorKind};

/// The pause after the first attempt in vain; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// No pause is longer, so that service is back soon after the server.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// So many commands in a row without an answer, and the connection is given up: its other end may be gone without a
/// word.
const MOST_UNANSWERED: u32 = 5;

/// Where a node is.
#[derive(Debug)]
pub(super) enum Target {
    /// At an address.
    Fixed(ConnectionInfo),
    /// Wherever the sentinels say that the master is.
    Master(Sentinels),
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
    /// Somebody is trying. The channel closes when the attempt is over.
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
    unanswered: Arc<AtomicU32>,
}

impl Node {
    pub(super) fn new(target: Target, options: Options) -> Arc<Self> {
        Arc::new(Node { target, options, states: PerRuntime::new() })
    }

    /// Sends a command, once. Must be called within a tokio runtime.
    pub(super) async fn send(self: &Arc<Self>, command: &Cmd) -> Result<Value, RedisError> {
        let mut live = self.connection().await?;
        let waiting = Unanswered(&live.unanswered);
        let reply = live.connection.send_packed_command(command).await;
        waiting.answered();
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
        let waiting = Unanswered(&live.unanswered);
        let replies = live.connection.send_packed_commands(commands, 0, count).await;
        waiting.answered();
        match replies {
            Ok(replies) => {
                Ok(replies.into_iter().map(|reply| self.examine(&live, reply.extract_error())).collect())
            }
            Err(error) => self.examine(&live, Err(error)).map(|_: Value| Vec::new()),
        }
    }

    /// A reply as it is; a connection that is of no more use is given up.
    fn examine(&self, live: &Live, reply: redis::RedisResult<Value>) -> Result<Value, RedisError> {
        reply.map_err(|error| {
            let error = RedisError::from(error);
            let is_master_gone = matches!(self.target, Target::Master(_))
                && matches!(error.kind(), RedisErrorKind::ReadOnly | RedisErrorKind::MasterDown);
            if is_master_gone || error.is_of_the_connection() {
                self.give_up(live);
            }
            error
        })
    }

    /// Forgets a connection, if it is still the one.
    fn give_up(&self, live: &Live) {
        self.states.change(live.runtime, |state| {
            if matches!(state, State::Connected(now) if Arc::ptr_eq(&now.unanswered, &live.unanswered)) {
                *state = State::Idle;
            }
        });
    }

    async fn connection(self: &Arc<Self>) -> Result<Live, RedisError> {
        loop {
            let next = self.states.with(|runtime, state| match state {
                State::Connected(live) if live.unanswered.load(Ordering::Relaxed) < MOST_UNANSWERED => {
                    Next::Known(Ok(live.clone()))
                }
                State::Pausing { until, error, .. } if Instant::now() < *until => {
                    Next::Known(Err(error.clone()))
                }
                State::Connecting(over) => Next::Wait(over.clone(), None),
                State::Idle | State::Connected(_) => self.start(runtime, state, 0),
                State::Pausing { attempts, .. } => {
                    let attempts = *attempts;
                    self.start(runtime, state, attempts)
                }
            });
            match next {
                Next::Known(outcome) => return outcome,
                Next::Wait(mut over, attempt) => {
                    // In a task of its own: a caller that gives up takes nobody's connection with it.
                    if let Some(attempt) = attempt {
                        tokio::spawn(attempt.run());
                    }
                    // Nothing is ever sent: it closes.
                    let _ = over.changed().await;
                }
            }
        }
    }

    /// The next attempt to connect.
    fn start(self: &Arc<Self>, runtime: Id, state: &mut State, attempts: u32) -> Next {
        let (ends, over) = watch::channel(());
        *state = State::Connecting(over.clone());
        let attempt = Attempt { node: Arc::clone(self), runtime, outcome: None, attempts, _ends: ends };
        Next::Wait(over, Some(attempt))
    }

    /// The sentinels that tell where it is, if it is a master that they watch.
    pub(super) fn sentinels(&self) -> Option<&Sentinels> {
        match &self.target {
            Target::Fixed(_) => None,
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
        if matches!(left, State::Connected(_)) {
            tracing::info!("the master has changed: connecting to the new one");
        }
    }

    async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        match &self.target {
            Target::Fixed(info) => open(info.clone(), &self.options).await,
            Target::Master(sentinels) => sentinels.connect(&self.options).await,
        }
    }
}

/// Connects, and makes sure that it is a Redis that answers.
pub(super) async fn open(
    info: ConnectionInfo,
    options: &Options,
) -> Result<MultiplexedConnection, RedisError> {
    let place = info.addr().to_string();
    let within = options.connect_timeout;
    let attempt = async {
        // The time limits are ours: one timer for a command, however many parts it has.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
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

/// Counts a command as unanswered until it is.
struct Unanswered<'a>(&'a AtomicU32);

impl Unanswered<'_> {
    /// Any reply will do: the connection works.
    fn answered(self) {
        self.0.store(0, Ordering::Relaxed);
        std::mem::forget(self);
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// An attempt to connect. However it ends, its end is noticed: also when its runtime is shut down under it.
struct Attempt {
    node: Arc<Node>,
    runtime: Id,
    outcome: Option<Result<MultiplexedConnection, RedisError>>,
    /// How many were in vain before.
    attempts: u32,
    _ends: watch::Sender<()>,
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
        let state = match self.outcome.take() {
            Some(Ok(connection)) => {
                State::Connected(Live { runtime: self.runtime, connection, unanswered: Arc::default() })
            }
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
            tracing::info!(attempts = self.attempts + 1, "connected again");
        }
        self.node.states.change(self.runtime, |now| *now = state);
        // News of another master may have come since it was asked for, when there was nothing to leave yet.
        if self.node.sentinels().is_some_and(|sentinels| !sentinels.is_at_master(self.runtime)) {
            self.node.leave(self.runtime);
        }
    }
}
