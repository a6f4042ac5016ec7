//! The model of one key: answers that are found, by asking the law.

use num_rational::BigRational;

use super::fixed_window::FixedWindow;
use super::gcra::Gcra;
use super::law::{END_OF_TIME, Law, whole};
use super::leaky_bucket::LeakyBucket;
use super::search;
use super::sliding_log::SlidingLog;
use super::sliding_window::SlidingWindow;
use super::token_bucket::TokenBucket;
use crate::algorithm::Tenancy;
use crate::{Algorithm, Cost, Decision, Nanos, Quota, State, Timestamp};

/// One key under one quota.
///
/// ```
/// use ratekeeper::testkit::model::Model;
/// use ratekeeper::{Cost, Nanos, Timestamp};
/// let mut model = Model::new("1/m".parse()?);
/// assert!(model.try_acquire(Cost::ONE, Timestamp::EPOCH).allowed);
/// assert_eq!(model.try_acquire(Cost::ONE, Timestamp::EPOCH).retry_after, Some(Nanos::from_secs(60)));
/// # Ok::<(), ratekeeper::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    quota: Quota,
    memory: Memory,
    tenancy: Tenancy,
}

#[derive(Clone, Debug)]
enum Memory {
    Gcra(Option<Gcra>),
    TokenBucket(Option<TokenBucket>),
    LeakyBucket(Option<LeakyBucket>),
    FixedWindow(Option<FixedWindow>),
    SlidingWindow(Option<SlidingWindow>),
    SlidingLog(Option<SlidingLog>),
}

/// Does the same with whichever algorithm it is.
macro_rules! each {
    ($memory:expr, $law:ident => $answer:expr) => {
        match $memory {
            Memory::Gcra($law) => $answer,
            Memory::TokenBucket($law) => $answer,
            Memory::LeakyBucket($law) => $answer,
            Memory::FixedWindow($law) => $answer,
            Memory::SlidingWindow($law) => $answer,
            Memory::SlidingLog($law) => $answer,
        }
    };
}

/// What the model answers: a [`Decision`] without the rule that bound it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelAnswer {
    /// Whether the request may go on.
    pub allowed: bool,
    /// The capacity of the quota.
    pub limit: u64,
    /// How many requests of cost 1 would pass right now.
    pub remaining: u64,
    /// The time until this very cost would pass, `None` if it never will.
    pub retry_after: Option<Nanos>,
    /// The time until the state equals a fresh key's. Exact even where that instant lies beyond the end of time.
    pub reset_after: Nanos,
}

impl From<Decision> for ModelAnswer {
    fn from(decision: Decision) -> Self {
        let Decision { allowed, limit, remaining, retry_after, reset_after, .. } = decision;
        ModelAnswer { allowed, limit, remaining, retry_after, reset_after }
    }
}

impl Model {
    /// Returns a fresh key.
    ///
    /// # Panics
    ///
    /// If the quota is a concurrency limit: what is in flight is no matter of time.
    pub fn new(quota: Quota) -> Self {
        Self::resume(quota, None)
    }

    /// Returns a key of which a store remembers `state`, however odd.
    ///
    /// # Panics
    ///
    /// If the quota is a concurrency limit, or the state is another algorithm's.
    pub fn resume(quota: Quota, state: Option<&State>) -> Self {
        let memory = match (quota.algorithm(), state) {
            (Algorithm::Gcra, None) => Memory::Gcra(None),
            (Algorithm::Gcra, Some(State::Gcra(state))) => Memory::Gcra(Some(Gcra::of(*state))),
            (Algorithm::TokenBucket, None) => Memory::TokenBucket(None),
            (Algorithm::TokenBucket, Some(State::TokenBucket(state))) => {
                Memory::TokenBucket(Some(TokenBucket::of(*state)))
            }
            (Algorithm::LeakyBucket, None) => Memory::LeakyBucket(None),
            (Algorithm::LeakyBucket, Some(State::LeakyBucket(state))) => {
                Memory::LeakyBucket(Some(LeakyBucket::of(*state, &quota)))
            }
            (Algorithm::FixedWindow(_), None) => Memory::FixedWindow(None),
            (Algorithm::FixedWindow(_), Some(State::FixedWindow(state))) => {
                Memory::FixedWindow(Some(FixedWindow::of(*state)))
            }
            (Algorithm::SlidingWindow, None) => Memory::SlidingWindow(None),
            (Algorithm::SlidingWindow, Some(State::SlidingWindow(state))) => {
                Memory::SlidingWindow(Some(SlidingWindow::of(*state)))
            }
            (Algorithm::SlidingLog, None) => Memory::SlidingLog(None),
            (Algorithm::SlidingLog, Some(State::SlidingLog(state))) => {
                Memory::SlidingLog(Some(SlidingLog::of(state)))
            }
            (algorithm, state) => panic!("no model of {algorithm:?} on {state:?}"),
        };
        Model { quota, memory, tenancy: Tenancy::Own }
    }

