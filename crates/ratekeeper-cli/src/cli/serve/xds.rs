//! Rules that a control plane pushes: `[rls.xds]`, and a client that follows it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use ratekeeper_server::config::XdsSection;
use ratekeeper_server::rls::{RateLimitService, XdsSettings, XdsTls};
use ratekeeper_server::{ProcessSignals, XdsClient};
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
    if section.tls.unwrap_or(false) {
        settings.tls =
            Some(XdsTls { ca: section.ca.clone(), identity: None, name: section.server_name.clone() });
    } else if section.ca.is_some() || section.server_name.is_some() {
        return Err(wrong("rls.xds.tls", "not set; `ca` and `server_name` are for tls = true"));
    }
    Ok(settings)
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
    if !settings.starts_without && signals.unless_told_to_stop(first_push(&client)).is_none() {
        tracing::info!("stop: told to stop before the control plane has pushed rules");
        return Ok(Followed::Stopped);
    }
    Ok(Followed::Yes { _client: client })
}

/// Waits for the first push, and says what it waits for.
async fn first_push(client: &XdsClient) {
    while timeout(REMINDER, client.first_push()).await.is_err() {
        tracing::warn!(
            server = client.server(),
            "xds: not listening before the control plane has pushed rules"
        );
    }
}
