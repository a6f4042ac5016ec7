//! Where counters are kept.

use std::path::PathBuf;
use std::time::Duration;

use ratekeeper::Lease;
use ratekeeper_redis::RedisTls;
use ratekeeper_server::config::may_hold_password;
use ratekeeper_server::{RedisSettings, StoreLocation};

use super::variables::{VariableError, Variables};

/// Bytes of the local cache that a refusal is worth.
const REFUSAL_BYTES: usize = 128;
/// As many refusals are remembered at the most.
const MOST_REFUSALS: usize = 1 << 20;
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What a server of Redis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RedisKind {
    Single,
    Sentinel,
    Cluster,
}

/// Returns where counters are kept: in memory, unless there is a Redis.
pub(super) fn store(variables: &Variables) -> Result<StoreLocation, VariableError> {
    match variables.given("BACKEND_TYPE") {
        None | Some("" | "redis") => {}
        Some("memcache") => {
            let message = "memcache: counters cannot be kept in memcached, which does not compare and count in \
                           one step; use `redis`, or leave out REDIS_URL to count in memory";
            return Err(VariableError::new("BACKEND_TYPE", message));
        }
        Some(other) => return Err(VariableError::quoting("BACKEND_TYPE", other, "write `redis`")),
    }
    let kind = kind(variables)?;
    let Some(given) = variables.text("REDIS_URL") else { return Ok(StoreLocation::Memory) };
    let is_tls = variables.bool("REDIS_TLS")?;
    let credentials = credentials(variables.text("REDIS_AUTH"));
    let url = match kind {
        RedisKind::Single if given.contains("://") => with_credentials(given, &credentials, is_tls),
        RedisKind::Single if is_socket(variables, given)? => {
            if is_tls {
                let message = "a Unix socket is not encrypted; leave out REDIS_TLS";
                return Err(VariableError::new("REDIS_TLS", message));
            }
            socket_url(given, variables.text("REDIS_AUTH"))
        }
        RedisKind::Single => format!("{}://{credentials}{given}", scheme("redis", is_tls)),
        RedisKind::Cluster => format!("{}://{credentials}{given}", scheme_of("redis", "-cluster", is_tls)),
        RedisKind::Sentinel => {
            let (master, hosts) =
                given.split_once(',').filter(|(master, _)| !master.is_empty()).ok_or_else(|| {
                    let message = "sentinels are named as `master,host:port,host:port`";
                    VariableError::new("REDIS_URL", message)
                })?;
            let own = match credentials_of(variables.text("REDIS_SENTINEL_AUTH")) {
                None => String::new(),
                Some((None, password)) => format!("?sentinel_password={}", escaped(password, "")),
                Some((Some(user), password)) => {
                    format!(
                        "?sentinel_user={}&sentinel_password={}",
                        escaped(user, ""),
                        escaped(password, "")
                    )
                }
            };
            let scheme = scheme_of("redis", "-sentinel", is_tls);
            format!("{scheme}://{credentials}{hosts}/{}{own}", escaped(master, ""))
        }
    };
    Ok(StoreLocation::Redis(url))
}

/// Returns how the Redis is asked. The URL is taken apart, though no server is asked yet.
pub(super) fn settings(variables: &Variables, store: &StoreLocation) -> Result<RedisSettings, VariableError> {
    let usual = RedisSettings::default();
    let timeout = variables.duration("REDIS_TIMEOUT")?;
    if let Some(timeout) = timeout.filter(|time| *time < Duration::from_millis(1) || *time > LONGEST_WAIT) {
        let right = format!("must be from 1ms to {LONGEST_WAIT:?}");
        return Err(VariableError::quoting("REDIS_TIMEOUT", &format!("{timeout:?}"), right));
    }
    let cache: usize =
        variables.number("LOCAL_CACHE_SIZE_IN_BYTES", "write a number of bytes; 0 is no cache")?.unwrap_or(0);
    let refusals = if cache == 0 { 0 } else { (cache / REFUSAL_BYTES).clamp(1, MOST_REFUSALS) };
    let settings = RedisSettings {
        timeout: timeout.unwrap_or(usual.timeout),
        connect_timeout: timeout.unwrap_or(usual.connect_timeout),
        prefix: prefix(variables, &usual.prefix),
        breaker: usual.breaker,
        denials: refusals,
        // That service has no such setting, and counts every hit.
        lease: Lease::OFF,
        leased_keys: 0,
        tls: tls(variables)?,
    };
    if let StoreLocation::Redis(url) = store {
        let built = settings.builder(url).build();
        built.map_err(|error| VariableError::new("REDIS_URL", error.to_string()))?;
    }
    Ok(settings)
}

