//! `[rls]`: the service that Envoy asks.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use http::HeaderName;
use ratekeeper::port::ChargeAction;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};

use super::duration::DurationText;
use super::on_store_error::OnStoreError;
use super::secret_text::SecretText;
use crate::settings::{RedisLayout, RlsHeaders};

/// `[rls]`: the service that Envoy asks, in place of envoyproxy/ratelimit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct RlsSection {
    /// Files and folders of the configuration, in YAML.
    pub paths: Option<Vec<PathBuf>>,
    /// A control plane that pushes the configuration, instead of files.
    pub xds: Option<XdsSection>,
    /// Whether several files may say something of one domain.
    pub merge_domains: Option<bool>,
    /// What is done with hits over a fixed window, for rules that say nothing.
    pub over: Option<OverWord>,
    /// How to answer when the store fails, for rules that say nothing.
    pub on_store_error: Option<OnStoreError>,
    /// Which header fields are added to answers.
    pub headers: Option<HeadersSetting>,
    /// Which body a refusal has.
    pub body: Option<BodyWord>,
    /// Whether every answer is OK.
    pub shadow_mode: Option<bool>,
    /// Whether every descriptor counts as one of a quota rule.
    pub quota_mode: Option<bool>,
    /// Whether filters are told of the request and its rules.
    pub response_dynamic_metadata: Option<bool>,
    /// The part of a limit from which on a hit counts as near to it.
    pub near_limit_ratio: Option<f32>,
    /// How counters lie in Redis.
    pub redis_layout: Option<LayoutWord>,
    /// What counters in the layout of envoyproxy begin with.
    pub cache_key_prefix: Option<String>,
    /// Whether health needs a configuration with a domain.
    pub healthy_with_at_least_one_config_loaded: Option<bool>,
    /// Whether health is lost while the store cannot be reached.
    pub health_check_store: Option<bool>,
    /// Where to listen for those who look at rules and counters, or `off`.
    pub debug: Option<String>,
}

/// `[rls.xds]`: a control plane that pushes the configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct XdsSection {
    /// Its host and port.
    pub server: Option<String>,
    /// The name by which it knows this node; `default` unless set.
    pub node: Option<String>,
    /// What else it is told about this node.
    pub metadata: BTreeMap<String, String>,
    /// Whether to listen before anything was pushed.
    pub start_without: Option<bool>,
    /// Whether the connection is encrypted.
    pub tls: Option<bool>,
    /// Certificates of those who vouch for it, in PEM form.
    pub ca: Option<PathBuf>,
    /// The name that its certificate must have.
    pub server_name: Option<String>,
    /// The certificate that this node shows, in PEM form.
    pub cert: Option<PathBuf>,
    /// The key of that certificate, in PEM form.
    pub key: Option<PathBuf>,
    /// Header fields of every stream, such as a token.
    pub headers: BTreeMap<String, SecretText>,
    /// The wait before the first attempt to connect again.
    pub retry_least: Option<DurationText>,
    /// The longest wait before another attempt.
    pub retry_most: Option<DurationText>,
    /// The largest push that is taken, in bytes.
    pub max_message: Option<usize>,
}

/// What is done with hits that are over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverWord {
    /// They are counted all the same.
    Count,
    /// They are not counted, and nothing else of their request is.
    Ignore,
}

impl From<OverWord> for ChargeAction {
    fn from(word: OverWord) -> Self {
        match word {
            OverWord::Count => ChargeAction::Count,
            OverWord::Ignore => ChargeAction::Ignore,
        }
    }
}

/// Which body a refusal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BodyWord {
    /// None.
    None,
    /// One of `application/problem+json`.
    Problem,
}

/// How counters lie in Redis, as the file writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayoutWord {
    /// As all other states do.
    Own,
    /// As those of the Go service.
    Envoyproxy,
}

impl From<LayoutWord> for RedisLayout {
    fn from(word: LayoutWord) -> Self {
        match word {
            LayoutWord::Own => RedisLayout::Own,
            LayoutWord::Envoyproxy => RedisLayout::Envoyproxy,
        }
    }
}

/// Which header fields are added to answers: `"off"`, `"plain"`, `"ietf"`, or a table of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadersSetting(pub RlsHeaders);

/// The names of the plain fields. Each may be missing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HeaderNames {
    limit: FieldName,
    remaining: FieldName,
    reset: FieldName,
}

impl Default for HeaderNames {
    fn default() -> Self {
        HeaderNames {
            limit: FieldName(RlsHeaders::LIMIT.to_owned()),
            remaining: FieldName(RlsHeaders::REMAINING.to_owned()),
            reset: FieldName(RlsHeaders::RESET.to_owned()),
        }
    }
}

