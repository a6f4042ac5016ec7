//! Where the server is, and how it is reached.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use ratekeeper::{StoreError, StoreErrorKind};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode, TargetSessionAttrs};

/// How the server's log and `pg_stat_activity` know us, unless the address says otherwise.
const APPLICATION: &str = "ratekeeper";

/// The address of a server, taken apart.
#[derive(Clone)]
pub(crate) struct PostgresAddress {
    /// How each host is reached, in the order of the URL; there is at least one.
    pub(crate) hosts: Vec<Config>,
    /// Whether any of them may be the first to be tried, so that instances spread over them.
    is_any_first: bool,
    /// Whether the connection must be encrypted.
    pub(crate) is_encrypted: bool,
}

impl PostgresAddress {
    /// Takes a URL apart: `postgres://user:password@host:port/database?option=value`.
    pub(crate) fn parse(url: &str, connect_timeout: Duration) -> Result<Self, StoreError> {
        let wrong =
            |message: String| StoreError::new(StoreErrorKind::Unsupported, message).because("address");
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            let scheme = url.split_once("://").map_or("none", |(scheme, _)| scheme);
            let shown: String = scheme.chars().filter(char::is_ascii_graphic).take(20).collect();
            return Err(wrong(format!("scheme: {shown}; use postgres://user:password@host:port/database")));
        }
        // The library ends a password at the first one, and would call what is left of it a host or an option.
        if url.matches('@').count() > 1 {
            return Err(wrong("@: more than one; write that of a name or a password as %40".into()));
        }
        for (name, value) in options(url) {
            match name {
                "password" => return Err(wrong("password: among the options; write it before the @".into())),
                "sslmode" if value.starts_with("verify-") => {
                    return Err(wrong("sslmode: verify; use `sslmode=require`, which verifies".into()));
                }
                // What is written otherwise must not get past these.
                _ if name.contains('%') => {
                    return Err(wrong("option: a name with a % in it; write it as it is".into()));
                }
                _ => {}
            }
        }
        // The message of the library names what is wrong, and not the password.
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let cause =
                std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            wrong(format!("cannot be read{cause}; use postgres://user:password@host:port/database"))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(wrong("host: missing; use postgres://user:password@host:port/database".into()));
        }
        if config.get_application_name().is_none() {
            config.application_name(APPLICATION);
        }
        if config.get_connect_timeout().is_none() {
            // For each address of a host's name: the second one must have its turn, too.
            config.connect_timeout(connect_timeout / 2);
        }
        let is_encrypted = config.get_ssl_mode() == SslMode::Require;
        if is_encrypted && cfg!(not(feature = "tls")) {
            return Err(wrong("sslmode: require; this program was built without the feature `tls`".into()));
        }
        let (hosts, numbers) = (config.get_hosts().len(), config.get_hostaddrs().len());
        if hosts > 0 && numbers > 0 && hosts != numbers {
            return Err(wrong(format!("hostaddr: {numbers}, hosts: {hosts}; one for each, or none")));
        }
        let (count, ports) = (hosts.max(numbers), config.get_ports().len());
        if ports > 1 && ports != count {
            return Err(wrong(format!("port: {ports}, hosts: {count}; one for each, or one for all")));
        }
        let is_any_first = config.get_load_balance_hosts() == LoadBalanceHosts::Random;
        let hosts = (0..count).map(|index| only(&config, index)).collect();
        Ok(PostgresAddress { hosts, is_any_first, is_encrypted })
    }

    /// Returns the number of the host to begin with: the first one, or any if the address says so.
    pub(crate) fn first(&self) -> usize {
        match self.is_any_first {
            true => {
                usize::try_from(RandomState::new().hash_one(0_u8) >> 33).unwrap_or(0)
                    % self.hosts.len().max(1)
            }
            false => 0,
        }
    }

    /// Returns who connects, as far as that is said.
    pub(crate) fn user(&self) -> Option<&str> {
        self.hosts.first().and_then(Config::get_user)
    }
}

/// Returns the options of a URL, as they are written. A `?` before the `@` belongs to the password.
fn options(url: &str) -> impl Iterator<Item = (&str, &str)> {
    let place = url.split_once('@').map_or(url, |(_, place)| place);
    let options = place.split_once('?').map_or("", |(_, options)| options);
    options.split('&').map(|option| option.split_once('=').unwrap_or((option, "")))
}

