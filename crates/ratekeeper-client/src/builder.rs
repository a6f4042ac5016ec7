//! How a client is set up.

use std::time::Duration;

use tokio::net::{ToSocketAddrs, lookup_host};

use crate::client::Client;
use crate::error::ClientError;
use crate::pool::{ConnectionPool, PoolSettings};

/// Settings of a [`Client`]; each has a default.
#[derive(Clone, Debug)]
#[must_use = "a builder is not a client yet: call `connect`"]
pub struct ClientBuilder(PoolSettings);

impl Client {
    /// Connects with default settings. See [`ClientBuilder::connect`].
    pub async fn connect(server: impl ToSocketAddrs) -> Result<Self, ClientError> {
        Self::builder().connect(server).await
    }

    /// Returns a builder, to connect with other settings.
    pub fn builder() -> ClientBuilder {
        let timeout = Duration::from_secs(1);
        ClientBuilder(PoolSettings { connections: 2, timeout, token: None, addresses: Vec::new() })
    }
}

impl ClientBuilder {
    /// Sets how many connections all callers of one runtime share: 2 by default, at least 1.
    pub fn connections(mut self, count: usize) -> Self {
        self.0.connections = count.max(1);
        self
    }

    /// Sets how long a caller waits, for a connection and for the answer together: one second by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = timeout;
        self
    }

    /// Sets the token that the server was given as `--auth-token`; to refund, debit or reset, that of `--admin-token`, which is
    /// also good for asking.
    pub fn auth_token(mut self, token: impl Into<String>) -> Self {
        self.0.token = Some(token.into());
        self
    }

    /// Looks the server's name up, once, and makes the first connection.
    ///
    /// # Errors
    ///
    /// [`ClientError::Connect`] if the name is not found or nobody listens there, [`ClientError::Refused`] if the server
    /// wants another token.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn connect(mut self, server: impl ToSocketAddrs) -> Result<Client, ClientError> {
        self.0.addresses = lookup_host(server).await.map_err(ClientError::Connect)?.collect();
        Ok(Client::over(ConnectionPool::connect(self.0).await?))
    }
}
