//! A desk that is shared: the lock around it, the fast path past it, and its clock.

use std::fmt;
use std::task::Waker;

use super::desk::{Collected, Desk};
use super::error::LimiterKind;
use super::keeper::Turn;
use super::queue::Place;
use super::statistics::Statistics;
use super::table::Origin;
use super::tank::{Contents, Tank};
use super::wakes::Wakes;
use crate::clock::TimeSource;
use crate::quota::QuotaError;
use crate::sync::{Arc, AtomicI64, AtomicU64, Mutex, MutexGuard, Ordering};
use crate::{Algorithm, Cost, Decision, Nanos, Quota, Reason, Timestamp};

/// In [`Core::word`]: the state is at the desk, ask there. No state that is decided by the word reaches that far.
const AT_DESK: i64 = i64::MAX;

/// What every limiter is a handle of.
///
/// The state of a GCRA is one instant, and while nobody waits it lives in an atomic word: deciding is a load and a
/// compare-and-swap. Whoever takes the lock takes the instant out of the word first, and puts it back only if
/// nobody waits then and the limiter is open: so *the word itself is the guard* that keeps those who do not wait
/// from overtaking those who do. There is no moment at which the word can be charged and somebody waits.
pub(crate) struct Core {
    word: AtomicI64,
    /// What passed by the word, and what was refused by it.
    acquired: AtomicU64,
    rejected: AtomicU64,
    /// The quota, if the word decides it.
    fast: Option<Quota>,
    pub(crate) clock: TimeSource,
    pub(crate) kind: LimiterKind,
    /// Where it is kept, if it is that of a key.
    origin: Option<Origin>,
    desk: Mutex<Shared>,
}

struct Shared {
    desk: Desk,
    /// False once the quota has changed: the fast path knows the first one only.
    fast: bool,
}

impl Core {
    pub(crate) fn new(kind: LimiterKind, tank: Tank, bound: usize, clock: TimeSource) -> Arc<Self> {
        Core::with_origin(kind, tank, bound, clock, None)
    }

    pub(crate) fn with_origin(
        kind: LimiterKind,
        tank: Tank,
        bound: usize,
        clock: TimeSource,
        origin: Option<Origin>,
    ) -> Arc<Self> {
        let fast = match &tank.contents {
            Contents::Rate { quota, .. } if quota.algorithm() == Algorithm::Gcra => Some(*quota),
            _ => None,
        };
        let mut desk = Desk::new(kind, tank, bound);
        origin.iter().for_each(|origin| desk.begin_at(origin.made_at));
        Arc::new(Core {
            word: AtomicI64::new(if fast.is_some() { i64::MIN } else { AT_DESK }),
            acquired: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            fast,
            clock,
            kind,
            origin,
            desk: Mutex::new(Shared { desk, fast: fast.is_some() }),
        })
    }

    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What the clock shows, if it moves only when somebody moves it.
    pub(crate) fn paused_now(&self) -> Option<Timestamp> {
        self.clock.runtime_now()
    }

    #[inline]
    pub(crate) fn try_acquire(&self, cost: Cost) -> Decision {
        match self.try_fast(cost) {
            Some(decision) if decision.allowed => decision,
            Some(decision) => self.count_rejected(decision),
            None => self.try_at_desk(cost),
        }
    }

    #[cold]
    fn count_rejected(&self, decision: Decision) -> Decision {
        self.rejected.fetch_add(1, Ordering::Relaxed);
        decision
    }

    // Out of line: inlined, the desk's registers would be saved on the fast path too.
    #[inline(never)]
    fn try_at_desk(&self, cost: Cost) -> Decision {
        self.with(|desk, now, wakes| desk.try_acquire(cost, now, wakes))
    }

