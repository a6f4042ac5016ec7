//! How the service of Envoy is set.

use std::path::PathBuf;

use ratekeeper::FailureMode;
use ratekeeper::port::ChargeAction;

use super::xds::XdsSettings;

/// The settings of the service.
#[derive(Clone, Debug, PartialEq)]
pub struct RlsSettings {
    /// Files and folders of the configuration.
    pub paths: Vec<PathBuf>,
    /// A control plane that pushes the configuration, instead of files.
    pub xds: Option<XdsSettings>,
    /// What its files are called in messages.
    pub names: RlsFileNames,
    /// Whether several files may say something of one domain.
    pub merges_domains: bool,
    /// What is done with hits that are over a fixed window whose rule says nothing.
    pub over: ChargeAction,
    /// What is answered when the store fails, for rules that say nothing.
    pub on_store_error: FailureMode,
    /// Whether every answer is OK.
    pub is_shadow: bool,
    /// Whether every descriptor counts as one of a quota rule.
    pub is_quota: bool,
    /// Which header fields are added.
    pub headers: RlsHeaders,
    /// Whether a refusal has a body of problem+json.
    pub has_problem_body: bool,
    /// Whether filters are told of the request and its rules.
    pub tells_metadata: bool,
    /// The part of a limit from which on a hit counts as near to it.
    pub near_limit_ratio: f32,
    /// How counters lie in Redis.
    pub redis_layout: RedisLayout,
    /// What counters in the layout of envoyproxy begin with.
    pub cache_key_prefix: String,
    /// Whether health needs a configuration with a domain.
    pub needs_a_domain: bool,
    /// Whether health is lost with the store, and not only missing until it was reached once.
    pub needs_the_store: bool,
}

/// What the files of a configuration are called in messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RlsFileNames {
    /// As they were found: `limits/edge.yaml`.
    #[default]
    Paths,
    /// Relative to this folder, with dots in place of slashes, as the Go service does it: `config.edge.yaml`.
    Dotted(PathBuf),
}

/// Which header fields are added to answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RlsHeaders {
    /// None.
    #[default]
    Off,
    /// A number each, under these names.
    Plain {
        /// The limit.
        limit: String,
        /// How much is left.
        remaining: String,
        /// Seconds until it is whole again.
        reset: String,
    },
    /// `RateLimit`, `RateLimit-Policy`, and `Retry-After` on a refusal.
    Ietf,
}

impl RlsHeaders {
    /// The name of the field with the limit, unless one is chosen.
    pub const LIMIT: &str = "RateLimit-Limit";
    /// The name of the field with what is left, unless one is chosen.
    pub const REMAINING: &str = "RateLimit-Remaining";
    /// The name of the field with the seconds until it is whole again, unless one is chosen.
    pub const RESET: &str = "RateLimit-Reset";
}

/// How counters lie in Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedisLayout {
    /// As all other states do.
    #[default]
    Own,
    /// As those of the Go service, in a fleet that has both.
    Envoyproxy,
}

impl Default for RlsSettings {
    fn default() -> Self {
        RlsSettings {
            paths: Vec::new(),
            xds: None,
            names: RlsFileNames::Paths,
            merges_domains: false,
            over: ChargeAction::Count,
            on_store_error: FailureMode::Error,
            is_shadow: false,
            is_quota: false,
            headers: RlsHeaders::Off,
            has_problem_body: false,
            tells_metadata: false,
            near_limit_ratio: 0.8,
            redis_layout: RedisLayout::Own,
            cache_key_prefix: String::new(),
            needs_a_domain: false,
            needs_the_store: false,
        }
    }
}
