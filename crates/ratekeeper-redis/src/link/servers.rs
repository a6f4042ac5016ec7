//! The servers behind a link, each by itself: for what concerns all keys, not one.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use super::node::Node;
use super::{Link, Route, within};
use crate::error::RedisError;

/// How long one command may take that looks at many keys; at least as long as any other.
const PATIENCE: Duration = Duration::from_secs(1);

/// One server that has keys.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    node: Arc<Node>,
    patience: Duration,
}

impl Server {
    /// Sends a command to this server, and nowhere else.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        within(self.patience, self.node.send(command)).await
    }
}

impl Link {
    /// Every server that has keys: the one there is, or all masters of the cluster as its map is now.
    pub(crate) async fn servers(&self) -> Result<Vec<Server>, RedisError> {
        let nodes = match self.route() {
            Route::Node(node) => vec![Arc::clone(node)],
            Route::Cluster(cluster) => {
                self.check().await?;
                cluster.masters()
            }
        };
        let patience = PATIENCE.max(self.options.command_timeout);
        Ok(nodes.into_iter().map(|node| Server { node, patience }).collect())
    }
}
