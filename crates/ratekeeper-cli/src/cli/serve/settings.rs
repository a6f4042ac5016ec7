//! All settings of a server: flags and environment over file over defaults.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Result, bail};
use ratekeeper_server::config::{Config, ConfigFile, DurationText, LogFormat, LogLevel, OnStoreError};
use ratekeeper_server::{RedisSettings, Settings};

use super::flags::ServeFlags;
use super::layers::{Effort, Layers};
use super::limits::limits;
use super::otlp::otlp;
use super::record::record;
use super::rls::{debug, rls};
use super::store::{memory, postgres, redis, snapshot, store};
use super::tokens::{ReadTokens, tokens};
use super::transports::{GRPC_PORT, HTTP_PORT, MSGPACK_PORT, RESP_PORT, endpoint, tls};

/// The longest that a server goes on after it was told to stop.
const LONGEST_DRAIN: Duration = Duration::from_secs(3_600);

/// Returns the settings that flags and file amount to. Reads token files, and looks up names of hosts.
pub(super) fn settings(flags: &ServeFlags, config: Option<&Config>) -> Result<Settings> {
    layered(flags, config, Effort::Start)
}

/// Checks all that can be checked of a file that no server starts with now, and returns what is known of its settings.
pub(in crate::cli) fn check(flags: &ServeFlags, config: &Config) -> Result<Settings> {
    layered(flags, Some(config), Effort::Check)
}

/// Returns how much is logged, and in which form.
pub(super) fn logging(flags: &ServeFlags, config: Option<&Config>) -> (LogLevel, LogFormat) {
    let file = config.map(|config| &config.file.server);
    let level = flags.log_level.or_else(|| file?.log_level);
    let format = flags.log_format.or_else(|| file?.log_format);
    (level.unwrap_or_default(), format.unwrap_or_default())
}

fn layered(flags: &ServeFlags, config: Option<&Config>, effort: Effort) -> Result<Settings> {
    let nothing = ConfigFile::default();
    let file = config.map_or(&nothing, |config| &config.file);
    let layers = Layers { flags, file, config, effort };
    let mut redis = redis(layers)?;
    let postgres = postgres(layers);
    let store = store(layers, &redis, &postgres)?;
    let transports = &file.transports;
    let resp = endpoint(layers, "resp", flags.resp, &transports.resp, RESP_PORT)?;
    let http = endpoint(layers, "http", flags.http, &transports.http, HTTP_PORT)?;
    let grpc = endpoint(layers, "grpc", flags.grpc, &transports.grpc, GRPC_PORT)?;
    let msgpack = endpoint(layers, "msgpack", flags.msgpack, &transports.msgpack, MSGPACK_PORT)?;
    if [&resp, &http, &grpc, &msgpack].into_iter().all(Option::is_none) {
        bail!("every transport is off; leave one on, for instance --resp 127.0.0.1:{RESP_PORT}");
    }
    let limits = limits(layers)?;
    let top_denied =
        layers.pick(("--top-denied", flags.top_denied), ("server.top_denied", file.server.top_denied));
    if let Some(most) = top_denied.value.filter(|most| *most > Settings::MOST_TOP_DENIED) {
        return Err(top_denied.wrong(format_args!("{most}; must be at most {}", Settings::MOST_TOP_DENIED)));
    }
    let log_denials =
        layers.pick(("--log-denials", flags.log_denials), ("server.log_denials", file.server.log_denials));
    if let Some(most) = log_denials.value.filter(|most| *most > Settings::MOST_LOG_DENIALS) {
        let message = format_args!("{most}; must be at most {}", Settings::MOST_LOG_DENIALS);
        return Err(log_denials.wrong(message));
    }
    let drain = layers.pick(("--drain", flags.drain), ("server.drain", file.server.drain));
    if let Some(DurationText(time)) = drain.value.filter(|DurationText(time)| *time > LONGEST_DRAIN) {
        return Err(drain.wrong(format_args!("{time:?}; must be at most {LONGEST_DRAIN:?}")));
    }
    let (snapshot, snapshot_every) = snapshot(layers, &store)?;
    let record = record(layers, snapshot.as_deref())?;
    let memory = memory(layers)?;
    let (rls, debug) = (rls(layers, &store)?, debug(layers)?);
    if let Some(rls) = &rls {
        // Counters begin with it by themselves; all else would be shared with other services.
        redis.prefix = RedisSettings::prefix_within(&redis.prefix, &rls.cache_key_prefix);
    }
    let ReadTokens { tokens, files: token_files } = tokens(layers)?;
    let cores = || available_parallelism().unwrap_or(NonZeroUsize::MIN);
    Ok(Settings {
        store,
        redis,
        postgres,
        resp,
        http,
        grpc,
        msgpack,
        debug,
        rls,
        loops: flags.loops.or(file.server.loops).unwrap_or_else(cores).get(),
        max_keys: memory.max_keys,
        max_bytes: memory.max_bytes,
        kept_for_plans: memory.kept_for_plans,
        keep_keys: memory.keep_keys,
        limits,
        tokens,
        token_files,
        allowed_hosts: allowed_hosts(layers)?,
        instance: flags.instance.clone().or_else(|| file.server.instance.clone()),
        tls: tls(layers)?,
        drain: drain.value.unwrap_or_default().0,
        snapshot,
        snapshot_every,
        record,
        otlp: otlp(layers)?,
        on_store_error: flags
            .on_store_error
            .or(file.limits.on_store_error)
            .unwrap_or(OnStoreError::Error)
            .into(),
        top_denied: top_denied.value.unwrap_or(0),
        log_denials: log_denials.value.unwrap_or(0),
        ..Settings::default()
    })
}

