//! Flags and environment over file over defaults.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use ratekeeper::store::{BreakerSettings, MemoryStoreBuilder};

use super::serve::Flags;
use ratekeeper_server::config::{Config, File, OnStoreError, TransportSection};
use ratekeeper_server::duration::DurationText;
use ratekeeper_server::limits::{Limits, QuotaBounds};
use ratekeeper_server::meter::Metrics;
use ratekeeper_server::secret::{Secret, SecretText, Tokens};
use ratekeeper_server::settings::{Bind, BindError, Endpoint, RedisSettings, Settings, StorePlace, TlsFiles};
use ratekeeper_server::units::{ByteSize, Percent};

/// Loopback, unless somebody decides otherwise.
const DEFAULT_HOST: &str = "127.0.0.1";
const STORES: &str =
    "`memory`, redis://host:port/0, rediss://…, redis-cluster://h1,h2 or redis-sentinel://h1,h2/name";
/// The bounds of what a Redis may take to answer, or to be connected to.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The longest that a Redis that fails is left alone.
const LONGEST_REST: Duration = Duration::from_secs(3_600);
/// The longest that a server goes on after it was told to stop.
const LONGEST_DRAIN: Duration = Duration::from_secs(3_600);
/// Keys in a Redis begin with it, each of them.
const MAX_PREFIX: usize = 128;
/// The defaults of [`BreakerSettings::failed_percent`], which sets both.
const BREAKER_PERCENT: u8 = 50;
const BREAKER_LEAST: u32 = 20;
/// Less would not even hold the tables of an empty store.
const LEAST_BYTES: u64 = MemoryStoreBuilder::LEAST_BYTES as u64;
const RESP_PORT: u16 = 6380;
const HTTP_PORT: u16 = 8080;
const GRPC_PORT: u16 = 8070;
const MSGPACK_PORT: u16 = 9090;

/// What flags (the environment is in them already) and file amount to.
pub(super) fn settings(flags: &Flags, config: Option<&Config>) -> Result<Settings> {
    layered(flags, config, Effort::Start)
}

/// Checks all that can be checked of a file that no server starts with now.
pub(super) fn check(flags: &Flags, config: &Config) -> Result<()> {
    layered(flags, Some(config), Effort::Check).map(|_| ())
}

/// How far what is written is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// Token files are read, and names of hosts are looked up.
    Start,
    /// They are not: nobody would use what is found, and they may be away for a while, or elsewhere.
    Check,
}

