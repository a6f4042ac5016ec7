//! One connection, with its statements. It carries one statement at a time: what comes meanwhile goes with the next one.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use ratekeeper::{StoreError, StoreErrorKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls, Statement};

use crate::address::PostgresAddress;
use crate::error::{Failure, Fate};
use crate::schema::{self, TableName};

/// How long a connection that was given up may take to end by itself, which it does with its statement. Whoever has it open counts
/// against the server's `max_connections`.
const LONGEST_END: Duration = Duration::from_secs(300);

/// How often the table is made again that was dropped while a session was getting ready.
const MOST_REMAKES: u32 = 3;

/// How a server is reached, and what is expected of it.
#[derive(Debug)]
pub(crate) struct SessionSettings {
    pub(crate) address: PostgresAddress,
    /// The number of the host that served last: it is tried first.
    pub(crate) served_last: AtomicUsize,
    pub(crate) table: TableName,
    pub(crate) is_logged: bool,
    /// How long connecting to one of the hosts may take, with all that comes before the first statement.
    pub(crate) connect_timeout: Duration,
    /// How long a statement may take.
    pub(crate) timeout: Duration,
    /// A permit for each connection, until it has ended: a server that hangs must not be connected to again and again.
    pub(crate) places: Arc<Semaphore>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<crate::tls::PostgresTls>,
}

/// A connection that is ready: the table is there, and the statements are prepared.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) exchange: Statement,
    pub(crate) lock: Statement,
    timeout: Duration,
    _driver: Driver,
}

/// What moves the bytes of a connection. It ends with the connection, at the latest so long after this was dropped.
struct Driver {
    _is_used: oneshot::Sender<Infallible>,
}

/// What a server has told at the beginning.
pub(crate) struct Greeting {
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
    /// Its clock, in microseconds since the epoch.
    pub(crate) micros: i64,
}

impl Session {
    /// Connects to one of the hosts, and makes the table if it is not there. A statement may take `patience`.
    ///
    /// Hosts are tried in turn, each for no longer than connecting may take, beginning with the one that served last.
    pub(crate) async fn open(
        settings: &SessionSettings,
        patience: Duration,
    ) -> Result<(Self, Greeting), Failure> {
        let hosts = &settings.address.hosts;
        let first = settings.served_last.load(Ordering::Relaxed);
        let mut failed: Option<Failure> = None;
        for turn in 0..hosts.len() {
            let index = (first + turn) % hosts.len();
            let opening = Session::open_at(&hosts[index], settings, patience);
            let opened = timeout(settings.connect_timeout, opening).await;
            match opened.unwrap_or_else(|_| Err(Failure::no_connection(settings.connect_timeout))) {
                Ok(opened) => {
                    settings.served_last.store(index, Ordering::Relaxed);
                    return Ok(opened);
                }
                // What a server has said tells more than that another one is silent.
                Err(failure) => match &failed {
                    Some(told) if told.error.reason() != "unreachable" => {}
                    _ => failed = Some(failure),
                },
            }
        }
        Err(failed.unwrap_or_else(|| Failure::no_connection(settings.connect_timeout)))
    }

    async fn open_at(
        host: &Config,
        settings: &SessionSettings,
        patience: Duration,
    ) -> Result<(Self, Greeting), Failure> {
        let (client, driver) = connect(host, settings, patience).await?;
        let mut prepared = prepare_all(&client, settings).await;
        for _ in 0..MOST_REMAKES {
            match &prepared {
                // Somebody has dropped it between two of these statements.
                Err(failure) if failure.fate == Fate::Rebuild => {
                    prepared = prepare_all(&client, settings).await;
                }
                _ => break,
            }
        }
        let (greeting, exchange, lock) = prepared?;
        Ok((Session { exchange, lock, timeout: patience, client, _driver: driver }, greeting))
    }

