//! A wait queue that is shared: the lock around it, the fast path past it, and its clock.

use std::fmt;
use std::task::Waker;

use super::counts::{Counted, Counts};
use super::error::{LimiterKind, SetQuotaError};
use super::queue::{NextTurn, QueueMoment, WaitOutcome, WaitQueue, WaiterId, WakeList};
use super::returned_keys::KeyOrigin;
use super::statistics::LimiterStatistics;
use super::supply::{Capacity, Inherit, Supply};
use crate::algorithm::gcra::{self, Passage};
use crate::algorithm::{Tenancy, View, Wait, describe};
use crate::clock::TimeSource;
use crate::sync::{Arc, AtomicI64, Mutex, MutexGuard, Ordering};
use crate::{Algorithm, Cost, Decision, Nanos, Quota, Timestamp};

/// In [`LimiterCore::word`]: the state is in the queue, behind the lock. No state that is decided by the word reaches
/// that far.
const IN_QUEUE: i64 = i64::MAX;

/// What every limiter is a handle of.
///
/// The state of a GCRA is one instant, and while nobody waits it lives in an atomic word: deciding is a load and a
/// compare-and-swap. Whoever takes the lock takes the instant out of the word first, and puts it back only if
/// nobody waits then and the limiter is open: so *the word itself is the guard* that keeps those who do not wait
/// from overtaking those who do. There is no moment at which the word can be charged and somebody waits.
pub(crate) struct LimiterCore {
    word: AtomicI64,
    /// What passed by the word, and what was refused by it.
    counts: Counts,
    /// The quota, if the word decides it.
    fast: Option<Quota>,
    pub(crate) clock: TimeSource,
    pub(crate) kind: LimiterKind,
    /// Which key it is that of, if it is one of many.
    origin: Option<KeyOrigin>,
    locked: Mutex<Locked>,
}

/// What came of asking a limiter's word.
pub(crate) enum WordOutcome {
    /// The cost was taken.
    Passed(Decision),
    /// Not enough is left: see [`gcra::pass`].
    Short { ahead: u64, needed: u64 },
    /// This arrival time is out of the ordinary for this cost, at this instant.
    Unusual { tat: Timestamp, now: Timestamp },
    /// The word does not decide this: the queue does.
    InQueue,
}

struct Locked {
    queue: WaitQueue,
    /// False once the quota has changed: the fast path knows the first one only.
    fast: bool,
}

impl LimiterCore {
    pub(crate) fn new(kind: LimiterKind, capacity: Capacity, bound: usize, clock: TimeSource) -> Arc<Self> {
        LimiterCore::with_origin(kind, capacity, bound, clock, None)
    }

    pub(crate) fn with_origin(
        kind: LimiterKind,
        capacity: Capacity,
        bound: usize,
        clock: TimeSource,
        origin: Option<KeyOrigin>,
    ) -> Arc<Self> {
        let fast = match &capacity.supply {
            Supply::Rate(rate) if rate.quota().algorithm() == Algorithm::Gcra => Some(*rate.quota()),
            _ => None,
        };
        let mut queue = WaitQueue::new(kind, capacity, bound);
        origin.iter().for_each(|origin| queue.begin_at(origin.made_at));
        Arc::new(LimiterCore {
            word: AtomicI64::new(if fast.is_some() { i64::MIN } else { IN_QUEUE }),
            // What is behind the lock is counted there.
            counts: Counts::new(origin.is_some() || fast.is_none()),
            fast,
            clock,
            kind,
            origin,
            locked: Mutex::new(Locked { queue, fast: fast.is_some() }),
        })
    }

    /// Returns what its clock shows.
    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Takes without waiting. One compare-and-swap for a GCRA that nobody waits for, else one lock.
    #[inline]
    pub(crate) fn try_acquire(&self, cost: Cost) -> Decision {
        match self.take_from_word(cost) {
            WordOutcome::Passed(decision) => decision,
            WordOutcome::Short { ahead, needed } => self.refuse(ahead, needed),
            WordOutcome::Unusual { tat, now } => self.refuse_unusually(cost, tat, now),
            WordOutcome::InQueue => self.try_queue(cost),
        }
    }

