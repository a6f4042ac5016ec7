//! Decides all that waits on one connection, and writes it in one statement.
//!
//! A key has one worker in this process, so that its requests never fight each other: they are decided one after another on the
//! same loaded row. (A charge of several keys goes to the worker of the first of them in their order; on the others it may meet
//! another worker, as it may meet another process.) Others are noticed when a row is not as it was seen; then its calls are
//! decided again on what it is. After two such misses in a row the rows are locked first, and nobody comes in between.
//!
//! Whatever a worker waits for, it looks after the deadlines of all who wait for it, in a statement, for the next one or in the
//! channel: a call is answered by its own.

use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{Either, join, pending, select};
use ratekeeper::port::Clock;
use ratekeeper::store::{KeyRecord, LoadedKeys};
use ratekeeper::{StoreError, StoreErrorKind, Timestamp};
use tokio::sync::mpsc;

use crate::call::{Call, OwnedKey, key};
use crate::counters::Counters;
use crate::error::{Failure, Fate, copy};
use crate::exchange::{self, DecidedAt, Exchanged, NewRow, RowChange, exchange};
use crate::groups::{Group, Groups, earliest_deadline};
use crate::reserve::{Cutoff, Reserve};
use crate::seen::{SeenRow, SharedRows};
use crate::server_time::{ServerTime, instant, micros_after};
use crate::session::{Greeting, Session, SessionSettings};

/// Calls that one statement decides at most.
const MOST_CALLS: usize = 1_024;

/// Rows that one statement exchanges at most: it is to take less than some ten milliseconds.
const MOST_ROWS: usize = 256;

/// Misses after which rows are locked.
const PATIENT_MISSES: u32 = 2;

/// How often a table is made again, or a decision dated anew, before that is an error.
const MOST_REPAIRS: u32 = 5;

/// How far in the past of the server's clock a decision may be dated, whatever the timeout: states bear a second of disorder
/// (docs/semantics.md §2), and some of it is for the guess.
const MOST_PAST: Duration = Duration::from_millis(900);

/// What those are told whose time is over before anything was sent.
const UNSENT: &str = "nothing was charged";

/// What those are told whose time is over while a statement is under way.
const UNKNOWN: &str = "whether it was charged is not known, so it is not sent again";

/// The first rest after a connection could not be made; each further one is twice as long, up to the longest.
const FIRST_REST: Duration = Duration::from_millis(20);
const LONGEST_REST: Duration = Duration::from_secs(1);

/// One connection, and the calls of the keys that fall to it.
#[derive(Debug)]
pub(crate) struct Worker {
    calls: mpsc::Receiver<Call>,
    /// The first of those who came while a worker waited for the server. All calls have about as much time, and so come in the
    /// order of their deadlines: who looks after the first one looks after all in the channel.
    next: Option<Call>,
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
    reserve: Reserve,
    stamps: (RandomState, u64),
}

/// What happens while a worker waits for the server.
enum Event {
    Came(Call),
    /// Somebody's time is over.
    Late,
    /// The store was dropped.
    Closed,
}

/// Which groups go with a statement, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatementTurn {
    /// Those that nobody contends: all of them.
    Plain,
    /// Those that were missed too often: all of them, locked first.
    Contended,
    /// One of those whose rows could not be locked: it is locked by itself.
    Stuck,
}

impl StatementTurn {
    fn of(group: &Group) -> Self {
        match (group.misses < PATIENT_MISSES, group.is_stuck) {
            (true, _) => StatementTurn::Plain,
            (false, false) => StatementTurn::Contended,
            (false, true) => StatementTurn::Stuck,
        }
    }
}

/// What was decided on, to be compared, written and answered.
struct Round {
    groups: Vec<Group>,
    rows: Vec<RowChange>,
    /// The number of the group of each row, in the order of the groups.
    group_of: Vec<usize>,
    decided_at: DecidedAt,
}

