//! The servers behind a link that hold keys, each by itself: for what concerns all keys, not one.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use super::deadline::Deadline;
use super::server::Server;
use super::{Link, Route};
use crate::error::RedisError;

/// How long one command may take that looks at many keys; at least as long as any other.
const PATIENCE: Duration = Duration::from_secs(1);

/// One server that holds keys.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    server: Arc<Server>,
    patience: Duration,
}

impl Holder {
    /// Sends a command to this server, and nowhere else. Its breaker is not asked: what looks at many keys says little
    /// about those that look at one.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        let deadline = Deadline::after(self.patience)?;
        deadline.bound(self.server.lane().send(command)).await.map_err(|error| error.at(self.server.name()))
    }
}

impl Link {
    /// Every server that holds keys: the one there is, or all masters of the cluster as its map is now.
    pub(crate) async fn holders(&self) -> Result<Vec<Holder>, RedisError> {
        let servers = match &self.route {
            Route::Server(server) => vec![Arc::clone(server)],
            Route::Cluster(cluster) => {
                self.check().await?;
                cluster.masters()?
            }
        };
        let patience = PATIENCE.max(self.options.command_timeout);
        Ok(servers.into_iter().map(|server| Holder { server, patience }).collect())
    }
}