fn layered(flags: &Flags, config: Option<&Config>, effort: Effort) -> Result<Settings> {
    let nothing = File::default();
    let file = config.map_or(&nothing, |config| &config.file);
    let redis = redis(flags, config, file)?;
    let store = store(flags, config, file, &redis)?;
    let cores = || available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let resp = endpoint(flags, flags.resp, config, effort, "resp", &file.transports.resp, RESP_PORT)?;
    let http = endpoint(flags, flags.http, config, effort, "http", &file.transports.http, HTTP_PORT)?;
    let grpc = endpoint(flags, flags.grpc, config, effort, "grpc", &file.transports.grpc, GRPC_PORT)?;
    let msgpack =
        endpoint(flags, flags.msgpack, config, effort, "msgpack", &file.transports.msgpack, MSGPACK_PORT)?;
    if [&resp, &http, &grpc, &msgpack].into_iter().all(Option::is_none) {
        bail!("every transport is off; leave one on, for instance --resp 127.0.0.1:{RESP_PORT}");
    }
    let limits = limits(flags, config, file)?;
    let top_denied = flags.top_denied.or(file.server.top_denied).unwrap_or(0);
    let wrong = |is_flag, flag, setting, message: &str| mistake(config, is_flag, flag, setting, message);
    if top_denied > Metrics::MOST_TOP_DENIED {
        let message = format!("{top_denied}; must be at most {}", Metrics::MOST_TOP_DENIED);
        return Err(wrong(flags.top_denied.is_some(), "--top-denied", "server.top_denied", &message));
    }
    let DurationText(drain) = flags.drain.or(file.server.drain).unwrap_or_default();
    if drain > LONGEST_DRAIN {
        let message = format!("{drain:?}; must be at most {LONGEST_DRAIN:?}");
        return Err(wrong(flags.drain.is_some(), "--drain", "server.drain", &message));
    }
    let on_store_error = flags.on_store_error.or(file.limits.on_store_error).unwrap_or(OnStoreError::Error);
    let snapshot = flags.snapshot.clone().or_else(|| file.store.snapshot.clone());
    if snapshot.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
        let message = "empty; name a file, or leave it out";
        return Err(wrong(flags.snapshot.is_some(), "--snapshot", "store.snapshot", message));
    }
    if snapshot.is_some() && store != StorePlace::Memory {
        let message = "a Redis keeps its own state; leave it out, or use `--store memory`";
        return Err(wrong(flags.snapshot.is_some(), "--snapshot", "store.snapshot", message));
    }
    let snapshot_every = flags.snapshot_every.or(file.store.snapshot_every).unwrap_or_default().0;
    if !snapshot_every.is_zero() && snapshot.is_none() {
        let message = "there is no file to write; name one by --snapshot";
        return Err(wrong(
            flags.snapshot_every.is_some(),
            "--snapshot-every",
            "store.snapshot_every",
            message,
        ));
    }
    Ok(Settings {
        store,
        redis,
        resp,
        http,
        grpc,
        msgpack,
        loops: flags.loops.or(file.server.loops).unwrap_or_else(cores).get(),
        max_keys: flags
            .max_keys
            .or(file.store.max_keys)
            .map_or(MemoryStoreBuilder::DEFAULT_MAX_KEYS, NonZeroUsize::get),
        max_bytes: max_bytes(flags, config, file)?,
        kept_for_plans: (flags.kept_for_plans.or(file.store.kept_for_plans))
            .map_or(Settings::DEFAULT_KEPT_FOR_PLANS, Percent::get),
        // They are worth their bytes only to an administrator, who can forget them by prefix.
        keep_keys: (flags.keep_keys.or(file.store.keep_keys)).unwrap_or_else(|| has_admin(flags, file)),
        limits,
        tokens: tokens(flags, config, file, effort)?,
        tls: tls(flags, file)?,
        drain,
        snapshot,
        snapshot_every,
        on_store_error: on_store_error.into(),
        top_denied,
        log_level: flags.log_level.or(file.server.log_level).unwrap_or_default(),
        log_format: flags.log_format.or(file.server.log_format).unwrap_or_default(),
    })
}

/// A mistake in what a flag says, or else the file: named by flag, or by file, line and setting.
fn mistake(
    config: Option<&Config>,
    is_flag: bool,
    flag: &str,
    setting: &str,
    message: &str,
) -> anyhow::Error {
    match (config, setting.rsplit_once('.')) {
        (Some(config), Some((table, name))) if !is_flag => {
            config.mistake(setting, format!("[{table}] {name}: {message}")).into()
        }
        _ => anyhow!("{flag}: {message}"),
    }
}

/// What a request without limits is held to: checked now, and not when the first one comes.
fn limits(flags: &Flags, config: Option<&Config>, file: &File) -> Result<Limits> {
    let section = &file.limits;
    let bounds = quota_bounds(flags, config, file)?;
    let limits = Limits {
        burst: section.default_burst,
        rate: section.default_rate,
        period: section.default_period,
        bounds,
    };
    // What the file leaves to requests is assumed to be harmless. Where no quota is taken, these are not used either;
    // but once they are, they must be good ones.
    let one = |given: Option<i64>| given.unwrap_or(1);
    let used = Limits { bounds: QuotaBounds { plans_only: false, ..bounds }, ..limits };
    if let Err(refusal) = used.throttle(one(limits.burst), one(limits.rate), one(limits.period)) {
        let message = refusal.to_string().replace("max_burst", "default_burst");
        let message = message.replace("count_per_period", "default_rate");
        let message = match message.strip_prefix("period:") {
            Some(rest) => format!("default_period:{rest}"),
            None => message,
        };
        let name = message.split_once(':').map_or("", |(name, _)| name);
        let told =
            config.map(|config| config.mistake(&format!("limits.{name}"), format!("[limits] {message}")));
        return Err(told.map_or_else(|| anyhow!("[limits] {message}"), Into::into));
    }
    Ok(limits)
}

