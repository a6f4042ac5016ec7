//! Where rules are fetched over xDS: `CONFIG_GRPC_XDS_*` and `XDS_CLIENT_*`.

use http::{HeaderName, HeaderValue};
use ratekeeper_server::TlsFiles;
use ratekeeper_server::rls::{XdsSettings, XdsTls};

use super::variables::{VariableError, Variables};

const SERVER: &str = "CONFIG_GRPC_XDS_SERVER_URL";
const HEADERS: &str = "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS";
const CERT: &str = "CONFIG_GRPC_XDS_CLIENT_TLS_CERT";
const KEY: &str = "CONFIG_GRPC_XDS_CLIENT_TLS_KEY";
const LEAST: &str = "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL";
const MOST: &str = "XDS_CLIENT_BACKOFF_MAX_INTERVAL";

/// Returns how rules are fetched.
pub(super) fn xds(variables: &Variables) -> Result<XdsSettings, VariableError> {
    let given = variables.text(SERVER).unwrap_or("localhost:18000");
    // As gRPC spells the usual way to find a host.
    let server = given.strip_prefix("dns:///").unwrap_or(given);
    if !is_host_and_port(server) {
        return Err(VariableError::quoting(SERVER, given, "write a host and a port: `localhost:18000`"));
    }
    let mut settings = XdsSettings::of_server(server);
    settings.starts_without = variables.bool("FORCE_START_WITHOUT_INITIAL_CONFIG")?;
    if let Some(node) = variables.text("CONFIG_GRPC_XDS_NODE_ID") {
        settings.node = node.to_owned();
    }
    settings.node_metadata = metadata(variables.text("CONFIG_GRPC_XDS_NODE_METADATA").unwrap_or_default());
    settings.headers = headers(variables)?;
    settings.tls = tls(variables)?;
    settings.retry_least = variables.duration(LEAST)?.unwrap_or(settings.retry_least);
    settings.retry_most = variables.duration(MOST)?.unwrap_or(settings.retry_most.max(settings.retry_least));
    if settings.retry_least.is_zero() {
        return Err(VariableError::new(
            LEAST,
            "0; a control plane that is away would be asked without a pause",
        ));
    }
    if settings.retry_most < settings.retry_least {
        let (least, most) = (settings.retry_least, settings.retry_most);
        return Err(VariableError::new(
            MOST,
            format!("{most:?}; must be at least {LEAST}, which is {least:?}"),
        ));
    }
    let max = variables.number("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "write a number of bytes")?;
    settings.max_message = max.filter(|max| *max > 0).unwrap_or(settings.max_message);
    Ok(settings)
}

/// Returns true for `host:port`, and `[::1]:port`.
pub(in crate::cli) fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_bare = host.starts_with('[') && host.ends_with(']') || !host.contains([':', '/', ' ']);
    !host.is_empty() && is_bare && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// `k=v,k=v`; what is no such pair is passed over, as there.
fn metadata(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// `k:v,k:v`, as Go writes maps in variables.
fn headers(variables: &Variables) -> Result<Vec<(String, String)>, VariableError> {
    let Some(text) = variables.text(HEADERS) else { return Ok(Vec::new()) };
    let header = |pair: &str| {
        let (name, value) = pair.split_once(':')?;
        let is_good = HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok();
        is_good.then(|| (name.to_owned(), value.to_owned()))
    };
    text.split(',').map(header).collect::<Option<_>>().ok_or_else(|| {
        // Its value may be a token.
        VariableError::new(HEADERS, "not a list of header fields; write `name:value,name:value`")
    })
}

fn tls(variables: &Variables) -> Result<Option<XdsTls>, VariableError> {
    if !variables.bool("CONFIG_GRPC_XDS_SERVER_USE_TLS")? {
        return Ok(None);
    }
    let identity = match (variables.text(CERT), variables.text(KEY)) {
        (Some(cert), Some(key)) => Some(TlsFiles { cert: cert.into(), key: key.into() }),
        (None, None) => None,
        (Some(_), None) => return Err(VariableError::new(KEY, format!("missing; {CERT} has a key"))),
        (None, Some(_)) => return Err(VariableError::new(CERT, format!("missing; {KEY} is the key of one"))),
    };
    Ok(Some(XdsTls {
        ca: variables.text("CONFIG_GRPC_XDS_SERVER_TLS_CACERT").map(Into::into),
        identity,
        name: variables.text("CONFIG_GRPC_XDS_SERVER_TLS_SAN").map(str::to_owned),
    }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read<const N: usize>(pairs: [(&str, &str); N]) -> Result<XdsSettings, String> {
        xds(&pairs.into()).map_err(|error| error.to_string())
    }

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn without_variables_it_asks_where_the_go_service_does() {
        assert_eq!(read([]).unwrap(), XdsSettings::of_server("localhost:18000"));
    }

    #[test]
    fn every_variable_is_heard() {
        let settings = read([
            (SERVER, "dns:///plane.example:18001"),
            ("CONFIG_GRPC_XDS_NODE_ID", "edge"),
            ("CONFIG_GRPC_XDS_NODE_METADATA", "zone=a,nothing,b=c=d"),
            (HEADERS, "authorization:Bearer a:b,x-y:z"),
            ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
            (CERT, "c.pem"),
            (KEY, "k.pem"),
            ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "ca.pem"),
            ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "plane"),
            (LEAST, "1s"),
            (MOST, "1m30s"),
            ("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "1000"),
            ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
        ]);
        let expected = XdsSettings {
            node: "edge".to_owned(),
            node_metadata: owned(&[("zone", "a"), ("b", "c=d")]),
            headers: owned(&[("authorization", "Bearer a:b"), ("x-y", "z")]),
            tls: Some(XdsTls {
                ca: Some("ca.pem".into()),
                identity: Some(TlsFiles { cert: "c.pem".into(), key: "k.pem".into() }),
                name: Some("plane".to_owned()),
            }),
            retry_least: Duration::from_secs(1),
            retry_most: Duration::from_secs(90),
            max_message: 1000,
            starts_without: true,
            ..XdsSettings::of_server("plane.example:18001")
        };
        assert_eq!(settings.unwrap(), expected);
    }

    #[test]
    fn mistakes_name_the_variable_and_what_is_right() {
        for (pairs, expected) in [
            ([(SERVER, "plane"), ("", "")], "CONFIG_GRPC_XDS_SERVER_URL: \"plane\"; write a host and a port"),
            ([(SERVER, "http://a:1"), ("", "")], "CONFIG_GRPC_XDS_SERVER_URL: \"http://a:1\"; write a host"),
            ([(SERVER, "a:0"), ("", "")], "CONFIG_GRPC_XDS_SERVER_URL: \"a:0\"; write a host and a port"),
            (
                [(HEADERS, "s3cret"), ("", "")],
                "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: not a list of header",
            ),
            (
                [(HEADERS, "a b:c"), ("", "")],
                "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: not a list of header",
            ),
            (
                [("CONFIG_GRPC_XDS_SERVER_USE_TLS", "1"), (CERT, "c")],
                "CONFIG_GRPC_XDS_CLIENT_TLS_KEY: missing; CONFIG_GRPC_XDS_CLIENT_TLS_CERT has a key",
            ),
            ([(LEAST, "0"), ("", "")], "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: 0; a control plane"),
            ([(LEAST, "10s"), (MOST, "5s")], "XDS_CLIENT_BACKOFF_MAX_INTERVAL: 5s; must be at least"),
        ] {
            let said = read(pairs).unwrap_err();
            assert!(said.starts_with(expected), "{said}");
        }
        assert!(["[::1]:18000", "127.0.0.1:1", "a.b:65535"].into_iter().all(is_host_and_port));
        assert!(!["::1:18000", ":18000", "a:70000", "a b:1", ""].into_iter().any(is_host_and_port));
    }
}
