//! Where the transports listen, and what they are encrypted with.

use std::num::{NonZeroU32, NonZeroUsize};

use anyhow::{Result, bail};
use ratekeeper_server::config::TransportSection;
use ratekeeper_server::{Bind, BindError, Endpoint, TlsFiles};

use super::layers::{Effort, Layers};

/// Loopback, unless somebody decides otherwise.
const DEFAULT_HOST: &str = "127.0.0.1";
pub(super) const RESP_PORT: u16 = 6380;
pub(super) const HTTP_PORT: u16 = 8080;
pub(super) const GRPC_PORT: u16 = 8070;
pub(super) const MSGPACK_PORT: u16 = 9090;

/// Returns where one transport listens, or `None` if it is off.
pub(super) fn endpoint(
    layers: Layers<'_>,
    name: &str,
    flag: Option<Bind>,
    section: &TransportSection,
    default_port: u16,
) -> Result<Option<Endpoint>> {
    let bind = match flag {
        Some(bind) => bind,
        None if section.enabled == Some(false) => Bind::Off,
        None => {
            let host = section.host.as_deref().unwrap_or(DEFAULT_HOST);
            let host = if layers.effort == Effort::Check && is_host_name(host) { DEFAULT_HOST } else { host };
            let port = section.port.unwrap_or(default_port);
            // An IPv6 address stands in brackets before its port.
            let text = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
            text.parse().map_err(|error: BindError| {
                let (flag, setting) = (format!("--{name}"), format!("transports.{name}.host"));
                layers.mistake(false, &flag, &setting, format_args!("{host}: {error}"))
            })?
        }
    };
    let Bind::At(address) = bind else { return Ok(None) };
    let flags = layers.flags;
    let max_connections = flags.max_connections.or(section.max_connections);
    let request_timeout = flags.request_timeout.or(section.request_timeout);
    Ok(Some(Endpoint {
        address,
        max_connections: max_connections.map_or(Endpoint::DEFAULT_MAX_CONNECTIONS, NonZeroUsize::get),
        idle_timeout: flags.idle_timeout.or(section.idle_timeout).unwrap_or(0),
        request_timeout: request_timeout.map_or(Endpoint::DEFAULT_REQUEST_TIMEOUT, NonZeroU32::get),
    }))
}

/// True of what a name server may know.
fn is_host_name(host: &str) -> bool {
    host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        && host.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Returns certificate and key, or `None` to speak in the clear; one without the other is an error.
pub(super) fn tls(Layers { flags, file, .. }: Layers<'_>) -> Result<Option<TlsFiles>> {
    let cert = flags.tls_cert.as_ref().or(file.server.tls_cert.as_ref());
    let key = flags.tls_key.as_ref().or(file.server.tls_key.as_ref());
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert: cert.clone(), key: key.clone() })),
        (None, None) => Ok(None),
        (Some(_), None) => bail!("--tls-cert without --tls-key; give both, or none"),
        (None, Some(_)) => bail!("--tls-key without --tls-cert; give both, or none"),
    }
}