/// Bytes that the store in memory may allocate, if they were given.
fn max_bytes(flags: &Flags, config: Option<&Config>, file: &File) -> Result<Option<usize>> {
    match flags.max_bytes.or(file.store.max_bytes) {
        None => Ok(None),
        Some(ByteSize(bytes)) if bytes < LEAST_BYTES => {
            let message = format!("{bytes} bytes; must be at least {LEAST_BYTES} (1MiB)");
            Err(mistake(config, flags.max_bytes.is_some(), "--max-bytes", "store.max_bytes", &message))
        }
        // What this machine cannot address is no bound.
        Some(ByteSize(bytes)) => Ok(Some(usize::try_from(bytes).unwrap_or(usize::MAX))),
    }
}

/// The tokens, each from where it was given: itself, or a file that holds it.
fn tokens(flags: &Flags, config: Option<&Config>, file: &File, effort: Effort) -> Result<Tokens> {
    let server = &file.server;
    let auth = Given::new(
        (&flags.auth_token, &flags.auth_token_file),
        (&server.auth_token, &server.auth_token_file),
    );
    let admin = Given::new(
        (&flags.admin_token, &flags.admin_token_file),
        (&server.admin_token, &server.admin_token_file),
    );
    let metrics = Given::new(
        (&flags.metrics_token, &flags.metrics_token_file),
        (&server.metrics_token, &server.metrics_token_file),
    );
    let tokens = Tokens {
        auth: auth.read("auth", config, effort)?,
        admin: admin.read("admin", config, effort)?,
        metrics: metrics.read("metrics", config, effort)?,
    };
    for (token, is_flag, name, other, other_name, consequence) in [
        (&tokens.admin, admin.is_flag, "admin", &tokens.auth, "auth", "every client could forget every key"),
        (
            &tokens.metrics,
            metrics.is_flag,
            "metrics",
            &tokens.auth,
            "auth",
            "whoever reads metrics is a client",
        ),
        (
            &tokens.metrics,
            metrics.is_flag,
            "metrics",
            &tokens.admin,
            "admin",
            "whoever reads metrics could forget keys",
        ),
    ] {
        if let (Some(token), Some(other)) = (token, other)
            && token.is_same_as(other)
        {
            let message = format!("the same as the {other_name} token, so {consequence}; choose another");
            let (flag, setting) = (format!("--{name}-token"), format!("server.{name}_token"));
            return Err(mistake(config, is_flag, &flag, &setting, &message));
        }
    }
    Ok(tokens)
}

/// A token as it was given.
struct Given<'a> {
    is_flag: bool,
    text: Option<&'a SecretText>,
    path: Option<&'a PathBuf>,
}

type TokenOrFile<'a> = (&'a Option<SecretText>, &'a Option<PathBuf>);

impl<'a> Given<'a> {
    /// Flags come before the file: if they say anything of this token, the file says nothing of it.
    fn new(flag: TokenOrFile<'a>, setting: TokenOrFile<'a>) -> Self {
        let is_flag = flag.0.is_some() || flag.1.is_some();
        let (text, path) = if is_flag { flag } else { setting };
        Given { is_flag, text: text.as_ref(), path: path.as_ref() }
    }

