//! What was accepted, and what is said to a push.

use std::sync::Arc;

use prost_types::value::Kind;
use prost_types::{Struct, Value};

use super::resources::{TYPE_URL, read_resources, shortened};
use crate::rls::{DomainSpec, RateLimitConfig, RateLimitService};
use crate::settings::XdsSettings;
use crate::transport::grpc::generated::envoy_config_core_v3::Node;
use crate::transport::grpc::generated::envoy_service_discovery_v3::{DiscoveryRequest, DiscoveryResponse};
use crate::transport::grpc::generated::google_rpc::Status;

/// `INVALID_ARGUMENT`, the code of a push that is refused.
const INVALID_ARGUMENT: i32 = 3;
/// How many warnings about a push are logged.
const MOST_WARNINGS: usize = 20;
/// The most of a message that a control plane is told, and that is logged, in bytes.
const MOST_TOLD: usize = 4 * 1024;
/// The longest version that is taken, in bytes: it is repeated in every request.
const MAX_VERSION: usize = 4 * 1024;
/// The most of a version or a type that is logged, in bytes.
const MOST_LOGGED: usize = 128;

/// What outlives a stream: the version in force.
#[derive(Debug)]
pub(super) struct XdsSession {
    service: Arc<RateLimitService>,
    node: Node,
    /// The version that was accepted last; empty for none.
    version: String,
    /// What it says: a push of the same after a reconnect is no reload.
    accepted: Option<Vec<DomainSpec>>,
}

impl XdsSession {
    pub(super) fn new(settings: &XdsSettings, service: Arc<RateLimitService>) -> Self {
        let value = |text: &String| Value { kind: Some(Kind::StringValue(text.clone())) };
        let fields = settings.node_metadata.iter().map(|(key, text)| (key.clone(), value(text)));
        let node = Node {
            id: settings.node.clone(),
            metadata: Some(Struct { fields: fields.collect() }),
            user_agent_name: "ratekeeper".to_owned(),
            ..Node::default()
        };
        XdsSession { service, node, version: String::new(), accepted: None }
    }

    /// Returns what a new stream begins with. A nonce belongs to a stream, so there is none yet.
    pub(super) fn first_request(&self) -> DiscoveryRequest {
        self.request(String::new())
    }

    /// Takes a push: puts it in force, or keeps what there is. Returns what the control plane is told, which is nothing about
    /// resources of another type: nobody asked for them.
    pub(super) fn take(&mut self, response: DiscoveryResponse) -> Option<DiscoveryRequest> {
        if !response.type_url.is_empty() && response.type_url != TYPE_URL {
            let given = shortened(&response.type_url, MOST_LOGGED);
            tracing::warn!(type_url = ?given, "xds: passed over a push of a type that nobody asked for");
            return None;
        }
        Some(match self.load(&response) {
            Ok(()) => {
                self.version = response.version_info;
                self.request(response.nonce)
            }
            Err(mut message) => {
                self.service.load_failed();
                message.truncate(message.floor_char_boundary(MOST_TOLD));
                let version = shortened(&response.version_info, MOST_LOGGED);
                tracing::error!(version, error = message, "xds: a push was refused, the rules before stay");
                let status = Status { code: INVALID_ARGUMENT, message, details: Vec::new() };
                DiscoveryRequest { error_detail: Some(status), ..self.request(response.nonce) }
            }
        })
    }

    fn load(&mut self, response: &DiscoveryResponse) -> Result<(), String> {
        let len = response.version_info.len();
        if len > MAX_VERSION {
            return Err(format!("version_info has {len} bytes; at most {MAX_VERSION} are taken"));
        }
        let version = shortened(&response.version_info, MOST_LOGGED);
        let specs = read_resources(&response.resources)?;
        if self.accepted.as_ref() == Some(&specs) {
            tracing::debug!(version, "xds: a push of the rules that are in force");
            return Ok(());
        }
        let compiled = RateLimitConfig::compile(&specs, self.service.settings());
        let (config, warnings) = compiled.map_err(|refusal| refusal.to_string())?;
        for warning in warnings.iter().take(MOST_WARNINGS) {
            tracing::warn!("xds: {}", shortened(&warning.to_string(), MOST_TOLD));
        }
        if warnings.len() > MOST_WARNINGS {
            tracing::warn!(more = warnings.len() - MOST_WARNINGS, "xds: there are more such warnings");
        }
        self.service.load(config);
        tracing::info!(version, domains = specs.len(), "xds: rules loaded");
        self.accepted = Some(specs);
        Ok(())
    }

