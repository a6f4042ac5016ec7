//! Rows for rows, in one statement.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};

use crate::call::OwnedKey;
use crate::error::Failure;
use crate::seen::SeenRow;
use crate::session::Session;

/// What a row is to become.
#[derive(Debug)]
pub(crate) struct RowChange {
    pub(crate) key: OwnedKey,
    /// The stamp that it was seen with; 0 if it was not there.
    pub(crate) old: i64,
    /// What is to be written, with a stamp of its own; none if nothing has changed, and the row is only to be compared.
    pub(crate) new: Option<NewRow>,
    /// Rows of the same number are written together, or not at all; a row of number 0 is on its own.
    pub(crate) together: i32,
}

/// What is to be written.
#[derive(Debug)]
pub(crate) struct NewRow {
    pub(crate) stamp: i64,
    /// None to delete the row: the key is as good as new.
    pub(crate) record: Option<Arc<[u8]>>,
    /// From when on it is worth nothing, in microseconds since the epoch.
    pub(crate) expires: i64,
}

/// When a decision was made by the server's clock, in microseconds: it is refused before and after.
///
/// Two ends, because they are about two things: how old an instant may be by which states are changed, and how long somebody
/// waits. Once a statement has begun, stamps tell that nobody else has changed a row, however long it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecidedAt {
    pub(crate) earliest: i64,
    /// It begins by then, which is not after `deadline`, or does nothing.
    pub(crate) latest: i64,
    /// It ends by then, or undoes itself: one of those who asked has stopped waiting.
    pub(crate) deadline: i64,
}

/// What the server has answered.
#[derive(Debug)]
pub(crate) struct Exchanged {
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
    /// The server's clock.
    pub(crate) micros: i64,
    /// False if the decision was not made in time: nothing was done.
    pub(crate) was_in_time: bool,
    /// The rows that were not as they had been seen, by their positions: what they are.
    pub(crate) missed: Vec<(usize, SeenRow)>,
}

/// Compares rows, which come in the order of their keys, and writes those that are as they were seen.
pub(crate) async fn exchange(
    session: &Session,
    rows: &[RowChange],
    decided_at: DecidedAt,
) -> Result<Exchanged, Failure> {
    let asked = Instant::now();
    let keys: Vec<&[u8]> = rows.iter().map(|row| &*row.key).collect();
    let together: Vec<i32> = rows.iter().map(|row| row.together).collect();
    let olds: Vec<i64> = rows.iter().map(|row| row.old).collect();
    let news: Vec<i64> = rows.iter().map(|row| row.new.as_ref().map_or(0, |new| new.stamp)).collect();
    let records: Vec<Option<&[u8]>> =
        rows.iter().map(|row| row.new.as_ref().and_then(|new| new.record.as_deref())).collect();
    let expiries: Vec<i64> = rows.iter().map(|row| row.new.as_ref().map_or(0, |new| new.expires)).collect();
    let DecidedAt { earliest, latest, deadline } = &decided_at;
    let params: [&(dyn ToSql + Sync); 9] =
        [earliest, latest, deadline, &keys, &together, &olds, &news, &records, &expiries];
    let answer = session.in_time(session.client.query(&session.exchange, &params)).await?;
    let mut exchanged =
        Exchanged { asked, answered: Instant::now(), micros: 0, was_in_time: false, missed: Vec::new() };
    for row in answer {
        let (place, present) = (get::<i32>(&row, 0)?, get::<i64>(&row, 1)?);
        match usize::try_from(place).ok().and_then(|place| place.checked_sub(1)) {
            Some(position) => exchanged.missed.push((position, seen(&row, present, 2)?)),
            None => (exchanged.micros, exchanged.was_in_time) = (present, place == 0),
        }
    }
    Ok(exchanged)
}

/// Begins a transaction, and locks the rows of these keys in it, which come in their order. Nobody else changes them until it
/// ends. Returns the rows as they are.
pub(crate) async fn lock(session: &Session, keys: &[OwnedKey]) -> Result<Vec<(OwnedKey, SeenRow)>, Failure> {
    let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
    let client = &session.client;
    let params: [&(dyn ToSql + Sync); 1] = [&keys];
    // Sent together, and answered in this order: one round trip.
    let all = async {
        let (began, locked) = join(client.batch_execute("BEGIN"), client.query(&session.lock, &params)).await;
        began.and(locked)
    };
    let rows = session.in_time(all).await?;
    rows.iter().map(|row| Ok((get::<&[u8]>(row, 0)?.into(), seen(row, get(row, 1)?, 2)?))).collect()
}

/// Ends the transaction of a lock, and with it the lock; as if nothing had been done in it, unless there is something to be kept.
pub(crate) async fn end(session: &Session, is_kept: bool) -> Result<(), Failure> {
    let statement = if is_kept { "COMMIT" } else { "ROLLBACK" };
    session.in_time(session.client.batch_execute(statement)).await
}

/// Ends the transaction of a lock as if nothing had been done in it.
pub(crate) async fn roll_back(session: &Session) -> Result<(), Failure> {
    end(session, false).await
}

fn seen(row: &Row, stamp: i64, column: usize) -> Result<SeenRow, Failure> {
    let record: Option<&[u8]> = get(row, column)?;
    Ok(match stamp {
        0 => SeenRow::absent(),
        _ => SeenRow { stamp, record: record.unwrap_or_default().into() },
    })
}

fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, Failure> {
    row.try_get(column).map_err(Failure::of)
}
