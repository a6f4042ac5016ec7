//! One node, and for each runtime the one connection to it that all callers there share.
//!
//! A task of its own connects, one at a time; callers wait for it no longer than for a command. After a failed attempt
//! there is a pause, in which every caller gets the attempt's error at once. The task and the connection are driven by the
//! runtime of whoever asked, so callers on another runtime, which must not depend on that, have an attempt and a connection
//! of their own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, Value};
use tokio::runtime::Id;
use tokio::sync::watch;
use tokio::time::Instant;

use super::options::LinkOptions;
use super::per_runtime::PerRuntime;
use super::sentinel::{self, FollowsMaster, Sentinels};
use super::silence::ConnectionSilence;
use super::target::NodeTarget;
use crate::error::{RedisError, RedisErrorKind};

/// The pause after the first failed attempt; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause, so that service is back soon after the server.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How long a connection may be unused before it is checked that the server has not closed it.
const IDLE: Duration = Duration::from_millis(5);

/// One node: a server, or a master wherever its sentinels say that it is.
#[derive(Debug)]
pub(super) struct Node {
    target: NodeTarget,
    options: LinkOptions,
    states: PerRuntime<ConnectionState>,
}

/// How far a runtime is with its connection.
#[derive(Debug, Default)]
enum ConnectionState {
    /// There is no connection, and no attempt to make one.
    #[default]
    Idle,
    /// An attempt is under way. The channel changes when it is over, and closes if its runtime ends first.
    Connecting(watch::Receiver<()>),
    /// There is a connection, and callers share it.
    Connected(LiveConnection),
    /// The last attempt failed, with this error; the next one may begin after the pause.
    Pausing { until: Instant, attempts: u32, error: RedisError },
}

/// What a caller does next.
enum NextStep {
    /// Uses the connection, or returns the error of the last attempt.
    Known(Result<LiveConnection, RedisError>),
    /// Starts the attempt if it is a new one, waits for its end, and looks again.
    Wait(watch::Receiver<()>, Option<ConnectAttempt>),
}

/// A connection. Clones share it.
#[derive(Clone, Debug)]
struct LiveConnection {
    /// The runtime that drives it.
    runtime: Id,
    connection: MultiplexedConnection,
    silence: Arc<ConnectionSilence>,
}

impl LiveConnection {
    /// Returns true if the server has closed it. Sends nothing.
    async fn is_closed(&self) -> bool {
        // Twice, so that the runtime looks at its sockets, and then runs the task that reads from this one, which ends
        // with the connection.
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        // If that task has ended, it takes no command. If not, it drops one that nobody waits for, unsent.
        let mut connection = self.connection.clone();
        let ping = redis::cmd("PING");
        connection.send_packed_command(&ping).now_or_never().is_some_and(|taken| taken.is_err())
    }
}

impl Node {
    /// Returns a node that has not connected yet.
    pub(super) fn new(target: NodeTarget, options: LinkOptions) -> Arc<Self> {
        Arc::new(Node { target, options, states: PerRuntime::new() })
    }

    /// Sends a command, once. One round trip, after connecting if need be.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the command was executed.
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

    /// Like [`send`](Node::send), but several commands at once in one round trip; each has its own reply.
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

