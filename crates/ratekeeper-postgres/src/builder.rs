//! The settings of a store.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use ratekeeper::port::Clock;
use ratekeeper::{StoreError, StoreErrorKind};
use tokio::sync::Semaphore;

use crate::address::PostgresAddress;
use crate::crew::{Crew, CrewSettings};
use crate::schema::TableName;
use crate::session::SessionSettings;
use crate::store::PostgresStore;

/// For each connection that is used, so many may be open, with those that were given up while the server hangs.
const PLACES: usize = 3;

/// The settings of a [`PostgresStore`]; each has a default.
#[must_use = "a builder is not a store yet: call `build`"]
pub struct PostgresStoreBuilder {
    url: String,
    table: String,
    is_logged: bool,
    connections: NonZeroUsize,
    timeout: Duration,
    connect_timeout: Duration,
    sweep_every: Duration,
    given: Option<Arc<dyn Clock>>,
}

impl PostgresStore {
    /// Returns a builder of a store on the server at a URL, such as `postgres://user:password@host:5432/database`.
    ///
    /// Several hosts are tried in turn, each for as long as connecting may take, beginning with the one that served last:
    /// `postgres://h1,h2/database?target_session_attrs=read-write` finds the primary.
    /// `sslmode=require` encrypts the connection, and verifies the certificate of the server by those that the system trusts, or
    /// by the file that the environment's `SSL_CERT_FILE` names; without it, the connection is plain.
    pub fn builder(url: &str) -> PostgresStoreBuilder {
        PostgresStoreBuilder {
            url: url.to_owned(),
            table: PostgresStoreBuilder::DEFAULT_TABLE.to_owned(),
            is_logged: false,
            connections: PostgresStoreBuilder::DEFAULT_CONNECTIONS,
            timeout: PostgresStoreBuilder::DEFAULT_TIMEOUT,
            connect_timeout: PostgresStoreBuilder::DEFAULT_CONNECT_TIMEOUT,
            sweep_every: PostgresStoreBuilder::DEFAULT_SWEEP_EVERY,
            given: None,
        }
    }
}

impl PostgresStoreBuilder {
    /// The shortest timeout, of a call or of connecting.
    pub const SHORTEST_TIMEOUT: Duration = Duration::from_millis(1);
    /// The longest timeout, of a call or of connecting.
    pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);
    /// The table, by default.
    pub const DEFAULT_TABLE: &str = "ratekeeper";
    /// How many connections there are, by default.
    pub const DEFAULT_CONNECTIONS: NonZeroUsize = NonZeroUsize::new(4).expect("four is not zero");
    /// How long a call may take, by default.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(100);
    /// How long connecting may take, by default.
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
    /// How long to wait between two looks for expired rows, by default.
    pub const DEFAULT_SWEEP_EVERY: Duration = Duration::from_secs(10);

    /// Sets the table, with its schema before a dot if it is not the first of the search path. Whoever names another one shares
    /// no limits. It is created if it is not there.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = table.into();
        self
    }

    /// Sets whether a table that has to be created is written to the log of the server, so that it survives a crash and is
    /// replicated. It is not by default: a crash of the server forgets all states, and decisions are cheaper.
    pub fn logged(mut self, is_logged: bool) -> Self {
        self.is_logged = is_logged;
        self
    }

    /// Sets how many connections there are. Each carries one statement at a time, with all that waits for it. One more is made
    /// now and then to delete what has expired. While the server hangs there are three times as many at most, because one that was
    /// given up stays open until its statement has ended.
    pub fn connections(mut self, connections: NonZeroUsize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets how long a call may take, from [1 ms](Self::SHORTEST_TIMEOUT) to [a minute](Self::LONGEST_TIMEOUT). What has taken
    /// longer is an error, and is not charged later: a statement that ends after that undoes itself.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how long connecting to one host may take, with all that comes before the first statement, within the same bounds as
    /// a call. An address may say less by itself: `connect_timeout=1` are seconds. A call does not wait for it for longer than
    /// it may take.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long to wait between two looks for expired rows; zero for never: another process has to do it.
    pub fn sweep_every(mut self, interval: Duration) -> Self {
        self.sweep_every = interval;
        self
    }

    /// Has a test tell the time, instead of the server.
    #[cfg(feature = "testkit")]
    pub fn time_from(mut self, clock: impl Clock + 'static) -> Self {
        self.given = Some(Arc::new(clock));
        self
    }

    /// Takes the URL and the name of the table apart, looks at the timeouts, and starts nothing.
    ///
    /// # Errors
    ///
    /// If one of them is wrong.
    pub fn check(&self) -> Result<(), StoreError> {
        self.parts().map(drop)
    }

    fn parts(&self) -> Result<(PostgresAddress, TableName), StoreError> {
        let bounds = Self::SHORTEST_TIMEOUT..=Self::LONGEST_TIMEOUT;
        for (name, given) in [("timeout", self.timeout), ("connect_timeout", self.connect_timeout)] {
            if !bounds.contains(&given) {
                let message =
                    format!("{name}: {given:?}; at least {:?}, at most {:?}", bounds.start(), bounds.end());
                return Err(StoreError::new(StoreErrorKind::Unsupported, message));
            }
        }
        Ok((PostgresAddress::parse(&self.url, self.connect_timeout)?, TableName::parse(&self.table)?))
    }

    /// Builds the store, and starts its thread. Sends nothing: the server may be down for now, and is found when it is up.
    ///
    /// # Errors
    ///
    /// If a part of the URL, the name of the table or a timeout is wrong, no certificate can be trusted, or there is no thread to be had.
    pub fn build(self) -> Result<PostgresStore, StoreError> {
        let (address, table) = self.parts()?;
        let workers = self.connections.get();
        let session = SessionSettings {
            #[cfg(feature = "tls")]
            tls: address.is_encrypted.then(crate::tls::PostgresTls::of_system).transpose()?,
            served_last: AtomicUsize::new(address.first()),
            address,
            table,
            is_logged: self.is_logged,
            connect_timeout: self.connect_timeout,
            timeout: self.timeout,
            places: Arc::new(Semaphore::new(
                workers.saturating_add(1).saturating_mul(PLACES).min(Semaphore::MAX_PERMITS),
            )),
        };
        let settings = CrewSettings { session, workers, sweep_every: self.sweep_every, given: self.given };
        Ok(PostgresStore::new(Crew::start(settings)?, self.timeout))
    }
}

impl fmt::Debug for PostgresStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a password.
        f.debug_struct("PostgresStoreBuilder").field("table", &self.table).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_bounded() {
        let builder = || PostgresStore::builder("postgres://h/");
        assert!(builder().check().is_ok());
        for wrong in [Duration::ZERO, Duration::from_secs(61), Duration::MAX] {
            let said = builder().timeout(wrong).check().unwrap_err().to_string();
            assert!(said.starts_with("timeout: ") && said.ends_with("; at least 1ms, at most 60s"), "{said}");
            let said = builder().connect_timeout(wrong).build().unwrap_err().to_string();
            assert!(said.starts_with("connect_timeout: "), "{said}");
        }
    }
}
