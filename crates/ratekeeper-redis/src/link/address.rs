//! What a URL says about where a server is, or which part of it is wrong.

use std::fmt;

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use crate::error::{RedisError, RedisErrorKind};
#[cfg(feature = "tls")]
use crate::tls_files::RedisTls;

const SCHEMES: &str = "redis://, rediss://, unix://, redis+unix://, redis-cluster://, rediss-cluster://, \
                       redis-sentinel:// or rediss-sentinel://";
const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Where a server is, or a group of them.
///
/// | URL | what |
/// |---|---|
/// | `redis://user:password@host:6379/2` | one server, database 2 |
/// | `rediss://…` | the same with TLS |
/// | `unix:///run/redis.sock?db=2&user=…&password=…`, `redis+unix://…` | one server by its socket |
/// | `redis-cluster://user:password@host1:7000,host2,host3` | a cluster, by some of its nodes |
/// | `redis-sentinel://user:password@host1:26379,host2/mymaster/2` | the master of that name, wherever it is |
///
/// A sentinel that wants a password of its own gets `?sentinel_user=…&sentinel_password=…`. `%` starts an escape in
/// users, passwords and paths.
#[derive(Clone)]
pub(crate) struct RedisAddress {
    pub(super) endpoint: RedisEndpoint,
    /// The URL without its secrets.
    shown: String,
}

/// What a URL leads to.
#[derive(Clone)]
pub(super) enum RedisEndpoint {
    /// One server.
    Server(ConnectionInfo),
    /// A cluster, by some of its nodes.
    Cluster { seeds: Vec<ConnectionInfo> },
    /// A master that sentinels watch; its credentials and database are in `template`.
    Sentinel { sentinels: Vec<ConnectionInfo>, master: String, template: ConnectionInfo },
}

impl RedisAddress {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// Names the part that is wrong and does not quote it: wherever a URL is mistyped, a part may be a password.
    pub(crate) fn parse(url: &str) -> Result<Self, RedisError> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(wrong("URL", format!("no scheme; begin it with {SCHEMES}")));
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (is_tls, kind) = match scheme {
            "unix" | "redis+unix" => {
                let endpoint = RedisEndpoint::Server(socket(rest, query)?);
                return Ok(RedisAddress { endpoint, shown: format!("{scheme}://{rest}") });
            }
            "redis" | "valkey" => (false, SchemeKind::Server),
            "rediss" | "valkeys" => (true, SchemeKind::Server),
            "redis-cluster" => (false, SchemeKind::Cluster),
            "rediss-cluster" => (true, SchemeKind::Cluster),
            "redis-sentinel" => (false, SchemeKind::Sentinel),
            "rediss-sentinel" => (true, SchemeKind::Sentinel),
            // A typing error is seen sooner if it is shown, and only this part is never meant to be a secret.
            _ if scheme.len() <= 16
                && scheme.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') =>
            {
                return Err(wrong("scheme", format!("{scheme}; use {SCHEMES}")));
            }
            _ => return Err(wrong("scheme", format!("use {SCHEMES}"))),
        };
        if is_tls && !cfg!(feature = "tls") {
            return Err(wrong("scheme", "for TLS, build with the feature `tls`"));
        }
        #[cfg(feature = "tls")]
        if is_tls {
            // Whoever was first has chosen for the whole process, which is fine.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        // A password may hold a slash: the authority ends at the first one after the last `@`.
        let (credentials, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let settings = credentials_of(credentials)?;
        let shown = format!("{scheme}://{rest}");
        let port = if matches!(kind, SchemeKind::Sentinel) { SENTINEL_PORT } else { REDIS_PORT };
        let hosts = hosts.split(',').map(|host| host_and_port(host, port, is_tls));
        let hosts: Vec<ConnectionAddr> = hosts.collect::<Result<_, _>>()?;
        let at = |address: &ConnectionAddr, settings: &RedisConnectionInfo| {
            info(address.clone(), settings.clone())
        };
        let endpoint = match kind {
            SchemeKind::Server => {
                no_query(query)?;
                let [address] = hosts.as_slice() else {
                    return Err(wrong("host", "name one host, or use redis-cluster://"));
                };
                RedisEndpoint::Server(at(address, &database(settings, path)?)?)
            }
            SchemeKind::Cluster => {
                no_query(query)?;
                if !matches!(path, "" | "0") {
                    return Err(wrong("database", "a cluster has database 0 alone"));
                }
                let seeds = hosts.iter().map(|address| at(address, &settings));
                RedisEndpoint::Cluster { seeds: seeds.collect::<Result<_, _>>()? }
            }
            SchemeKind::Sentinel => {
                let (master, db) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    let remedy =
                        "name the master that the sentinels watch: redis-sentinel://host1,host2/mymaster";
                    return Err(wrong("master", remedy));
                }
                let own = sentinel_settings(query)?;
                let sentinels = hosts.iter().map(|address| at(address, &own));
                let sentinels = sentinels.collect::<Result<_, _>>()?;
                let template = at(&hosts[0], &database(settings, db)?)?;
                RedisEndpoint::Sentinel { sentinels, master: unescape(master, "master")?, template }
            }
        };
        Ok(RedisAddress { endpoint, shown })
    }
}