    /// Decides by the word, if the state is there. Refusals are not counted: whoever asks may go on to wait.
    #[inline]
    pub(crate) fn try_fast(&self, cost: Cost) -> Option<Decision> {
        let quota = self.fast.as_ref()?;
        let (burst, tolerance) = (quota.burst(), quota.refill_time().as_nanos());
        let mut tat = self.word.load(Ordering::Relaxed);
        if tat == AT_DESK || cost.get() > burst || cost == Cost::PEEK {
            return None;
        }
        let now = self.clock.now();
        loop {
            let ahead = Timestamp::from_nanos(tat).since(now).as_nanos();
            // Both terms are at most 2^63 − 1 where it matters, so the sum fits. What reaches further is decided at the
            // desk, by an instant that is read under its lock: this one may be old, the clock may have stepped back,
            // more may have been used than there was, the year may be 2262.
            if ahead > tolerance {
                return None;
            }
            let needed = ahead + cost.get() * quota.emission_interval().as_nanos();
            if needed > tolerance {
                return Some(refusal(quota, ahead, needed));
            }
            let charged = now.as_nanos().checked_add_unsigned(needed).filter(|tat| *tat != AT_DESK)?;
            // Acquire and release, so that whoever takes the word to the desk sees what was counted before.
            match self.word.compare_exchange_weak(tat, charged, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    self.acquired.fetch_add(1, Ordering::Relaxed);
                    let remaining = quota.intervals_in(tolerance - needed);
                    return Some(Decision::allow(burst, remaining, Nanos::from_nanos(needed)).charged(now));
                }
                Err(AT_DESK) => return None,
                Err(other) => tat = other,
            }
        }
    }

    /// Works at the desk, alone. Whoever is to be woken is woken after the lock is released.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Desk, Timestamp, &mut Wakes) -> R) -> R {
        let mut wakes = Wakes::default();
        let mut open = self.open();
        let now = open.now;
        let result = work(open.desk(), now, &mut wakes);
        drop(open);
        wakes.wake();
        result
    }

    /// Takes the lock, and the state out of the word.
    pub(crate) fn open(&self) -> Open<'_> {
        let mut shared = self.desk.lock();
        if shared.fast {
            let tat = self.word.swap(AT_DESK, Ordering::AcqRel);
            if tat != AT_DESK {
                shared.desk.tank.set_tat(Timestamp::from_nanos(tat));
            }
        }
        // Read under the lock, so that two who work at the desk never see the time run backwards.
        let now = self.clock.now();
        Open { core: self, shared, now }
    }

    /// The outcome of the waiter at this place, if there is one. If there is none, and nobody keeps the time, one
    /// has to be [hired](super::timer::hire): it is counted as hired already.
    pub(crate) fn poll(&self, place: Place, waker: &Waker, may_hire: bool) -> (Option<Collected>, bool) {
        self.with(|desk, now, wakes| {
            let outcome = desk.collect(place, waker, now, wakes);
            let hire = outcome.is_none() && may_hire && desk.promise_keeper();
            (outcome, hire)
        })
    }

    /// A keeper's turn: what it is to do next.
    #[cfg_attr(loom, expect(dead_code, reason = "nobody keeps the time in a model"))]
    pub(crate) fn turn(&self, waker: &Waker) -> Turn {
        self.with(|desk, now, wakes| desk.turn(waker, now, wakes))
    }

    /// The turn of a thread that waits at this place: how long it may sleep, if it is to keep the time.
    pub(crate) fn turn_of(&self, place: Place) -> Option<Nanos> {
        self.with(|desk, now, wakes| Some(desk.turn_of(place, now, wakes)?.since(now)))
    }

    /// Fails, and touches nothing, where no quota decides.
    pub(crate) fn set_quota(&self, quota: Quota, inherit: super::Inherit) -> Result<(), QuotaError> {
        let mut wakes = Wakes::default();
        let mut open = self.open();
        let now = open.now;
        if !matches!(open.desk().tank.contents, Contents::Rate { .. }) {
            let remedy = "this limiter is not decided by a quota: make another one";
            return Err(QuotaError::conflict("quota", quota, remedy));
        }
        open.shared.fast = false;
        open.desk().set_quota(quota, inherit, now, &mut wakes);
        drop(open);
        wakes.wake();
        Ok(())
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.with(|desk, now, _| {
            let mut statistics = desk.statistics(now);
            statistics.acquired += self.acquired.load(Ordering::Relaxed);
            statistics.rejected += self.rejected.load(Ordering::Relaxed);
            statistics
        })
    }

    /// How long until it is as good as fresh; a while, if it is not foreseeable or it has a quota of its own.
    pub(crate) fn fresh_in(&self) -> Nanos {
        self.with(|desk, now, _| desk.fresh_in(now))
    }

    /// What was given back so far is known.
    pub(crate) fn clear_returns(&self) {
        self.origin.iter().for_each(Origin::clear);
    }

    /// What would be told if nobody waited.
    pub(crate) fn peek(&self, cost: Cost) -> Decision {
        self.with(|desk, now, _| desk.peek(cost, now))
    }
}

#[cold]
fn refusal(quota: &Quota, ahead: u64, needed: u64) -> Decision {
    let tolerance = quota.refill_time().as_nanos();
    let (wait, reset) = (Nanos::from_nanos(needed - tolerance), Nanos::from_nanos(ahead));
    Decision::deny(quota.burst(), quota.intervals_in(tolerance - ahead), Some(wait), reset)
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("clock", &self.clock).finish_non_exhaustive()
    }
}

/// A desk with its lock held. When it is let go of, the state returns to the word, if it may.
pub(crate) struct Open<'a> {
    core: &'a Core,
    shared: MutexGuard<'a, Shared>,
    pub(crate) now: Timestamp,
}

impl Open<'_> {
    pub(crate) fn desk(&mut self) -> &mut Desk {
        &mut self.shared.desk
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let Shared { desk, fast } = &mut *self.shared;
        if desk.take_gave_back()
            && let Some(origin) = &self.core.origin
        {
            origin.note();
        }
        if *fast
            && desk.is_open_and_empty()
            && let Some(tat) = desk.tank.tat()
        {
            self.core.word.store(tat.as_nanos(), Ordering::Release);
        }
    }
}

/// A refusal because there is no room for another key.
pub(crate) fn no_room(limit: u64) -> Decision {
    Decision::uninformed(false, limit, Reason::StoreFull)
}
