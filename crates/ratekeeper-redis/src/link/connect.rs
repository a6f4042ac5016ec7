//! One attempt to connect.

use std::net::SocketAddr;

use redis::aio::MultiplexedConnection;
use redis::io::AsyncDNSResolver;
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, RedisFuture, RedisResult, Value};

use super::options::LinkOptions;
use crate::error::{RedisError, RedisErrorKind};

/// Connects, and makes sure that what answers is a Redis.
pub(super) async fn open(
    info: ConnectionInfo,
    options: &LinkOptions,
) -> Result<MultiplexedConnection, RedisError> {
    open_at(info, None, options).await
}

/// Like [`open`], but at this one of the addresses that the host's name stands for.
pub(super) async fn open_at(
    info: ConnectionInfo,
    address: Option<SocketAddr>,
    options: &LinkOptions,
) -> Result<MultiplexedConnection, RedisError> {
    let place = address.map_or_else(|| info.addr().to_string(), |address| address.to_string());
    let within = options.connect_timeout;
    let attempt = async {
        // The time limits are ours: one timer for a command, however many parts it has.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let config = match address {
            Some(address) => config.set_dns_resolver(PinnedResolver(address)),
            None => config,
        };
        let client = Client::open(info)?;
        let mut connection = reach(&client, config).await?;
        let reply = connection.send_packed_command(&redis::cmd("PING")).await?.extract_error()?;
        match reply {
            Value::SimpleString(pong) if pong == "PONG" => Ok(connection),
            _ => Err(RedisError::not_redis()),
        }
    };
    let outcome = tokio::time::timeout(within, attempt).await.unwrap_or_else(|_| {
        let message =
            format!("no Redis answered within {within:?}; is the server frozen, or the address wrong?");
        Err(RedisError::new(RedisErrorKind::Unreachable, message))
    });
    outcome.map_err(|error| error.at(&place))
}

/// Connects, in a test perhaps to a server that is simulated.
async fn reach(client: &Client, config: AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
    #[cfg(test)]
    if let Some(stream) = super::simulated::dial(client.get_connection_info()).await {
        let settings = client.get_connection_info().redis_settings();
        let (connection, driver) = MultiplexedConnection::new_with_config(settings, stream?, config).await?;
        tokio::spawn(driver);
        return Ok(connection);
    }
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// A resolver that knows one address, whatever the name.
struct PinnedResolver(SocketAddr);

impl AsyncDNSResolver for PinnedResolver {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        _host: &'b str,
        _port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        Box::pin(async { Ok(Box::new(std::iter::once(self.0)) as Box<dyn Iterator<Item = _> + Send>) })
    }
}
