//! Flags and environment over file over defaults.

use std::num::{NonZeroU32, NonZeroUsize};
use std::thread::available_parallelism;

use anyhow::{Context, Result, bail};
use ratekeeper::Quota;
use ratekeeper::store::MemoryStoreBuilder;

use super::serve::Flags;
use crate::config::{Config, File, OnStoreError, TransportSection};
use crate::engine::Limits;
use crate::meter::Metrics;
use crate::secret::Secret;
use crate::settings::{Bind, Endpoint, Settings, StorePlace, TlsFiles};

/// Loopback, unless somebody decides otherwise.
const DEFAULT_HOST: &str = "127.0.0.1";
const STORES: &str =
    "`memory`, redis://host:port/0, rediss://…, redis-cluster://h1,h2 or redis-sentinel://h1,h2/name";
const RESP_PORT: u16 = 6380;
const HTTP_PORT: u16 = 8080;
const GRPC_PORT: u16 = 8070;
const MSGPACK_PORT: u16 = 9090;

/// What flags (the environment is in them already) and file amount to.
pub(super) fn settings(flags: &Flags, config: Option<&Config>) -> Result<Settings> {
    let nothing = File::default();
    let file = config.map_or(&nothing, |config| &config.file);
    let store = store(flags, config, file)?;
    let cores = || available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let resp = endpoint(flags, flags.resp, config, "resp", &file.transports.resp, RESP_PORT)?;
    let http = endpoint(flags, flags.http, config, "http", &file.transports.http, HTTP_PORT)?;
    let grpc = endpoint(flags, flags.grpc, config, "grpc", &file.transports.grpc, GRPC_PORT)?;
    let msgpack = endpoint(flags, flags.msgpack, config, "msgpack", &file.transports.msgpack, MSGPACK_PORT)?;
    if [&resp, &http, &grpc, &msgpack].into_iter().all(Option::is_none) {
        bail!("every transport is off; leave one on, for instance --resp 127.0.0.1:{RESP_PORT}");
    }
    let limits = limits(config, file)?;
    let top_denied = flags.top_denied.or(file.server.top_denied).unwrap_or(0);
    if top_denied > Metrics::MOST_TOP_DENIED {
        bail!("--top-denied {top_denied}: must be at most {}", Metrics::MOST_TOP_DENIED);
    }
    let on_store_error = flags.on_store_error.or(file.limits.on_store_error).unwrap_or(OnStoreError::Error);
    let token = flags.auth_token.as_ref().or(file.server.auth_token.as_ref());
    let secret = match token {
        Some(token) => Some(Secret::new(token).context("--auth-token: empty; give a token or leave it out")?),
        None => None,
    };
    let snapshot = flags.snapshot.clone().or_else(|| file.store.snapshot.clone());
    if snapshot.is_some() && store != StorePlace::Memory {
        bail!("--snapshot: a Redis keeps its own state; leave it out, or use `--store memory`");
    }
    let snapshot_every = flags.snapshot_every.or(file.store.snapshot_every).unwrap_or_default().0;
    if !snapshot_every.is_zero() && snapshot.is_none() {
        bail!("--snapshot-every: there is no file to write; name one by --snapshot");
    }
    Ok(Settings {
        store,
        resp,
        http,
        grpc,
        msgpack,
        loops: flags.loops.or(file.server.loops).unwrap_or_else(cores).get(),
        max_keys: flags
            .max_keys
            .or(file.store.max_keys)
            .map_or(MemoryStoreBuilder::DEFAULT_MAX_KEYS, NonZeroUsize::get),
        limits,
        secret,
        tls: tls(flags, file)?,
        drain: flags.drain.or(file.server.drain).unwrap_or_default().0,
        snapshot,
        snapshot_every,
        on_store_error: on_store_error.into(),
        top_denied,
        log_level: flags.log_level.or(file.server.log_level).unwrap_or_default(),
        log_format: flags.log_format.or(file.server.log_format).unwrap_or_default(),
    })
}