/// Returns the names that HTTP is asked by.
fn allowed_hosts(layers: Layers<'_>) -> Result<Vec<String>> {
    let flag = Some(&layers.flags.allowed_hosts).filter(|hosts| !hosts.is_empty());
    let given = layers
        .pick(("--allowed-hosts", flag), ("server.allowed_hosts", layers.file.server.allowed_hosts.as_ref()));
    let is_name = |host: &String| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        !host.is_empty() && host.bytes().all(is_letter)
    };
    match given.value.and_then(|hosts| hosts.iter().find(|host| !is_name(host))) {
        Some(wrong) => Err(given.wrong(format_args!(
            "`{wrong}`; write the names of hosts without scheme, port or pattern, such as limits.example"
        ))),
        None => Ok(given.value.cloned().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use ratekeeper::store::BreakerSettings;
    use ratekeeper_server::rls::{RlsHeaders, RlsSettings};
    use ratekeeper_server::{Bind, RedisSettings, TlsFiles};

    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(Path::new("a.toml"), text.to_owned()).unwrap()
    }

    #[test]
    fn a_flag_comes_before_the_file_and_the_file_before_defaults() {
        let config = config(
            "[server]\nloops = 3\n[transports.resp]\nport = 7000\nmax_connections = 5\n[store]\nmax_keys = 10\n",
        );
        let flags = ServeFlags { loops: NonZeroUsize::new(1), ..ServeFlags::default() };
        let settings = settings(&flags, Some(&config)).unwrap();
        assert_eq!((settings.loops, settings.max_keys), (1, 10));
        let resp = settings.resp.unwrap();
        assert_eq!((resp.address.to_string().as_str(), resp.max_connections), ("127.0.0.1:7000", 5));
        let bare = super::settings(&ServeFlags::default(), None).unwrap();
        assert_eq!(bare.resp.unwrap().address.to_string(), "127.0.0.1:6380");
        assert_eq!(bare.max_keys, 1_000_000);
    }

    #[test]
    fn mistakes_name_flag_or_file() {
        let error =
            |flags: &ServeFlags, text: &str| settings(flags, Some(&config(text))).unwrap_err().to_string();
        let none = ServeFlags::default();
        for (text, expected) in [
            ("type = \"tape\"", "a.toml:2: [store] type: tape: not a store"),
            ("type = \"redis\"", "a.toml:1: [store] url: missing"),
            ("type = \"memory\"\nurl = \"redis://h\"", "a.toml:3: [store] url: the store in memory has none"),
            (
                "url = \"redis://h\"\nsnapshot = \"f\"",
                "a.toml:3: [store] snapshot: a shared store keeps its own state",
            ),
            ("url = \"redsi://h\"", "a.toml:2: [store] url: scheme: redsi; use redis://"),
            ("snapshot = \"\"", "a.toml:2: [store] snapshot: empty; name a file"),
        ] {
            let said = error(&none, &format!("[store]\n{text}\n"));
            assert!(said.starts_with(expected), "{said}");
        }
        for (line, expected) in [
            ("timeout = \"0s\"", "a.toml:2: [store] timeout: 0ns; must be from 1ms to 60s"),
            ("connect_timeout = \"2m\"", "a.toml:2: [store] connect_timeout: 120s; must be from 1ms to 60s"),
            (
                "prefix = \"a{b}\"",
                "a.toml:2: [store] prefix: \"a{b}\"; must be 1 to 128 bytes without braces",
            ),
            ("[store.breaker]\npercent = 0", "a.toml:3: [store.breaker] percent: 0; must be from 1 to 100"),
            (
                "leased_keys = 1048577",
                "a.toml:2: [store] leased_keys: 1048577; must be at most 1048576, or 0 for no leases",
            ),
            ("breaker.rest = \"2h\"", "a.toml:2: [store.breaker] rest: 7200s; must be from 1ms to 3600s"),
        ] {
            assert_eq!(error(&none, &format!("[store]\n{line}\n")), expected);
        }
        let flags = ServeFlags { redis_timeout: Some("61s".parse().unwrap()), ..ServeFlags::default() };
        assert_eq!(error(&flags, ""), "--redis-timeout: 61s; must be from 1ms to 60s");
        let flags =
            ServeFlags { redis_breaker: Some("percent=101".parse().unwrap()), ..ServeFlags::default() };
        assert_eq!(error(&flags, ""), "--redis-breaker percent: 101; must be from 1 to 100");
        let flags = ServeFlags { leased_keys: Some(usize::MAX), ..ServeFlags::default() };
        assert!(
            error(&flags, "").starts_with("--leased-keys: 18446744073709551615; must be at most 1048576")
        );
        let flags = ServeFlags { store: Some("tape".into()), ..ServeFlags::default() };
        assert!(error(&flags, "").starts_with("--store: tape: not a store; write `memory`, redis://"));
        let said = error(&none, "[transports.resp]\nhost = \"no host\"\n");
        assert!(said.starts_with("a.toml:2: [transports.resp] host: no host: no address"), "{said}");
        for (line, expected) in [
            ("sample = \"1%\"", "a.toml:2: [record] sample: there is no file to write; name one by --record"),
            ("file = \"\"", "a.toml:2: [record] file: empty; name a file"),
            (
                "file = \"f\"\nmax_bytes = \"1KB\"",
                "a.toml:3: [record] max_bytes: 1000 bytes; must be at least",
            ),
            ("file = \"f\"\nfiles = 1001", "a.toml:3: [record] files: 1001; must be at most 1000"),
        ] {
            let said = error(&none, &format!("[record]\n{line}\n"));
            assert!(said.starts_with(expected), "{said}");
        }
        let flags = ServeFlags { snapshot_every: Some("5ms".parse().unwrap()), ..ServeFlags::default() };
        let said = error(&flags, "[store]\nsnapshot = \"f\"\n");
        assert_eq!(said, "--snapshot-every: 5ms; must be at least 10ms, or 0s for never");
        let said = error(&none, "[server]\nauth_token = \"\"\n");
        assert!(said.starts_with("a.toml:2: [server] auth_token: empty"), "{said}");
        let said = error(&none, "[server]\ndrain = \"61m\"\n");
        assert_eq!(said, "a.toml:2: [server] drain: 3660s; must be at most 3600s");
        for (same, expected) in [
            (["auth", "admin"], "a.toml:3: [server] admin_token: the same as the auth token, so "),
            (["auth", "metrics"], "a.toml:3: [server] metrics_token: the same as the auth token, so "),
            (["admin", "metrics"], "a.toml:3: [server] metrics_token: the same as the admin token, so "),
        ] {
            let said =
                error(&none, &format!("[server]\n{}_token = \"a\"\n{}_token = \"a\"\n", same[0], same[1]));
            assert!(said.starts_with(expected), "{said}");
        }
        let said = error(&none, "[transports.resp]\nhost = \"redis://:sesame@h\"\n");
        assert!(said.starts_with("a.toml:2: [transports.resp] host: redis://…@h: no address"), "{said}");
        let said = error(&none, "[server]\ntop_denied = 1001\n");
        assert_eq!(said, "a.toml:2: [server] top_denied: 1001; must be at most 1000");
        let flags = ServeFlags { top_denied: Some(1001), ..ServeFlags::default() };
        assert_eq!(error(&flags, ""), "--top-denied: 1001; must be at most 1000");
        let said = error(&none, "[store]\nsnapshot_every = \"30s\"\n");
        assert!(said.starts_with("a.toml:2: [store] snapshot_every: there is no file to write"), "{said}");
        for (line, expected) in [
            ("default_burst = 0", "a.toml:2: [limits] default_burst: 0; must be at least 1"),
            ("default_rate = -1", "a.toml:2: [limits] default_rate: -1; must be at least 1"),
            ("default_period = 0", "a.toml:2: [limits] default_period: 0; must be at least 1"),
        ] {
            assert_eq!(error(&none, &format!("[limits]\n{line}\n")), expected);
        }
        let flags = ServeFlags { tls_cert: Some("a.pem".into()), ..ServeFlags::default() };
        assert!(error(&flags, "").starts_with("--tls-cert without --tls-key"));
        assert!(error(&none, "[server]\ntls_key = \"a.pem\"\n").starts_with("--tls-key without --tls-cert"));
        let off = Some(Bind::Off);
        let flags = ServeFlags { resp: off, http: off, grpc: off, msgpack: off, ..ServeFlags::default() };
        assert!(error(&flags, "").starts_with("every transport is off"));
    }

    #[test]
    fn a_redis_is_asked_as_flag_file_and_defaults_say() {
        let usual = settings(&ServeFlags::default(), None).unwrap().redis;
        assert_eq!(usual, RedisSettings::default());
        let config = self::config(
            "[store]\ntimeout = \"250ms\"\nprefix = \"shop\"\nbreaker = { failures = 3, rest = \"5s\" }\n",
        );
        let flags = ServeFlags {
            redis_prefix: Some("till".to_owned()),
            redis_breaker: Some("rest=7s,percent=20".parse().unwrap()),
            ..ServeFlags::default()
        };
        let redis = settings(&flags, Some(&config)).unwrap().redis;
        let breaker = BreakerSettings::default().failures_in_a_row(3).failed_percent(20, 20);
        assert_eq!(redis.breaker, Some(breaker.rest(Duration::from_secs(7))));
        assert_eq!((redis.timeout, redis.prefix.as_str()), (Duration::from_millis(250), "till"));
        assert_eq!(redis.connect_timeout, Duration::from_millis(500));
        let theirs = "[store]\nurl = \"redis://h\"\n[rls]\npaths = [\"a\"]\nredis_layout = \"envoyproxy\"\n\
                      cache_key_prefix = \"{a}:\"\n";
        let redis = settings(&ServeFlags::default(), Some(&self::config(theirs))).unwrap().redis;
        assert_eq!(redis.prefix, "rate_limiter:%7Ba%7D:", "two services share no limits");
        let leased = self::config("[store]\nlease = \"10%\"\nleased_keys = 0\n");
        let redis = settings(&ServeFlags::default(), Some(&leased)).unwrap().redis;
        assert_eq!((redis.lease, redis.leased_keys), ("10%".parse().unwrap(), 0));
        let flags = ServeFlags {
            lease: Some("50ms".parse().unwrap()),
            leased_keys: Some(9),
            ..ServeFlags::default()
        };
        let redis = settings(&flags, Some(&leased)).unwrap().redis;
        assert_eq!((redis.lease, redis.leased_keys), ("50ms".parse().unwrap(), 9));
        let off = ServeFlags { redis_breaker: Some("off".parse().unwrap()), ..ServeFlags::default() };
        assert_eq!(settings(&off, Some(&config)).unwrap().redis.breaker, None);
    }

    #[test]
    fn a_check_goes_by_what_is_written() {
        let none = ServeFlags::default();
        let elsewhere = "[server]\nauth_token_file = \"no/such/file\"\n[transports.resp]\nhost = \"no-such-host.invalid\"\n";
        assert!(check(&none, &config(elsewhere)).is_ok());
        assert!(settings(&none, Some(&config(elsewhere))).is_err());
        for (text, expected) in [
            (
                "[transports.resp]\nhost = \"no host\"\n",
                "a.toml:2: [transports.resp] host: no host: no address",
            ),
            (
                "[server]\nauth_token = \"a\"\nauth_token_file = \"f\"\n",
                "a.toml:3: [server] auth_token_file: given",
            ),
            (
                "[server]\nauth_token = \"a\"\nadmin_token = \"a\"\n",
                "a.toml:3: [server] admin_token: the same",
            ),
        ] {
            let said = check(&none, &config(text)).unwrap_err().to_string();
            assert!(said.starts_with(expected), "{said}");
        }
    }

    #[test]
    fn the_service_of_envoy_is_off_unless_files_are_named() {
        let none = ServeFlags::default();
        assert_eq!(settings(&none, None).unwrap().rls, None);
        let flags = ServeFlags { rls: vec!["limits".into()], ..ServeFlags::default() };
        let by_flag = settings(&flags, None).unwrap().rls.unwrap();
        assert_eq!(by_flag, RlsSettings { paths: vec!["limits".into()], ..RlsSettings::default() });
        let file = config("[rls]\npaths = [\"edge.yaml\"]\nover = \"ignore\"\nheaders = \"ietf\"\n");
        let both = settings(&flags, Some(&file)).unwrap().rls.unwrap();
        assert_eq!((both.paths, both.headers), (vec!["limits".into()], RlsHeaders::Ietf));
        assert_eq!(settings(&none, Some(&file)).unwrap().rls.unwrap().paths, [Path::new("edge.yaml")]);
        let pushed = "[rls.xds]\nserver = \"plane:1\"\nnode = \"n\"\nmetadata = { zone = \"a\" }\ntls = true\nca = \"c\"\n";
        let pushed = settings(&none, Some(&config(pushed))).unwrap().rls.unwrap();
        let xds = pushed.xds.unwrap();
        assert!(pushed.paths.is_empty() && !xds.starts_without);
        assert_eq!((&*xds.server, &*xds.node, xds.node_metadata.len()), ("plane:1", "n", 1));
        assert_eq!(xds.tls.unwrap().ca, Some("c".into()));
        let more = "[rls.xds]\nserver = \"plane:1\"\nmax_message = 1000\nretry_least = \"2m\"\ntls = true\n\
                    cert = \"c.pem\"\nkey = \"k.pem\"\n[rls.xds.headers]\nauthorization = \"Bearer s3cret\"\n";
        let more = config(more);
        assert!(!format!("{more:?}").contains("s3cret"));
        let xds = settings(&none, Some(&more)).unwrap().rls.unwrap().xds.unwrap();
        assert_eq!(xds.headers, [("authorization".to_owned(), "Bearer s3cret".to_owned())]);
        let two_minutes = Duration::from_secs(120);
        assert_eq!((xds.max_message, xds.retry_least, xds.retry_most), (1000, two_minutes, two_minutes));
        let identity = TlsFiles { cert: "c.pem".into(), key: "k.pem".into() };
        assert_eq!(xds.tls.unwrap().identity, Some(identity));
        let debug = config("[rls]\npaths = [\"a\"]\ndebug = \"127.0.0.1:6070\"\n");
        let address = settings(&none, Some(&debug)).unwrap().debug.unwrap().address;
        assert_eq!(address.to_string(), "127.0.0.1:6070");
    }

    #[test]
    fn mistakes_of_the_service_of_envoy() {
        let none = ServeFlags::default();
        for (text, expected) in [
            ("", "a.toml:1: [rls] paths: missing; name files or folders of YAML, here or by --rls"),
            ("paths = []", "a.toml:2: [rls] paths: empty; name files"),
            ("paths = [\"\"]", "a.toml:2: [rls] paths: an empty path; name a file or a folder"),
            (
                "paths = [\"a\"]\nnear_limit_ratio = 80.0",
                "a.toml:3: [rls] near_limit_ratio: 80; must be from 0",
            ),
            ("paths = [\"a\"]\nnear_limit_ratio = nan", "a.toml:3: [rls] near_limit_ratio: NaN; must be"),
            (
                "paths = [\"a\"]\nredis_layout = \"envoyproxy\"",
                "a.toml:3: [rls] redis_layout: envoyproxy: there is no Redis; name one by [store] url",
            ),
            (
                "paths = [\"a\"]\ncache_key_prefix = \"p:\"",
                "a.toml:3: [rls] cache_key_prefix: only counters in",
            ),
            (
                "paths = [\"a\"]\n[rls.xds]\nserver = \"plane:1\"",
                "a.toml:3: [rls] xds: rules come from files or from a control plane",
            ),
            ("[rls.xds]\nnode = \"n\"", "a.toml:2: [rls.xds] server: missing; write the host and the port"),
            (
                "[rls.xds]\nserver = \"plane\"",
                "a.toml:3: [rls.xds] server: \"plane\"; write a host and a port",
            ),
            (
                "[rls.xds]\nserver = \"plane:1\"\nca = \"c\"",
                "a.toml:2: [rls.xds] tls: not set; `ca`, `server_name`, `cert` and `key` are for tls = true",
            ),
            (
                "[rls.xds]\nserver = \"plane:1\"\ntls = true\ncert = \"c\"",
                "a.toml:2: [rls.xds] key: missing; `cert` has a key",
            ),
            (
                "[rls.xds]\nserver = \"plane:1\"\ntls = true\nkey = \"k\"",
                "a.toml:2: [rls.xds] cert: missing; `key` is the key of one",
            ),
            ("[rls.xds]\nserver = \"plane:1\"\nmax_message = 0", "a.toml:4: [rls.xds] max_message: 0; write"),
            ("[rls.xds]\nserver = \"plane:1\"\nretry_least = \"0\"", "a.toml:4: [rls.xds] retry_least: 0; a"),
            (
                "[rls.xds]\nserver = \"plane:1\"\nretry_most = \"1s\"",
                "a.toml:4: [rls.xds] retry_most: 1s; must be at least retry_least, 10s",
            ),
            (
                "[rls.xds]\nserver = \"plane:1\"\nheaders = { \"a b\" = \"s3cret\" }",
                "a.toml:4: [rls.xds] headers: \"a b\" and its value are no header field",
            ),
            ("paths = [\"a\"]\ndebug = \"6070\"", "a.toml:3: [rls] debug: 6070: no address; write "),
        ] {
            let file = config(&format!("[rls]\n{text}\n"));
            let said = settings(&none, Some(&file)).unwrap_err().to_string();
            assert!(said.starts_with(expected), "{said}");
            // The flag may name what the file does not.
            assert_eq!(check(&none, &file).is_ok(), text.is_empty(), "{text}");
        }
    }

    #[test]
    fn hosts_are_names() {
        let hosts = |text: &str| {
            settings(&ServeFlags::default(), Some(&config(text))).map(|found| found.allowed_hosts)
        };
        assert_eq!(hosts("[server]\nallowed_hosts = [\"limits.example\"]\n").unwrap(), ["limits.example"]);
        for wrong in ["https://limits.example", "limits.example:8080", "*.example", ""] {
            let said = hosts(&format!("[server]\nallowed_hosts = [\"{wrong}\"]\n")).unwrap_err().to_string();
            assert!(
                said.starts_with(&format!("a.toml:2: [server] allowed_hosts: `{wrong}`; write")),
                "{said}"
            );
        }
        let open = config("[server]\nopen_metrics = true\nmetrics_token = \"a\"\n");
        let said = settings(&ServeFlags::default(), Some(&open)).unwrap_err().to_string();
        assert!(said.starts_with("a.toml:2: [server] open_metrics: true; together with"), "{said}");
    }

    #[test]
    fn an_ipv6_host_needs_no_brackets() {
        let config = config("[transports.resp]\nhost = \"::1\"\n");
        let settings = settings(&ServeFlags::default(), Some(&config)).unwrap();
        assert_eq!(settings.resp.unwrap().address.to_string(), "[::1]:6380");
    }
}