    fn request(&self, response_nonce: String) -> DiscoveryRequest {
        DiscoveryRequest {
            version_info: self.version.clone(),
            node: Some(self.node.clone()),
            type_url: TYPE_URL.to_owned(),
            response_nonce,
            ..DiscoveryRequest::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_types::Any;

    use super::*;
    use crate::rls::RlsSettings;
    use crate::transport::grpc::generated::ratelimit_config_ratelimit_v3 as proto;

    fn push(version: &str, nonce: &str, domains: &[&str]) -> DiscoveryResponse {
        let resource = |domain: &&str| {
            let config = proto::RateLimitConfig { domain: (*domain).to_owned(), ..Default::default() };
            Any { type_url: TYPE_URL.to_owned(), value: config.encode_to_vec() }
        };
        DiscoveryResponse {
            version_info: version.to_owned(),
            nonce: nonce.to_owned(),
            type_url: TYPE_URL.to_owned(),
            resources: domains.iter().map(resource).collect(),
            ..DiscoveryResponse::default()
        }
    }

    fn session() -> XdsSession {
        let mut settings = XdsSettings::of_server("plane:1");
        settings.node_metadata.push(("zone".to_owned(), "a".to_owned()));
        XdsSession::new(&settings, Arc::new(RateLimitService::new(RlsSettings::default())))
    }

    fn loads(session: &XdsSession) -> (u64, u64) {
        let counts = session.service.read_counts();
        (counts.config_load_success, counts.config_load_error)
    }

    #[test]
    fn a_good_push_is_in_force_before_it_is_accepted() {
        let mut session = session();
        let first = session.first_request();
        assert_eq!((&*first.version_info, &*first.response_nonce, &*first.type_url), ("", "", TYPE_URL));
        let node = first.node.unwrap();
        assert_eq!((&*node.id, node.metadata.unwrap().fields.len()), ("default", 1));
        let ack = session.take(push("1", "n1", &["a", "b"])).unwrap();
        assert_eq!((&*ack.version_info, &*ack.response_nonce, ack.error_detail), ("1", "n1", None));
        assert_eq!(session.service.config().unwrap().domains().len(), 2);
        assert_eq!(loads(&session), (1, 0));
    }

    #[test]
    fn a_bad_push_keeps_the_rules_and_the_version() {
        let mut session = session();
        session.take(push("1", "n1", &["a"])).unwrap();
        let nack = session.take(push("2", "n2", &["a", "a"])).unwrap();
        assert_eq!((&*nack.version_info, &*nack.response_nonce), ("1", "n2"));
        let status = nack.error_detail.unwrap();
        assert_eq!((status.code, &*status.message), (3, "xds: duplicate domain 'a' in config file"));
        assert_eq!(session.service.config().unwrap().domains().len(), 1);
        assert_eq!(loads(&session), (1, 1));
        let again = session.first_request();
        assert_eq!((&*again.version_info, &*again.response_nonce), ("1", ""), "on the next stream");
    }

    #[test]
    fn a_domain_that_is_pushed_no_longer_is_gone() {
        let mut session = session();
        session.take(push("1", "n1", &["a", "b"])).unwrap();
        session.take(push("2", "n2", &["b"])).unwrap();
        assert_eq!(session.service.config().unwrap().domains(), ["b"]);
        session.take(push("3", "n3", &[])).unwrap();
        assert!(session.service.config().unwrap().is_empty());
        assert_eq!(loads(&session), (3, 0));
    }

    #[test]
    fn the_same_again_is_accepted_and_not_loaded() {
        let mut session = session();
        session.take(push("1", "n1", &["a"])).unwrap();
        let ack = session.take(push("2", "n2", &["a"])).unwrap();
        assert_eq!((&*ack.version_info, &*ack.response_nonce, ack.error_detail), ("2", "n2", None));
        assert_eq!(loads(&session), (1, 0));
    }

    #[test]
    fn other_types_are_passed_over() {
        let mut session = session();
        let foreign =
            DiscoveryResponse { type_url: "type.googleapis.com/x".to_owned(), ..push("1", "n", &[]) };
        assert_eq!(session.take(foreign), None);
        assert!(session.service.config().is_none());
    }
}