/// A key that cannot be decided, and why.
struct Unreadable {
    key: OwnedKey,
    error: StoreError,
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
            next: None,
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
            reserve: Reserve::default(),
            stamps: (RandomState::new(), 0),
        }
    }

    /// Works until the store is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            if self.waiting.calls() == 0 && self.next.is_none() {
                match self.calls.recv().await {
                    Some(call) => self.next = Some(call),
                    None => return,
                }
            }
            self.gather();
            if self.waiting.calls() > 0 {
                self.round().await;
            }
        }
    }

    /// Adds those who have come to those who wait, as many as go with one statement. Who is late makes room for others before the
    /// statement is sent.
    fn gather(&mut self) {
        let soon = self.soon();
        let late = self.waiting.take_late(soon);
        turn_away(late, UNSENT);
        // Those of stuck rows go one by one: they take no room of the others, and may not be any number.
        let is_stuck = |group: &Group| StatementTurn::of(group) == StatementTurn::Stuck;
        let (mut stuck, stuck_keys) = self.waiting.count(is_stuck);
        while self.waiting.calls() - stuck < MOST_CALLS
            && self.waiting.keys() - stuck_keys < MOST_ROWS
            && let Some(call) = self.next.take().or_else(|| self.calls.try_recv().ok())
        {
            match (call.is_abandoned(soon), self.waiting.has_any_of(&call, is_stuck)) {
                (true, _) => turn_away(vec![call], UNSENT),
                (false, true) if stuck >= MOST_CALLS => call.answer(Err(Failure::crowded().error)),
                (false, joins_stuck) => {
                    self.waiting.add(call);
                    stuck += usize::from(joins_stuck);
                }
            }
        }
    }

    /// Decides what waits. What was not decided waits on.
    async fn round(&mut self) {
        let session = match self.session().await {
            Ok(session) => session,
            Err(error) => {
                let (groups, late) = self.waiting.take(Cutoff::At(Instant::now()));
                turn_away(late, UNSENT);
                return fail(groups, &error);
            }
        };
        match self.exchange_all(&session).await {
            Ok(()) | Err(Fate::Again | Fate::Late | Fate::Refused) => self.session = Some(session),
            Err(Fate::Lost | Fate::Rebuild) => drop(session),
        }
    }

    /// Decides all groups that wait: first those that nobody contends, then those that have to be locked. Who was only missed is
    /// asked for again before anybody waits for a lock.
    async fn exchange_all(&mut self, session: &Session) -> Result<(), Fate> {
        let mut outcome = Ok(());
        for turn in
            [StatementTurn::Plain, StatementTurn::Plain, StatementTurn::Contended, StatementTurn::Stuck]
        {
            if turn == StatementTurn::Plain {
                // Connecting may have taken its time, as the statement before has.
                self.gather();
            }
            let (mut groups, late) = self.waiting.take(self.soon());
            turn_away(late, UNSENT);
            let mut others: Vec<Group> =
                groups.extract_if(.., |group| StatementTurn::of(group) != turn).collect();
            // A row that is locked for long keeps whoever goes with it: it goes by itself, one in a round.
            if turn == StatementTurn::Stuck {
                others.extend(groups.split_off(groups.len().min(1)));
            }
            others.into_iter().for_each(|group| self.waiting.put_back(group));
            if groups.is_empty() {
                continue;
            }
            outcome = self.decide_and_exchange(session, groups, turn != StatementTurn::Plain).await;
            // The connection is of no more use, and the others wait for the next one; or a lock was waited for in vain: once in a
            // round, for the sake of those who need none.
            if let Err(Fate::Lost | Fate::Rebuild | Fate::Again) = outcome {
                return outcome;
            }
        }
        outcome
    }

    /// Returns what decides whether a call is too late to go with a statement now.
    fn soon(&self) -> Cutoff {
        Cutoff::Before(Instant::now(), self.reserve)
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
        match self.open().await {
            Ok((session, greeting)) => {
                self.trouble = None;
                self.failed_attempts = 0;
                // It may be another server. Its rows are told by their stamps, and its clock is certainly another.
                self.time.begin_with(greeting.asked, greeting.answered, greeting.micros);
                self.reserve = Reserve::default();
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

    /// Connects.
    async fn open(&mut self) -> Result<(Session, Greeting), Failure> {
        let settings = Arc::clone(&self.settings);
        self.mind(&mut [], UNSENT, Session::open(&settings, settings.timeout)).await
    }

    /// Waits for the server, and tells whose time is over meanwhile: calls of these groups that the outcome of theirs is this, and
    /// all others that nothing was charged. The groups stay, if without calls.
    async fn mind<T>(&mut self, groups: &mut [Group], outcome: &str, asking: impl Future<Output = T>) -> T {
        let mut asking = pin!(asking);
        let mut is_closed = false;
        loop {
            let event = {
                let next = self.next.as_ref().map(|call| call.deadline);
                let deadlines = [earliest_deadline(groups), self.waiting.earliest_deadline(), next];
                let deadline = deadlines.into_iter().flatten().min();
                let event = pin!(next_event(&mut self.calls, is_closed || next.is_some(), deadline));
                match select(asking.as_mut(), event).await {
                    Either::Left((answer, _)) => return answer,
                    Either::Right((event, _)) => event,
                }
            };
            match event {
                Event::Came(call) => self.next = Some(call),
                Event::Late => {
                    let now = Cutoff::At(Instant::now());
                    groups.iter_mut().for_each(|group| turn_away(group.take_late(now), outcome));
                    let mut late = self.waiting.take_late(now);
                    while let Some(call) = self.next.take_if(|call| call.is_abandoned(now)) {
                        late.push(call);
                        self.next = self.calls.try_recv().ok();
                    }
                    turn_away(late, UNSENT);
                }
                Event::Closed => is_closed = true,
            }
        }
    }

    /// Decides these groups, writes what has changed, and answers. Groups whose rows were not as they were seen wait on.
    async fn decide_and_exchange(
        &mut self,
        session: &Session,
        mut groups: Vec<Group>,
        is_locked: bool,
    ) -> Result<(), Fate> {
        if is_locked {
            if let Err(failure) = self.lock(session, &mut groups).await {
                return Err(self.failed(session, groups, failure, is_locked).await);
            }
            let soon = self.soon();
            groups.iter_mut().for_each(|group| turn_away(group.take_late(soon), UNSENT));
            groups.retain(|group| !group.calls.is_empty());
        }
        let Round { mut groups, rows, group_of, decided_at } = self.decide(groups);
        if groups.is_empty() {
            // Nobody waits any more, or none of the rows can be read.
            return if is_locked {
                let ended = self.mind(&mut [], UNSENT, exchange::roll_back(session)).await;
                ended.map_err(|failure| failure.fate)
            } else {
                Ok(())
            };
        }
        self.counters.exchanged(&groups, is_locked);
        let has_news = rows.iter().any(|row| row.new.is_some());
        let asking = async {
            let exchanging = exchange(session, &rows, decided_at);
            match is_locked {
                false => exchanging.await,
                // Whatever comes of it: nothing is written of what is not as expected. Rows that were made to be locked go
                // again if there is nothing to be written.
                true => {
                    let (exchanged, ended) = join(exchanging, exchange::end(session, has_news)).await;
                    exchanged.and_then(|exchanged| ended.map(|()| exchanged))
                }
            }
        };
        let sent = Instant::now();
        let exchanged = self.mind(&mut groups, UNKNOWN, asking).await;
        // How long a lock was waited for says nothing of the next statement.
        if !matches!(&exchanged, Err(failure) if failure.fate == Fate::Again) {
            self.reserve.learn(sent.elapsed());
        }
        match exchanged {
            Ok(exchanged) => {
                self.conclude(groups, rows, &group_of, exchanged, decided_at);
                Ok(())
            }
            Err(failure) => Err(self.failed(session, groups, failure, is_locked).await),
        }
    }

    /// Locks the rows of these groups, and sees them as they are.
    async fn lock(&mut self, session: &Session, groups: &mut [Group]) -> Result<(), Failure> {
        let mut keys: Vec<OwnedKey> = groups.iter().flat_map(|group| group.keys.iter().cloned()).collect();
        keys.sort_unstable();
        let rows = self.mind(groups, UNSENT, exchange::lock(session, &keys)).await?;
        let mut seen = self.seen.lock();
        rows.into_iter().for_each(|(key, row)| seen.put(&key, row));
        Ok(())
    }

    /// Decides all calls at one instant, on the rows as they were last seen.
    fn decide(&mut self, groups: Vec<Group>) -> Round {
        let now = Instant::now();
        let micros = self.time.micros(now).unwrap_or_default();
        let at = self.given.as_ref().map_or_else(|| instant(micros), |clock| clock.now());
        let mut left = self.settings.timeout;
        let mut decided = Vec::with_capacity(groups.len());
        let mut rows: Vec<(usize, RowChange)> = Vec::with_capacity(groups.len());
        for mut group in groups {
            match self.decide_group(&mut group, decided.len(), at) {
                Ok(changes) => {
                    rows.extend(changes.into_iter().map(|change| (decided.len(), change)));
                    // Who has stopped waiting is not to be charged.
                    let each = group.calls.iter().map(|call| call.deadline.saturating_duration_since(now));
                    left = each.min().unwrap_or(left).min(left);
                    decided.push(group);
                }
                Err(Unreadable { key, error }) => {
                    group.take_about(&key).into_iter().for_each(|call| call.answer(Err(copy(&error))));
                    self.waiting.put_back(group);
                }
            }
        }
        // Everybody locks rows in the same order.
        rows.sort_unstable_by(|(_, one), (_, other)| one.key.cmp(&other.key));
        let (group_of, rows) = rows.into_iter().unzip();
        let after =
            |time: Duration| micros.saturating_add(i64::try_from(time.as_micros()).unwrap_or(i64::MAX));
        let decided_at = match &self.given {
            None => DecidedAt { earliest: micros, latest: after(left.min(MOST_PAST)), deadline: after(left) },
            Some(_) => DecidedAt { earliest: i64::MIN, latest: i64::MAX, deadline: i64::MAX },
        };
        Round { groups: decided, rows, group_of, decided_at }
    }

    /// Decides the calls of one group, one after another. Returns what becomes of its rows.
    fn decide_group(
        &mut self,
        group: &mut Group,
        number: usize,
        at: Timestamp,
    ) -> Result<Vec<RowChange>, Unreadable> {
        let loaded = LoadedKeys::of(at, group.keys.len());
        let (changes, is_outgrown) = self.decide_in(group, number, &loaded)?;
        match is_outgrown {
            false => Ok(changes),
            // One of them has taken what is the others' room. Together they get no more than one, so that it stops growing.
            true => self.decide_in(group, number, &LoadedKeys::at(at)).map(|(changes, _)| changes),
        }
    }

    /// Decides the calls of one group in a store that has so much room. Returns what becomes of its rows, and whether one of them
    /// has grown beyond the room of one.
    fn decide_in(
        &mut self,
        group: &mut Group,
        number: usize,
        loaded: &LoadedKeys,
    ) -> Result<(Vec<RowChange>, bool), Unreadable> {
        let mut rows = Vec::with_capacity(group.keys.len());
        for bytes in &group.keys {
            let of_key = |error| Unreadable { key: bytes.clone(), error };
            let (key, row) = (key(bytes).map_err(of_key)?, self.seen.lock().get(bytes));
            if row.stamp != 0
                && let Err(error) = loaded.load(key, &row.record)
            {
                // It is looked at again when it is asked for again: somebody may have deleted it.
                self.seen.lock().put(bytes, SeenRow::absent());
                return Err(of_key(unreadable(&self.settings, error)));
            }
            rows.push((key, bytes, row.stamp));
        }
        // When all are loaded: loading one may change how another is written.
        let befores: Vec<Option<KeyRecord>> = rows.iter().map(|(key, ..)| loaded.record(*key)).collect();
        for call in &mut group.calls {
            call.decide(loaded);
        }
        let (mut changes, mut is_outgrown) = (Vec::with_capacity(group.keys.len()), false);
        for ((key, bytes, old), before) in rows.into_iter().zip(befores) {
            let after = loaded.record(key);
            let length = |record: &Option<KeyRecord>| record.as_ref().map_or(0, |record| record.bytes.len());
            is_outgrown |= length(&after) > LoadedKeys::MOST_BYTES.max(length(&before));
            let new = (after != before).then(|| NewRow {
                stamp: self.stamp(),
                expires: after.as_ref().map_or(0, |after| micros_after(after.expires)),
                record: after.map(|after| after.bytes.into()),
            });
            // What was not there and has nothing to be written stays away.
            let new = new.filter(|new| new.record.is_some() || old != 0);
            changes.push(RowChange { key: bytes.clone(), old, new, together: 0 });
        }
        // What is only compared needs no lock, and no row to be locked.
        if changes.len() > 1 && changes.iter().any(|change| change.new.is_some()) {
            let together = i32::try_from(number + 1).unwrap_or(i32::MAX);
            changes.iter_mut().for_each(|change| change.together = together);
        }
        Ok((changes, is_outgrown))
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
        decided_at: DecidedAt,
    ) {
        let Exchanged { asked, answered, micros, was_in_time, missed } = exchanged;
        if was_in_time {
            self.time.learn(asked, answered, micros);
        } else if micros > decided_at.latest && self.time.explains(answered, micros) {
            // No clock is wrong: it took so long to get there. Those who have time left are asked for again.
            self.time.learn(asked, answered, micros);
            self.counters.dated_anew();
            return groups.into_iter().for_each(|group| self.waiting.put_back(group));
        } else {
            // The clock has stepped, or this process was asleep.
            self.time.begin_with(asked, answered, micros);
            self.counters.dated_anew();
            self.repairs += 1;
            if self.repairs <= MOST_REPAIRS {
                return groups.into_iter().for_each(|group| self.waiting.put_back(group));
            }
            let message = "the server's clock jumps";
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
        mut groups: Vec<Group>,
        failure: Failure,
        is_locked: bool,
    ) -> Fate {
        let Failure { error, mut fate } = failure;
        if is_locked && fate != Fate::Lost {
            // The server has given up on several locks, each of which was waited for, and written nothing.
            if fate == Fate::Refused && error.kind() == StoreErrorKind::Timeout {
                fate = Fate::Again;
            }
            if self.mind(&mut groups, UNSENT, exchange::roll_back(session)).await.is_err() {
                fate = Fate::Lost;
            }
        }
        // Calls were told meanwhile that their time is over.
        groups = groups.into_iter().flat_map(Group::regrouped).collect();
        match fate {
            Fate::Again => {
                self.suspect(&mut groups, is_locked);
                groups.into_iter().for_each(|group| self.waiting.put_back(group));
            }
            Fate::Late => {
                self.counters.undone();
                groups.into_iter().for_each(|group| self.waiting.put_back(group));
            }
            Fate::Rebuild if self.repairs < MOST_REPAIRS => {
                self.repairs += 1;
                groups.into_iter().for_each(|group| self.waiting.put_back(group));
            }
            _ => {
                self.repairs = 0;
                fail(groups, &error);
            }
        }
        fate
    }

    /// Notes how groups are to be asked for again after one of their rows was waited for in vain, and nobody knows which.
    ///
    /// Without a lock, only a row that somebody else is making is waited for. With one, all that are locked are: then those that
    /// exist are tried without a lock first, by which all but the stuck one are decided at once, and after that one by one.
    fn suspect(&self, groups: &mut [Group], is_locked: bool) {
        let (mut seen, count) = (self.seen.lock(), groups.len());
        let mut makes_rows = |group: &Group| group.keys.iter().any(|key| seen.get(key).stamp == 0);
        let has_makers = groups.iter().any(&mut makes_rows);
        for group in groups {
            let is_maker = makes_rows(group);
            match is_locked {
                // Without a lock it would be waited for again, by everybody who is asked for with it.
                true if is_maker || count == 1 => {
                    (group.misses, group.is_stuck) = (group.misses.max(PATIENT_MISSES), true);
                }
                true => (group.misses, group.is_stuck) = (0, true),
                false if is_maker => group.misses = PATIENT_MISSES,
                false => group.misses += u32::from(!has_makers),
            }
        }
    }
}

/// Waits for a call, unless there are enough, or until the time of one that waits is over.
async fn next_event(calls: &mut mpsc::Receiver<Call>, is_full: bool, deadline: Option<Instant>) -> Event {
    let coming = async {
        match is_full {
            true => pending().await,
            false => calls.recv().await,
        }
    };
    let alarm = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
            None => pending().await,
        }
    };
    match select(pin!(coming), pin!(alarm)).await {
        Either::Left((Some(call), _)) => Event::Came(call),
        Either::Left((None, _)) => Event::Closed,
        Either::Right(_) => Event::Late,
    }
}

/// Tells these calls that their time is over, or too short for a statement.
fn turn_away(late: Vec<Call>, outcome: &str) {
    let now = Instant::now();
    for call in late {
        let (left, time) = (call.deadline.saturating_duration_since(now).as_millis(), call.time);
        let message = match left {
            0 => format!("not decided within {time:?}; {outcome}"),
            _ => format!("{left} ms of {time:?} were left, and statements take longer; {outcome}"),
        };
        call.answer(Err(StoreError::new(StoreErrorKind::Timeout, message)));
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
