//! Decides all that waits on one connection, and writes it in one statement.
//!
//! A key has one worker in this process, so that its requests never fight each other: they are decided one after another on the
//! same loaded row. Other processes are noticed when a row is not as it was seen; then its calls are decided again on what it
//! is. After two such misses in a row the rows are locked first, and nobody comes in between.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join;
use ratekeeper::port::Clock;
use ratekeeper::store::{KeyRecord, LoadedKeys};
use ratekeeper::{StoreError, StoreErrorKind, Timestamp};
use tokio::sync::mpsc;

use crate::call::{Call, OwnedKey, key};
use crate::counters::Counters;
use crate::error::{Failure, Fate, copy};
use crate::exchange::{self, DecidedAt, Exchanged, NewRow, RowChange, exchange};
use crate::groups::{Group, Groups};
use crate::seen::{SeenRow, SharedRows};
use crate::server_time::{ServerTime, instant, micros_after};
use crate::session::{Session, SessionSettings};

/// Calls that one statement decides at most.
const MOST_CALLS: usize = 1_024;

/// Rows that one statement exchanges at most: it is to take less than some ten milliseconds.
const MOST_ROWS: usize = 256;

/// Misses after which rows are locked.
const PATIENT_MISSES: u32 = 2;

/// How often a table is made again, or a decision dated anew, before that is an error.
const MOST_REPAIRS: u32 = 5;

/// The first rest after a connection could not be made; each further one is twice as long, up to the longest.
const FIRST_REST: Duration = Duration::from_millis(20);
const LONGEST_REST: Duration = Duration::from_secs(1);

/// One connection, and the calls of the keys that fall to it.
#[derive(Debug)]
pub(crate) struct Worker {
    calls: mpsc::Receiver<Call>,
    settings: Arc<SessionSettings>,
    counters: Arc<Counters>,
    /// The clock of a test, instead of the server's.
    given: Option<Arc<dyn Clock>>,
    session: Option<Session>,
    time: ServerTime,
    seen: SharedRows,
    waiting: Groups,
    /// Why there is no connection, and until when none is tried.
    trouble: Option<(StoreError, Instant)>,
    failed_attempts: u32,
    repairs: u32,
    stamps: (RandomState, u64),
}

/// What was decided on, to be compared, written and answered.
struct Round {
    groups: Vec<Group>,
    rows: Vec<RowChange>,
    /// The number of the group of each row, in the order of the groups.
    group_of: Vec<usize>,
    decided_at: DecidedAt,
}

impl Worker {
    pub(crate) fn new(
        calls: mpsc::Receiver<Call>,
        settings: Arc<SessionSettings>,
        counters: Arc<Counters>,
        seen: SharedRows,
        given: Option<Arc<dyn Clock>>,
    ) -> Self {
        Worker {
            calls,
            settings,
            counters,
            given,
            session: None,
            time: ServerTime::default(),
            seen,
            waiting: Groups::default(),
            trouble: None,
            failed_attempts: 0,
            repairs: 0,
            stamps: (RandomState::new(), 0),
        }
    }

