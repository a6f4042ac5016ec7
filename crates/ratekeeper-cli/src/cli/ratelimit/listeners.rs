//! Where it listens.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use ratekeeper_server::{ConnectionAge, GrpcTls, PrometheusEndpoint, TlsFiles, TransportEndpoint};

use super::variables::{VariableError, Variables};

const HTTP_PORT: u16 = 8080;
const GRPC_PORT: u16 = 8081;
const DEBUG_PORT: u16 = 6070;
const PROMETHEUS_PORT: u16 = 9090;
const A_PORT: &str = "write a port from 0 to 65535; 0 is any free one";
const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3_600);

/// Returns where HTTP is served.
pub(super) fn http(variables: &Variables) -> Result<TransportEndpoint, VariableError> {
    endpoint(variables, "HOST", "PORT", HTTP_PORT)
}

/// Returns where rules and counters are looked at.
pub(super) fn debug(variables: &Variables) -> Result<TransportEndpoint, VariableError> {
    endpoint(variables, "DEBUG_HOST", "DEBUG_PORT", DEBUG_PORT)
}

/// Returns where gRPC is served: at an address, or on a Unix socket instead.
pub(super) fn grpc(
    variables: &Variables,
) -> Result<(Option<TransportEndpoint>, Option<PathBuf>), VariableError> {
    match variables.text("GRPC_UDS") {
        Some(path) => Ok((None, Some(path.into()))),
        None => Ok((Some(endpoint(variables, "GRPC_HOST", "GRPC_PORT", GRPC_PORT)?), None)),
    }
}

/// Returns where Prometheus reads, if it is to.
pub(super) fn prometheus(variables: &Variables) -> Result<Option<PrometheusEndpoint>, VariableError> {
    if !variables.bool("USE_PROMETHEUS")? {
        return Ok(None);
    }
    let name = "PROMETHEUS_ADDR";
    let address = match variables.text(name) {
        None => SocketAddr::from((Ipv4Addr::UNSPECIFIED, PROMETHEUS_PORT)),
        Some(text) => {
            let wrong = || VariableError::quoting(name, text, "write an address such as `:9090`");
            let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            lookup(host, port.parse().map_err(|_| wrong())?).ok_or_else(wrong)?
        }
    };
    let path = variables.text("PROMETHEUS_PATH").unwrap_or("/metrics");
    if !path.starts_with('/') {
        return Err(VariableError::quoting("PROMETHEUS_PATH", path, "write a path such as `/metrics`"));
    }
    Ok(Some(PrometheusEndpoint { endpoint: TransportEndpoint::at(address), path: path.to_owned() }))
}

/// Returns how gRPC is encrypted, if it is.
pub(super) fn grpc_tls(variables: &Variables) -> Result<Option<GrpcTls>, VariableError> {
    if !variables.bool("GRPC_SERVER_USE_TLS")? {
        return Ok(None);
    }
    if variables.text("GRPC_UDS").is_some() {
        let message = "a Unix socket is not encrypted; leave out GRPC_UDS, or GRPC_SERVER_USE_TLS";
        return Err(VariableError::new("GRPC_UDS", message));
    }
    let file = |name| match variables.text(name) {
        Some(path) => Ok(PathBuf::from(path)),
        None => {
            let message = "missing; GRPC_SERVER_USE_TLS=true needs a certificate and its key, in PEM form";
            Err(VariableError::new(name, message))
        }
    };
    let files = TlsFiles { cert: file("GRPC_SERVER_TLS_CERT")?, key: file("GRPC_SERVER_TLS_KEY")? };
    let client_ca = variables.text("GRPC_CLIENT_TLS_CACERT").map(PathBuf::from);
    let client_name = variables.text("GRPC_CLIENT_TLS_SAN").map(str::to_owned);
    if let (None, Some(name)) = (&client_ca, &client_name) {
        let right =
            "nobody asks clients for a certificate; set GRPC_CLIENT_TLS_CACERT to those who vouch for them";
        return Err(VariableError::quoting("GRPC_CLIENT_TLS_SAN", name, right));
    }
    Ok(Some(GrpcTls { files, client_ca, client_name }))
}

/// Returns how old connections of gRPC become; as old as they like if that is 0.
pub(super) fn grpc_age(variables: &Variables) -> Result<Option<ConnectionAge>, VariableError> {
    let age = variables.duration("GRPC_MAX_CONNECTION_AGE")?.unwrap_or(DAY);
    let grace = variables.duration("GRPC_MAX_CONNECTION_AGE_GRACE")?.unwrap_or(HOUR);
    Ok((!age.is_zero()).then_some(ConnectionAge { age, grace }))
}

fn endpoint(
    variables: &Variables,
    host_name: &'static str,
    port_name: &'static str,
    usual: u16,
) -> Result<TransportEndpoint, VariableError> {
    let port = variables.number(port_name, A_PORT)?.unwrap_or(usual);
    let host = variables.text(host_name).unwrap_or_default();
    let address = lookup(host, port).ok_or_else(|| {
        let right = "write an address of this machine such as `0.0.0.0`, or its name";
        VariableError::quoting(host_name, host, right)
    })?;
    Ok(TransportEndpoint::at(address))
}

/// Returns the address of a host; no host is all addresses.
fn lookup(host: &str, port: u16) -> Option<SocketAddr> {
    if host.is_empty() {
        return Some((Ipv4Addr::UNSPECIFIED, port).into());
    }
    match host.parse::<IpAddr>() {
        Ok(address) => Some((address, port).into()),
        Err(_) => (host, port).to_socket_addrs().ok()?.next(),
    }
}