impl RedisAddress {
    /// Returns the address with these certificates for every server of it. One that is not encrypted has no use for them.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or has no certificate or key in it.
    #[cfg(feature = "tls")]
    pub(crate) fn with_tls(mut self, tls: &RedisTls) -> Result<Self, RedisError> {
        let certificates = tls.read()?;
        let encrypt = |info: &mut ConnectionInfo| encrypt(info, &certificates, tls.any_name);
        match &mut self.endpoint {
            RedisEndpoint::Server(info) => encrypt(info)?,
            RedisEndpoint::Cluster { seeds } => seeds.iter_mut().try_for_each(encrypt)?,
            RedisEndpoint::Sentinel { sentinels, template, .. } => {
                sentinels.iter_mut().chain([template]).try_for_each(encrypt)?;
            }
        }
        Ok(self)
    }
}

#[cfg(feature = "tls")]
fn encrypt(
    info: &mut ConnectionInfo,
    certificates: &redis::TlsCertificates,
    any_name: bool,
) -> Result<(), RedisError> {
    if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        return Ok(());
    }
    let client = redis::Client::build_with_tls(info.clone(), certificates.clone());
    let client = client.map_err(|error| wrong("TLS", error))?;
    let built = client.get_connection_info();
    let mut address = built.addr().clone();
    address.set_danger_accept_invalid_hostnames(any_name);
    *info = built.clone().set_addr(address);
    Ok(())
}

/// What the scheme of a URL says that it leads to.
enum SchemeKind {
    Server,
    Cluster,
    Sentinel,
}

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisAddress({})", self.shown)
    }
}

/// Returns how to reach an address with these credentials. Answers are small and waited for, so nothing is held back to fill
/// a packet.
pub(super) fn info(
    address: ConnectionAddr,
    settings: RedisConnectionInfo,
) -> Result<ConnectionInfo, RedisError> {
    let info = address.into_connection_info().map_err(|error| wrong("address", error.to_string()))?;
    Ok(info.set_redis_settings(settings).set_tcp_settings(TcpSettings::default().set_nodelay(true)))
}

/// Returns how to reach another host with the same settings: servers name each other.
pub(super) fn moved(like: &ConnectionInfo, host: &str, port: u16) -> Result<ConnectionInfo, RedisError> {
    let address = match like.addr() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
            host: host.into(),
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        },
        _ => tcp(host, port, false),
    };
    info(address, like.redis_settings().clone())
}

fn tcp(host: &str, port: u16, is_tls: bool) -> ConnectionAddr {
    match is_tls {
        true => ConnectionAddr::TcpTls { host: host.into(), port, insecure: false, tls_params: None },
        false => ConnectionAddr::Tcp(host.into(), port),
    }
}

fn socket(path: &str, query: &str) -> Result<ConnectionInfo, RedisError> {
    let path = unescape(path, "path")?;
    if !path.starts_with('/') {
        return Err(wrong("path", "a socket has an absolute path: unix:///run/redis.sock"));
    }
    let mut settings = RedisConnectionInfo::default();
    for (name, value) in pairs(query) {
        let value = unescape(value, "parameter")?;
        settings = match name {
            "db" => database(settings, &value)?,
            "user" => settings.set_username(value),
            "password" => settings.set_password(value),
            _ => return Err(wrong("parameter", "a socket takes db, user and password")),
        };
    }
    info(ConnectionAddr::Unix(path.into()), settings)
}

fn sentinel_settings(query: &str) -> Result<RedisConnectionInfo, RedisError> {
    let mut settings = RedisConnectionInfo::default();
    for (name, value) in pairs(query) {
        let value = unescape(value, "parameter")?;
        settings = match name {
            "sentinel_user" => settings.set_username(value),
            "sentinel_password" => settings.set_password(value),
            _ => {
                return Err(wrong(
                    "parameter",
                    "redis-sentinel:// takes sentinel_user and sentinel_password",
                ));
            }
        };
    }
    Ok(settings)
}

fn no_query(query: &str) -> Result<(), RedisError> {
    match query {
        "" => Ok(()),
        _ => Err(wrong("parameter", "this URL takes none; write a `?` in a password as %3F")),
    }
}

fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// `user:password`, `:password`, or nothing.
fn credentials_of(text: &str) -> Result<RedisConnectionInfo, RedisError> {
    let mut settings = RedisConnectionInfo::default();
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    if !user.is_empty() {
        settings = settings.set_username(unescape(user, "user")?);
    }
    if !password.is_empty() {
        settings = settings.set_password(unescape(password, "password")?);
    }
    Ok(settings)
}

fn database(settings: RedisConnectionInfo, text: &str) -> Result<RedisConnectionInfo, RedisError> {
    if text.is_empty() {
        return Ok(settings);
    }
    let number: u32 =
        text.parse().map_err(|_| wrong("database", "a database is a number, 0 unless given"))?;
    Ok(settings.set_db(number.into()))
}

/// `host`, `host:port`, `[::1]` or `[::1]:port`.
fn host_and_port(text: &str, default: u16, is_tls: bool) -> Result<ConnectionAddr, RedisError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let bracket = rest.split_once(']');
            let (host, rest) = bracket.ok_or_else(|| wrong("host", "close the bracket"))?;
            (host, rest.strip_prefix(':').or((!rest.is_empty()).then_some(rest)))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(wrong("host", "name a host, as in redis://localhost:6379"));
    }
    let port = match port {
        None => default,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            // It may be a password, with a user before it and no host after it.
            _ => {
                let remedy = "a port is a number from 1 to 65535; a password has `@` and the host after it";
                return Err(wrong("port", remedy));
            }
        },
    };
    Ok(tcp(host, port, is_tls))
}

/// Replaces each `%` and two hexadecimal digits by the byte they stand for. The value may be a secret, so the error does
/// not show it.
fn unescape(text: &str, part: &str) -> Result<String, RedisError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit =
                    |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                let byte = digit(*high).zip(digit(*low)).map(|(high, low)| high * 16 + low);
                (byte.ok_or_else(|| bad_escape(part))?, after)
            }
            (b'%', _) => return Err(bad_escape(part)),
            (byte, after) => (*byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| bad_escape(part))
}

fn bad_escape(part: &str) -> RedisError {
    wrong(part, "a bad escape; write `%` as %25 and others as % and two hexadecimal digits, in UTF-8")
}

