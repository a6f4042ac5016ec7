//! How commands get to a server.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, IntoConnectionInfo};

use crate::call::Call;
use crate::error::{RedisError, RedisErrorKind};
use crate::script::Script;

/// Where a server is.
#[derive(Clone, Debug)]
pub(crate) struct Address(redis::ConnectionInfo);

impl Address {
    /// Reads a URL.
    pub(crate) fn parse(url: &str) -> Result<Self, RedisError> {
        let info = url.into_connection_info();
        let info = info.map_err(|error| RedisError::new(RedisErrorKind::Address, error.to_string()))?;
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        Ok(Address(info.set_tcp_settings(tcp)))
    }
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// For a connection.
    pub(crate) connect_timeout: Duration,
    /// For the answer to a command.
    pub(crate) command_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options { connect_timeout: Duration::from_secs(1), command_timeout: Duration::from_millis(100) }
    }
}

/// The way to a server. Concurrent callers share one connection, and their commands travel together.
#[derive(Clone)]
pub(crate) struct Link {
    connection: MultiplexedConnection,
}

impl Link {
    /// Connects.
    pub(crate) async fn connect(address: &Address, options: &Options) -> Result<Link, RedisError> {
        let client = redis::Client::open(address.0.clone())?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(options.connect_timeout))
            .set_response_timeout(Some(options.command_timeout));
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Link { connection })
    }

    /// Runs a script on the node that has its keys: by name, and by text only if the node does not know the name.
    pub(crate) async fn run(&self, script: &Script, call: &Call) -> Result<redis::Value, RedisError> {
        let known = self.command(call.command("EVALSHA", script.sha1())).await;
        match known {
            Err(error) if error.is_no_script() => self.command(call.command("EVAL", script.source())).await,
            known => known,
        }
    }

    /// Sends a command to the node that has its key.
    pub(crate) async fn command(&self, command: redis::Cmd) -> Result<redis::Value, RedisError> {
        let mut connection = self.connection.clone();
        let value = connection.send_packed_command(&command).await?;
        // An error reply is a value to this client.
        Ok(value.extract_error()?)
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}