/// Returns a copy that has only the host of this number: the library would try them in turn, but bounds no more than the first
/// step of each, so that one which is connected to and says nothing keeps the others from their turn.
fn only(all: &Config, index: usize) -> Config {
    let mut one = Config::new();
    match all.get_hosts().get(index) {
        Some(Host::Tcp(name)) => drop(one.host(name)),
        #[cfg(unix)]
        Some(Host::Unix(path)) => drop(one.host_path(path)),
        None => {}
    }
    if let Some(address) = all.get_hostaddrs().get(index) {
        one.hostaddr(*address);
    }
    if let Some(port) = all.get_ports().get(index).or_else(|| all.get_ports().first()) {
        one.port(*port);
    }
    if let Some(user) = all.get_user() {
        one.user(user);
    }
    if let Some(password) = all.get_password() {
        one.password(password);
    }
    if let Some(database) = all.get_dbname() {
        one.dbname(database);
    }
    if let Some(options) = all.get_options() {
        one.options(options);
    }
    if let Some(name) = all.get_application_name() {
        one.application_name(name);
    }
    if let Some(timeout) = all.get_connect_timeout() {
        one.connect_timeout(*timeout);
    }
    if let Some(timeout) = all.get_tcp_user_timeout() {
        one.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = all.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = all.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.keepalives(all.get_keepalives()).keepalives_idle(all.get_keepalives_idle());
    one.ssl_mode(all.get_ssl_mode()).ssl_negotiation(all.get_ssl_negotiation());
    // Whether it takes writes is asked anyway, and told better than by the library, for which it could not be connected to.
    one.target_session_attrs(match all.get_target_session_attrs() {
        TargetSessionAttrs::ReadWrite => TargetSessionAttrs::Any,
        other => other,
    });
    one.channel_binding(all.get_channel_binding());
    one.load_balance_hosts(all.get_load_balance_hosts());
    one
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // There may be a password in it.
        f.debug_struct("PostgresAddress").field("is_encrypted", &self.is_encrypted).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<PostgresAddress, String> {
        PostgresAddress::parse(url, Duration::from_secs(1)).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_wrong_is_named_and_the_password_is_not() {
        for (url, expected) in [
            ("redis://h", "scheme: redis; use postgres://"),
            ("sesame", "scheme: none; use postgres://"),
            ("postgres:///limits", "host: missing"),
            ("postgres://u:sesame@h:port/limits", "cannot be read"),
            (
                "postgres://u:open@?sesame=@h/limits",
                "@: more than one; write that of a name or a password as %40",
            ),
            ("postgres://u:open@sesame@h/limits", "@: more than one"),
            ("postgres://u:sesame@h/limits?sslmode=verify", "cannot be read"),
            ("postgres://u:sesame@h/limits?sslmode=verify-full", "sslmode: verify; use `sslmode=require`"),
            ("postgres://h/limits?user=u&password=sesame", "password: among the options"),
            ("postgres://u@h?password=sesame", "password: among the options"),
            ("postgres://u@h?p%61ssword=sesame", "option: a name with a %"),
            ("postgres://u:sesame@h/limits?colour=red", "cannot be read"),
            (
                "postgres://u:sesame@h1,h2,h3/limits?hostaddr=127.0.0.1,127.0.0.2",
                "hostaddr: 2, hosts: 3; one for each",
            ),
            ("postgres://u:sesame@/limits?host=h&port=1,2", "port: 2, hosts: 1; one for each"),
        ] {
            let said = parse(url).unwrap_err();
            assert!(said.starts_with(expected) && !said.contains("sesame"), "{url}: {said}");
        }
    }

    #[test]
    fn an_address_says_what_it_likes() {
        let address = parse("postgresql://u@h1,h2:5433/limits?target_session_attrs=read-write").unwrap();
        assert!(!address.is_encrypted && address.hosts.len() == 2 && address.user() == Some("u"));
        for (config, (name, port)) in address.hosts.iter().zip([("h1", 5432), ("h2", 5433)]) {
            assert_eq!(config.get_hosts(), [Host::Tcp(name.into())]);
            assert_eq!((config.get_ports(), config.get_dbname()), (&[port][..], Some("limits")));
            assert_eq!(config.get_application_name(), Some("ratekeeper"));
            assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::Any);
            assert_eq!(config.get_connect_timeout(), Some(&Duration::from_millis(500)));
        }
        assert_eq!(address.first(), 0);
        let spread = parse("postgres://u@h1,h2,h3/limits?load_balance_hosts=random").unwrap();
        let firsts: std::collections::HashSet<usize> = (0..200).map(|_| spread.first()).collect();
        assert_eq!(firsts.len(), 3, "each of them is the first for some");
        let unusual =
            parse("postgres://u:p?w@h/limits?options=-c%20geqo%3Doff&keepalives_retries=3").unwrap();
        let unusual = &unusual.hosts[0];
        assert_eq!(unusual.get_password(), Some(&b"p?w"[..]));
        assert_eq!((unusual.get_options(), unusual.get_keepalives_retries()), (Some("-c geqo=off"), Some(3)));
        let by_number = parse("postgres://u@h/?hostaddr=127.0.0.1").unwrap();
        assert_eq!(by_number.hosts[0].get_hostaddrs().len(), 1);
        let named = parse("postgres://h/?application_name=shop&connect_timeout=7").unwrap();
        assert_eq!(named.hosts[0].get_application_name(), Some("shop"));
        assert_eq!(named.hosts[0].get_connect_timeout(), Some(&Duration::from_secs(7)));
        let encrypted = parse("postgres://h/?sslmode=require");
        assert_eq!(encrypted.is_ok(), cfg!(feature = "tls"));
    }
}