/// Returns the error that says which part is wrong, and what to do. Not what the part is: it may be a password.
fn wrong(part: &str, remedy: impl fmt::Display) -> RedisError {
    RedisError::new(RedisErrorKind::Address, format!("{part}: {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        RedisAddress::parse(url).expect_err(url).to_string()
    }

    fn server(url: &str) -> ConnectionInfo {
        match RedisAddress::parse(url).expect(url).endpoint {
            RedisEndpoint::Server(info) => info,
            _ => panic!("{url}: one server"),
        }
    }

    #[test]
    fn one_server() {
        let info = server("redis://us%40er:pa%2Fss:w@example.org:7000/2");
        assert_eq!(info.addr().to_string(), "example.org:7000");
        let settings = info.redis_settings();
        assert_eq!((settings.username(), settings.password()), (Some("us@er"), Some("pa/ss:w")));
        assert_eq!(settings.db(), 2);
        assert!(info.tcp_settings().nodelay());
        assert_eq!(server("redis://[::1]:7000").addr(), &ConnectionAddr::Tcp("::1".into(), 7000));
        assert_eq!(server("redis://h").addr(), &ConnectionAddr::Tcp("h".into(), 6379));
        let socket = server("redis+unix:///run/re%20dis.sock?db=3&password=x");
        assert_eq!(socket.addr(), &ConnectionAddr::Unix("/run/re dis.sock".into()));
        assert_eq!((socket.redis_settings().db(), socket.redis_settings().password()), (3, Some("x")));
    }

    #[test]
    fn many_servers() {
        let RedisEndpoint::Cluster { seeds } =
            RedisAddress::parse("redis-cluster://u:p@a:1,b,[::2]:3/0").unwrap().endpoint
        else {
            panic!("a cluster")
        };
        let addresses: Vec<_> = seeds.iter().map(|seed| seed.addr().to_string()).collect();
        assert_eq!(addresses, ["a:1", "b:6379", "::2:3"]);
        assert!(seeds.iter().all(|seed| seed.redis_settings().password() == Some("p")));
        assert!(seeds.iter().all(|seed| seed.tcp_settings().nodelay()));

        let url = "redis-sentinel://u:p@a,b:5/my%2Dmaster/4?sentinel_password=s";
        let RedisEndpoint::Sentinel { sentinels, master, template } =
            RedisAddress::parse(url).unwrap().endpoint
        else {
            panic!("sentinels")
        };
        assert_eq!(master, "my-master");
        let addresses: Vec<_> = sentinels.iter().map(|one| one.addr().to_string()).collect();
        assert_eq!(addresses, ["a:26379", "b:5"]);
        assert_eq!(sentinels[0].redis_settings().password(), Some("s"));
        assert_eq!((template.redis_settings().db(), template.redis_settings().password()), (4, Some("p")));
    }

    #[test]
    fn which_part_is_wrong_is_said() {
        let port = "port: a port is a number from 1 to 65535";
        for (url, says) in [
            ("localhost:6379", "URL: no scheme; begin it with redis://"),
            ("http://localhost", "scheme: http; use redis://"),
            ("redis://:6379", "host: name a host, as in redis://localhost:6379"),
            ("redis://h:0", port),
            ("redis://h:65536", port),
            ("redis://h:x", port),
            ("redis://[::1", "host: close the bracket"),
            ("redis://h/x", "database: a database is a number, 0 unless given"),
            ("redis://a,b", "host: name one host, or use redis-cluster://"),
            ("redis://h?db=1", "parameter: this URL takes none"),
            ("redis-cluster://a,b/1", "database: a cluster has database 0 alone"),
            ("redis-sentinel://a,b", "master: name the master"),
            ("redis-sentinel://a/m?x=1", "parameter: redis-sentinel:// takes sentinel_user"),
            ("unix://run/redis.sock", "path: a socket has an absolute path"),
        ] {
            let said = refused(url);
            assert!(said.starts_with(says), "{url}: {said}");
        }
        let secret = refused("redis://user:se%cret@h");
        assert!(secret.starts_with("password: a bad escape") && !secret.contains("cret@"), "{secret}");
    }

    #[test]
    fn no_password_is_shown_however_the_url_is_written() {
        for url in [
            "redsi://:se:same@host",
            "redis:se:same@host://",
            "redis://user:se:same",
            "redis://user:se:same/0",
            "redis://:se:same@host:notaport",
            "redis://:se:same@host:99999",
            "redis://:se:same@host/x",
            "redis://:se:same@host?db=1",
            "redis://user:12?se:same@host",
            "redis://host?password=se:same",
            "redis://:se:same@[::1",
            "redis://:se:same@a,b",
            "redis-cluster://:se:same@a/3",
            "redis-sentinel://:se:same@a",
            "redis-sentinel://a/m?se:same",
            "unix://:se:same@run/redis.sock",
            "unix:///run/redis.sock?pasword=se:same",
            "unix:///run/redis.sock?sesame=%zz",
            "redis-cluster://user:12/se:same",
            "redis-cluster://user:12/sesame",
            "redis://default:9,sesame",
            "redis://default:9,sesame:12",
            "redis://user:1234567890",
            "redis://user:12/sesame",
            "redis://user:12?sesame",
            "redis://[sesame",
            "redis-sentinel://user:12/a/sesame",
            "redis-sentinel://user:12/a?sesame=%zz",
        ] {
            let said = refused(url);
            let is_shown =
                ["sesame", "se:same", "same@", "1234567890"].iter().any(|part| said.contains(part));
            assert!(!is_shown, "{url}: {said}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn certificates_are_for_every_server() {
        let folder = std::env::temp_dir().join(format!("ratekeeper-tls-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name);
        let tls = RedisTls { ca: Some(path("missing.pem")), ..RedisTls::default() };
        let with = |url: &str, tls: &RedisTls| RedisAddress::parse(url).unwrap().with_tls(tls);
        let said = with("rediss://h", &tls).unwrap_err().to_string();
        assert!(
            said.starts_with(&format!("TLS: {}: cannot be read: ", path("missing.pem").display())),
            "{said}"
        );
        std::fs::write(path("empty.pem"), "").unwrap();
        let tls = RedisTls { ca: Some(path("empty.pem")), ..RedisTls::default() };
        let said = with("rediss://h", &tls).unwrap_err().to_string();
        assert!(said.ends_with("empty.pem: no certificate in PEM form"), "{said}");
        let any = RedisTls { any_name: true, ..RedisTls::default() };
        let RedisEndpoint::Cluster { seeds } = with("rediss-cluster://a,b", &any).unwrap().endpoint else {
            panic!("a cluster")
        };
        let is_set =
            |info: &ConnectionInfo| matches!(info.addr(), ConnectionAddr::TcpTls { tls_params: Some(_), .. });
        assert!(seeds.iter().all(is_set) && is_set(&moved(&seeds[0], "c", 7).unwrap()));
        assert_eq!(seeds[1].addr().to_string(), "b:6379");
        assert!(with("redis://h", &any).is_ok(), "nothing to encrypt");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_is_a_feature() {
        assert_eq!(refused("rediss://h"), "scheme: for TLS, build with the feature `tls`");
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{:?}", RedisAddress::parse("redis://user:hush@h:1/2").unwrap());
        assert_eq!(shown, "RedisAddress(redis://h:1/2)");
        let shown = format!("{:?}", RedisAddress::parse("unix:///s?password=hush").unwrap());
        assert_eq!(shown, "RedisAddress(unix:///s)");
    }
}
