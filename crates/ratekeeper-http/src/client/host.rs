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

use super::budget::{ServerBudget, UnitBudgets};
use super::learn::Lesson;
use super::limit::HostLimit;
use super::span::{ServerSpan, WaitBounds};
use super::statistics::HostStatistics;
use crate::instant::later;
use crate::usage::UnitList;

/// How long the others wait for the one that went ahead. Some servers take their time for an answer: a queue of
/// strangers should not take it too.
const MAX_PROBE_WAIT: Duration = Duration::from_secs(3);

/// What is known of one host. Its lock is held for a few instructions only.
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
    pause: Option<ServerSpan>,
    /// How many more requests may be sent.
    budget: Option<ServerBudget>,
    /// How much more of other units.
    units: UnitBudgets,
    state: ServerState,
    in_flight: u64,
}

/// Whether the server's present limits are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerState {
    /// They are, or were waited for long enough.
    Known,
    /// They are not: the next request goes ahead to find out.
    Needed,
    /// A request has gone ahead to find out, at this instant.
    Probing(Instant),
}

/// What a request that is to be sent brings along.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SendTerms {
    /// How much of which unit it takes.
    pub(super) costs: UnitList,
    /// It has no time to wait for a probe.
    pub(super) is_hurried: bool,
    /// It has waited, for whatever it was, as long as a server can make it wait for units: it is sent whatever is left of
    /// them.
    pub(super) is_overdue: bool,
}

/// Why nothing may be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendDelay {
    /// The server has said so.
    For(Duration),
    /// A probe finds out what holds now; it is not waited for longer than this.
    ForNews(Duration),
}

impl Host {
    /// Creates a host that nothing is known of. `heeds`: whether it matters what it will say.
    pub(super) fn new(limit: HostLimit, heeds: bool) -> Self {
        let state = if heeds { ServerState::Needed } else { ServerState::Known };
        let learnt = Learnt { pause: None, budget: None, units: UnitBudgets::default(), state, in_flight: 0 };
        Host { limit, learnt: Mutex::new(learnt), news: Notify::new() }
    }

    /// Returns how many requests are on their way.
    pub(super) fn in_flight(&self) -> u64 {
        self.lock().in_flight
    }

    /// Returns the host's limits as they are now.
    pub(super) fn statistics(&self, now: Instant) -> HostStatistics {
        let local = self.limit.statistics();
        let learnt = self.lock();
        HostStatistics {
            local,
            in_flight: learnt.in_flight,
            paused_for: learnt.pause.and_then(|pause| pause.left(now)),
            budget: learnt.budget.and_then(|budget| Some((budget.left, budget.span.left(now)?))),
        }
    }

    /// Returns true if the server has said anything that still holds. If not, nothing is lost when the host is
    /// forgotten.
    pub(super) fn is_bound(&self, now: Instant) -> bool {
        let learnt = self.lock();
        let budget = learnt.budget.map(|budget| budget.span);
        learnt.units.are_bound(now) || [learnt.pause, budget].iter().flatten().any(|span| !span.is_over(now))
    }

    /// Returns what is left of a unit, and for how long that holds.
    pub(super) fn left_of(&self, unit: &str, now: Instant) -> Option<(u64, Duration)> {
        self.lock().units.left(unit, now)
    }

    /// Returns whether a request may be sent, as far as the server has said.
    pub(super) fn may_send(&self, now: Instant, terms: SendTerms) -> Result<(), SendDelay> {
        self.lock().may_send(now, terms)
    }

    /// Notes a request as sent, if it may be.
    pub(super) fn try_send(
        self: &Arc<Self>,
        now: Instant,
        terms: SendTerms,
    ) -> Result<SentRequest, SendDelay> {
        let mut learnt = self.lock();
        learnt.may_send(now, terms)?;
        // Only now is it over what was over: whatever is learnt before one is sent prolongs the same span.
        learnt.pause = None;
        learnt.budget = learnt.budget.filter(|budget| !budget.span.is_over(now));
        if let Some(budget) = &mut learnt.budget {
            budget.left -= 1;
        }
        learnt.units.send(&terms.costs, now);
        learnt.in_flight += 1;
        let is_probe = learnt.state == ServerState::Needed;
        if is_probe {
            learnt.state = ServerState::Probing(now);
        }
        Ok(SentRequest { host: Arc::clone(self), granted: None, onward: None, costs: terms.costs, is_probe })
    }

