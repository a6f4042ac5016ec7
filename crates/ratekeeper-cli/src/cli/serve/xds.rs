//! Rules that a control plane pushes: `[rls.xds]`, and a client that follows it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use http::{HeaderName, HeaderValue};
use ratekeeper_server::config::{DurationText, XdsSection};
use ratekeeper_server::rls::{RateLimitService, XdsSettings, XdsTls};
use ratekeeper_server::{ProcessSignals, TlsFiles, XdsClient};
use tokio::time::timeout;

use super::super::ratelimit::is_host_and_port;
use super::layers::Layers;

/// How often it is said that nothing was pushed yet.
const REMINDER: Duration = Duration::from_secs(10);

/// Returns how rules are fetched.
pub(super) fn xds(layers: Layers<'_>, section: &XdsSection) -> Result<XdsSettings> {
    let wrong = |setting: &str, message: &str| layers.mistake(false, "--rls", setting, message);
    let server = match section.server.as_deref() {
        Some(server) if is_host_and_port(server) => server,
        Some(other) => {
            let message = format!("{other:?}; write a host and a port: \"localhost:18000\"");
            return Err(wrong("rls.xds.server", &message));
        }
        None => {
            return Err(wrong("rls.xds.server", "missing; write the host and the port of the control plane"));
        }
    };
    let mut settings = XdsSettings::of_server(server);
    if let Some(node) = &section.node {
        settings.node.clone_from(node);
    }
    settings.node_metadata = section.metadata.clone().into_iter().collect();
    settings.starts_without = section.start_without.unwrap_or(false);
    settings.tls = tls(layers, section)?;
    for (name, value) in &section.headers {
        // Its value may be a token.
        if HeaderName::try_from(name).is_err() || HeaderValue::try_from(&**value).is_err() {
            let message = format!("{name:?} and its value are no header field; write `name = \"value\"`");
            return Err(wrong("rls.xds.headers", &message));
        }
        settings.headers.push((name.clone(), value.to_string()));
    }
    if let Some(DurationText(least)) = section.retry_least {
        if least.is_zero() {
            let message = "0; a control plane that is away would be asked without a pause";
            return Err(wrong("rls.xds.retry_least", message));
        }
        settings.retry_least = least;
        settings.retry_most = settings.retry_most.max(least);
    }
    if let Some(DurationText(most)) = section.retry_most {
        if most < settings.retry_least {
            let message = format!("{most:?}; must be at least retry_least, {:?}", settings.retry_least);
            return Err(wrong("rls.xds.retry_most", &message));
        }
        settings.retry_most = most;
    }
    if let Some(max_message) = section.max_message {
        if max_message == 0 {
            return Err(wrong("rls.xds.max_message", "0; write the bytes of the largest push that is taken"));
        }
        settings.max_message = max_message;
    }
    Ok(settings)
}

/// Returns how the connection is encrypted; none if it is not.
fn tls(layers: Layers<'_>, section: &XdsSection) -> Result<Option<XdsTls>> {
    let wrong = |setting: &str, message: &str| layers.mistake(false, "--rls", setting, message);
    let XdsSection { ca, server_name, cert, key, .. } = section;
    if !section.tls.unwrap_or(false) {
        if ca.is_some() || server_name.is_some() || cert.is_some() || key.is_some() {
            let message = "not set; `ca`, `server_name`, `cert` and `key` are for tls = true";
            return Err(wrong("rls.xds.tls", message));
        }
        return Ok(None);
    }
    let identity = match (cert.clone(), key.clone()) {
        (Some(cert), Some(key)) => Some(TlsFiles { cert, key }),
        (None, None) => None,
        (Some(_), None) => return Err(wrong("rls.xds.key", "missing; `cert` has a key")),
        (None, Some(_)) => return Err(wrong("rls.xds.cert", "missing; `key` is the key of one")),
    };
    Ok(Some(XdsTls { ca: ca.clone(), identity, name: server_name.clone() }))
}

/// A control plane that is followed, if one is.
#[derive(Debug)]
pub(super) enum Followed {
    /// The rules come from elsewhere.
    No,
    /// For as long as this is kept.
    Yes { _client: XdsClient },
    /// The process was told to stop before anything was pushed.
    Stopped,
}

/// Starts to fetch the rules of a service that is set to that, and waits for the first of them unless it is set not to:
/// whoever can connect then finds limits.
pub(super) fn follow(service: &Arc<RateLimitService>, signals: &mut ProcessSignals) -> Result<Followed> {
    let Some(settings) = &service.settings().xds else { return Ok(Followed::No) };
    let client = XdsClient::start(settings, service)?;
    if !settings.starts_without {
        match signals.unless_told_to_stop(first_push(&client)) {
            Some(came) => came?,
            None => {
                tracing::info!("stop: told to stop before the control plane has pushed rules");
                return Ok(Followed::Stopped);
            }
        }
    }
    Ok(Followed::Yes { _client: client })
}

/// Waits for the first push, and says what it waits for.
async fn first_push(client: &XdsClient) -> Result<()> {
    loop {
        match timeout(REMINDER, client.first_push()).await {
            Ok(came) => return Ok(came?),
            Err(_) => tracing::warn!(
                server = client.server(),
                "xds: not listening before the control plane has pushed rules"
            ),
        }
    }
}