/// Two services with different prefixes share no limits, however these lie: what is not a counter of the Go service does
/// not begin with that prefix by itself.
fn prefix(variables: &Variables, usual: &str) -> String {
    RedisSettings::prefix_within(usual, variables.text("CACHE_KEY_PREFIX").unwrap_or_default())
}

fn kind(variables: &Variables) -> Result<RedisKind, VariableError> {
    let name = "REDIS_TYPE";
    match variables.text(name) {
        None => Ok(RedisKind::Single),
        Some(word) if word.eq_ignore_ascii_case("SINGLE") => Ok(RedisKind::Single),
        Some(word) if word.eq_ignore_ascii_case("SENTINEL") => Ok(RedisKind::Sentinel),
        Some(word) if word.eq_ignore_ascii_case("CLUSTER") => Ok(RedisKind::Cluster),
        Some(other) => Err(VariableError::quoting(name, other, "write `SINGLE`, `SENTINEL` or `CLUSTER`")),
    }
}

/// Returns whether the server is a socket of this machine. Without a word on it, what begins like a path is one.
fn is_socket(variables: &Variables, given: &str) -> Result<bool, VariableError> {
    let is_path = given.starts_with('/');
    let name = "REDIS_SOCKET_TYPE";
    let wrong = |right: &str| {
        // Who has written a password into it shall not find it in a log.
        let shown = if may_hold_password(given) { "…" } else { given };
        VariableError::quoting("REDIS_URL", shown, right)
    };
    match variables.text(name) {
        None => Ok(is_path),
        Some("unix") if is_path => Ok(true),
        Some("unix") => Err(wrong("REDIS_SOCKET_TYPE=unix needs the absolute path of a socket")),
        Some("tcp" | "tcp4" | "tcp6") if !is_path => Ok(false),
        Some("tcp" | "tcp4" | "tcp6") => Err(wrong("REDIS_SOCKET_TYPE=tcp needs `host:port`")),
        Some(other) => Err(VariableError::quoting(name, other, "write `tcp` or `unix`")),
    }
}

fn scheme(name: &str, is_tls: bool) -> String {
    scheme_of(name, "", is_tls)
}

fn scheme_of(name: &str, kind: &str, is_tls: bool) -> String {
    format!("{name}{}{kind}", if is_tls { "s" } else { "" })
}

/// Returns user and password of `password` or `user:password`.
fn credentials_of(auth: Option<&str>) -> Option<(Option<&str>, &str)> {
    let auth = auth?;
    Some(auth.split_once(':').map_or((None, auth), |(user, password)| (Some(user), password)))
}

/// Returns what stands before the host of a URL: `user:password@`, or nothing.
fn credentials(auth: Option<&str>) -> String {
    match credentials_of(auth) {
        None => String::new(),
        Some((user, password)) => {
            format!("{}:{}@", escaped(user.unwrap_or_default(), ""), escaped(password, ""))
        }
    }
}

/// Returns a URL that was given as such, with credentials unless it has its own.
fn with_credentials(url: &str, credentials: &str, is_tls: bool) -> String {
    let url = match url.strip_prefix("redis://") {
        Some(rest) if is_tls => format!("rediss://{rest}"),
        _ => url.to_owned(),
    };
    match url.split_once("://") {
        Some((scheme, rest)) if !rest.contains('@') => format!("{scheme}://{credentials}{rest}"),
        _ => url,
    }
}

fn socket_url(path: &str, auth: Option<&str>) -> String {
    let path = escaped(path, "/");
    match credentials_of(auth) {
        None => format!("unix://{path}"),
        Some((None, password)) => format!("unix://{path}?password={}", escaped(password, "")),
        Some((Some(user), password)) => {
            format!("unix://{path}?user={}&password={}", escaped(user, ""), escaped(password, ""))
        }
    }
}

