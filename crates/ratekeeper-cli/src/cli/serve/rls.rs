//! The service that Envoy asks: off, unless files of it are named.

use anyhow::Result;
use ratekeeper_server::config::{BodyWord, RlsSection};
use ratekeeper_server::rls::{RedisLayout, RlsSettings};
use ratekeeper_server::{Bind, BindError, StoreLocation, TransportEndpoint};

use super::layers::{Effort, Layers};
use super::xds::xds;

/// Bytes that a prefix may have: every counter in a Redis begins with it.
const MAX_PREFIX: usize = 128;

/// Returns how the service is set; none if it is off.
pub(super) fn rls(layers: Layers<'_>, store: &StoreLocation) -> Result<Option<RlsSettings>> {
    let nothing = RlsSection::default();
    let (flags, given) = (layers.flags, layers.file.rls.as_ref());
    if flags.rls.is_empty() && given.is_none() {
        return Ok(None);
    }
    let section = given.unwrap_or(&nothing);
    let wrong = |setting: &str, message: &str| layers.mistake(false, "--rls", setting, message);
    let xds = section.xds.as_ref().map(|section| xds(layers, section)).transpose()?;
    if xds.is_some() && (!flags.rls.is_empty() || section.paths.is_some()) {
        let message =
            "rules come from files or from a control plane; leave out `paths` and --rls, or [rls.xds]";
        return Err(wrong("rls.xds", message));
    }
    let paths = match &section.paths {
        _ if xds.is_some() => Vec::new(),
        _ if !flags.rls.is_empty() => flags.rls.clone(),
        Some(paths) if !paths.is_empty() => paths.clone(),
        Some(_) => return Err(wrong("rls.paths", "empty; name files or folders of YAML")),
        // Whoever starts with this file may name them by the flag.
        None if layers.effort == Effort::Check => Vec::new(),
        None => return Err(wrong("rls.paths", "missing; name files or folders of YAML, here or by --rls")),
    };
    if paths.iter().any(|path| path.as_os_str().is_empty()) {
        let message = "an empty path; name a file or a folder";
        return Err(layers.mistake(!flags.rls.is_empty(), "--rls", "rls.paths", message));
    }
    let usual = RlsSettings::default();
    let ratio = section.near_limit_ratio.unwrap_or(usual.near_limit_ratio);
    if !(0.0..=1.0).contains(&ratio) {
        return Err(wrong("rls.near_limit_ratio", &format!("{ratio}; must be from 0 to 1")));
    }
    let redis_layout = section.redis_layout.map_or(usual.redis_layout, Into::into);
    if redis_layout == RedisLayout::Envoyproxy && !matches!(store, StoreLocation::Redis(_)) {
        let message = "envoyproxy: there is no Redis; name one by [store] url, or leave it out";
        return Err(wrong("rls.redis_layout", message));
    }
    let cache_key_prefix = section.cache_key_prefix.clone().unwrap_or_default();
    if cache_key_prefix.len() > MAX_PREFIX {
        let len = cache_key_prefix.len();
        return Err(wrong("rls.cache_key_prefix", &format!("{len} bytes; must be at most {MAX_PREFIX}")));
    }
    if !cache_key_prefix.is_empty() && redis_layout == RedisLayout::Own {
        let message = "only counters in the layout of envoyproxy have it; set redis_layout = \"envoyproxy\", \
                       or use [store] prefix";
        return Err(wrong("rls.cache_key_prefix", message));
    }
    Ok(Some(RlsSettings {
        paths,
        xds,
        names: usual.names,
        merges_domains: section.merge_domains.unwrap_or(usual.merges_domains),
        over: section.over.map_or(usual.over, Into::into),
        on_store_error: section.on_store_error.map_or(usual.on_store_error, Into::into),
        is_shadow: section.shadow_mode.unwrap_or(usual.is_shadow),
        is_quota: section.quota_mode.unwrap_or(usual.is_quota),
        headers: section.headers.clone().map_or(usual.headers, |headers| headers.0),
        has_problem_body: section.body == Some(BodyWord::Problem),
        tells_metadata: section.response_dynamic_metadata.unwrap_or(usual.tells_metadata),
        near_limit_ratio: ratio,
        redis_layout,
        cache_key_prefix,
        needs_a_domain: section.healthy_with_at_least_one_config_loaded.unwrap_or(usual.needs_a_domain),
        needs_the_store: section.health_check_store.unwrap_or(usual.needs_the_store),
    }))
}

/// Returns where rules and counters of the service are looked at; none unless the file says so.
pub(super) fn debug(layers: Layers<'_>) -> Result<Option<TransportEndpoint>> {
    let Some(text) = layers.file.rls.as_ref().and_then(|section| section.debug.as_deref()) else {
        return Ok(None);
    };
    let bind: Bind = match text.parse() {
        Ok(bind) => bind,
        // A name that is not known here may be known where the server runs.
        Err(_) if layers.effort == Effort::Check && text.contains(':') => return Ok(None),
        Err(error @ BindError) => {
            let message = format!("{text}: {error}");
            return Err(layers.mistake(false, "--rls", "rls.debug", message));
        }
    };
    Ok(match bind {
        Bind::Off => None,
        Bind::At(address) => Some(TransportEndpoint::at(address)),
    })
}