    /// Refuses, and writes nothing that another thread reads or writes: an attack is all refusals.
    #[inline(always)]
    fn refuse(&self, ahead: u64, needed: u64) -> Decision {
        self.counts.add(Counted::Rejected);
        let quota = self.fast.as_ref().expect("the word has decided by this quota");
        gcra::short(quota, ahead, needed)
    }

    #[cold]
    #[inline(never)]
    fn refuse_unusually(&self, cost: Cost, tat: Timestamp, now: Timestamp) -> Decision {
        let Some(decision) = self.fast.as_ref().and_then(|quota| refusal(quota, tat, cost, now)) else {
            return self.try_queue(cost);
        };
        self.counts.add(Counted::Rejected);
        decision
    }

    // Out of line: inlined, the queue's registers would be saved on the fast path too.
    #[inline(never)]
    fn try_queue(&self, cost: Cost) -> Decision {
        let mut locked = self.lock();
        let now = locked.now;
        // Where nobody waits, nobody is woken.
        match locked.queue().is_idle() {
            true => locked.queue().try_idle(cost, now),
            false => locked.work(|queue, at| queue.try_acquire(cost, at)),
        }
    }

    /// Takes from the word, if the state is there and enough is left. Nothing is counted or described of what is not: whoever
    /// asks may go on to wait.
    #[inline(always)]
    pub(crate) fn take_from_word(&self, cost: Cost) -> WordOutcome {
        let Some(quota) = self.fast.as_ref() else { return WordOutcome::InQueue };
        if self.word.load(Ordering::Relaxed) == IN_QUEUE || cost == Cost::ZERO {
            return WordOutcome::InQueue;
        }
        let now = self.clock.now();
        // Loaded again, rather than kept while the clock was read: it is more likely to be the same when it is swapped.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word == IN_QUEUE {
                return WordOutcome::InQueue;
            }
            let tat = Timestamp::from_nanos(word);
            let ahead = match gcra::pass(quota, tat, cost, now) {
                Passage::Ready { ahead } => ahead,
                Passage::Short { ahead, needed } => return WordOutcome::Short { ahead, needed },
                Passage::Unusual => return WordOutcome::Unusual { tat, now },
            };
            let charged = (now + Nanos::from_nanos(ahead)).as_nanos();
            if charged == IN_QUEUE {
                return WordOutcome::InQueue;
            }
            // Acquire and release, so that whoever takes the word behind the lock sees what was counted before.
            match self.word.compare_exchange_weak(word, charged, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    self.counts.add(Counted::Acquired);
                    return WordOutcome::Passed(gcra::passed(quota, ahead, now));
                }
                Err(other) => word = other,
            }
        }
    }

    /// Works on the queue, alone. Whoever is to be woken is woken after the lock is released.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut WaitQueue, &mut QueueMoment<'_>) -> R) -> R {
        self.lock().work(work)
    }

    /// Takes the lock, and the state out of the word.
    pub(crate) fn lock(&self) -> LockedQueue<'_> {
        let mut guard = self.locked.lock();
        if guard.fast {
            let tat = self.word.swap(IN_QUEUE, Ordering::AcqRel);
            if tat != IN_QUEUE
                && let Supply::Rate(rate) = &mut guard.queue.capacity.supply
            {
                rate.set_tat(Timestamp::from_nanos(tat));
            }
        }
        // Read under the lock, so that two who take it one after another never see the time run backwards.
        let now = self.clock.now();
        LockedQueue { core: self, guard, now }
    }

    /// Returns the outcome of this waiter, if there is one. If there is none, also true if a timer is needed and there is
    /// none: the caller has to [start](super::timer::start) it, and it counts as started already.
    pub(crate) fn poll(&self, id: WaiterId, waker: &Waker, may_start: bool) -> (Option<WaitOutcome>, bool) {
        self.with(|queue, at| {
            let outcome = queue.collect(id, waker, at);
            let starts = outcome.is_none() && may_start && queue.promise_timer();
            (outcome, starts)
        })
    }

    /// A timer's turn: does what is due, and returns what the timer is to do next.
    #[cfg_attr(loom, expect(dead_code, reason = "there are no timers in a model"))]
    pub(crate) fn turn_of_timer(&self, waker: &Waker) -> NextTurn {
        self.with(|queue, at| queue.turn_of_timer(waker, at))
    }

    /// The turn of a thread that waits: does what is due, and returns how long it may sleep if it is to keep the time.
    pub(crate) fn turn_of_thread(&self, id: WaiterId) -> Option<Nanos> {
        self.with(|queue, at| queue.turn_of_thread(id, at))
    }

    /// Changes the quota; fails, and touches nothing, where no quota decides.
    pub(crate) fn set_quota(&self, quota: Quota, inherit: Inherit) -> Result<(), SetQuotaError> {
        let mut wakes = WakeList::default();
        let mut locked = self.lock();
        if !matches!(locked.queue().capacity.supply, Supply::Rate(_)) {
            return Err(SetQuotaError::NoQuota);
        }
        locked.guard.fast = false;
        let (queue, mut at) = locked.open(&mut wakes);
        queue.set_quota(quota, inherit, &mut at);
        drop(locked);
        wakes.wake();
        Ok(())
    }

    /// Returns what it has done so far.
    pub(crate) fn statistics(&self) -> LimiterStatistics {
        self.with(|queue, at| {
            let mut statistics = queue.statistics(at.now);
            statistics.acquired += self.counts.sum(Counted::Acquired);
            statistics.rejected += self.counts.sum(Counted::Rejected);
            statistics
        })
    }

    /// Returns how long until it is as good as fresh; the longest time, if that cannot be foreseen or it has a quota of
    /// its own.
    pub(crate) fn fresh_in(&self) -> Nanos {
        self.with(|queue, at| queue.fresh_in(at.now))
    }

    /// What was given back so far is known.
    pub(crate) fn clear_returns(&self) {
        self.origin.iter().for_each(KeyOrigin::clear);
    }

    /// Decides as if nobody waited, and takes nothing.
    pub(crate) fn peek(&self, cost: Cost) -> Decision {
        self.with(|queue, at| queue.peek(cost, at.now))
    }

    /// Every waiter fails now, and everybody who comes later.
    pub(crate) fn close(&self) {
        self.with(|queue, at| queue.close(at.wakes));
    }

    /// Returns true once it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.with(|queue, _| queue.is_closed())
    }
}