    /// Works until the store is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            if self.waiting.calls() == 0 {
                match self.calls.recv().await {
                    Some(call) => self.waiting.add(call),
                    None => return,
                }
            }
            while self.waiting.calls() < MOST_CALLS
                && self.waiting.keys() < MOST_ROWS
                && let Ok(call) = self.calls.try_recv()
            {
                self.waiting.add(call);
            }
            self.round().await;
        }
    }

    /// Decides what waits. What was not decided waits on.
    async fn round(&mut self) {
        let (mut groups, abandoned) = self.waiting.take(Instant::now());
        for call in abandoned {
            call.answer(Err(StoreError::new(
                StoreErrorKind::Timeout,
                format!("not decided within {:?}; nothing was charged", self.settings.timeout),
            )));
        }
        if groups.is_empty() {
            return;
        }
        let session = match self.session().await {
            Ok(session) => session,
            Err(error) => return fail(groups, &error),
        };
        // Those who lose all the time go first, by themselves: a lock ends that.
        let is_contended = |group: &mut Group| group.misses >= PATIENT_MISSES;
        let contended: Vec<Group> = groups.extract_if(.., is_contended).collect();
        let (is_locked, groups) = match contended.is_empty() {
            true => (false, groups),
            false => {
                groups.into_iter().for_each(|group| self.waiting.put_back(group));
                (true, contended)
            }
        };
        match self.decide_and_exchange(&session, groups, is_locked).await {
            Ok(()) => self.session = Some(session),
            Err(Fate::Lost | Fate::Rebuild) => drop(session),
            Err(Fate::Again | Fate::Refused) => self.session = Some(session),
        }
    }

    /// Returns the connection, or a new one.
    async fn session(&mut self) -> Result<Session, StoreError> {
        if let Some(session) = self.session.take().filter(|session| !session.is_closed()) {
            return Ok(session);
        }
        if let Some((error, until)) = &self.trouble
            && Instant::now() < *until
        {
            return Err(copy(error));
        }
        match Session::open(&self.settings).await {
            Ok((session, greeting)) => {
                self.trouble = None;
                self.failed_attempts = 0;
                // It may be another server, which has other rows, and certainly another clock.
                self.seen.lock().clear();
                self.time.begin_with(greeting.asked, greeting.answered, greeting.micros);
                Ok(session)
            }
            Err(Failure { error, .. }) => {
                let rest = FIRST_REST.saturating_mul(1 << self.failed_attempts.min(8)).min(LONGEST_REST);
                self.failed_attempts = self.failed_attempts.saturating_add(1);
                self.trouble = Some((copy(&error), Instant::now() + rest));
                Err(error)
            }
        }
    }

    /// Decides these groups, writes what has changed, and answers. Groups whose rows were not as they were seen wait on.
    async fn decide_and_exchange(
        &mut self,
        session: &Session,
        groups: Vec<Group>,
        is_locked: bool,
    ) -> Result<(), Fate> {
        if is_locked {
            let keys = groups.iter().flat_map(|group| group.keys.iter().cloned()).collect();
            if let Err(failure) = self.lock(session, keys).await {
                return Err(self.failed(session, groups, failure, is_locked).await);
            }
        }
        let Round { groups, rows, group_of, decided_at } = self.decide(groups);
        if groups.is_empty() {
            // None of the rows can be read.
            return if is_locked {
                exchange::roll_back(session).await.map_err(|failure| failure.fate)
            } else {
                Ok(())
            };
        }
        self.counters.exchanged(&groups, is_locked);
        let exchanged = match is_locked {
            false => exchange(session, &rows, decided_at).await,
            // Whatever comes of it: nothing is written of what is not as expected.
            true => {
                let both = join(exchange(session, &rows, decided_at), exchange::commit(session)).await;
                both.0.and_then(|exchanged| both.1.map(|()| exchanged))
            }
        };
        match exchanged {
            Ok(exchanged) => {
                self.conclude(groups, rows, &group_of, exchanged);
                Ok(())
            }
            Err(failure) => Err(self.failed(session, groups, failure, is_locked).await),
        }
    }

    /// Locks the rows of these keys, and sees them as they are.
    async fn lock(&mut self, session: &Session, mut keys: Vec<OwnedKey>) -> Result<(), Failure> {
        keys.sort_unstable();
        let rows = exchange::lock(session, &keys).await?;
        let mut seen = self.seen.lock();
        rows.into_iter().for_each(|(key, row)| seen.put(&key, row));
        Ok(())
    }

    /// Decides all calls at one instant, on the rows as they were last seen.
    fn decide(&mut self, groups: Vec<Group>) -> Round {
        let now = Instant::now();
        let micros = self.time.micros(now).unwrap_or_default();
        let at = self.given.as_ref().map_or_else(|| instant(micros), |clock| clock.now());
        let mut patience = self.settings.timeout;
        let mut decided = Vec::with_capacity(groups.len());
        let mut rows: Vec<(usize, RowChange)> = Vec::with_capacity(groups.len());
        for mut group in groups {
            match self.decide_group(&mut group, decided.len(), at) {
                Ok(changes) => {
                    rows.extend(changes.into_iter().map(|change| (decided.len(), change)));
                    // Who has stopped waiting is not to be charged.
                    let left = group.calls.iter().map(|call| call.deadline.saturating_duration_since(now));
                    patience = left.min().unwrap_or(patience).min(patience);
                    decided.push(group);
                }
                Err(error) => fail(vec![group], &error),
            }
        }
        // Everybody locks rows in the same order.
        rows.sort_unstable_by(|(_, one), (_, other)| one.key.cmp(&other.key));
        let (group_of, rows) = rows.into_iter().unzip();
        let decided_at = match &self.given {
            None => DecidedAt {
                earliest: micros,
                latest: micros.saturating_add(i64::try_from(patience.as_micros()).unwrap_or(i64::MAX)),
            },
            Some(_) => DecidedAt { earliest: i64::MIN, latest: i64::MAX },
        };
        Round { groups: decided, rows, group_of, decided_at }
    }

    /// Decides the calls of one group, one after another. Returns what becomes of its rows.
    fn decide_group(
        &mut self,
        group: &mut Group,
        number: usize,
        at: Timestamp,
    ) -> Result<Vec<RowChange>, StoreError> {
        let loaded = LoadedKeys::at(at);
        let mut befores: Vec<(i64, Option<KeyRecord>)> = Vec::with_capacity(group.keys.len());
        for bytes in &group.keys {
            let (key, row) = (key(bytes)?, self.seen.lock().get(bytes));
            if row.stamp != 0 {
                loaded.load(key, &row.record).map_err(|error| unreadable(&self.settings, error))?;
            }
            befores.push((row.stamp, loaded.record(key)));
        }
        for call in &mut group.calls {
            call.decide(&loaded);
        }
        let together = match group.keys.len() {
            1 => 0,
            _ => i32::try_from(number + 1).unwrap_or(i32::MAX),
        };
        let mut changes = Vec::with_capacity(group.keys.len());
        for (bytes, (old, before)) in group.keys.iter().zip(befores) {
            let after = loaded.record(key(bytes)?);
            let new = (after != before).then(|| NewRow {
                stamp: self.stamp(),
                expires: after.as_ref().map_or(0, |after| micros_after(after.expires)),
                record: after.map(|after| after.bytes.into()),
            });
            // What was not there and has nothing to be written stays away.
            let new = new.filter(|new| new.record.is_some() || old != 0);
            changes.push(RowChange { key: bytes.clone(), old, new, together });
        }
        Ok(changes)
    }

    /// Returns a stamp that no row has: 63 bits, by chance.
    fn stamp(&mut self) -> i64 {
        let (hasher, count) = &mut self.stamps;
        *count += 1;
        (hasher.hash_one(*count) >> 1).cast_signed().max(1)
    }

    /// Answers what was written, and has the rest decided again.
    fn conclude(
        &mut self,
        groups: Vec<Group>,
        rows: Vec<RowChange>,
        group_of: &[usize],
        exchanged: Exchanged,
    ) {
        let Exchanged { asked, answered, micros, was_in_time, missed } = exchanged;
        if was_in_time {
            self.time.learn(asked, answered, micros);
        } else {
            // The clock has stepped, or this process was asleep.
            self.time.begin_with(asked, answered, micros);
            self.counters.dated_anew();
            self.repairs += 1;
            if self.repairs <= MOST_REPAIRS {
                return groups.into_iter().for_each(|group| self.waiting.put_back(group));
            }
            let message =
                "the server's clock jumps, or it takes longer than the timeout to begin a statement";
            self.repairs = 0;
            return fail(groups, &StoreError::new(StoreErrorKind::Unavailable, message));
        }
        self.repairs = 0;
        self.counters.missed(missed.len());
        let mut is_missed = vec![false; groups.len()];
        let mut seen = self.seen.lock();
        for (position, row) in missed {
            if let (Some(change), Some(group)) = (rows.get(position), group_of.get(position)) {
                is_missed[*group] = true;
                seen.put(&change.key, row);
            }
        }
        for (row, group) in rows.into_iter().zip(group_of) {
            if let (false, Some(NewRow { stamp, record, .. })) = (is_missed[*group], row.new) {
                let row_now = record.map_or_else(SeenRow::absent, |record| SeenRow { stamp, record });
                seen.put(&row.key, row_now);
            }
        }
        drop(seen);
        for (mut group, is_missed) in groups.into_iter().zip(is_missed) {
            if is_missed {
                group.misses += 1;
                self.waiting.put_back(group);
            } else {
                group.calls.into_iter().for_each(|call| call.answer(Ok(())));
            }
        }
    }

    /// Has a statement that failed answered for, or asked again if nothing was done.
    async fn failed(
        &mut self,
        session: &Session,
        groups: Vec<Group>,
        failure: Failure,
        is_locked: bool,
    ) -> Fate {
        let Failure { error, mut fate } = failure;
        if is_locked && fate != Fate::Lost && exchange::roll_back(session).await.is_err() {
            fate = Fate::Lost;
        }
        match fate {
            Fate::Again | Fate::Rebuild if self.repairs < MOST_REPAIRS => {
                self.repairs += u32::from(fate == Fate::Rebuild);
                for mut group in groups {
                    group.misses += 1;
                    self.waiting.put_back(group);
                }
            }
            _ => {
                self.repairs = 0;
                fail(groups, &error);
            }
        }
        fate
    }
}

/// Answers all calls of these groups with an error.
fn fail(groups: Vec<Group>, error: &StoreError) {
    let calls = groups.into_iter().flat_map(|group| group.calls);
    calls.for_each(|call| call.answer(Err(copy(error))));
}

fn unreadable(settings: &SessionSettings, error: ratekeeper::store::SnapshotError) -> StoreError {
    let table = &settings.table;
    let message = format!(
        "a row of {table} cannot be read ({error}): it was written by a newer version, or is damaged; delete it"
    );
    StoreError::new(StoreErrorKind::Unreadable, message).caused_by(error)
}