/// The name of a header field.
#[derive(Default, Deserialize)]
#[serde(try_from = "String")]
struct FieldName(String);

impl TryFrom<String> for FieldName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match HeaderName::try_from(&name) {
            Ok(_) => Ok(FieldName(name)),
            Err(_) => {
                Err(format!("{name:?} is no name of a header field; write one such as `RateLimit-Limit`"))
            }
        }
    }
}

impl<'de> Deserialize<'de> for HeadersSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrNames;

        impl<'de> Visitor<'de> for WordOrNames {
            type Value = HeadersSetting;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"off\", \"plain\", \"ietf\", or names: { limit = \"…\", remaining = \"…\", reset = \"…\" }")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<HeadersSetting, E> {
                match word {
                    "off" => Ok(HeadersSetting(RlsHeaders::Off)),
                    "plain" => Ok(HeadersSetting(HeaderNames::default().into())),
                    "ietf" => Ok(HeadersSetting(RlsHeaders::Ietf)),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }

            fn visit_map<M: MapAccess<'de>>(self, names: M) -> Result<HeadersSetting, M::Error> {
                let names = HeaderNames::deserialize(MapAccessDeserializer::new(names))?;
                Ok(HeadersSetting(names.into()))
            }
        }

        deserializer.deserialize_any(WordOrNames)
    }
}

impl From<HeaderNames> for RlsHeaders {
    fn from(names: HeaderNames) -> Self {
        let HeaderNames { limit, remaining, reset } = names;
        RlsHeaders::Plain { limit: limit.0, remaining: remaining.0, reset: reset.0 }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::document::Config;
    use super::*;

    fn section(text: &str) -> Result<RlsSection, String> {
        let text = format!("[rls]\n{text}\n");
        let config = Config::parse(Path::new("a.toml"), text).map_err(|error| error.to_string())?;
        Ok(config.file.rls.unwrap())
    }

    #[test]
    fn everything_that_the_section_may_say() {
        let section = section(
            r#"
            paths = ["limits", "more/edge.yaml"]
            merge_domains = true
            over = "ignore"
            on_store_error = "closed"
            headers = { limit = "X-Limit" }
            body = "problem"
            shadow_mode = true
            quota_mode = true
            response_dynamic_metadata = true
            near_limit_ratio = 0.5
            redis_layout = "envoyproxy"
            cache_key_prefix = "edge:"
            healthy_with_at_least_one_config_loaded = true
            health_check_store = true
            debug = "127.0.0.1:6070"
            "#,
        );
        let section = section.unwrap();
        assert_eq!(section.paths.unwrap().len(), 2);
        assert_eq!(ChargeAction::from(section.over.unwrap()), ChargeAction::Ignore);
        assert_eq!(RedisLayout::from(section.redis_layout.unwrap()), RedisLayout::Envoyproxy);
        let expected = RlsHeaders::Plain {
            limit: "X-Limit".to_owned(),
            remaining: "RateLimit-Remaining".to_owned(),
            reset: "RateLimit-Reset".to_owned(),
        };
        assert_eq!(section.headers, Some(HeadersSetting(expected)));
    }

    #[test]
    fn headers_are_a_word_or_names() {
        let headers = |text: &str| section(&format!("headers = {text}")).unwrap().headers.unwrap().0;
        assert_eq!(headers("\"off\""), RlsHeaders::Off);
        assert_eq!(headers("\"ietf\""), RlsHeaders::Ietf);
        assert_eq!(headers("\"plain\""), headers("{}"));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, expected) in [
            ("path = [\"a\"]", "a.toml:2: unknown field `path`, expected one of `paths`, "),
            ("paths = \"a\"", "a.toml:2: invalid type: string \"a\", expected a sequence"),
            ("\nover = \"drop\"", "a.toml:3: unknown variant `drop`, expected `count` or `ignore`"),
            ("body = \"html\"", "a.toml:2: unknown variant `html`, expected `none` or `problem`"),
            (
                "headers = \"draft\"",
                "a.toml:2: invalid value: string \"draft\", expected \"off\", \"plain\", \"ietf\", or names: ",
            ),
            ("headers = { limits = \"X\" }", "a.toml:2: unknown field `limits`, expected one of `limit`, "),
            ("headers = { limit = \"a b\" }", "a.toml:2: \"a b\" is no name of a header field; write one "),
            ("redis_layout = \"go\"", "a.toml:2: unknown variant `go`, expected `own` or `envoyproxy`"),
            ("near_limit_ratio = \"80%\"", "a.toml:2: invalid type: string \"80%\", expected f32"),
        ] {
            let said = section(text).unwrap_err();
            assert!(said.starts_with(expected), "{text}: {said}");
        }
    }
}
