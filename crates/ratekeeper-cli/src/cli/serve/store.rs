//! Where state lives, and how much of it.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use ratekeeper::store::MemoryStoreBuilder;
use ratekeeper_server::config::{ByteSize, LeaseText, Percent};
use ratekeeper_server::{PostgresSettings, RedisSettings, Settings, StoreLocation};

use super::breaker::breaker;
use super::layers::Layers;
use super::tokens::has_admin;

const STORES: &str = "`memory`, redis://host:port/0, rediss://…, redis-cluster://h1,h2, redis-sentinel://h1,h2/name \
                      or postgres://user@host/database";
/// The bounds of what a Redis may take to answer, or to be connected to.
const REDIS_WAIT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);
/// Bytes that a prefix may have: every key in a Redis begins with it.
const MAX_PREFIX: usize = 128;
/// Less would not even hold the tables of an empty store.
const LEAST_BYTES: u64 = MemoryStoreBuilder::LEAST_BYTES as u64;

/// No disk syncs a file more often than this.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);

/// Returns where state lives. A URL is taken apart now, though no server is asked yet.
pub(super) fn store(
    layers: Layers<'_>,
    settings: &RedisSettings,
    postgres: &PostgresSettings,
) -> Result<StoreLocation> {
    let wrong = |is_flag, setting, message: &str| layers.mistake(is_flag, "--store", setting, message);
    let redis = |url: &str, is_flag| {
        if is_postgres(url) {
            check_postgres(url, settings, postgres)
                .map_err(|message| wrong(is_flag, "store.url", &message))?;
            return Ok(StoreLocation::Postgres(url.to_owned()));
        }
        let built = settings.builder(url).build();
        built.map_err(|error| wrong(is_flag, "store.url", &error.to_string()))?;
        Ok(StoreLocation::Redis(url.to_owned()))
    };
    if let Some(store) = &layers.flags.store {
        return match &**store {
            "memory" => Ok(StoreLocation::Memory),
            url if url.contains("://") => redis(url, true),
            other => Err(wrong(true, "", &format!("{}not a store; write {STORES}", word(other)))),
        };
    }
    let section = &layers.file.store;
    match (section.kind.as_deref(), &section.url) {
        (None | Some("memory"), None) => Ok(StoreLocation::Memory),
        (Some("memory"), Some(_)) => {
            Err(wrong(false, "store.url", "the store in memory has none; leave it out"))
        }
        (Some("redis"), Some(url)) if is_postgres(url) => {
            Err(wrong(false, "store.type", "redis: the url is that of a PostgreSQL; write \"postgres\""))
        }
        (Some("postgres"), Some(url)) if !is_postgres(url) => Err(wrong(
            false,
            "store.url",
            "scheme: not that of a PostgreSQL; use postgres://user@host/database",
        )),
        (None | Some("redis" | "postgres"), Some(url)) => redis(url, false),
        (Some("redis"), None) => Err(wrong(false, "store.url", "missing; say where the Redis is")),
        (Some("postgres"), None) => Err(wrong(false, "store.url", "missing; say where the PostgreSQL is")),
        (Some(kind), _) => {
            let message = format!(
                "{}not a store; write \"memory\", or \"redis\" or \"postgres\" with a url",
                word(kind)
            );
            Err(wrong(false, "store.type", &message))
        }
    }
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// Takes a URL apart, and the name of the table.
#[cfg(feature = "postgres")]
fn check_postgres(url: &str, settings: &RedisSettings, postgres: &PostgresSettings) -> Result<(), String> {
    postgres.builder(url, settings).check().map_err(|error| error.to_string())
}

#[cfg(not(feature = "postgres"))]
fn check_postgres(_: &str, _: &RedisSettings, _: &PostgresSettings) -> Result<(), String> {
    Err("postgres: this program was built without the feature `postgres`; build it with it".to_owned())
}

/// Returns what is particular to a PostgreSQL.
pub(super) fn postgres(layers: Layers<'_>) -> PostgresSettings {
    let (flags, section, usual) = (layers.flags, &layers.file.store, PostgresSettings::default());
    PostgresSettings {
        table: flags.postgres_table.clone().or_else(|| section.table.clone()).unwrap_or(usual.table),
        is_logged: section.logged.unwrap_or(usual.is_logged),
    }
}

/// Returns what was given, if it is a mere word: a URL that is written wrongly may hold a password.
fn word(given: &str) -> String {
    let is_word = given.len() <= 20 && given.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_word { format!("{given}: ") } else { String::new() }
}

/// Returns how a Redis is asked. Checked even if there is none: a mistake is one.
pub(super) fn redis(layers: Layers<'_>) -> Result<RedisSettings> {
    let (flags, section, usual) = (layers.flags, &layers.file.store, RedisSettings::default());
    let timeout = layers.pick(("--redis-timeout", flags.redis_timeout), ("store.timeout", section.timeout));
    let connect_timeout = layers.pick(
        ("--redis-connect-timeout", flags.redis_connect_timeout),
        ("store.connect_timeout", section.connect_timeout),
    );
    let prefix = layers
        .pick(("--redis-prefix", flags.redis_prefix.as_deref()), ("store.prefix", section.prefix.as_deref()));
    // Braces would decide the slot in a cluster instead of the key.
    let is_wrong =
        |prefix: &&str| prefix.is_empty() || prefix.len() > MAX_PREFIX || prefix.contains(['{', '}']);
    if let Some(text) = prefix.value.filter(is_wrong) {
        return Err(prefix.wrong(format_args!("{text:?}; must be 1 to {MAX_PREFIX} bytes without braces")));
    }
    let leased_keys =
        layers.pick(("--leased-keys", flags.leased_keys), ("store.leased_keys", section.leased_keys));
    if let Some(keys) = leased_keys.value.filter(|keys| *keys > RedisSettings::MOST_LEASED_KEYS) {
        let most = RedisSettings::MOST_LEASED_KEYS;
        return Err(leased_keys.wrong(format_args!("{keys}; must be at most {most}, or 0 for no leases")));
    }
    Ok(RedisSettings {
        timeout: timeout.within(REDIS_WAIT)?.unwrap_or(usual.timeout),
        connect_timeout: connect_timeout.within(REDIS_WAIT)?.unwrap_or(usual.connect_timeout),
        prefix: prefix.value.map_or_else(|| usual.prefix.clone(), str::to_owned),
        breaker: breaker(layers)?,
        lease: flags.lease.or(section.lease.map(|LeaseText(lease)| lease)).unwrap_or(usual.lease),
        leased_keys: leased_keys.value.unwrap_or(usual.leased_keys),
        ..usual
    })
}

/// The bounds of the store in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryBounds {
    pub(super) max_keys: usize,
    pub(super) max_bytes: Option<usize>,
    pub(super) kept_for_plans: u8,
    pub(super) keep_keys: bool,
}