/// What a request without limits is held to: checked now, and not when the first one comes.
fn limits(config: Option<&Config>, file: &File) -> Result<Limits> {
    let section = &file.limits;
    let limits =
        Limits { burst: section.default_burst, rate: section.default_rate, period: section.default_period };
    // What the file leaves to requests is assumed to be harmless.
    let one = |given: Option<i64>| given.unwrap_or(1);
    if let Err(error) = Quota::throttle(one(limits.burst), one(limits.rate), one(limits.period)) {
        let message = format!("[limits] {}", error.to_string().replace("max_burst", "default_burst"));
        let message =
            message.replace("count_per_period", "default_rate").replace(" period:", " default_period:");
        return Err(config.map_or_else(|| anyhow::anyhow!("{message}"), |c| c.mistake(&message).into()));
    }
    Ok(limits)
}

/// Both files, or none: one alone is a mistake.
fn tls(flags: &Flags, file: &File) -> Result<Option<TlsFiles>> {
    let cert = flags.tls_cert.as_ref().or(file.server.tls_cert.as_ref());
    let key = flags.tls_key.as_ref().or(file.server.tls_key.as_ref());
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert: cert.clone(), key: key.clone() })),
        (None, None) => Ok(None),
        (Some(_), None) => bail!("--tls-cert without --tls-key; give both, or none"),
        (None, Some(_)) => bail!("--tls-key without --tls-cert; give both, or none"),
    }
}

/// Where state lives. Whether a URL is a good one is found out when the store is built.
fn store(flags: &Flags, config: Option<&Config>, file: &File) -> Result<StorePlace> {
    if let Some(store) = &flags.store {
        return match store.as_str() {
            "memory" => Ok(StorePlace::Memory),
            url if url.contains("://") => Ok(StorePlace::Redis(url.to_owned())),
            other => bail!("--store {other}: not a store; write {STORES}"),
        };
    }
    let mistake = |message: &str| match config {
        Some(config) => config.mistake(message).into(),
        None => anyhow::anyhow!("{message}"),
    };
    match (file.store.kind.as_deref(), &file.store.url) {
        (None | Some("memory"), None) => Ok(StorePlace::Memory),
        (Some("memory"), Some(_)) => Err(mistake("[store] url: the store in memory has none; leave it out")),
        (None | Some("redis"), Some(url)) => Ok(StorePlace::Redis(url.clone())),
        (Some("redis"), None) => Err(mistake("[store] url: missing; say where the Redis is")),
        (Some(kind), _) => {
            let message =
                format!("[store] type = {kind:?}: not a store; write \"memory\", or \"redis\" with a url");
            Err(mistake(&message))
        }
    }
}

