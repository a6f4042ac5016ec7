//! One host, or whatever else shares a limit: the local limit, and what the server said.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ratekeeper::limiter::{Concurrency, Limiter, OwnedPermit};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::learn::Lesson;

/// What is known of one host.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) limiter: Option<Limiter>,
    pub(super) permits: Option<Concurrency>,
    learnt: Mutex<Learnt>,
    /// Something was learnt, or a request has come back.
    pub(super) news: Notify,
}

#[derive(Debug, Default)]
struct Learnt {
    /// Nothing is sent before.
    paused_until: Option<Instant>,
    /// How many more may be sent until then.
    budget: Option<(u64, Instant)>,
    /// What was known is out of date: one request is sent to find out what holds now, the others wait for it. All at
    /// once they would be refused together.
    is_stale: bool,
    in_flight: u64,
}

/// Why nothing may be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The server has said so.
    For(Duration),
    /// Another one finds out what holds now.
    ForNews,
}

impl Host {
    pub(super) fn new(limiter: Option<Limiter>, permits: Option<Concurrency>) -> Self {
        Host { limiter, permits, learnt: Mutex::default(), news: Notify::new() }
    }

    /// Whether one may be sent, as far as the server has said.
    pub(super) fn may_send(&self, now: Instant) -> Result<(), Wait> {
        self.lock().may_send(now)
    }

    /// Sends one, if it may be sent.
    pub(super) fn try_send(&self, now: Instant) -> Result<(), Wait> {
        let mut learnt = self.lock();
        learnt.may_send(now)?;
        if let Some((left, _)) = &mut learnt.budget {
            *left -= 1;
        }
        learnt.in_flight += 1;
        Ok(())
    }

    /// What one response says. Only ever slows down: a pause is never shortened, and a budget never raised before its
    /// time is over.
    pub(super) fn learn(&self, lesson: Lesson, now: Instant, longest: Duration) {
        let mut learnt = self.lock();
        if let Some(pause) = lesson.pause {
            let until = now + pause.min(longest);
            learnt.paused_until = Some(learnt.paused_until.map_or(until, |already| already.max(until)));
        }
        if let Some((remaining, reset)) = lesson.budget {
            // Others are on their way, and the server may not have counted them yet; this one it has.
            let left = remaining.saturating_sub(learnt.in_flight.saturating_sub(1));
            let until = now + reset.min(longest);
            learnt.budget = match learnt.budget {
                Some((already, same)) if same > now => Some((already.min(left), same.max(until))),
                _ => Some((left, until)),
            };
        }
        learnt.is_stale = false;
    }

    /// One that was sent has come back, or never will.
    fn returned(&self) {
        let mut learnt = self.lock();
        learnt.in_flight = learnt.in_flight.saturating_sub(1);
        drop(learnt);
        self.news.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Learnt> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Learnt {
    fn may_send(&mut self, now: Instant) -> Result<(), Wait> {
        if let Some(until) = self.paused_until {
            if until > now {
                return Err(Wait::For(until - now));
            }
            (self.paused_until, self.is_stale) = (None, true);
        }
        match self.budget {
            Some((_, until)) if until <= now => (self.budget, self.is_stale) = (None, true),
            Some((0, until)) => return Err(Wait::For(until - now)),
            _ => {}
        }
        if self.is_stale && self.in_flight > 0 { Err(Wait::ForNews) } else { Ok(()) }
    }
}

/// One request in flight. Dropping it, wherever and why ever that happens, makes room for the next.
pub(super) struct InFlight {
    pub(super) host: std::sync::Arc<Host>,
    pub(super) _permit: Option<OwnedPermit>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.host.returned();
    }
}
