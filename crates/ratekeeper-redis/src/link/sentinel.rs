//! Where the master is, by those who watch it.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{ConnectionInfo, FromRedisValue, Value};

use super::Options;
use super::address::moved;
use super::node::open;
use crate::error::{RedisError, RedisErrorKind};

/// The sentinels of one master.
pub(super) struct Sentinels {
    addresses: Vec<ConnectionInfo>,
    master: String,
    /// Credentials and database of the master.
    template: ConnectionInfo,
    /// Whom to ask first: the one that last knew.
    first: AtomicUsize,
}

impl Sentinels {
    pub(super) fn new(addresses: Vec<ConnectionInfo>, master: String, template: ConnectionInfo) -> Self {
        Sentinels { addresses, master, template, first: AtomicUsize::new(0) }
    }

    /// The name of the master.
    pub(super) fn master(&self) -> &str {
        &self.master
    }

    /// Connects to the master. One that says that it is none was just demoted: the next sentinel may know better,
    /// or all of them a moment later.
    pub(super) async fn connect(&self, options: &Options) -> Result<MultiplexedConnection, RedisError> {
        let first = self.first.load(Ordering::Relaxed);
        let mut last_error = None;
        for offset in 0..self.addresses.len() {
            let index = (first + offset) % self.addresses.len();
            match self.ask(&self.addresses[index], options).await {
                Ok(connection) => {
                    self.first.store(index, Ordering::Relaxed);
                    return Ok(connection);
                }
                Err(error) => last_error = Some(error),
            }
        }
        Err(last_error.unwrap_or_else(|| self.unknown()))
    }

    async fn ask(
        &self,
        sentinel: &ConnectionInfo,
        options: &Options,
    ) -> Result<MultiplexedConnection, RedisError> {
        let mut asked = open(sentinel.clone(), options).await?;
        let mut question = redis::cmd("SENTINEL");
        question.arg("get-master-addr-by-name").arg(&self.master);
        let answer = exchange(&mut asked, &question, options).await?;
        let found = Option::<(String, u16)>::from_redis_value(answer);
        let (host, port) = found.map_err(|_| self.unknown())?.ok_or_else(|| self.unknown())?;
        let mut connection = open(moved(&self.template, &host, port)?, options).await?;
        let role = exchange(&mut connection, &redis::cmd("ROLE"), options).await?;
        match role {
            Value::Array(parts) if is_master(parts.first()) => Ok(connection),
            _ => {
                let message =
                    format!("{host}:{port} is no master any more; the sentinels will agree on another");
                Err(RedisError::new(RedisErrorKind::ReadOnly, message))
            }
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