    /// Returns the same key, its state shared with other quotas.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.tenancy = Tenancy::Shared;
        self
    }

    /// Takes the cost if it passes.
    pub fn try_acquire(&mut self, cost: Cost, now: Timestamp) -> ModelAnswer {
        let (quota, tenancy) = (&self.quota, self.tenancy);
        each!(&mut self.memory, law => try_acquire(law, quota, tenancy, cost.get(), now.as_nanos().into()))
    }

    /// Takes the most that passes between `least` and `most`, which is found by trying, or nothing. Returns how much that is,
    /// and the answer to it; to the least if nothing was taken.
    pub fn try_acquire_up_to(&mut self, least: Cost, most: Cost, now: Timestamp) -> (Cost, ModelAnswer) {
        let beyond = most.get().saturating_sub(least.get());
        let more = search::last(beyond, |more| self.peek(Cost::new(least.get() + more), now).allowed);
        let wanted = Cost::new(least.get() + more);
        let answer = self.try_acquire(wanted, now);
        (if answer.allowed { wanted } else { Cost::ZERO }, answer)
    }

    /// Returns what [`try_acquire`](Model::try_acquire) would answer, with what is left as it is.
    pub fn peek(&self, cost: Cost, now: Timestamp) -> ModelAnswer {
        let now = now.as_nanos().into();
        let (quota, tenancy) = (&self.quota, self.tenancy);
        each!(&self.memory, law => {
            answer(&read(law.as_ref(), quota, now, tenancy).0, quota, cost.get(), now)
        })
    }

    /// Returns the time until there is no debt: zero if there is none, `None` if that is beyond the end of time.
    pub fn paid_after(&self, now: Timestamp) -> Option<Nanos> {
        let (quota, tenancy, now) = (&self.quota, self.tenancy, i128::from(now.as_nanos()));
        let paid = each!(&self.memory, law => {
            let law = read(law.as_ref(), quota, now, tenancy).0;
            search::first(now, |at| !law.owes(quota, at))
        });
        paid.filter(|at| *at <= END_OF_TIME).map(|at| span(now, at))
    }

    /// Returns the time until the window ends, used or not, of a fixed window; none of any other algorithm.
    pub fn window_left(&self, now: Timestamp) -> Option<Nanos> {
        let (quota, tenancy, nanos) = (&self.quota, self.tenancy, i128::from(now.as_nanos()));
        let end = each!(&self.memory, law => read(law.as_ref(), quota, nanos, tenancy).0.end(quota));
        end.map(|end| span(nanos, end))
    }

    /// Returns the time until the window ends, used or not, of a fixed window; else until the state equals a fresh key's.
    pub fn ends_after(&self, now: Timestamp) -> Nanos {
        self.window_left(now).unwrap_or_else(|| self.peek(Cost::ZERO, now).reset_after)
    }

    /// Takes the cost whether or not it passes. Returns what one more would be told then, and how much is forgiven.
    pub fn debit(&mut self, cost: Cost, now: Timestamp) -> (ModelAnswer, u64) {
        let (quota, tenancy) = (&self.quota, self.tenancy);
        each!(&mut self.memory, law => debit(law, quota, tenancy, cost.get(), now.as_nanos().into()))
    }

    /// Gives back what is left of a cost that was charged then: what is left now.
    pub fn refund(&mut self, cost: Cost, charged_at: Timestamp, now: Timestamp) -> ModelAnswer {
        let (quota, tenancy) = (&self.quota, self.tenancy);
        let (charged_at, now) = (charged_at.min(now).as_nanos().into(), now.as_nanos().into());
        each!(&mut self.memory, law => refund(law, quota, tenancy, cost.get(), charged_at, now))
    }

    /// Writes down what a look at this instant has cut off, as a denial does.
    pub(super) fn repair(&mut self, now: Timestamp) {
        let (quota, tenancy) = (&self.quota, self.tenancy);
        each!(&mut self.memory, law => {
            if let (cut_off, true) = read(law.as_ref(), quota, now.as_nanos().into(), tenancy) {
                *law = Some(cut_off);
            }
        });
    }

    /// Makes the key a fresh one.
    pub fn reset(&mut self) {
        each!(&mut self.memory, law => *law = None);
    }

    /// Changes the quota of a live key: what is remembered stays, and is read under the new one from now on.
    ///
    /// # Panics
    ///
    /// If the new quota has another algorithm (the anchor of a fixed window may change).
    pub fn set_quota(&mut self, quota: Quota) {
        assert_eq!(self.quota.algorithm().word(), quota.algorithm().word(), "state is of one algorithm");
        self.quota = quota;
    }

    /// Returns the exact amount that is there to take, where the engine counts in floating point: tokens, or the room
    /// above a level.
    ///
    /// This is what a test needs to tell a float's last bits from a mistake: an answer of the engine may differ
    /// only where this lies within the accumulated rounding error of a whole number less ε.
    pub fn amount(&self, now: Timestamp) -> Option<BigRational> {
        let (quota, now) = (&self.quota, now.as_nanos().into());
        match &self.memory {
            Memory::TokenBucket(law) => {
                Some(read(law.as_ref(), quota, now, self.tenancy).0.tokens_at(quota, now))
            }
            Memory::LeakyBucket(law) => {
                let level = read(law.as_ref(), quota, now, self.tenancy).0.level_at(quota, now);
                Some(whole(quota.burst()) - level)
            }
            _ => None,
        }
    }
}

