//! What the server says, as errors of a store.

use std::time::Duration;

use ratekeeper::{StoreError, StoreErrorKind};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// What a failed statement means for those who asked.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: StoreError,
    pub(crate) fate: Fate,
}

/// What is to be done after a statement has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing was written, and others were in the way: ask again.
    Again,
    /// Nothing was written, because it took until after the time of one of the calls: ask again for those who have time left.
    Late,
    /// Nothing was written, because the table or its function is not there: make them, and ask again.
    Rebuild,
    /// Nothing was written, and asking again would not help. The connection is good.
    Refused,
    /// Whether anything was written is not known, or the connection is of no more use.
    Lost,
}

/// What the function says when it has taken too long, and undoes itself: a code of its own.
pub(crate) const TOO_LATE: &str = "RK001";

/// What to do about a server that does not write.
const READ_ONLY: &str = "it is a standby, or set to read only: name the primary, or several hosts with target_session_attrs=read-write";

impl Failure {
    fn new(kind: StoreErrorKind, reason: &'static str, message: String, fate: Fate) -> Self {
        Failure { error: StoreError::new(kind, message).because(reason), fate }
    }

    /// Returns the failure of a server that has not answered.
    pub(crate) fn timeout(after: Duration) -> Self {
        let message = format!(
            "no answer within {after:?}; whether it was charged is not known, so it is not sent again"
        );
        Failure::new(StoreErrorKind::Timeout, "timeout", message, Fate::Lost)
    }

    /// Returns the failure of a server that cannot be connected to.
    pub(crate) fn no_connection(after: Duration) -> Self {
        let message = format!("cannot connect within {after:?}; is the server up, and the address right?");
        Failure::new(StoreErrorKind::Unreachable, "unreachable", message, Fate::Lost)
    }

    /// Returns the failure of a server that has not ended what it was asked on other connections.
    pub(crate) fn no_place() -> Self {
        let message = "connections that were given up are still open: the server hangs, so it is not connected to again";
        Failure::new(StoreErrorKind::Unavailable, "too_many_connections", message.to_owned(), Fate::Lost)
    }

    /// Returns the failure of a row for which so many wait that no more may.
    pub(crate) fn crowded() -> Self {
        let message =
            "another session has locked the row, and too many wait for it; nothing was charged".to_owned();
        Failure::new(StoreErrorKind::Contended, "contended", message, Fate::Again)
    }

    /// Returns the failure of a server that does not write.
    pub(crate) fn read_only(text: &str) -> Self {
        Failure::new(StoreErrorKind::Unavailable, "read_only", format!("{text}: {READ_ONLY}"), Fate::Lost)
    }

    /// Returns what an error of the server, or of the way to it, means.
    pub(crate) fn of(error: Error) -> Self {
        use StoreErrorKind::{Contended, Other, Timeout, Unavailable, Unreachable};
        let Some(said) = error.as_db_error() else {
            let message = match error.is_closed() {
                true => "the connection was closed; whether it was charged is not known".to_owned(),
                false => format!("cannot reach the server: {}", chain(&error)),
            };
            let failure = Failure::new(Unreachable, "unreachable", message, Fate::Lost);
            return Failure { error: failure.error.caused_by(error), ..failure };
        };
        let (code, text) = (said.code(), said.message());
        let class = code.code().get(..2).unwrap_or_default();
        let (kind, reason, remedy, fate) = match () {
            () if [&SqlState::UNDEFINED_TABLE, &SqlState::UNDEFINED_FUNCTION].contains(&code) => {
                (Unavailable, "no_table", "it is made again if this user may", Fate::Rebuild)
            }
            () if [
                &SqlState::LOCK_NOT_AVAILABLE,
                &SqlState::T_R_DEADLOCK_DETECTED,
                &SqlState::T_R_SERIALIZATION_FAILURE,
            ]
            .contains(&code) =>
            {
                (
                    Contended,
                    "contended",
                    "too many writers share a key, or another session has locked it",
                    Fate::Again,
                )
            }
            () if code.code() == TOO_LATE => (Timeout, "timeout", "nothing was charged", Fate::Late),
            () if *code == SqlState::QUERY_CANCELED => (
                Timeout,
                "timeout",
                "the server is slow, or a row is locked; nothing was charged",
                Fate::Refused,
            ),
            () if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
                (Unavailable, "read_only", READ_ONLY, Fate::Lost)
            }
            () if *code == SqlState::TOO_MANY_CONNECTIONS => (
                Unavailable,
                "too_many_connections",
                "raise max_connections, or let every instance have fewer connections",
                Fate::Lost,
            ),
            () if *code == SqlState::CANNOT_CONNECT_NOW => {
                (Unavailable, "loading", "it is starting or stopping", Fate::Lost)
            }
            () if class == "28" => {
                (Unavailable, "auth", "check user and password of the address, and pg_hba.conf", Fate::Lost)
            }
            () if class == "3D" => (Unavailable, "no_database", "create it, or name another one", Fate::Lost),
            () if *code == SqlState::INSUFFICIENT_PRIVILEGE => (
                Unavailable,
                "auth",
                "the user must be allowed SELECT, INSERT, UPDATE and DELETE on the table",
                Fate::Refused,
            ),
            () if class == "53" => {
                (Unavailable, "out_of_memory", "the server has no memory or no disk left", Fate::Refused)
            }
            () if class == "57" => (
                Unavailable,
                "unavailable",
                "the server stops, or an administrator has ended the connection",
                Fate::Lost,
            ),
            // Also what a standby says of a table that is not logged: an outage, for which failure modes answer.
            () if class == "0A" => (
                Unavailable,
                "unavailable",
                "ratekeeper needs a primary of PostgreSQL 12 or later",
                Fate::Lost,
            ),
            () => (Other, "other", "see the log of the server", Fate::Lost),
        };
        let message = format!("{text} ({}): {remedy}", code.code());
        let failure = Failure::new(kind, reason, message, fate);
        Failure { error: failure.error.caused_by(error), ..failure }
    }
}

/// Returns an error with what caused it, on one line.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text.replace('\n', " ")
}

/// Returns a copy of an error for another caller who waits for the same statement; the source stays behind.
pub(crate) fn copy(error: &StoreError) -> StoreError {
    StoreError::new(error.kind(), error.to_string()).because(error.reason())
}
