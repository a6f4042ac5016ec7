//! The service itself: its files, and what it answers.

use std::path::PathBuf;

use http::HeaderName;
use ratekeeper::port::ChargeAction;
use ratekeeper_server::rls::{RedisLayout, RlsFileNames, RlsHeaders, RlsSettings};

use super::variables::{VariableError, Variables};
use super::xds::xds;

/// Returns how the service is set.
pub(super) fn service(variables: &Variables, layout: RedisLayout) -> Result<RlsSettings, VariableError> {
    let xds = match variables.text("CONFIG_TYPE") {
        None | Some("FILE") => None,
        Some("GRPC_XDS_SOTW") => Some(xds(variables)?),
        Some(other) => {
            return Err(VariableError::quoting("CONFIG_TYPE", other, "write `FILE` or `GRPC_XDS_SOTW`"));
        }
    };
    // Checked, though there is nothing to do for files: it serves before it has limits, and those with a dot are never read.
    variables.bool("FORCE_START_WITHOUT_INITIAL_CONFIG")?;
    variables.bool("RUNTIME_IGNOREDOTFILES")?;
    let (folder, names) = files(variables)?;
    let usual = RlsSettings::default();
    let ratio = variables.number("NEAR_LIMIT_RATIO", "write a part of 1, such as `0.8`")?;
    let near_limit_ratio = ratio.unwrap_or(usual.near_limit_ratio);
    if !(0.0..=1.0).contains(&near_limit_ratio) {
        let given = near_limit_ratio.to_string();
        return Err(VariableError::quoting("NEAR_LIMIT_RATIO", &given, "must be from 0 to 1"));
    }
    let over = match variables.bool("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT")? {
        true => ChargeAction::Ignore,
        false => ChargeAction::Count,
    };
    Ok(RlsSettings {
        paths: if xds.is_none() { vec![folder] } else { Vec::new() },
        xds,
        names,
        merges_domains: variables.bool("MERGE_DOMAIN_CONFIG")?,
        over,
        is_shadow: variables.bool("SHADOW_MODE")?,
        is_quota: variables.bool("QUOTA_MODE")?,
        headers: headers(variables)?,
        tells_metadata: variables.bool("RESPONSE_DYNAMIC_METADATA")?,
        near_limit_ratio,
        redis_layout: layout,
        cache_key_prefix: variables.text("CACHE_KEY_PREFIX").unwrap_or_default().to_owned(),
        needs_a_domain: variables.bool("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED")?,
        needs_the_store: variables.bool("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION")?,
        ..usual
    })
}

/// Returns the folder of the files, and what they are called in messages: `config.edge.yaml` if the root is watched,
/// `edge.yaml` if the folder is. Here both are, always.
fn files(variables: &Variables) -> Result<(PathBuf, RlsFileNames), VariableError> {
    let root = PathBuf::from(variables.text("RUNTIME_ROOT").unwrap_or("/srv/runtime_data/current"));
    let above = match variables.text("RUNTIME_SUBDIRECTORY") {
        Some(folder) => root.join(folder.trim_start_matches('/')),
        None => root,
    };
    let folder = match variables.given("RUNTIME_APPDIRECTORY").unwrap_or("config") {
        "" => above.clone(),
        folder => above.join(folder.trim_start_matches('/')),
    };
    let base = if variables.bool_or_true("RUNTIME_WATCH_ROOT")? { above } else { folder.clone() };
    Ok((folder, RlsFileNames::Dotted(base)))
}

