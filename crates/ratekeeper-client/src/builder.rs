//! How a client is set up.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{ToSocketAddrs, lookup_host};

use crate::client::Client;
use crate::error::Error;

/// Settings of a [`Client`]; each has a default.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) connections: usize,
    pub(crate) timeout: Duration,
    pub(crate) token: Option<String>,
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder { connections: 2, timeout: Duration::from_secs(1), token: None, addresses: Vec::new() }
    }
}

impl Builder {
    /// Connections that are shared by all callers of one runtime; at least one, and two by default.
    #[must_use]
    pub fn connections(mut self, count: usize) -> Self {
        self.connections = count.max(1);
        self
    }

    /// How long a caller waits, for a connection and for the answer together; one second by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// What the server was given as `--auth-token`.
    #[must_use]
    pub fn auth_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Looks the server up, once, and makes the first connection.
    pub async fn connect(mut self, server: impl ToSocketAddrs) -> Result<Client, Error> {
        self.addresses = lookup_host(server).await.map_err(Error::Connect)?.collect();
        let client = Client::new(self);
        client.warm_up().await?;
        Ok(client)
    }
}
