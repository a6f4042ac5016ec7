//! The servers behind a link, each by itself: for what concerns all keys, not one.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use super::deadline::Deadline;
use super::server::Server;
use super::{Link, Route};
use crate::error::RedisError;

/// How long one command may take that looks at many keys; at least as long as any other.
const PATIENCE: Duration = Duration::from_secs(1);

/// One server that has keys.
#[derive(Clone, Debug)]
pub(crate) struct OneServer {
    server: Arc<Server>,
    patience: Duration,
}

impl OneServer {
    /// Sends a command to this server, and nowhere else.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.server.send(command, Deadline::after(self.patience)?).await
    }
}

impl Link {
    /// Every server that has keys: the one there is, or all masters of the cluster as its map is now.
    pub(crate) async fn servers(&self) -> Result<Vec<OneServer>, RedisError> {
        let servers = match &self.route {
            Route::Server(server) => vec![Arc::clone(server)],
            Route::Cluster(cluster) => {
                self.check().await?;
                cluster.masters()
            }
        };
        let patience = PATIENCE.max(self.options.command_timeout);
        Ok(servers.into_iter().map(|server| OneServer { server, patience }).collect())
    }
}