    /// Returns true if the connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Waits for an answer of the server, and no longer than a statement may take.
    pub(crate) async fn in_time<T>(
        &self,
        asking: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Failure> {
        match timeout(self.timeout, asking).await {
            Ok(answer) => answer.map_err(Failure::of),
            Err(_) => Err(Failure::timeout(self.timeout)),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("is_closed", &self.is_closed()).finish_non_exhaustive()
    }
}

/// Connects, and says how this session is to be treated.
async fn connect(
    host: &Config,
    settings: &SessionSettings,
    patience: Duration,
) -> Result<(Client, Driver), Failure> {
    let Ok(place) = Arc::clone(&settings.places).try_acquire_owned() else {
        return Err(Failure::no_place());
    };
    let (client, driver) = match settings.address.is_encrypted {
        false => {
            let (client, connection) = host.connect(NoTls).await.map_err(Failure::of)?;
            (client, drive(connection, place))
        }
        #[cfg(feature = "tls")]
        true => {
            let Some(tls) = settings.tls.clone() else { return Err(not_encrypted()) };
            let (client, connection) = host.connect(tls).await.map_err(Failure::of)?;
            (client, drive(connection, place))
        }
        #[cfg(not(feature = "tls"))]
        true => return Err(not_encrypted()),
    };
    // The server gives up before this process does, and says so: then it is known that nothing was written, unless the way back
    // takes longer than what is left of the time. It waits for a lock for a quarter of a decision's time, so that there is time
    // to do without that row: who is the second to wait waits twice, for the first and for whoever has it. A row that is locked
    // by somebody who has stopped is free again when that session has been idle for as long as a statement may take.
    let millis = patience.as_millis().max(1);
    let (statement, lock) = ((millis * 9 / 10).max(1), (settings.timeout.as_millis() / 4).max(1));
    let manners = format!(
        "SET statement_timeout = {statement}; SET lock_timeout = {lock}; SET idle_in_transaction_session_timeout = {millis}; \
         SET synchronous_commit = off; SET default_transaction_isolation = 'read committed'; SET jit = off; \
         SET client_min_messages = warning"
    );
    client.batch_execute(&manners).await.map_err(Failure::of)?;
    Ok((client, driver))
}

fn not_encrypted() -> Failure {
    let message = "sslmode: require; this store was built without certificates to trust";
    Failure { error: StoreError::new(StoreErrorKind::Unsupported, message), fate: Fate::Lost }
}

/// Moves bytes of the connection until it ends, which the client notices. If nobody uses it any more, that is when its last statement
/// has ended.
fn drive<S, T>(connection: tokio_postgres::Connection<S, T>, place: OwnedSemaphorePermit) -> Driver
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    T: tokio_postgres::tls::TlsStream + Unpin + Send + 'static,
{
    let (is_used, given_up) = oneshot::channel();
    tokio::spawn(async move {
        let ended = match select(connection, given_up).await {
            Either::Left((ended, _)) => ended,
            Either::Right((_, connection)) => timeout(LONGEST_END, connection).await.unwrap_or(Ok(())),
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "postgres: the connection has ended");
        }
        drop(place);
    });
    Driver { _is_used: is_used }
}

async fn prepare(client: &Client, statement: &str) -> Result<Statement, Failure> {
    client.prepare(statement).await.map_err(Failure::of)
}

/// Sees to it that the table is there, and prepares the statements that use it.
async fn prepare_all(
    client: &Client,
    settings: &SessionSettings,
) -> Result<(Greeting, Statement, Statement), Failure> {
    let greeting = prepare_table(client, settings).await?;
    let exchange = prepare(client, &schema::exchange(&settings.table)).await?;
    let lock = prepare(client, &schema::lock(&settings.table)).await?;
    Ok((greeting, exchange, lock))
}

/// Sees to it that the table is there, and that it is ours.
async fn prepare_table(client: &Client, settings: &SessionSettings) -> Result<Greeting, Failure> {
    let table = &settings.table;
    for is_second in [false, true] {
        let asked = Instant::now();
        let found = client.query_one(&schema::survey(table), &[]).await.map_err(Failure::of)?;
        let answered = Instant::now();
        let (comment, has_table, has_function): (Option<&str>, bool, bool) =
            (found.get(0), found.get(1), found.get(2));
        if found.get(4) {
            return Err(Failure::read_only("the server takes no writes"));
        }
        if has_table && comment != Some(schema::LAYOUT) {
            let message = format!(
                "table: {table}; it is not of `{}` but of `{}`: name another table, or use the program that made it",
                schema::LAYOUT,
                comment.unwrap_or("another program")
            );
            let error = StoreError::new(StoreErrorKind::Unavailable, message).because("wrong_table");
            return Err(Failure { error, fate: Fate::Lost });
        }
        if has_table && has_function {
            return Ok(Greeting { asked, answered, micros: found.get(3) });
        }
        if is_second {
            break;
        }
        create(client, settings, has_table).await?;
    }
    let error = StoreError::new(StoreErrorKind::Unavailable, format!("table: {table}; it is gone again"));
    Err(Failure { error: error.because("no_table"), fate: Fate::Rebuild })
}

/// Makes the table and its function. Whoever may not is told what an owner has to say.
async fn create(client: &Client, settings: &SessionSettings, has_table: bool) -> Result<(), Failure> {
    let table = &settings.table;
    let created = client.batch_execute(&schema::creation(table, settings.is_logged, has_table)).await;
    let Err(error) = created else {
        match has_table {
            false => tracing::info!(%table, is_logged = settings.is_logged, "postgres: table created"),
            true => tracing::info!(%table, "postgres: function created"),
        }
        return Ok(());
    };
    let may_not = error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE);
    let has_no_schema = error.code() == Some(&SqlState::INVALID_SCHEMA_NAME);
    // The transaction of the statements is still open, and of no use.
    let _ = client.batch_execute("ROLLBACK").await;
    let failure = Failure::of(error);
    let (user, schema) = (settings.address.user().unwrap_or("this user"), table.schema());
    let (message, reason) = if has_no_schema {
        let message =
            format!("table: {table}; there is no such schema: let an owner run `CREATE SCHEMA {schema}`");
        (message, "no_table")
    } else if may_not {
        let message = format!(
            "table: {table}; it is not there, and {user} may not create it: let an owner run \
             `GRANT USAGE, CREATE ON SCHEMA {schema} TO {user}`, or start one instance as a user who may"
        );
        (message, "auth")
    } else {
        return Err(failure);
    };
    let error = StoreError::new(StoreErrorKind::Unavailable, message).because(reason);
    Err(Failure { error: error.caused_by(failure.error), fate: Fate::Lost })
}
