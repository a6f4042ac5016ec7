//! Deletes what has expired, slice by slice, and what an administrator wants forgotten; and tries whether the server serves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratekeeper::port::Clock;
use ratekeeper::store::LoadedKeys;
use ratekeeper::{Key, StoreError, Timestamp};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use crate::counters::Counters;
use crate::error::{Failure, Fate};
use crate::schema;
use crate::server_time::{instant, micros_after};
use crate::session::{Session, SessionSettings};

/// Rows that one statement looks at: some milliseconds' work. What it deletes is locked until its end, so that it begins with the
/// fewest, and half as many follow after one that took longer than decisions can bear, or failed.
const SLICE: i64 = 1_000;
const LEAST_SLICE: i64 = 8;

/// Rows that one statement deletes by a prefix, and returns.
const FORGOTTEN_SLICE: i64 = 100;

/// How long a statement may take here: it is nobody's decision, and a slice that fails would fail again.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Turns that may fail in a row before that is a warning.
const QUIET_FAILURES: u32 = 3;

/// Slices of one turn, and the rest between two of them.
const MOST_SLICES: usize = 200;
const REST: Duration = Duration::from_millis(10);

/// How long a row stays after it is worth nothing: whoever decides by a clock that is a little late still finds it.
const MARGIN_MICROS: i64 = 2_000_000;

/// What somebody wants of the housekeeper, and where to tell the outcome.
#[derive(Debug)]
pub(crate) enum Wish {
    /// To have all keys forgotten that start with some bytes. Told is how many states that were.
    Forget { prefix: Vec<u8>, reply: oneshot::Sender<Result<u64, StoreError>> },
    /// To know whether the server can be connected to, and has the table or lets it be made.
    Check { reply: oneshot::Sender<Result<(), StoreError>> },
}

/// Has a connection when there is something to do.
#[derive(Debug)]
pub(crate) struct Housekeeper {
    pub(crate) wishes: mpsc::Receiver<Wish>,
    pub(crate) settings: Arc<SessionSettings>,
    pub(crate) counters: Arc<Counters>,
    /// How long to wait between two turns; zero for never.
    pub(crate) interval: Duration,
    pub(crate) given: Option<Arc<dyn Clock>>,
}

/// Where a walk through the table has come to.
#[derive(Debug)]
struct Walk {
    /// The last key that was looked at; empty at the beginning.
    after: Vec<u8>,
    /// How many rows the next statement looks at.
    slice: i64,
    /// Turns that have failed in a row.
    failures: u32,
}

impl Walk {
    fn new() -> Self {
        Walk { after: Vec::new(), slice: LEAST_SLICE, failures: 0 }
    }

    /// Goes on after a slice, with a larger one if that was quick. Returns true if the turn goes on as well: not at the end of the table, where the walk begins
    /// anew, and not if it is another instance's turn, which does not move this one.
    fn advance(&mut self, is_mine: bool, is_slow: bool, looked_at: i64, last: Option<Vec<u8>>) -> bool {
        if !is_mine {
            return false;
        }
        let is_end = looked_at < self.slice;
        self.after = if is_end { Vec::new() } else { last.unwrap_or_default() };
        self.slice = resized(self.slice, is_slow, LEAST_SLICE, SLICE);
        !is_end
    }

    /// Notes that a turn has failed: the next one takes smaller steps. Returns true if it is time to tell somebody.
    fn failed(&mut self) -> bool {
        self.slice = resized(self.slice, true, LEAST_SLICE, SLICE);
        self.failures = self.failures.saturating_add(1);
        self.failures == QUIET_FAILURES
    }
}

