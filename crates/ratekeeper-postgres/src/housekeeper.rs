//! Deletes what has expired, slice by slice, and what an administrator wants forgotten.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratekeeper::port::Clock;
use ratekeeper::store::LoadedKeys;
use ratekeeper::{Key, StoreError, Timestamp};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use crate::counters::Counters;
use crate::error::Failure;
use crate::schema;
use crate::server_time::{instant, micros_after};
use crate::session::{Session, SessionSettings};

/// Rows that one statement looks at, or deletes: some milliseconds' work.
const SLICE: i64 = 1_000;

/// Slices of one turn, and the rest between two of them.
const MOST_SLICES: usize = 200;
const REST: Duration = Duration::from_millis(10);

/// How long a row stays after it is worth nothing: whoever decides by a clock that is a little late still finds it.
const MARGIN_MICROS: i64 = 2_000_000;

/// A wish to have all keys forgotten that start with some bytes, and where to tell how many states that were.
#[derive(Debug)]
pub(crate) struct Forgetting {
    pub(crate) prefix: Vec<u8>,
    pub(crate) reply: oneshot::Sender<Result<u64, StoreError>>,
}

/// Has a connection when there is something to do.
#[derive(Debug)]
pub(crate) struct Housekeeper {
    pub(crate) wishes: mpsc::Receiver<Forgetting>,
    pub(crate) settings: Arc<SessionSettings>,
    pub(crate) counters: Arc<Counters>,
    /// How long to wait between two turns; zero for never.
    pub(crate) interval: Duration,
    pub(crate) given: Option<Arc<dyn Clock>>,
}

/// A connection, and what the server's clock said when it was made.
struct Opened {
    session: Session,
    at: Instant,
    micros: i64,
}

impl Opened {
    fn micros(&self) -> i64 {
        self.micros.saturating_add(i64::try_from(self.at.elapsed().as_micros()).unwrap_or(i64::MAX))
    }
}

impl Housekeeper {
    /// Works until the store is dropped.
    pub(crate) async fn run(mut self) {
        let mut after: Vec<u8> = Vec::new();
        loop {
            let wish = match self.interval.is_zero() {
                true => self.wishes.recv().await,
                false => match tokio::time::timeout(self.interval, self.wishes.recv()).await {
                    Ok(wish) => wish,
                    Err(_) => {
                        if let Err(failure) = self.sweep(&mut after).await {
                            tracing::debug!(error = %failure.error, "postgres: expired rows stay for now");
                        }
                        continue;
                    }
                },
            };
            let Some(Forgetting { prefix, reply }) = wish else { return };
            let forgotten = self.forget(&prefix).await.map_err(|failure| failure.error);
            // Whoever has asked may have gone.
            let _ = reply.send(forgotten);
        }
    }

    /// Deletes what has expired, from where the last turn has stopped. At the end of the table, the next turn begins anew.
    async fn sweep(&self, after: &mut Vec<u8>) -> Result<(), Failure> {
        let opened = self.open().await?;
        let statement = self.prepare(&opened, &schema::sweep(&self.settings.table)).await?;
        for _ in 0..MOST_SLICES {
            let expired = self.now(&opened).saturating_sub(MARGIN_MICROS);
            let params: [&(dyn ToSql + Sync); 3] = [&*after, &SLICE, &expired];
            let row = opened.session.in_time(opened.session.client.query_one(&statement, &params)).await?;
            let (looked_at, last, deleted): (i64, Option<Vec<u8>>, i64) =
                (row.get(0), row.get(1), row.get(2));
            self.counters.swept(u64::try_from(deleted).unwrap_or(0));
            *after = last.unwrap_or_default();
            if looked_at < SLICE {
                after.clear();
                return Ok(());
            }
            tokio::time::sleep(REST).await;
        }
        Ok(())
    }

    /// Deletes the rows of all keys that start like this. Returns how many states they had that were worth something.
    async fn forget(&self, prefix: &[u8]) -> Result<u64, Failure> {
        let opened = self.open().await?;
        let statement = self.prepare(&opened, &schema::forget(&self.settings.table)).await?;
        let (end, mut forgotten) = (end_of(prefix), 0);
        let params: [&(dyn ToSql + Sync); 3] = [&prefix, &end, &SLICE];
        loop {
            let rows = opened.session.in_time(opened.session.client.query(&statement, &params)).await?;
            let now = self.instant(&opened);
            for row in &rows {
                let (key, record): (&[u8], &[u8]) = (row.get(0), row.get(1));
                let loaded = LoadedKeys::at(now);
                // What cannot be read is forgotten all the same, and not counted.
                if let Ok(key) = Key::new(key)
                    && !record.is_empty()
                    && loaded.load(key, record).is_ok()
                {
                    forgotten += loaded.live(key);
                }
            }
            if i64::try_from(rows.len()).is_ok_and(|rows| rows < SLICE) {
                return Ok(forgotten);
            }
        }
    }

    async fn open(&self) -> Result<Opened, Failure> {
        let (session, greeting) = Session::open(&self.settings).await?;
        Ok(Opened { session, at: greeting.answered, micros: greeting.micros })
    }

    async fn prepare(&self, opened: &Opened, text: &str) -> Result<tokio_postgres::Statement, Failure> {
        let client: &Client = &opened.session.client;
        opened.session.in_time(client.prepare(text)).await
    }

    /// Returns the time by which rows have expired: the server's, or that of a test.
    fn now(&self, opened: &Opened) -> i64 {
        self.given.as_ref().map_or_else(|| opened.micros(), |clock| micros_after(clock.now()))
    }

    fn instant(&self, opened: &Opened) -> Timestamp {
        self.given.as_ref().map_or_else(|| instant(opened.micros()), |clock| clock.now())
    }
}

/// Returns the first key after all that start like this; none if there is none.
fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_the_next_one_begins() {
        assert_eq!(end_of(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(end_of(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(end_of(b"\xff"), None);
        assert_eq!(end_of(b""), None);
    }
}