    /// Learns what one response says. Only ever slows down: a pause is never shortened, and a budget never raised
    /// before its time is over.
    ///
    /// `answered`: what the request that was answered takes, if it is one of those in flight here.
    pub(super) fn learn(
        &self,
        lesson: &Lesson,
        answered: Option<&UnitList>,
        now: Instant,
        bounds: WaitBounds,
    ) {
        let WaitBounds { longest, jitter } = bounds;
        let mut learnt = self.lock();
        if let Some(pause) = lesson.pause {
            let until = later(now, pause.min(longest));
            match &mut learnt.pause {
                Some(span) if !span.is_history(now, jitter) => span.prolong(until, longest),
                other => *other = Some(ServerSpan::new(now, until)),
            }
        }
        // Others are on their way, and the server may not have counted them yet; this one it has.
        let others = learnt.in_flight.saturating_sub(answered.is_some().into());
        if let Some((remaining, reset)) = lesson.budget {
            let left = remaining.saturating_sub(others);
            learnt.budget = Some(ServerBudget::learn(learnt.budget, (remaining, left), reset, now, bounds));
        }
        learnt.units.learn(&lesson.units, others, answered, now, bounds);
        learnt.state = ServerState::Known;
        drop(learnt);
        if answered.is_none() {
            // Of those that are in flight here it is told as they return.
            self.news.notify_waiters();
        }
    }

    /// Notes that a request has failed without a response: there is nothing to wait for, and the others find out for
    /// themselves.
    fn learn_nothing(&self) {
        self.lock().state = ServerState::Known;
    }

    /// Notes that a request that was sent has come back, or never will.
    fn returned(&self, costs: &UnitList, was_probe: bool) {
        let mut learnt = self.lock();
        learnt.units.returned(costs);
        learnt.in_flight = learnt.in_flight.saturating_sub(1);
        if was_probe && matches!(learnt.state, ServerState::Probing(_)) {
            // Abandoned on its way: the next one goes ahead.
            learnt.state = ServerState::Needed;
        }
        drop(learnt);
        self.news.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Learnt> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Learnt {
    fn may_send(&mut self, now: Instant, terms: SendTerms) -> Result<(), SendDelay> {
        if let Some(pause) = self.pause {
            if let Some(left) = pause.left(now) {
                return Err(SendDelay::For(left));
            }
            self.state = ServerState::Needed;
        }
        match self.budget {
            Some(budget) if budget.span.is_over(now) => self.state = ServerState::Needed,
            Some(ServerBudget { left: 0, span }) => return Err(SendDelay::For(span.until - now)),
            _ => {}
        }
        if let Some(wait) = self.units.wait(&terms.costs, now).filter(|_| !terms.is_overdue) {
            return Err(SendDelay::For(wait));
        }
        if self.units.is_to_be_probed(now) {
            self.state = ServerState::Needed;
        }
        if let ServerState::Probing(sent) = self.state
            && !terms.is_hurried
        {
            if sent + MAX_PROBE_WAIT > now {
                return Err(SendDelay::ForNews(sent + MAX_PROBE_WAIT - now));
            }
            self.state = ServerState::Known;
        }
        Ok(())
    }
}

/// One request in flight. Dropping it, wherever and why ever that happens, makes room for the next.
pub(super) struct SentRequest {
    pub(super) host: Arc<Host>,
    /// By the local limit: it may hold permits.
    pub(super) granted: Option<Granted>,
    /// On its way to another host too, which the first one has redirected it to before.
    pub(super) onward: Option<Box<SentRequest>>,
    /// How much of which unit it takes.
    pub(super) costs: UnitList,
    is_probe: bool,
}

impl SentRequest {
    /// Notes that nobody on its way has said anything, other than `host`: nobody waits for their answers any longer.
    pub(super) fn learn_nothing_but_of(&self, host: Option<&Arc<Host>>) {
        if !host.is_some_and(|host| Arc::ptr_eq(host, &self.host)) {
            self.host.learn_nothing();
        }
        if let Some(onward) = &self.onward {
            onward.learn_nothing_but_of(host);
        }
    }

    /// Returns true if it counts as in flight at this host.
    pub(super) fn is_at(&self, host: &Arc<Host>) -> bool {
        Arc::ptr_eq(&self.host, host) || self.onward.as_ref().is_some_and(|onward| onward.is_at(host))
    }
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        self.host.returned(&self.costs, self.is_probe);
    }
}