/// Returns how many rows the next statement takes after one of so many.
fn resized(slice: i64, is_slow: bool, least: i64, most: i64) -> i64 {
    let next = if is_slow { slice / 2 } else { slice * 2 };
    next.clamp(least, most)
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
        let mut walk = Walk::new();
        loop {
            let wish = match self.interval.is_zero() {
                true => self.wishes.recv().await,
                false => match tokio::time::timeout(self.interval, self.wishes.recv()).await {
                    Ok(wish) => wish,
                    Err(_) => {
                        match self.sweep(&mut walk).await {
                            Ok(()) => walk.failures = 0,
                            Err(failure) if walk.failed() => {
                                tracing::warn!(error = %failure.error, turns = walk.failures, "postgres: expired rows stay");
                            }
                            Err(failure) => {
                                tracing::debug!(error = %failure.error, "postgres: expired rows stay for now");
                            }
                        }
                        continue;
                    }
                },
            };
            // Whoever has asked may have gone.
            match wish {
                Some(Wish::Forget { prefix, reply }) => {
                    let forgotten = self.forget(&prefix).await.map_err(|failure| failure.error);
                    let _ = reply.send(forgotten);
                }
                Some(Wish::Check { reply }) => {
                    let _ = reply.send(self.open().await.map(drop).map_err(|failure| failure.error));
                }
                None => return,
            }
        }
    }

    /// Deletes what has expired, from where the last turn has stopped. At the end of the table, the next turn begins anew. Who
    /// wants something forgotten does not wait for all of it.
    async fn sweep(&self, walk: &mut Walk) -> Result<(), Failure> {
        let opened = self.open().await?;
        let statement = self.prepare(&opened, &schema::sweep(&self.settings.table)).await?;
        for _ in 0..MOST_SLICES {
            let expired = self.now(&opened).saturating_sub(MARGIN_MICROS);
            let params: [&(dyn ToSql + Sync); 3] = [&walk.after, &walk.slice, &expired];
            let asked = Instant::now();
            let row = opened.session.in_time(opened.session.client.query_one(&statement, &params)).await?;
            self.counters.swept(u64::try_from(row.get::<_, i64>(3)).unwrap_or(0));
            let is_slow = self.is_slow(asked);
            if !walk.advance(row.get(0), is_slow, row.get(1), row.get(2)) || !self.wishes.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(REST).await;
        }
        Ok(())
    }

    /// Returns true if a statement that began then has kept its rows locked for longer than a decision waits for one.
    fn is_slow(&self, began: Instant) -> bool {
        began.elapsed() > self.settings.timeout / 4
    }

    /// Deletes the rows of all keys that start like this. Returns how many states they had that were worth something. A row that
    /// others have locked is asked for again, with fewer others, for as long as a statement may take.
    async fn forget(&self, prefix: &[u8]) -> Result<u64, Failure> {
        let opened = self.open().await?;
        let statement = self.prepare(&opened, &schema::forget(&self.settings.table)).await?;
        let (mut start, end, mut forgotten) = (prefix.to_vec(), end_of(prefix), 0);
        let (mut slice, mut progress) = (FORGOTTEN_SLICE, Instant::now());
        loop {
            let params: [&(dyn ToSql + Sync); 3] = [&start, &end, &slice];
            let (asked, asking) = (Instant::now(), opened.session.client.query(&statement, &params));
            let rows = match opened.session.in_time(asking).await {
                Ok(rows) => rows,
                Err(failure) if failure.fate == Fate::Again && progress.elapsed() < STATEMENT_TIMEOUT => {
                    slice = resized(slice, true, 1, FORGOTTEN_SLICE);
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            let is_end = i64::try_from(rows.len()).is_ok_and(|rows| rows < slice);
            slice = resized(slice, self.is_slow(asked), 1, FORGOTTEN_SLICE);
            progress = Instant::now();
            let now = self.instant(&opened);
            for row in &rows {
                let (bytes, record): (&[u8], &[u8]) = (row.get(0), row.get(1));
                let loaded = LoadedKeys::at(now);
                // What cannot be read is forgotten all the same, and not counted.
                if let Ok(key) = Key::new(bytes)
                    && !record.is_empty()
                    && loaded.load(key, record).is_ok()
                {
                    forgotten += loaded.live(key);
                }
                // Each key once: who keeps making new ones does not keep this going. A zero makes it the key after this one.
                if bytes >= &*start {
                    start = [bytes, &[0]].concat();
                }
            }
            if is_end {
                return Ok(forgotten);
            }
        }
    }

    async fn open(&self) -> Result<Opened, Failure> {
        let patience = STATEMENT_TIMEOUT.max(self.settings.timeout);
        let (session, greeting) = Session::open(&self.settings, patience).await?;
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

    /// When it was another instance's turn, the walk began anew, so that the end of a large table was never reached.
    #[test]
    fn a_walk_goes_on_where_it_stopped() {
        let mut walk = Walk::new();
        assert!(walk.advance(true, false, LEAST_SLICE, Some(b"k".to_vec())));
        assert!(!walk.advance(false, false, 0, None));
        assert_eq!((&*walk.after, walk.slice), (&b"k"[..], 2 * LEAST_SLICE));
        assert!(!walk.advance(true, false, 2 * LEAST_SLICE - 1, Some(b"z".to_vec())));
        assert_eq!(walk.after, b"");
    }

    /// A slice of a thousand could keep its rows locked for nine seconds, in which nobody decided on them.
    #[test]
    fn a_walk_goes_as_fast_as_decisions_can_bear() {
        let mut walk = Walk::new();
        let mut slices = Vec::new();
        for is_slow in [false, false, true, false, true, true, true] {
            slices.push(walk.slice / LEAST_SLICE);
            assert!(walk.advance(true, is_slow, walk.slice, Some(b"k".to_vec())));
        }
        assert_eq!(slices, [1, 2, 4, 2, 4, 2, 1]);
        assert!((0..20).all(|_| walk.advance(true, false, walk.slice, None)));
        assert_eq!(walk.slice, SLICE);
    }

    #[test]
    fn a_walk_that_fails_takes_smaller_steps_and_says_so_once() {
        let mut walk = Walk::new();
        let told: Vec<bool> = (0..20).map(|_| walk.failed()).collect();
        assert_eq!(told.iter().filter(|told| **told).count(), 1);
        assert_eq!(walk.slice, LEAST_SLICE);
        assert!(walk.advance(true, false, LEAST_SLICE, Some(b"k".to_vec())) && walk.slice == 2 * LEAST_SLICE);
    }

    #[test]
    fn a_prefix_ends_where_the_next_one_begins() {
        assert_eq!(end_of(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(end_of(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(end_of(b"\xff"), None);
        assert_eq!(end_of(b""), None);
    }
}