/// Where one transport listens, if it does.
fn endpoint(
    flags: &Flags,
    flag: Option<Bind>,
    config: Option<&Config>,
    name: &str,
    section: &TransportSection,
    default_port: u16,
) -> Result<Option<Endpoint>> {
    let bind = match flag {
        Some(bind) => bind,
        None if section.enabled == Some(false) => Bind::Off,
        None => {
            let host = section.host.as_deref().unwrap_or(DEFAULT_HOST);
            let port = section.port.unwrap_or(default_port);
            // An IPv6 address stands in brackets before its port.
            let text = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
            text.parse().map_err(|error| {
                let message = format!("[transports.{name}] host = {host:?}: {error}");
                config.map_or_else(|| anyhow::anyhow!("{message}"), |config| config.mistake(&message).into())
            })?
        }
    };
    let Bind::At(address) = bind else { return Ok(None) };
    let max_connections = flags.max_connections.or(section.max_connections);
    Ok(Some(Endpoint {
        address,
        max_connections: max_connections.map_or(Endpoint::DEFAULT_MAX_CONNECTIONS, NonZeroUsize::get),
        idle_timeout: flags.idle_timeout.or(section.idle_timeout).unwrap_or(0),
        request_timeout: flags
            .request_timeout
            .or(section.request_timeout)
            .map_or(Endpoint::DEFAULT_REQUEST_TIMEOUT, NonZeroU32::get),
    }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(Path::new("a.toml"), text.to_owned()).unwrap()
    }

    #[test]
    fn a_flag_comes_before_the_file_and_the_file_before_defaults() {
        let config = config(
            "[server]\nloops = 3\n[transports.resp]\nport = 7000\nmax_connections = 5\n[store]\nmax_keys = 10\n",
        );
        let flags = Flags { loops: NonZeroUsize::new(1), ..Flags::default() };
        let settings = settings(&flags, Some(&config)).unwrap();
        assert_eq!((settings.loops, settings.max_keys), (1, 10));
        let resp = settings.resp.unwrap();
        assert_eq!((resp.address.to_string().as_str(), resp.max_connections), ("127.0.0.1:7000", 5));
        let bare = super::settings(&Flags::default(), None).unwrap();
        assert_eq!(bare.resp.unwrap().address.to_string(), "127.0.0.1:6380");
        assert_eq!(bare.max_keys, 1_000_000);
    }

    #[test]
    fn mistakes_name_flag_or_file() {
        let error = |flags: &Flags, text: &str| settings(flags, Some(&config(text))).unwrap_err().to_string();
        let none = Flags::default();
        for (text, expected) in [
            ("type = \"tape\"", "a.toml: [store] type = \"tape\": not a store"),
            ("type = \"redis\"", "a.toml: [store] url: missing"),
            ("type = \"memory\"\nurl = \"redis://h\"", "a.toml: [store] url: the store in memory has none"),
            ("url = \"redis://h\"\nsnapshot = \"f\"", "--snapshot: a Redis keeps its own state"),
        ] {
            let said = error(&none, &format!("[store]\n{text}\n"));
            assert!(said.starts_with(expected), "{said}");
        }
        let flags = Flags { store: Some("tape".into()), ..Flags::default() };
        assert!(error(&flags, "").starts_with("--store tape: not a store; write `memory`, redis://"));
        assert!(
            error(&none, "[transports.resp]\nhost = \"no host\"\n")
                .contains("a.toml: [transports.resp] host")
        );
        assert!(
            error(&none, "[store]\nsnapshot_every = \"30s\"\n").starts_with("--snapshot-every: there is no")
        );
        assert!(error(&none, "[server]\nauth_token = \"\"\n").starts_with("--auth-token: empty"));
        assert!(error(&none, "[server]\ntop_denied = 1001\n").contains("must be at most 1000"));
        for (line, expected) in [
            ("default_burst = 0", "a.toml: [limits] default_burst: 0; must be at least 1"),
            ("default_rate = -1", "a.toml: [limits] default_rate: -1; must be at least 1"),
            ("default_period = 0", "a.toml: [limits] default_period: 0; must be at least 1"),
        ] {
            assert_eq!(error(&none, &format!("[limits]\n{line}\n")), expected);
        }
        let flags = Flags { tls_cert: Some("a.pem".into()), ..Flags::default() };
        assert!(error(&flags, "").starts_with("--tls-cert without --tls-key"));
        assert!(error(&none, "[server]\ntls_key = \"a.pem\"\n").starts_with("--tls-key without --tls-cert"));
        let off = Some(Bind::Off);
        let flags = Flags { resp: off, http: off, grpc: off, msgpack: off, ..Flags::default() };
        assert!(error(&flags, "").starts_with("every transport is off"));
    }

    #[test]
    fn an_ipv6_host_needs_no_brackets() {
        let config = config("[transports.resp]\nhost = \"::1\"\n");
        let settings = settings(&Flags::default(), Some(&config)).unwrap();
        assert_eq!(settings.resp.unwrap().address.to_string(), "[::1]:6380");
    }
}
