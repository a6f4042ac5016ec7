//! One host, or whatever else shares a limit: the local limit, and what the server said.
//!
//! Where nothing is known yet, or what was known is out of date, one request goes ahead to find out what holds now, and
//! the others wait for its answer: all at once they would be refused together. That is a courtesy, which the server has
//! not asked for: who has no time for it is sent without it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ratekeeper::limiter::Granted;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::learn::Lesson;
use super::limit::HostLimit;
use super::statistics::HostStatistics;
use crate::instant::later;

/// How long the others wait for the one that went ahead. Some servers take their time for an answer: a queue of
/// strangers should not take it too.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is known of one host.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) limit: HostLimit,
    learnt: Mutex<Learnt>,
    /// Something was learnt, or a request has come back.
    pub(super) news: Notify,
}

#[derive(Debug)]
struct Learnt {
    /// Nothing is sent before.
    paused_until: Option<Instant>,
    /// How many more may be sent until then.
    budget: Option<(u64, Instant)>,
    word: Word,
    in_flight: u64,
}

/// The server's word on what holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// It was heard, or was waited for long enough.
    Heard,
    /// It must be found out.
    Wanted,
    /// One has gone ahead to find out, at this instant.
    Asked(Instant),
}

/// Why nothing may be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The server has said so.
    For(Duration),
    /// Another one finds out what holds now; it is not waited for longer than this.
    ForNews(Duration),
}

impl Host {
    /// A host that nothing is known of. `heeds`: whether it matters what it will say.
    pub(super) fn new(limit: HostLimit, heeds: bool) -> Self {
        let word = if heeds { Word::Wanted } else { Word::Heard };
        let learnt = Learnt { paused_until: None, budget: None, word, in_flight: 0 };
        Host { limit, learnt: Mutex::new(learnt), news: Notify::new() }
    }

    /// How many are on their way.
    pub(super) fn in_flight(&self) -> u64 {
        self.lock().in_flight
    }

    /// Where it stands now.
    pub(super) fn statistics(&self, now: Instant) -> HostStatistics {
        let local = self.limit.statistics();
        let learnt = self.lock();
        let until = |until: Instant| until.checked_duration_since(now).filter(|left| !left.is_zero());
        HostStatistics {
            local,
            in_flight: learnt.in_flight,
            paused_for: learnt.paused_until.and_then(until),
            budget: learnt.budget.and_then(|(left, ends)| Some((left, until(ends)?))),
        }
    }

    /// Whether the server has said anything that still holds. If not, nothing is lost when the host is forgotten.
    pub(super) fn is_bound(&self, now: Instant) -> bool {
        let learnt = self.lock();
        let budget = learnt.budget.map(|(_, until)| until);
        learnt.paused_until.max(budget).is_some_and(|until| until > now)
    }

    /// Whether one may be sent, as far as the server has said. `hurried`: it has no time to wait for the one that has
    /// gone ahead.
    pub(super) fn may_send(&self, now: Instant, hurried: bool) -> Result<(), Wait> {
        self.lock().may_send(now, hurried)
    }

    /// Sends one, if it may be sent.
    pub(super) fn try_send(self: &Arc<Self>, now: Instant, hurried: bool) -> Result<InFlight, Wait> {
        let mut learnt = self.lock();
        learnt.may_send(now, hurried)?;
        if let Some((left, _)) = &mut learnt.budget {
            *left -= 1;
        }
        learnt.in_flight += 1;
        let is_scout = learnt.word == Word::Wanted;
        if is_scout {
            learnt.word = Word::Asked(now);
        }
        Ok(InFlight { host: Arc::clone(self), granted: None, is_scout })
    }

    /// What one response says. Only ever slows down: a pause is never shortened, and a budget never raised before its
    /// time is over.
    pub(super) fn learn(&self, lesson: Lesson, now: Instant, longest: Duration) {
        let mut learnt = self.lock();
        if let Some(pause) = lesson.pause {
            let until = later(now, pause.min(longest));
            learnt.paused_until = Some(learnt.paused_until.map_or(until, |already| already.max(until)));
        }
        if let Some((remaining, reset)) = lesson.budget {
            // Others are on their way, and the server may not have counted them yet; this one it has.
            let left = remaining.saturating_sub(learnt.in_flight.saturating_sub(1));
            let until = later(now, reset.min(longest));
            learnt.budget = match learnt.budget {
                Some((already, same)) if same > now => Some((already.min(left), same.max(until))),
                _ => Some((left, until)),
            };
        }
        learnt.word = Word::Heard;
    }

    /// A request has failed without a response: there is nothing to wait for, and the others find out for themselves.
    pub(super) fn learn_nothing(&self) {
        self.lock().word = Word::Heard;
    }

    /// One that was sent has come back, or never will.
    fn returned(&self, was_scout: bool) {
        let mut learnt = self.lock();
        learnt.in_flight = learnt.in_flight.saturating_sub(1);
        if was_scout && matches!(learnt.word, Word::Asked(_)) {
            // Abandoned on its way: the next one goes ahead.
            learnt.word = Word::Wanted;
        }
        drop(learnt);
        self.news.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Learnt> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Learnt {
    fn may_send(&mut self, now: Instant, hurried: bool) -> Result<(), Wait> {
        if let Some(until) = self.paused_until {
            if until > now {
                return Err(Wait::For(until - now));
            }
            (self.paused_until, self.word) = (None, Word::Wanted);
        }
        match self.budget {
            Some((_, until)) if until <= now => (self.budget, self.word) = (None, Word::Wanted),
            Some((0, until)) => return Err(Wait::For(until - now)),
            _ => {}
        }
        if let Word::Asked(sent) = self.word
            && !hurried
        {
            if sent + PATIENCE > now {
                return Err(Wait::ForNews(sent + PATIENCE - now));
            }
            self.word = Word::Heard;
        }
        Ok(())
    }
}

/// One request in flight. Dropping it, wherever and why ever that happens, makes room for the next.
pub(super) struct InFlight {
    pub(super) host: Arc<Host>,
    /// By the local limit: it may hold permits.
    pub(super) granted: Option<Granted>,
    is_scout: bool,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.host.returned(self.is_scout);
    }
}
