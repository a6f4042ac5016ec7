//! The breaker that threads share, and its permits.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::machine::{BreakerMachine, CallVerdict, Ticket, Transition};
use super::settings::BreakerSettings;
use crate::clock::TimeSource;
use crate::port::breaker::{BreakerChange, BreakerState};
use crate::port::{Clock, Observer};
use crate::sync::Mutex;
use crate::{Nanos, StoreError, StoreErrorKind, Timestamp};

/// A circuit breaker in front of a store, shared by all who ask it.
///
/// While it is closed, every request reaches the store. After too many failures it opens, and every request is refused at
/// once. After a rest one request at a time probes the store; an answer closes the breaker, a failure opens it again.
///
/// Only an outage counts as a failure: a store that says that a key's state cannot be read has answered, and a caller that
/// gives up says nothing about the store.
///
/// Each request costs two short locks, some ten nanoseconds each.
///
/// ```
/// use std::time::Duration;
/// use ratekeeper::store::{Breaker, BreakerSettings, BreakerState};
/// use ratekeeper::{StoreError, StoreErrorKind};
///
/// let settings = BreakerSettings::default().failures_in_a_row(2).rest(Duration::from_secs(60));
/// let breaker = Breaker::new(settings);
/// for _ in 0..2 {
///     let permit = breaker.admit()?;
///     permit.failed(&StoreError::new(StoreErrorKind::Timeout, "no answer within 100 ms"));
/// }
/// assert_eq!(breaker.state(), BreakerState::Open);
/// assert_eq!(breaker.admit().unwrap_err().kind(), StoreErrorKind::BreakerOpen);
/// # Ok::<(), StoreError>(())
/// ```
pub struct Breaker {
    /// Empty for one without a name.
    name: Arc<str>,
    shared: Mutex<BreakerShared>,
    clock: TimeSource,
    observers: Vec<Arc<dyn Observer>>,
}

/// What threads share: the machine, and the changes that the observers have yet to be called with.
struct BreakerShared {
    machine: BreakerMachine,
    /// What opened it; none while it is closed.
    cause: Option<Arc<StoreError>>,
    /// In the order in which they happened: queued under the lock that made them.
    untold: VecDeque<BreakerChange>,
    /// Somebody is telling the observers, and will tell of what is queued meanwhile too. Two who did so at once could
    /// overtake each other.
    is_telling: bool,
}

impl Default for Breaker {
    fn default() -> Self {
        Breaker::new(BreakerSettings::default())
    }
}

impl Breaker {
    /// Returns a closed breaker, by the process's clock, or tokio's in a test that has paused it.
    pub fn new(settings: BreakerSettings) -> Self {
        let machine = BreakerMachine::new(settings);
        Breaker {
            name: Arc::default(),
            shared: Mutex::new(BreakerShared {
                machine,
                cause: None,
                untold: VecDeque::new(),
                is_telling: false,
            }),
            clock: TimeSource::default(),
            observers: Vec::new(),
        }
    }

