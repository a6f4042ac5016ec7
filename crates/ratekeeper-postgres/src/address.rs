//! Where the server is, and how it is reached.

use std::fmt;
use std::time::Duration;

use ratekeeper::{StoreError, StoreErrorKind};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

/// How the server's log and `pg_stat_activity` know us, unless the address says otherwise.
const APPLICATION: &str = "ratekeeper";

/// The address of a server, taken apart.
#[derive(Clone)]
pub(crate) struct PostgresAddress {
    pub(crate) config: Config,
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
            config.connect_timeout(connect_timeout);
        }
        let is_encrypted = config.get_ssl_mode() == SslMode::Require;
        if is_encrypted && cfg!(not(feature = "tls")) {
            return Err(wrong("sslmode: require; this program was built without the feature `tls`".into()));
        }
        Ok(PostgresAddress { config, is_encrypted })
    }
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
            ("postgres://u:sesame@h/limits?sslmode=verify", "cannot be read"),
            ("postgres://u:sesame@h/limits?colour=red", "cannot be read"),
        ] {
            let said = parse(url).unwrap_err();
            assert!(said.starts_with(expected) && !said.contains("sesame"), "{url}: {said}");
        }
    }

    #[test]
    fn an_address_says_what_it_likes() {
        let address = parse("postgresql://u@h1,h2:5433/limits?target_session_attrs=read-write").unwrap();
        assert!(!address.is_encrypted && address.config.get_hosts().len() == 2);
        assert_eq!(address.config.get_application_name(), Some("ratekeeper"));
        let named = parse("postgres://h/?application_name=shop&connect_timeout=7").unwrap();
        assert_eq!(named.config.get_application_name(), Some("shop"));
        assert_eq!(named.config.get_connect_timeout(), Some(&Duration::from_secs(7)));
        let encrypted = parse("postgres://h/?sslmode=require");
        assert_eq!(encrypted.is_ok(), cfg!(feature = "tls"));
    }
}
