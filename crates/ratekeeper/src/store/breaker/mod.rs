//! A circuit breaker: a store that fails is left alone for a while, and nobody waits for it.
//!
//! ```text
//! machine    the breaker as data       window    how many failed of late
//! settings   when it opens             mod       the breaker that threads share, and its permits
//! ```

mod machine;
mod settings;
mod window;

pub use machine::{BreakerChange, BreakerState};
pub use settings::BreakerSettings;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::limiter::clock::Source;
use crate::limiter::sync::Mutex;
use crate::port::{Clock, Observer};
use crate::{Nanos, StoreError, StoreErrorKind};
use machine::{Machine, Ticket, Verdict};

/// Decides whether a store is asked at all. Shared by all who ask it.
///
/// Closed, every question passes. After too many failures it is open, and every question is refused at once. After
/// a rest one question at a time probes the store; an answer closes the breaker, a failure opens it again.
///
/// Only an outage counts: a store that says that a key's state cannot be read has answered. A caller that gives up
/// says nothing about the store either.
///
/// ```
/// use ratekeeper::store::{Breaker, BreakerSettings, BreakerState};
/// use ratekeeper::{StoreError, StoreErrorKind};
///
/// let breaker = Breaker::new(BreakerSettings::default().failures_in_a_row(2));
/// for _ in 0..2 {
///     let permit = breaker.admit()?;
///     permit.failed(&StoreError::new(StoreErrorKind::Timeout, "no answer within 100 ms"));
/// }
/// assert_eq!(breaker.state(), BreakerState::Open);
/// assert_eq!(breaker.admit().unwrap_err().kind(), StoreErrorKind::BreakerOpen);
/// # Ok::<(), StoreError>(())
/// ```
pub struct Breaker {
    machine: Mutex<Machine>,
    clock: Source,
    observers: Vec<Arc<dyn Observer>>,
}

impl Default for Breaker {
    fn default() -> Self {
        Breaker::new(BreakerSettings::default())
    }
}

impl Breaker {
    /// A closed breaker. By the process's clock, or tokio's in a test that has paused it.
    pub fn new(settings: BreakerSettings) -> Self {
        Breaker {
            machine: Mutex::new(Machine::new(settings)),
            clock: Source::default(),
            observers: Vec::new(),
        }
    }

    /// Another clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Source::Other(Arc::new(clock));
        self
    }

    /// Somebody to be told of every change, once.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// The state. An open breaker stays open until somebody asks after its rest.
    pub fn state(&self) -> BreakerState {
        self.machine.lock().state()
    }

    /// How often the state has changed.
    pub fn changes(&self) -> u64 {
        self.machine.lock().changes()
    }

    /// Leave to ask the store; an error of the kind [`BreakerOpen`](StoreErrorKind::BreakerOpen) if there is none.
    pub fn admit(&self) -> Result<BreakerPermit<'_>, StoreError> {
        let now = self.clock.now();
        let (admitted, change) = self.machine.lock().admit(now);
        self.announce(change);
        match admitted {
            Ok(ticket) => Ok(BreakerPermit { breaker: self, ticket, verdict: Verdict::Unknown }),
            Err(left) => Err(refused(left)),
        }
    }

    /// Tells everybody of a change. One that panics has had its turn.
    fn announce(&self, change: Option<BreakerChange>) {
        let Some(change) = change else { return };
        for observer in &self.observers {
            let _ = catch_unwind(AssertUnwindSafe(|| observer.breaker_changed(change)));
        }
    }
}

fn refused(left: Nanos) -> StoreError {
    let message = format!(
        "the store has failed too often and is left alone; it is tried again within {left}, see what failed before"
    );
    StoreError::new(StoreErrorKind::BreakerOpen, message)
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker").field("state", &self.state()).finish_non_exhaustive()
    }
}

/// Leave to ask a store once. Dropped without a word, it counts for nothing, and a probe may be tried by the next.
#[derive(Debug)]
#[must_use = "a permit that is dropped counts for nothing"]
pub struct BreakerPermit<'a> {
    breaker: &'a Breaker,
    ticket: Ticket,
    verdict: Verdict,
}

impl BreakerPermit<'_> {
    /// The store answered.
    pub fn answered(mut self) {
        self.verdict = Verdict::Answered;
    }

    /// The store did not decide. Whether that is an outage, the error tells.
    pub fn failed(mut self, error: &StoreError) {
        self.verdict = match error.kind() {
            // It answered, and would answer another key.
            StoreErrorKind::Unreadable | StoreErrorKind::Contended => Verdict::Answered,
            // It was not asked.
            StoreErrorKind::Unsupported | StoreErrorKind::BreakerOpen => Verdict::Unknown,
            StoreErrorKind::Timeout
            | StoreErrorKind::Unreachable
            | StoreErrorKind::Unavailable
            | StoreErrorKind::Other => Verdict::Failed,
        };
    }

    /// The store's answer, passed on.
    pub fn settle<T>(self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        match &answer {
            Ok(_) => self.answered(),
            Err(error) => self.failed(error),
        }
        answer
    }
}

impl Drop for BreakerPermit<'_> {
    fn drop(&mut self) {
        let now = self.breaker.clock.now();
        let change = self.breaker.machine.lock().settle(self.ticket, self.verdict, now);
        self.breaker.announce(change);
    }
}