    /// Returns a reply as it is, and discards a connection that is of no more use.
    fn examine(&self, live: &LiveConnection, reply: redis::RedisResult<Value>) -> Result<Value, RedisError> {
        reply.map_err(|error| {
            let error = RedisError::from(error);
            match error.kind() {
                // The sentinels know another master, and a name may stand for another server by now. Not more often than
                // attempts to connect may fail.
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

    /// Discards a connection, if it is still the one in use.
    fn give_up(&self, live: &LiveConnection) {
        self.states.change(live.runtime, |state| {
            if matches!(state, ConnectionState::Connected(now) if Arc::ptr_eq(&now.silence, &live.silence)) {
                *state = ConnectionState::Idle;
            }
        });
    }

    /// Returns the connection of this runtime, after making one if need be.
    async fn connection(self: &Arc<Self>) -> Result<LiveConnection, RedisError> {
        loop {
            let next = self.states.with(|runtime, state| match state {
                ConnectionState::Connected(live) => NextStep::Known(Ok(live.clone())),
                ConnectionState::Pausing { until, error, .. } if Instant::now() < *until => {
                    NextStep::Known(Err(error.clone()))
                }
                ConnectionState::Connecting(over) => NextStep::Wait(over.clone(), None),
                ConnectionState::Idle => self.start(runtime, state, 0),
                ConnectionState::Pausing { attempts, .. } => {
                    let attempts = *attempts;
                    self.start(runtime, state, attempts)
                }
            });
            match next {
                NextStep::Known(Ok(live)) => {
                    if live.silence.is_to_be_checked(self.options.command_timeout) {
                        tokio::spawn(Arc::clone(self).check(live.clone()));
                    }
                    if live.silence.is_idle(IDLE) && live.is_closed().await {
                        self.give_up(&live);
                        continue;
                    }
                    return Ok(live);
                }
                NextStep::Known(Err(error)) => return Err(error),
                NextStep::Wait(mut over, attempt) => {
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

    /// Sends `PING` on a connection that has been silent for long, and discards it if nothing comes back: the server may be
    /// gone without closing it, and no caller may wait long enough to notice.
    async fn check(self: Arc<Self>, mut live: LiveConnection) {
        let ping = redis::cmd("PING");
        let asked = live.connection.send_packed_command(&ping);
        match tokio::time::timeout(self.options.connect_timeout, asked).await {
            Ok(Ok(_)) => live.silence.checked(),
            _ => self.give_up(&live),
        }
    }

    /// Prepares the next attempt to connect.
    fn start(self: &Arc<Self>, runtime: Id, state: &mut ConnectionState, attempts: u32) -> NextStep {
        let (ends, over) = watch::channel(());
        *state = ConnectionState::Connecting(over.clone());
        let attempt = ConnectAttempt { node: Arc::clone(self), runtime, outcome: None, attempts, ends };
        NextStep::Wait(over, Some(attempt))
    }

    fn sentinels(&self) -> Option<&Arc<Sentinels>> {
        self.target.sentinels()
    }
}

impl FollowsMaster for Node {
    fn leave(&self, runtime: Id) {
        let mut left = ConnectionState::Idle;
        self.states.change(runtime, |state| {
            if matches!(state, ConnectionState::Connected(_)) {
                left = std::mem::take(state);
            }
        });
        // Dropping a connection may wake its callers: not under the lock.
        drop(left);
    }
}

/// An attempt to connect. Its end is noticed however it ends: also when its runtime is shut down meanwhile.
struct ConnectAttempt {
    node: Arc<Node>,
    runtime: Id,
    outcome: Option<Result<MultiplexedConnection, RedisError>>,
    /// How many have failed before it.
    attempts: u32,
    ends: watch::Sender<()>,
}

impl ConnectAttempt {
    async fn run(mut self) {
        self.outcome = Some(self.node.target.connect(&self.node.options).await);
        if let (Some(Ok(_)), Some(sentinels)) = (&self.outcome, self.node.sentinels()) {
            let node: Weak<dyn FollowsMaster> = Arc::downgrade(&self.node) as _;
            sentinel::watch(sentinels, &node, self.node.options);
        }
    }
}

impl Drop for ConnectAttempt {
    fn drop(&mut self) {
        let has_ended = self.outcome.is_some();
        let state = match self.outcome.take() {
            Some(Ok(connection)) => ConnectionState::Connected(LiveConnection {
                runtime: self.runtime,
                connection,
                silence: Arc::new(ConnectionSilence::new()),
            }),
            Some(Err(error)) => {
                let pause = FIRST_PAUSE.saturating_mul(1 << self.attempts.min(10)).min(LONGEST_PAUSE);
                if self.attempts == 0 {
                    tracing::warn!(%error, "cannot connect: trying again");
                }
                ConnectionState::Pausing { until: Instant::now() + pause, attempts: self.attempts + 1, error }
            }
            None => ConnectionState::Idle,
        };
        if self.attempts > 0 && matches!(state, ConnectionState::Connected(_)) {
            tracing::info!(node = %self.node.target, attempts = self.attempts + 1, "connected again");
        }
        self.node.states.change(self.runtime, |now| *now = state);
        // A report of another master may have come since this one was asked for, when there was no connection to leave.
        if self.node.sentinels().is_some_and(|sentinels| !sentinels.is_at_master(self.runtime)) {
            self.node.leave(self.runtime);
        }
        if has_ended {
            self.ends.send_replace(());
        }
    }
}