fn read<L: Law>(law: Option<&L>, quota: &Quota, now: i128, tenancy: Tenancy) -> (L, bool) {
    law.map_or_else(|| (L::fresh(quota, now), false), |law| law.read(quota, now, tenancy))
}

fn try_acquire<L: Law>(
    memory: &mut Option<L>,
    quota: &Quota,
    tenancy: Tenancy,
    cost: u64,
    now: i128,
) -> ModelAnswer {
    let (mut law, repaired) = read(memory.as_ref(), quota, now, tenancy);
    let before = answer(&law, quota, cost, now);
    if cost == 0 || (!before.allowed && !repaired) {
        return before;
    }
    if !before.allowed {
        *memory = Some(law);
        return before;
    }
    law.charge(quota, cost, now);
    // A charge while the clock is behind may reach too far ahead itself.
    let law = law.read(quota, now, tenancy).0;
    let after = ModelAnswer { retry_after: Some(Nanos::ZERO), ..answer(&law, quota, 0, now) };
    *memory = Some(law);
    after
}

fn debit<L: Law>(
    memory: &mut Option<L>,
    quota: &Quota,
    tenancy: Tenancy,
    cost: u64,
    now: i128,
) -> (ModelAnswer, u64) {
    let (mut law, _) = read(memory.as_ref(), quota, now, tenancy);
    if cost == 0 {
        return (answer(&law, quota, 1, now), 0);
    }
    let forgiven = law.debit(quota, cost, now);
    // As with a charge: while the clock is behind it may reach too far ahead itself.
    let law = law.read(quota, now, tenancy).0;
    let after = answer(&law, quota, 1, now);
    // At the end of time all of it is forgiven.
    if !law.is_fresh(quota, now) {
        *memory = Some(law);
    }
    (after, forgiven)
}

fn refund<L: Law>(
    memory: &mut Option<L>,
    quota: &Quota,
    tenancy: Tenancy,
    cost: u64,
    charged_at: i128,
    now: i128,
) -> ModelAnswer {
    let (mut law, _) = read(memory.as_ref(), quota, now, tenancy);
    law.refund(quota, cost, charged_at, now);
    let after = answer(&law, quota, 0, now);
    *memory = (!law.is_fresh(quota, now)).then_some(law);
    after
}

fn span(now: i128, at: i128) -> Nanos {
    Nanos::from_nanos(u64::try_from(at - now).unwrap_or(u64::MAX))
}

/// Returns the answer to a cost, found by asking the law.
fn answer<L: Law>(law: &L, quota: &Quota, cost: u64, now: i128) -> ModelAnswer {
    let limit = quota.burst();
    let passes = |cost: u64, at: i128| {
        cost <= limit && law.passes(quota, cost, at) && law.reach(quota, cost, at) <= END_OF_TIME
    };
    let allowed = passes(cost, now);
    let first = || search::first(now, |at| law.passes(quota, cost, at));
    let retry_at = if allowed {
        Some(now)
    } else if cost > limit {
        None
    } else {
        first().filter(|at| *at <= END_OF_TIME && passes(cost, *at))
    };
    let reset_at = search::first(now, |at| law.is_fresh(quota, at));
    let span = |at| span(now, at);
    ModelAnswer {
        allowed,
        limit,
        remaining: search::last(limit, |cost| passes(cost, now)),
        retry_after: retry_at.map(span),
        reset_after: reset_at.map_or(Nanos::MAX, span),
    }
}
