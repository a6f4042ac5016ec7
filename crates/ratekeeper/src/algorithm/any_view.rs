//! A view whose algorithm is known only at run time.

use std::fmt;

use super::fixed_window::FixedWindowView;
use super::gcra::GcraView;
use super::leaky_bucket::LeakyBucketView;
use super::sliding_log::{LogEdit, SlidingLogState, SlidingLogView};
use super::sliding_window::SlidingWindowView;
use super::state::State;
use super::tenancy::Tenancy;
use super::token_bucket::TokenBucketView;
use super::view::View;
use super::wait::Wait;
use crate::{Algorithm, Cost, Nanos, Quota, Timestamp};

/// The view of the algorithm that the quota names.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant is the view of its name")]
pub enum AnyView<'a> {
    Gcra(GcraView<'a>),
    TokenBucket(TokenBucketView),
    LeakyBucket(LeakyBucketView),
    FixedWindow(FixedWindowView),
    SlidingWindow(SlidingWindowView),
    SlidingLog(SlidingLogView<'a>),
}

impl<'a> AnyView<'a> {
    /// Returns the state as it stands at `now`; none is a fresh key's.
    ///
    /// # Errors
    ///
    /// If the state is that of another algorithm, or the quota limits concurrency.
    pub fn at(
        quota: &'a Quota,
        state: Option<&'a State>,
        now: Timestamp,
        tenancy: Tenancy,
    ) -> Result<Self, Mismatch> {
        macro_rules! view {
            ($variant:ident, $view:ident, $state:ident => $value:expr) => {
                match state {
                    None => AnyView::$variant($view::at(quota, None, now, tenancy)),
                    Some(State::$variant($state)) => {
                        AnyView::$variant($view::at(quota, Some($value), now, tenancy))
                    }
                    Some(other) => {
                        return Err(Mismatch { wanted: quota.algorithm(), found: other.algorithm() })
                    }
                }
            };
        }
        Ok(match quota.algorithm() {
            Algorithm::Gcra => view!(Gcra, GcraView, state => *state),
            Algorithm::TokenBucket => view!(TokenBucket, TokenBucketView, state => *state),
            Algorithm::LeakyBucket => view!(LeakyBucket, LeakyBucketView, state => *state),
            Algorithm::FixedWindow(_) => view!(FixedWindow, FixedWindowView, state => *state),
            Algorithm::SlidingWindow => view!(SlidingWindow, SlidingWindowView, state => *state),
            Algorithm::SlidingLog => view!(SlidingLog, SlidingLogView, state => state),
            Algorithm::Concurrency => {
                return Err(Mismatch { wanted: Algorithm::Concurrency, found: Algorithm::Concurrency });
            }
        })
    }

    /// Returns the state to store; none when it equals a fresh key's.
    pub fn to_state(&self) -> Option<State> {
        match self {
            AnyView::Gcra(view) => view.state().map(State::Gcra),
            AnyView::TokenBucket(view) => view.state().map(State::TokenBucket),
            AnyView::LeakyBucket(view) => view.state().map(State::LeakyBucket),
            AnyView::FixedWindow(view) => view.state().map(State::FixedWindow),
            AnyView::SlidingWindow(view) => view.state().map(State::SlidingWindow),
            AnyView::SlidingLog(view) => view.state().map(State::SlidingLog),
        }
    }
}

/// A change of a state, detached from the state itself so that it can be borrowed mutably.
#[derive(Debug)]
pub(crate) enum StateWrite {
    Set(Option<State>),
    Log(LogEdit),
}

impl StateWrite {
    /// Writes the change into the state that the view was made of.
    pub(crate) fn apply(self, state: &mut Option<State>) {
        match (self, &mut *state) {
            (StateWrite::Set(new), _) => *state = new,
            (StateWrite::Log(edit), Some(State::SlidingLog(log))) => edit.apply(log),
            (StateWrite::Log(edit), _) => {
                let mut log = SlidingLogState::default();
                edit.apply(&mut log);
                *state = Some(State::SlidingLog(log));
            }
        }
    }
}

impl AnyView<'_> {
    /// Returns the change of the state that this is a view of.
    pub(crate) fn write(&self) -> StateWrite {
        match self {
            AnyView::SlidingLog(view) => StateWrite::Log(view.edit()),
            other => StateWrite::Set(other.to_state()),
        }
    }
}

/// Answers a question with whichever view it is.
macro_rules! each {
    ($any:expr, $view:ident => $answer:expr) => {
        match $any {
            AnyView::Gcra($view) => $answer,
            AnyView::TokenBucket($view) => $answer,
            AnyView::LeakyBucket($view) => $answer,
            AnyView::FixedWindow($view) => $answer,
            AnyView::SlidingWindow($view) => $answer,
            AnyView::SlidingLog($view) => $answer,
        }
    };
}

impl View for AnyView<'_> {
    fn wait_for(&self, cost: Cost) -> Wait {
        each!(self, view => view.wait_for(cost))
    }

    fn charge(&mut self, cost: Cost) {
        each!(self, view => view.charge(cost));
    }

    fn debit(&mut self, cost: Cost) -> u64 {
        each!(self, view => view.debit(cost))
    }

    fn refund(&mut self, cost: Cost, charged_at: Timestamp) {
        each!(self, view => view.refund(cost, charged_at));
    }

    fn limit(&self) -> u64 {
        each!(self, view => view.limit())
    }

    fn remaining(&self) -> u64 {
        each!(self, view => view.remaining())
    }

    fn wait_until_paid(&self) -> Wait {
        each!(self, view => view.wait_until_paid())
    }

    fn reset_after(&self) -> Nanos {
        each!(self, view => view.reset_after())
    }

    fn window_left(&self) -> Option<Nanos> {
        each!(self, view => view.window_left())
    }

    fn was_repaired(&self) -> bool {
        each!(self, view => view.was_repaired())
    }
}

/// The error of a state written by another algorithm than the quota's, or of a quota that no stored state decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// The algorithm that the quota names.
    pub wanted: Algorithm,
    /// The algorithm that wrote the state.
    pub found: Algorithm,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.wanted == Algorithm::Concurrency {
            return f.write_str(
                "algorithm: concurrent; what is in flight is held by permits, not by stored state",
            );
        }
        let (wanted, found) = (self.wanted.word(), self.found.word());
        write!(
            f,
            "state: written by `{found}`; the quota is decided by `{wanted}`: reset the key or rename the rule"
        )
    }
}

impl std::error::Error for Mismatch {}
