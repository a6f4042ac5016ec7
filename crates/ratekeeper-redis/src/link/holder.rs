//! One server that holds keys, for commands that concern all of its keys and not one.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use super::deadline::Deadline;
use super::server::RedisServer;
use crate::error::RedisError;

/// The least time that a command gets which looks at many keys.
const PATIENCE: Duration = Duration::from_secs(1);

/// One server that holds keys.
#[derive(Clone, Debug)]
pub(crate) struct KeyHolder {
    server: Arc<RedisServer>,
    patience: Duration,
}

impl KeyHolder {
    /// Returns a holder whose commands may take a second, or `command_timeout` if that is longer.
    pub(super) fn new(server: Arc<RedisServer>, command_timeout: Duration) -> Self {
        KeyHolder { server, patience: PATIENCE.max(command_timeout) }
    }

    /// Sends a command to this server, and nowhere else. One round trip. Its breaker is passed by: a command
    /// that looks at many keys says little about those that look at one.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        let deadline = Deadline::after(self.patience)?;
        deadline.bound(self.server.lane().send(command)).await.map_err(|error| error.at(self.server.name()))
    }
}