fn headers(variables: &Variables) -> Result<RlsHeaders, VariableError> {
    if !variables.bool("LIMIT_RESPONSE_HEADERS_ENABLED")? {
        return Ok(RlsHeaders::Off);
    }
    let name = |variable, usual: &str| {
        let name = variables.text(variable).unwrap_or(usual);
        match HeaderName::try_from(name) {
            Ok(_) => Ok(name.to_owned()),
            Err(_) => {
                let right = format!("write the name of a header field, such as `{usual}`");
                Err(VariableError::quoting(variable, name, right))
            }
        }
    };
    Ok(RlsHeaders::Plain {
        limit: name("LIMIT_LIMIT_HEADER", RlsHeaders::LIMIT)?,
        remaining: name("LIMIT_REMAINING_HEADER", RlsHeaders::REMAINING)?,
        reset: name("LIMIT_RESET_HEADER", RlsHeaders::RESET)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service<const N: usize>(pairs: [(&str, &str); N]) -> Result<RlsSettings, String> {
        super::service(&pairs.into(), RedisLayout::Own).map_err(|error| error.to_string())
    }

    #[test]
    fn where_files_lie_and_what_they_are_called() {
        for (pairs, folder, base) in [
            ([("", ""), ("", ""), ("", "")], "/srv/runtime_data/current/config", "/srv/runtime_data/current"),
            (
                [("RUNTIME_ROOT", "/data"), ("RUNTIME_SUBDIRECTORY", "ratelimit"), ("", "")],
                "/data/ratelimit/config",
                "/data/ratelimit",
            ),
            (
                [("RUNTIME_ROOT", "/data"), ("RUNTIME_WATCH_ROOT", "false"), ("", "")],
                "/data/config",
                "/data/config",
            ),
            (
                [("RUNTIME_ROOT", "/data"), ("RUNTIME_APPDIRECTORY", ""), ("RUNTIME_SUBDIRECTORY", "/a/b")],
                "/data/a/b",
                "/data/a/b",
            ),
        ] {
            let settings = service(pairs).unwrap();
            assert_eq!(settings.paths, [PathBuf::from(folder)], "{pairs:?}");
            assert_eq!(settings.names, RlsFileNames::Dotted(base.into()), "{pairs:?}");
        }
    }

    #[test]
    fn a_control_plane_takes_the_place_of_files() {
        assert_eq!(service([("CONFIG_TYPE", "FILE")]).unwrap().xds, None);
        let settings =
            service([("CONFIG_TYPE", "GRPC_XDS_SOTW"), ("CONFIG_GRPC_XDS_NODE_ID", "edge")]).unwrap();
        assert!(settings.paths.is_empty());
        let xds = settings.xds.unwrap();
        assert_eq!((xds.server.as_str(), xds.node.as_str()), ("localhost:18000", "edge"));
    }

    #[test]
    fn every_word_on_answers_is_heard() {
        assert_eq!(service([]).unwrap().headers, RlsHeaders::Off);
        let all = service([
            ("MERGE_DOMAIN_CONFIG", "true"),
            ("SHADOW_MODE", "TRUE"),
            ("QUOTA_MODE", "t"),
            ("RESPONSE_DYNAMIC_METADATA", "1"),
            ("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "true"),
            ("NEAR_LIMIT_RATIO", "0.5"),
            ("CACHE_KEY_PREFIX", "edge:"),
            ("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "True"),
            ("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "T"),
            ("LIMIT_RESPONSE_HEADERS_ENABLED", "true"),
            ("LIMIT_RESET_HEADER", "X-Reset"),
        ]);
        let all = all.unwrap();
        assert_eq!(
            (all.merges_domains, all.is_shadow, all.is_quota, all.tells_metadata),
            (true, true, true, true)
        );
        assert_eq!(
            (all.over, all.near_limit_ratio, all.cache_key_prefix.as_str()),
            (ChargeAction::Ignore, 0.5, "edge:")
        );
        assert_eq!((all.needs_a_domain, all.needs_the_store), (true, true));
        let names = RlsHeaders::Plain {
            limit: "RateLimit-Limit".into(),
            remaining: "RateLimit-Remaining".into(),
            reset: "X-Reset".into(),
        };
        assert_eq!(all.headers, names);
    }

    #[test]
    fn mistakes_name_the_variable_its_value_and_what_is_right() {
        for (pairs, expected) in [
            ([("SHADOW_MODE", "yes"), ("", "")], "SHADOW_MODE: \"yes\"; write `true` or `false`"),
            ([("QUOTA_MODE", ""), ("", "")], "QUOTA_MODE: \"\"; write `true` or `false`"),
            ([("NEAR_LIMIT_RATIO", "80%"), ("", "")], "NEAR_LIMIT_RATIO: \"80%\"; write a part of 1"),
            ([("NEAR_LIMIT_RATIO", "8"), ("", "")], "NEAR_LIMIT_RATIO: \"8\"; must be from 0 to 1"),
            (
                [("LIMIT_RESPONSE_HEADERS_ENABLED", "true"), ("LIMIT_LIMIT_HEADER", "a b")],
                "LIMIT_LIMIT_HEADER: \"a b\"; write the name",
            ),
            (
                [("CONFIG_TYPE", "GRPC_XDS_SOTW"), ("CONFIG_GRPC_XDS_SERVER_URL", "plane")],
                "CONFIG_GRPC_XDS_SERVER_URL: \"plane\"; write a host and a port",
            ),
            ([("CONFIG_TYPE", "file"), ("", "")], "CONFIG_TYPE: \"file\"; write `FILE` or `GRPC_XDS_SOTW`"),
            ([("RUNTIME_WATCH_ROOT", "no"), ("", "")], "RUNTIME_WATCH_ROOT: \"no\"; write `true` or `false`"),
            (
                [("FORCE_START_WITHOUT_INITIAL_CONFIG", "2"), ("", "")],
                "FORCE_START_WITHOUT_INITIAL_CONFIG: \"2\"; write",
            ),
        ] {
            let said = service(pairs).unwrap_err();
            assert!(said.starts_with(expected), "{said}");
        }
    }
}