    /// Messages never show a token, nor what else is in its file.
    fn read(&self, name: &str, config: Option<&Config>, effort: Effort) -> Result<Option<Secret>> {
        let wrong = |suffix: &str, message: &str| {
            let (flag, setting) = (format!("--{name}-token{suffix}"), format!("server.{name}_token{suffix}"));
            mistake(config, self.is_flag, &flag, &setting.replace('-', "_"), message)
        };
        match (self.text, self.path) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => {
                Err(wrong("-file", &format!("given together with the {name} token itself; give one of them")))
            }
            (Some(token), None) => match Secret::new(token) {
                Some(secret) => Ok(Some(secret)),
                None => Err(wrong("", "empty; give a token or leave it out")),
            },
            (None, Some(_)) if effort == Effort::Check => Ok(None),
            (None, Some(path)) => {
                let shown = path.display();
                let text = std::fs::read_to_string(path)
                    .map_err(|error| wrong("-file", &format!("{shown}: cannot be read: {error}")))?;
                let token = text.strip_suffix('\n').unwrap_or(&text);
                let token = token.strip_suffix('\r').unwrap_or(token);
                if token.contains('\n') {
                    return Err(wrong("-file", &format!("{shown}: has several lines; a token is one line")));
                }
                // Nobody sees them, and no client would send them.
                if token.starts_with('\u{feff}') || token.trim() != token || token.contains(char::is_control)
                {
                    let message = "has a byte-order mark, a blank at an end or a control character; write the \
                                   token alone";
                    return Err(wrong("-file", &format!("{shown}: {message}")));
                }
                match Secret::new(token) {
                    Some(secret) => Ok(Some(secret)),
                    None => Err(wrong("-file", &format!("{shown}: is empty; write the token into it"))),
                }
            }
        }
    }
}