/// Returns a text in which everything but letters, digits, `-._~` and these is an escape.
fn escaped(text: &str, plain: &str) -> String {
    let is_plain = |byte: u8| {
        byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || plain.as_bytes().contains(&byte)
    };
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn tls(variables: &Variables) -> Result<RedisTls, VariableError> {
    let any_name = variables.bool("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION")?;
    if !variables.bool("REDIS_TLS")? {
        return Ok(RedisTls::default());
    }
    let file = |name| variables.text(name).map(PathBuf::from);
    let client = match (file("REDIS_TLS_CLIENT_CERT"), file("REDIS_TLS_CLIENT_KEY")) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        (Some(_), None) => {
            return Err(VariableError::new(
                "REDIS_TLS_CLIENT_KEY",
                "missing; REDIS_TLS_CLIENT_CERT needs its key",
            ));
        }
        (None, Some(_)) => {
            return Err(VariableError::new(
                "REDIS_TLS_CLIENT_CERT",
                "missing; REDIS_TLS_CLIENT_KEY needs its certificate",
            ));
        }
    };
    Ok(RedisTls { ca: file("REDIS_TLS_CACERT"), client, any_name })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url<const N: usize>(pairs: [(&str, &str); N]) -> String {
        match store(&pairs.into()).unwrap() {
            StoreLocation::Redis(url) => url,
            other => format!("{other:?}").to_lowercase(),
        }
    }

    #[test]
    fn every_kind_of_server_becomes_a_url() {
        assert_eq!(url([]), "memory");
        assert_eq!(url([("BACKEND_TYPE", "redis"), ("REDIS_URL", "")]), "memory");
        assert_eq!(url([("REDIS_URL", "redis:6379"), ("REDIS_SOCKET_TYPE", "tcp")]), "redis://redis:6379");
        assert_eq!(url([("REDIS_URL", "redis:6379")]), "redis://redis:6379");
        assert_eq!(url([("REDIS_URL", "redis:6379"), ("REDIS_TLS", "true")]), "rediss://redis:6379");
        assert_eq!(url([("REDIS_URL", "r:1"), ("REDIS_AUTH", "pa ss")]), "redis://:pa%20ss@r:1");
        assert_eq!(url([("REDIS_URL", "r:1"), ("REDIS_AUTH", "me:p:@/")]), "redis://me:p%3A%40%2F@r:1");
        assert_eq!(url([("REDIS_URL", "/run/redis.sock")]), "unix:///run/redis.sock");
        assert_eq!(
            url([("REDIS_URL", "/run/a b.sock"), ("REDIS_SOCKET_TYPE", "unix"), ("REDIS_AUTH", "u:p&q")]),
            "unix:///run/a%20b.sock?user=u&password=p%26q"
        );
        assert_eq!(
            url([("REDIS_URL", "m-1,a:26379,b:26379"), ("REDIS_TYPE", "sentinel"), ("REDIS_AUTH", "p")]),
            "redis-sentinel://:p@a:26379,b:26379/m-1"
        );
        assert_eq!(
            url([
                ("REDIS_URL", "mymaster,a:1"),
                ("REDIS_TYPE", "SENTINEL"),
                ("REDIS_TLS", "1"),
                ("REDIS_SENTINEL_AUTH", "watch:pw"),
            ]),
            "rediss-sentinel://a:1/mymaster?sentinel_user=watch&sentinel_password=pw"
        );
        assert_eq!(url([("REDIS_URL", "a:1,b:2"), ("REDIS_TYPE", "CLUSTER")]), "redis-cluster://a:1,b:2");
        assert_eq!(url([("REDIS_URL", "redis://h:1/2"), ("REDIS_AUTH", "p")]), "redis://:p@h:1/2");
        assert_eq!(url([("REDIS_URL", "redis://:q@h:1"), ("REDIS_TLS", "T")]), "rediss://:q@h:1");
    }

    #[test]
    fn each_of_these_urls_is_one_that_the_store_takes() {
        for pairs in [
            [("REDIS_URL", "redis:6379"), ("REDIS_AUTH", "me:p:@/?#")],
            [("REDIS_URL", "/run/a b.sock"), ("REDIS_AUTH", "u:p&q=%")],
            [("REDIS_URL", "m/1,a:1,b"), ("REDIS_TYPE", "SENTINEL")],
            [("REDIS_URL", "a:1,b:2"), ("REDIS_TYPE", "CLUSTER")],
        ] {
            let variables = Variables::from(pairs);
            let store = store(&variables).unwrap();
            assert!(settings(&variables, &store).is_ok(), "{pairs:?}");
        }
    }

    #[test]
    fn mistakes_name_the_variable_and_what_is_right() {
        let said = |pairs: [(&str, &str); 2]| {
            let variables = Variables::from(pairs);
            let store = store(&variables);
            store.and_then(|store| settings(&variables, &store)).unwrap_err().to_string()
        };
        for (pairs, expected) in [
            (
                [("BACKEND_TYPE", "memcache"), ("REDIS_URL", "r:1")],
                "BACKEND_TYPE: memcache: counters cannot be kept in",
            ),
            ([("BACKEND_TYPE", "tape"), ("", "")], "BACKEND_TYPE: \"tape\"; write `redis`"),
            ([("REDIS_TYPE", "RING"), ("", "")], "REDIS_TYPE: \"RING\"; write `SINGLE`, `SENTINEL` or"),
            (
                [("REDIS_URL", "a:1"), ("REDIS_TYPE", "sentinel")],
                "REDIS_URL: sentinels are named as `master,host:port",
            ),
            ([("REDIS_URL", "r:x"), ("", "")], "REDIS_URL: port: a port is a number"),
            (
                [("REDIS_URL", "r:1"), ("REDIS_SOCKET_TYPE", "unix")],
                "REDIS_URL: \"r:1\"; REDIS_SOCKET_TYPE=unix needs the",
            ),
            (
                [("REDIS_URL", "/s"), ("REDIS_SOCKET_TYPE", "tcp")],
                "REDIS_URL: \"/s\"; REDIS_SOCKET_TYPE=tcp needs `host",
            ),
            (
                [("REDIS_URL", "r:1"), ("REDIS_SOCKET_TYPE", "udp")],
                "REDIS_SOCKET_TYPE: \"udp\"; write `tcp` or `unix`",
            ),
            ([("REDIS_URL", "/s"), ("REDIS_TLS", "true")], "REDIS_TLS: a Unix socket is not encrypted"),
            ([("REDIS_URL", "r:1"), ("REDIS_TLS", "on")], "REDIS_TLS: \"on\"; write `true` or `false`"),
            ([("REDIS_TIMEOUT", "10"), ("", "")], "REDIS_TIMEOUT: \"10\"; write a duration such as `100ms`"),
            ([("REDIS_TIMEOUT", "0"), ("", "")], "REDIS_TIMEOUT: \"0ns\"; must be from 1ms to 60s"),
            (
                [("LOCAL_CACHE_SIZE_IN_BYTES", "1MB"), ("", "")],
                "LOCAL_CACHE_SIZE_IN_BYTES: \"1MB\"; write a number of",
            ),
            (
                [("REDIS_TLS", "true"), ("REDIS_TLS_CLIENT_CERT", "c")],
                "REDIS_TLS_CLIENT_KEY: missing; REDIS_TLS_CLIENT_",
            ),
        ] {
            let said = said(pairs);
            assert!(said.starts_with(expected), "{pairs:?}: {said}");
        }
    }

    #[test]
    fn how_a_redis_is_asked() {
        let of = |pairs: [(&str, &str); 2]| settings(&pairs.into(), &StoreLocation::Memory).unwrap();
        let usual = of([("", ""), ("", "")]);
        assert_eq!(
            usual,
            RedisSettings { denials: 0, leased_keys: 0, ..RedisSettings::default() },
            "no cache unless it is asked for"
        );
        let own = of([("REDIS_TIMEOUT", "1.5s"), ("CACHE_KEY_PREFIX", "{a}")]);
        assert_eq!(
            (own.timeout, own.connect_timeout),
            (Duration::from_millis(1500), Duration::from_millis(1500))
        );
        assert_eq!(own.prefix, "rate_limiter:%7Ba%7D");
        let theirs = of([("LOCAL_CACHE_SIZE_IN_BYTES", "1280"), ("CACHE_KEY_PREFIX", "a")]);
        assert_eq!((theirs.prefix.as_str(), theirs.denials), ("rate_limiter:a", 10));
    }
}
