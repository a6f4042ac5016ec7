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
    /// Nothing is sent before its end. One that is over stays until a request is sent, or the server sets another.
    pause: Option<Spell>,
    /// How many more may be sent until its end. One that is over stays until a request is sent.
    budget: Option<(u64, Spell)>,
    word: Word,
    in_flight: u64,
}

/// A time that the server has set. Answers may prolong it, but not for ever: a server that asks for another minute with
/// every answer would never be sent anything again.
#[derive(Clone, Copy, Debug)]
struct Spell {
    began: Instant,
    until: Instant,
}

impl Spell {
    fn new(now: Instant, until: Instant) -> Self {
        Spell { began: now, until }
    }

    fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }

    /// Whether whoever waited for its end has been sent, and what is said now is said anew: nobody comes back later than
    /// the `jitter` after it.
    fn is_history(&self, now: Instant, jitter: Duration) -> bool {
        later(self.until, jitter) < now
    }

    /// Lasts until then, but no longer than `longest` in all.
    fn prolong(&mut self, until: Instant, longest: Duration) {
        self.until = self.until.max(until.min(later(self.began, longest)));
    }

    /// How much is left; none if it is over.
    fn left(&self, now: Instant) -> Option<Duration> {
        self.until.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

/// How far a server is heeded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heed {
    /// The longest time that it can set.
    pub(super) longest: Duration,
    /// How much later than asked a request comes back, at most.
    pub(super) jitter: Duration,
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
        let learnt = Learnt { pause: None, budget: None, word, in_flight: 0 };
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
        HostStatistics {
            local,
            in_flight: learnt.in_flight,
            paused_for: learnt.pause.and_then(|pause| pause.left(now)),
            budget: learnt.budget.and_then(|(left, spell)| Some((left, spell.left(now)?))),
        }
    }

    /// Whether the server has said anything that still holds. If not, nothing is lost when the host is forgotten.
    pub(super) fn is_bound(&self, now: Instant) -> bool {
        let learnt = self.lock();
        let budget = learnt.budget.map(|(_, spell)| spell);
        [learnt.pause, budget].iter().flatten().any(|spell| !spell.is_over(now))
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
        // Only now is it over what was over: whatever is learnt before one is sent prolongs the same spell.
        learnt.pause = None;
        learnt.budget = learnt.budget.filter(|(_, spell)| !spell.is_over(now));
        if let Some((left, _)) = &mut learnt.budget {
            *left -= 1;
        }
        learnt.in_flight += 1;
        let is_scout = learnt.word == Word::Wanted;
        if is_scout {
            learnt.word = Word::Asked(now);
        }
        Ok(InFlight { host: Arc::clone(self), granted: None, onward: None, is_scout })
    }

    /// What one response says. Only ever slows down: a pause is never shortened, and a budget never raised before its
    /// time is over. That time is not put off by answers that still allow something: a server that counts the last
    /// minute always says that the minute ends in a minute.
    ///
    /// `counted`: whether the request that was answered is one of those in flight here.
    pub(super) fn learn(&self, lesson: Lesson, counted: bool, now: Instant, heed: Heed) {
        let Heed { longest, jitter } = heed;
        let mut learnt = self.lock();
        if let Some(pause) = lesson.pause {
            let until = later(now, pause.min(longest));
            match &mut learnt.pause {
                Some(spell) if !spell.is_history(now, jitter) => spell.prolong(until, longest),
                other => *other = Some(Spell::new(now, until)),
            }
        }
        if let Some((remaining, reset)) = lesson.budget {
            // Others are on their way, and the server may not have counted them yet; this one it has.
            let left = remaining.saturating_sub(learnt.in_flight.saturating_sub(counted.into()));
            let until = later(now, reset.min(longest));
            match &mut learnt.budget {
                Some((0, spell)) if remaining == 0 && !spell.is_history(now, jitter) => {
                    spell.prolong(until, longest);
                }
                Some((already, spell)) if !spell.is_over(now) => {
                    *already = left.min(*already);
                    if remaining == 0 {
                        *spell = Spell::new(now, until.max(spell.until));
                    }
                }
                other => *other = Some((left, Spell::new(now, until))),
            }
        }
        learnt.word = Word::Heard;
        drop(learnt);
        if !counted {
            // Of those that are in flight here it is told as they return.
            self.news.notify_waiters();
        }
    }

    /// A request has failed without a response: there is nothing to wait for, and the others find out for themselves.
    fn learn_nothing(&self) {
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
        if let Some(pause) = self.pause {
            if let Some(left) = pause.left(now) {
                return Err(Wait::For(left));
            }
            self.word = Word::Wanted;
        }
        match self.budget {
            Some((_, spell)) if spell.is_over(now) => self.word = Word::Wanted,
            Some((0, spell)) => return Err(Wait::For(spell.until - now)),
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
    /// On its way to another host too, which the first one has redirected it to before.
    pub(super) onward: Option<Box<InFlight>>,
    is_scout: bool,
}

impl InFlight {
    /// Nobody on its way has said anything, other than `host`: nobody waits for their answers any longer.
    pub(super) fn learn_nothing_but_of(&self, host: Option<&Arc<Host>>) {
        if !host.is_some_and(|host| Arc::ptr_eq(host, &self.host)) {
            self.host.learn_nothing();
        }
        if let Some(onward) = &self.onward {
            onward.learn_nothing_but_of(host);
        }
    }

    /// Whether it counts as in flight at this host.
    pub(super) fn is_at(&self, host: &Arc<Host>) -> bool {
        Arc::ptr_eq(&self.host, host) || self.onward.as_ref().is_some_and(|onward| onward.is_at(host))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.host.returned(self.is_scout);
    }
}