/// Returns the bounds of the store in memory.
pub(super) fn memory(layers: Layers<'_>) -> Result<MemoryBounds> {
    let (flags, section) = (layers.flags, &layers.file.store);
    let max_bytes = layers.pick(("--max-bytes", flags.max_bytes), ("store.max_bytes", section.max_bytes));
    if let Some(ByteSize(bytes)) = max_bytes.value.filter(|ByteSize(bytes)| *bytes < LEAST_BYTES) {
        return Err(max_bytes.wrong(format_args!("{bytes} bytes; must be at least {LEAST_BYTES} (1MiB)")));
    }
    // What this machine cannot address is no bound.
    let addressable = |ByteSize(bytes)| usize::try_from(bytes).unwrap_or(usize::MAX);
    let max_keys = flags.max_keys.or(section.max_keys);
    let kept_for_plans = flags.kept_for_plans.or(section.kept_for_plans);
    Ok(MemoryBounds {
        max_keys: max_keys.map_or(MemoryStoreBuilder::DEFAULT_MAX_KEYS, NonZeroUsize::get),
        max_bytes: max_bytes.value.map(addressable),
        kept_for_plans: kept_for_plans.map_or(Settings::DEFAULT_KEPT_FOR_PLANS, Percent::get),
        // They are worth their bytes only to an administrator, who can forget them by prefix.
        keep_keys: flags.keep_keys.or(section.keep_keys).unwrap_or_else(|| has_admin(layers)),
    })
}

/// Returns the file that state is written to, if any, and how often it is written besides on stop.
pub(super) fn snapshot(layers: Layers<'_>, store: &StoreLocation) -> Result<(Option<PathBuf>, Duration)> {
    let (flags, section) = (layers.flags, &layers.file.store);
    let path = layers
        .pick(("--snapshot", flags.snapshot.as_deref()), ("store.snapshot", section.snapshot.as_deref()));
    if path.value.is_some_and(|path| path.as_os_str().is_empty()) {
        return Err(path.wrong("empty; name a file, or leave it out"));
    }
    if path.value.is_some() && *store != StoreLocation::Memory {
        return Err(path.wrong("a shared store keeps its own state; leave it out, or use `--store memory`"));
    }
    let every = layers
        .pick(("--snapshot-every", flags.snapshot_every), ("store.snapshot_every", section.snapshot_every));
    let interval = every.value.unwrap_or_default().0;
    if !interval.is_zero() && path.value.is_none() {
        return Err(every.wrong("there is no file to write; name one by --snapshot"));
    }
    if !interval.is_zero() && interval < LEAST_INTERVAL {
        return Err(
            every.wrong(format_args!("{interval:?}; must be at least {LEAST_INTERVAL:?}, or 0s for never"))
        );
    }
    Ok((path.value.map(Into::into), interval))
}