/// The refusal of a cost that the word found out of the ordinary. What reaches further ahead than a whole refill is decided behind
/// the lock, by an instant that is read there: this one may be old, the clock may have stepped back, more may have been
/// used than there was.
fn refusal(quota: &Quota, tat: Timestamp, cost: Cost, now: Timestamp) -> Option<Decision> {
    let (view, wait) = gcra::decide(quota, Some(tat), cost, now, Tenancy::Shared);
    let is_ordinary = wait != Wait::Ready && view.reset_after() <= quota.refill_time();
    is_ordinary.then(|| describe(&view, wait))
}

impl fmt::Debug for LimiterCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimiterCore").field("clock", &self.clock).finish_non_exhaustive()
    }
}

/// A queue with its lock held. When it is dropped, the state returns to the word, if it may.
pub(crate) struct LockedQueue<'a> {
    core: &'a LimiterCore,
    guard: MutexGuard<'a, Locked>,
    pub(crate) now: Timestamp,
}

impl LockedQueue<'_> {
    pub(crate) fn queue(&mut self) -> &mut WaitQueue {
        &mut self.guard.queue
    }

    /// Works on the queue, and releases the lock. Whoever is to be woken is woken after that.
    fn work<R>(mut self, work: impl FnOnce(&mut WaitQueue, &mut QueueMoment<'_>) -> R) -> R {
        let mut wakes = WakeList::default();
        let (queue, mut at) = self.open(&mut wakes);
        let result = work(queue, &mut at);
        drop(self);
        wakes.wake();
        result
    }

    /// Returns the queue, and the moment to work on it at.
    pub(crate) fn open<'w>(&mut self, wakes: &'w mut WakeList) -> (&mut WaitQueue, QueueMoment<'w>) {
        (&mut self.guard.queue, QueueMoment { now: self.now, wakes })
    }
}

impl Drop for LockedQueue<'_> {
    fn drop(&mut self) {
        let Locked { queue, fast } = &mut *self.guard;
        if queue.take_gave_back()
            && let Some(origin) = &self.core.origin
        {
            origin.note();
        }
        if *fast
            && queue.is_open_and_empty()
            && let Supply::Rate(rate) = &queue.capacity.supply
            && let Some(tat) = rate.tat()
        {
            self.core.word.store(tat.as_nanos(), Ordering::Release);
        }
    }
}