/// What quotas requests may bring.
fn quota_bounds(flags: &Flags, config: Option<&Config>, file: &File) -> Result<QuotaBounds> {
    let default = QuotaBounds::default();
    let section = &file.limits;
    let max_period = match flags.max_period.or(section.max_period) {
        Some(DurationText(span)) if span < Duration::from_secs(1) => {
            let message = format!("{span:?}; must be at least 1s, the shortest period of THROTTLE");
            let is_flag = flags.max_period.is_some();
            return Err(mistake(config, is_flag, "--max-period", "limits.max_period", &message));
        }
        Some(DurationText(span)) => span.into(),
        None => default.max_period,
    };
    let max_log_entries = flags.max_log_entries.or(section.max_log_entries);
    Ok(QuotaBounds {
        max_period,
        allow_log: flags.allow_log.or(section.allow_log).unwrap_or(default.allow_log),
        max_log_entries: max_log_entries.map_or(default.max_log_entries, NonZeroU32::get),
        plans_only: flags.plans_only.or(section.plans_only).unwrap_or(default.plans_only),
    })
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

/// Where state lives. A URL is taken apart now, though nobody is asked yet.
fn store(
    flags: &Flags,
    config: Option<&Config>,
    file: &File,
    settings: &RedisSettings,
) -> Result<StorePlace> {
    let wrong = |is_flag, setting, message: &str| mistake(config, is_flag, "--store", setting, message);
    let redis = |url: &str, is_flag| {
        let built = settings.builder(url).build();
        built.map_err(|error| wrong(is_flag, "store.url", &error.to_string()))?;
        Ok(StorePlace::Redis(url.to_owned()))
    };
    if let Some(store) = &flags.store {
        return match &**store {
            "memory" => Ok(StorePlace::Memory),
            url if url.contains("://") => redis(url, true),
            other => Err(wrong(true, "", &format!("{}not a store; write {STORES}", word(other)))),
        };
    }
    match (file.store.kind.as_deref(), &file.store.url) {
        (None | Some("memory"), None) => Ok(StorePlace::Memory),
        (Some("memory"), Some(_)) => {
            Err(wrong(false, "store.url", "the store in memory has none; leave it out"))
        }
        (None | Some("redis"), Some(url)) => redis(url, false),
        (Some("redis"), None) => Err(wrong(false, "store.url", "missing; say where the Redis is")),
        (Some(kind), _) => {
            let message = format!("{}not a store; write \"memory\", or \"redis\" with a url", word(kind));
            Err(wrong(false, "store.type", &message))
        }
    }
}

/// What was given, if it is a mere word: a URL that is written wrongly may hold a password.
fn word(given: &str) -> String {
    let is_word = given.len() <= 20 && given.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_word { format!("{given}: ") } else { String::new() }
}

/// How a Redis is asked. Checked even if there is none: a mistake is one.
fn redis(flags: &Flags, config: Option<&Config>, file: &File) -> Result<RedisSettings> {
    let section = &file.store;
    let usual = RedisSettings::default();
    let time = |flag: Option<DurationText>, given: Option<DurationText>, name: &str, setting: &str| {
        let Some(DurationText(time)) = flag.or(given) else { return Ok(None) };
        if (SHORTEST_WAIT..=LONGEST_WAIT).contains(&time) {
            return Ok(Some(time));
        }
        let message = format!("{time:?}; must be from {SHORTEST_WAIT:?} to {LONGEST_WAIT:?}");
        Err(mistake(config, flag.is_some(), name, setting, &message))
    };
    let timeout = time(flags.redis_timeout, section.timeout, "--redis-timeout", "store.timeout")?;
    let connect_timeout = time(
        flags.redis_connect_timeout,
        section.connect_timeout,
        "--redis-connect-timeout",
        "store.connect_timeout",
    )?;
    let prefix = flags.redis_prefix.as_ref().or(section.prefix.as_ref()).cloned().unwrap_or(usual.prefix);
    // Braces would decide the slot in a cluster instead of the key.
    if prefix.is_empty() || prefix.len() > MAX_PREFIX || prefix.contains(['{', '}']) {
        let message = format!("{prefix:?}; must be 1 to {MAX_PREFIX} bytes without braces");
        return Err(mistake(
            config,
            flags.redis_prefix.is_some(),
            "--redis-prefix",
            "store.prefix",
            &message,
        ));
    }
    Ok(RedisSettings {
        timeout: timeout.unwrap_or(usual.timeout),
        connect_timeout: connect_timeout.unwrap_or(usual.connect_timeout),
        prefix,
        breaker: breaker(flags, config, file)?,
    })
}

/// When a Redis that fails is left alone; each part from the flag, the file or the default.
fn breaker(flags: &Flags, config: Option<&Config>, file: &File) -> Result<Option<BreakerSettings>> {
    let flag = flags.redis_breaker.map(|breaker| breaker.0).unwrap_or_default();
    let section = &file.store.breaker;
    let wrong = |is_flag, name: &str, message: &str| {
        let setting = format!("store.breaker.{name}");
        mistake(config, is_flag, &format!("--redis-breaker {name}"), &setting, message)
    };
    let mut settings = BreakerSettings::default();
    if let Some(failures) = flag.failures.or(section.failures) {
        settings = settings.failures_in_a_row(failures.get());
    }
    let percent = flag.percent.or(section.percent).unwrap_or(BREAKER_PERCENT);
    if !(1..=100).contains(&percent) {
        return Err(wrong(flag.percent.is_some(), "percent", &format!("{percent}; must be from 1 to 100")));
    }
    let least = flag.least.or(section.least).map_or(BREAKER_LEAST, NonZeroU32::get);
    settings = settings.failed_percent(percent, least);
    let time = |flag: Option<DurationText>, given: Option<DurationText>, name: &str| {
        let Some(DurationText(time)) = flag.or(given) else { return Ok(None) };
        if (SHORTEST_WAIT..=LONGEST_REST).contains(&time) {
            return Ok(Some(time));
        }
        let message = format!("{time:?}; must be from {SHORTEST_WAIT:?} to {LONGEST_REST:?}");
        Err(wrong(flag.is_some(), name, &message))
    };
    if let Some(window) = time(flag.window, section.window, "window")? {
        settings = settings.window(window);
    }
    if let Some(rest) = time(flag.rest, section.rest, "rest")? {
        settings = settings.rest(rest);
    }
    Ok(flag.enabled.or(section.enabled).unwrap_or(true).then_some(settings))
}

/// Where one transport listens, if it does.
fn endpoint(
    flags: &Flags,
    flag: Option<Bind>,
    config: Option<&Config>,
    effort: Effort,
    name: &str,
    section: &TransportSection,
    default_port: u16,
) -> Result<Option<Endpoint>> {
    let bind = match flag {
        Some(bind) => bind,
        None if section.enabled == Some(false) => Bind::Off,
        None => {
            let host = section.host.as_deref().unwrap_or(DEFAULT_HOST);
            let host = if effort == Effort::Check && is_host_name(host) { DEFAULT_HOST } else { host };
            let port = section.port.unwrap_or(default_port);
            // An IPv6 address stands in brackets before its port.
            let text = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
            text.parse().map_err(|error: BindError| {
                let setting = format!("transports.{name}.host");
                mistake(config, false, &format!("--{name}"), &setting, &format!("{host}: {error}"))
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

/// True of what a name server may know.
fn is_host_name(host: &str) -> bool {
    host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        && host.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// True if there is an admin token, wherever it is.
fn has_admin(flags: &Flags, file: &File) -> bool {
    let by_flag = flags.admin_token.is_some() || flags.admin_token_file.is_some();
    by_flag || file.server.admin_token.is_some() || file.server.admin_token_file.is_some()
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
            ("type = \"tape\"", "a.toml:2: [store] type: tape: not a store"),
            ("type = \"redis\"", "a.toml:1: [store] url: missing"),
            ("type = \"memory\"\nurl = \"redis://h\"", "a.toml:3: [store] url: the store in memory has none"),
            (
                "url = \"redis://h\"\nsnapshot = \"f\"",
                "a.toml:3: [store] snapshot: a Redis keeps its own state",
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
            ("breaker.rest = \"2h\"", "a.toml:2: [store.breaker] rest: 7200s; must be from 1ms to 3600s"),
        ] {
            assert_eq!(error(&none, &format!("[store]\n{line}\n")), expected);
        }
        let flags = Flags { redis_timeout: Some("61s".parse().unwrap()), ..Flags::default() };
        assert_eq!(error(&flags, ""), "--redis-timeout: 61s; must be from 1ms to 60s");
        let flags = Flags { redis_breaker: Some("percent=101".parse().unwrap()), ..Flags::default() };
        assert_eq!(error(&flags, ""), "--redis-breaker percent: 101; must be from 1 to 100");
        let flags = Flags { store: Some("tape".into()), ..Flags::default() };
        assert!(error(&flags, "").starts_with("--store: tape: not a store; write `memory`, redis://"));
        let said = error(&none, "[transports.resp]\nhost = \"no host\"\n");
        assert!(said.starts_with("a.toml:2: [transports.resp] host: no host: no address"), "{said}");
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
        let flags = Flags { top_denied: Some(1001), ..Flags::default() };
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
        let flags = Flags { tls_cert: Some("a.pem".into()), ..Flags::default() };
        assert!(error(&flags, "").starts_with("--tls-cert without --tls-key"));
        assert!(error(&none, "[server]\ntls_key = \"a.pem\"\n").starts_with("--tls-key without --tls-cert"));
        let off = Some(Bind::Off);
        let flags = Flags { resp: off, http: off, grpc: off, msgpack: off, ..Flags::default() };
        assert!(error(&flags, "").starts_with("every transport is off"));
    }

    #[test]
    fn a_redis_is_asked_as_flag_file_and_defaults_say() {
        let usual = settings(&Flags::default(), None).unwrap().redis;
        assert_eq!(usual, RedisSettings::default());
        let config = config(
            "[store]\ntimeout = \"250ms\"\nprefix = \"shop\"\nbreaker = { failures = 3, rest = \"5s\" }\n",
        );
        let flags = Flags {
            redis_prefix: Some("till".to_owned()),
            redis_breaker: Some("rest=7s,percent=20".parse().unwrap()),
            ..Flags::default()
        };
        let redis = settings(&flags, Some(&config)).unwrap().redis;
        let breaker = BreakerSettings::default().failures_in_a_row(3).failed_percent(20, 20);
        assert_eq!(redis.breaker, Some(breaker.rest(Duration::from_secs(7))));
        assert_eq!((redis.timeout, redis.prefix.as_str()), (Duration::from_millis(250), "till"));
        assert_eq!(redis.connect_timeout, Duration::from_millis(500));
        let off = Flags { redis_breaker: Some("off".parse().unwrap()), ..Flags::default() };
        assert_eq!(settings(&off, Some(&config)).unwrap().redis.breaker, None);
    }

    #[test]
    fn a_check_goes_by_what_is_written() {
        let none = Flags::default();
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
    fn an_ipv6_host_needs_no_brackets() {
        let config = config("[transports.resp]\nhost = \"::1\"\n");
        let settings = settings(&Flags::default(), Some(&config)).unwrap();
        assert_eq!(settings.resp.unwrap().address.to_string(), "[::1]:6380");
    }
}