    /// Names the breaker after what it stands before, such as the address of a server: logs, metrics, errors and
    /// observers tell it. No place for a password.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the clock by which failures are counted and rests end.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = TimeSource::new(clock);
        self
    }

    /// Registers an observer: it is called once per state change, in the order of the changes, and never by two
    /// threads at a time. The call is made by a thread that asks the breaker, without any lock: an observer may ask
    /// the breaker itself. One that is slow holds up the thread that calls it, not those that ask meanwhile; what
    /// changes meanwhile it is told next, by the same thread.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Returns what it is [named](Breaker::named) after; empty if it has no name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the failure that opened it last; none while it is closed.
    pub fn cause(&self) -> Option<Arc<StoreError>> {
        self.shared.lock().cause.clone()
    }

    /// Returns the state. An open breaker stays open until a permit is asked for after its rest.
    pub fn state(&self) -> BreakerState {
        self.shared.lock().machine.state()
    }

    /// Returns how often the state has changed.
    pub fn changes(&self) -> u64 {
        self.shared.lock().machine.changes()
    }

    /// Returns a permit to ask the store. Takes a lock for some ten nanoseconds.
    ///
    /// # Errors
    ///
    /// One of the kind [`BreakerOpen`](StoreErrorKind::BreakerOpen) while the store is left alone.
    pub fn admit(&self) -> Result<BreakerPermit<'_>, StoreError> {
        match self.change(None, BreakerMachine::admit) {
            Ok(ticket) => Ok(BreakerPermit { breaker: self, ticket }),
            Err(left) => Err(self.refused(left)),
        }
    }

    fn refused(&self, left: Nanos) -> StoreError {
        let name = if self.name.is_empty() { "the store" } else { &self.name };
        let cause = self.cause();
        let cause = cause.as_deref().map_or("none", StoreError::message);
        let message = format!(
            "{name} has failed too often and is asked again within {left}; its last failure: {cause}"
        );
        StoreError::new(StoreErrorKind::BreakerOpen, message)
    }

    /// Asks the machine, and tells the observers if that changed its state; `cause` is what it may have opened for.
    fn change<T>(
        &self,
        cause: Option<&StoreError>,
        ask: impl FnOnce(&mut BreakerMachine, Timestamp) -> (T, Option<Transition>),
    ) -> T {
        let mut shared = self.shared.lock();
        // Read under the lock: a thread that read it before and came late would look like a clock that stepped back.
        let now = self.clock.now();
        let (answer, turn) = ask(&mut shared.machine, now);
        let Some(Transition { from, to }) = turn else { return answer };
        match to {
            BreakerState::Open => shared.cause = cause.map(|cause| Arc::new(cause.without_source())),
            BreakerState::Closed => shared.cause = None,
            BreakerState::HalfOpen => {}
        }
        let change = BreakerChange { name: Arc::clone(&self.name), from, to, cause: shared.cause.clone() };
        shared.untold.push_back(change);
        let tells = !std::mem::replace(&mut shared.is_telling, true);
        drop(shared);
        if tells {
            self.tell();
        }
        answer
    }

    /// Calls the observers with all changes, until there is none left. One that panics is called with the next change again.
    fn tell(&self) {
        loop {
            let mut shared = self.shared.lock();
            let Some(change) = shared.untold.pop_front() else {
                shared.is_telling = false;
                return;
            };
            drop(shared);
            for observer in &self.observers {
                let _ = catch_unwind(AssertUnwindSafe(|| observer.breaker_changed(&change)));
            }
        }
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker")
            .field("name", &self.name)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

/// A permit to ask a store once. If it is dropped without an outcome, nothing is counted, and the next caller may probe.
#[derive(Debug)]
#[must_use = "a permit that is dropped counts for nothing"]
pub struct BreakerPermit<'a> {
    breaker: &'a Breaker,
    ticket: Ticket,
}

impl BreakerPermit<'_> {
    /// Counts an answer of the store.
    pub fn answered(self) {
        self.end(CallVerdict::Answered, None);
    }

    /// Counts an error of the store. Its kind tells whether it is an outage.
    pub fn failed(self, error: &StoreError) {
        self.end(verdict(error), Some(error));
    }

    /// Counts the store's answer or error, and returns it.
    pub fn settle<T>(self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        match &answer {
            Ok(_) => self.answered(),
            Err(error) => self.failed(error),
        }
        answer
    }

    /// Counts several answers as one, each given as its error or none: a failure if there is one, else an answer if there is
    /// one, else nothing.
    #[cfg(all(feature = "tokio", not(loom)))]
    pub(in crate::store) fn settle_all<'e>(self, answers: impl Iterator<Item = Option<&'e StoreError>>) {
        let mut is_answered = false;
        for error in answers {
            match error.map_or(CallVerdict::Answered, verdict) {
                CallVerdict::Failed => return self.end(CallVerdict::Failed, error),
                CallVerdict::Answered => is_answered = true,
                CallVerdict::Unknown => {}
            }
        }
        if is_answered {
            self.answered();
        }
    }

    fn end(self, verdict: CallVerdict, cause: Option<&StoreError>) {
        let BreakerPermit { breaker, ticket } = self;
        // It has ended: dropped, it would end again.
        std::mem::forget(self);
        breaker.change(cause, |machine, now| ((), machine.settle(ticket, verdict, now)));
    }
}

fn verdict(error: &StoreError) -> CallVerdict {
    match error.kind() {
        // It answered, and would answer another key.
        StoreErrorKind::Unreadable | StoreErrorKind::Contended => CallVerdict::Answered,
        // It was not asked.
        StoreErrorKind::Unsupported | StoreErrorKind::BreakerOpen => CallVerdict::Unknown,
        StoreErrorKind::Timeout
        | StoreErrorKind::Unreachable
        | StoreErrorKind::Unavailable
        | StoreErrorKind::Other => CallVerdict::Failed,
    }
}

impl Drop for BreakerPermit<'_> {
    fn drop(&mut self) {
        self.breaker
            .change(None, |machine, now| ((), machine.settle(self.ticket, CallVerdict::Unknown, now)));
    }
}
