//! Where a node is, and how to connect to it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use redis::ConnectionInfo;
use redis::aio::MultiplexedConnection;

use super::connect::{open, open_at};
use super::options::LinkOptions;
use super::sentinel::Sentinels;
use crate::error::RedisError;

/// Where a node is.
#[derive(Debug)]
pub(super) enum NodeTarget {
    /// At an address.
    Fixed(ConnectionInfo),
    /// At one of the addresses that a name stands for.
    Pinned(ConnectionInfo, SocketAddr),
    /// Wherever the sentinels say that the master is.
    Master(Arc<Sentinels>),
}

impl NodeTarget {
    /// Connects to the node, wherever it is now.
    pub(super) async fn connect(&self, options: &LinkOptions) -> Result<MultiplexedConnection, RedisError> {
        match self {
            NodeTarget::Fixed(info) => open(info.clone(), options).await,
            NodeTarget::Pinned(info, address) => open_at(info.clone(), Some(*address), options).await,
            NodeTarget::Master(sentinels) => sentinels.connect(options).await,
        }
    }

    /// Returns the sentinels that say where it is, if it is a master that they watch.
    pub(super) fn sentinels(&self) -> Option<&Arc<Sentinels>> {
        match self {
            NodeTarget::Fixed(_) | NodeTarget::Pinned(..) => None,
            NodeTarget::Master(sentinels) => Some(sentinels),
        }
    }
}

impl fmt::Display for NodeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeTarget::Fixed(info) => info.addr().fmt(f),
            NodeTarget::Pinned(_, address) => address.fmt(f),
            NodeTarget::Master(sentinels) => f.write_str(sentinels.master()),
        }
    }
}
