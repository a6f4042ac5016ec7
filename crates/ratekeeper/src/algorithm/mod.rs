//! The algorithms: pure functions of quota, state, cost and time. Nothing here reads a clock, locks or allocates
//! (but for a growing log).
//!
//! Each algorithm is a [`View`]: its state as seen at one instant under one quota, with the five questions that
//! every algorithm must answer. What differs lives in its file; what is the same for all (a denial writes nothing,
//! a peek uses the predicate of an acquire, partial grants) lives here, once.
//!
//! | file | state |
//! |---|---|
//! | [`gcra`] | one instant |
//! | [`token_bucket`] | tokens, last instant |
//! | [`leaky_bucket`] | level, last instant |
//! | [`fixed_window`] | count, start |
//! | [`sliding_window`] | previous and current count, start of the slot |
//! | [`sliding_log`] | instants and costs |
//! | [`composite`] | all or nothing over any of them |

mod calendar;
pub mod composite;
pub mod fixed_window;
pub mod gcra;
pub mod leaky_bucket;
mod meter;
pub mod sliding_log;
pub mod sliding_window;
mod solve;
pub mod token_bucket;

pub use calendar::{Calendar, CalendarUnit, Zone};
pub use meter::{Meter, Mismatch};

use crate::state::State;
use crate::{Cost, Decision, Nanos, Quota, Timestamp};

/// What decides a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// The generic cell rate algorithm: a token bucket that needs one instant of state and no floating point.
    #[default]
    Gcra,
    /// Tokens that refill continuously.
    TokenBucket,
    /// A level that drains continuously (the leaky bucket as a meter).
    LeakyBucket,
    /// A count that starts again with every window.
    FixedWindow(Anchor),
    /// Two counts, weighted by how much of the previous window still overlaps.
    SlidingWindow,
    /// Every request remembered: exact.
    SlidingLog,
    /// How many are in flight. Held by permits, not by stored state.
    Concurrency,
}

impl Algorithm {
    /// A fixed window that begins with the key's first request.
    pub const FIXED: Algorithm = Algorithm::FixedWindow(Anchor::FirstRequest);

    /// True if what a state means depends on the length of the quota's window: one of another length cannot read it.
    #[inline]
    pub const fn counts_in_windows(self) -> bool {
        matches!(self, Algorithm::FixedWindow(_) | Algorithm::SlidingWindow | Algorithm::SlidingLog)
    }

    /// True if the states of the other algorithm are of the same kind as this one's: it is the same, wherever its windows
    /// begin. That is the quota's business, and no state tells.
    #[inline]
    pub fn has_states_of(self, other: Algorithm) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// The word for it in the text form of a quota.
    pub const fn word(self) -> &'static str {
        match self {
            Algorithm::Gcra => "gcra",
            Algorithm::TokenBucket => "bucket",
            Algorithm::LeakyBucket => "leaky",
            Algorithm::FixedWindow(_) => "fixed",
            Algorithm::SlidingWindow => "sliding",
            Algorithm::SlidingLog => "log",
            Algorithm::Concurrency => "concurrent",
        }
    }
}

/// Where fixed windows begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Anchor {
    /// At the key's first request, and again at the first one after the window's end.
    #[default]
    FirstRequest,
    /// At whole multiples of the period since the Unix epoch.
    Grid,
    /// With the calendar's minute, hour, day, week, month or year.
    Calendar(Calendar),
}

/// What one cost must wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: it would pass now.
    Ready,
    /// It would pass after just so long, and not a nanosecond earlier, if nobody else asked.
    After(Nanos),
    /// It can never pass.
    Never,
}

impl Wait {
    /// So long from now, unless that is beyond the end of time (or of what a span can hold, which is further): no
    /// clock will tell that instant, so it is never.
    fn after(now: Timestamp, wait: Option<Nanos>) -> Wait {
        let told = wait.filter(|wait| *wait <= Timestamp::MAX.since(now));
        told.map_or(Wait::Never, Wait::After)
    }
}

/// Whose state a quota is decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// The state is the rule's own: nobody but this rule wrote it. If it reaches further ahead than a whole refill
    /// and [a second](SLACK), the clock stepped back or the quota was lowered, and it is cut off to one refill.
    Own,
    /// The state is shared by all quotas that requests bring for this key, and may belong to a longer one: it is
    /// honoured as it stands, never cut off.
    Shared,
}

impl Tenancy {
    /// True if what is noted for this instant is cut off: it lies further ahead of now than a caller who came late
    /// explains, and nobody else may have noted it.
    fn cuts_off(self, noted: Timestamp, now: Timestamp) -> bool {
        noted > now + SLACK && self == Tenancy::Own
    }
}

/// How far a state of one's own may reach beyond a whole refill before it is cut off. Callers that read the clock and
/// then wait for their turn come with instants of the past: those must not look like a clock that stepped back.
pub const SLACK: Nanos = Nanos::from_secs(1);

/// A state seen at one instant under one quota: what an algorithm must answer.
///
/// Making a view never fails and never mints: a clock that stepped back and a quota that changed are dealt with
/// here, by clamping. Changing a view changes nothing stored; whoever holds the state writes the view back.
pub trait View {
    /// What this cost must wait for.
    fn wait_for(&self, cost: Cost) -> Wait;

    /// Takes a cost that [`wait_for`](View::wait_for) found ready.
    fn charge(&mut self, cost: Cost);

    /// Gives back what is left of a cost that was charged at this instant, never above the capacity: what has
    /// refilled since is not given a second time.
    fn refund(&mut self, cost: Cost, charged_at: Timestamp);

    /// The capacity.
    fn limit(&self) -> u64;

    /// How many requests of cost 1 would pass now, one after another.
    fn remaining(&self) -> u64;

    /// The time until the state equals a fresh key's.
    fn reset_after(&self) -> Nanos;

    /// True if the stored state reaches further ahead than the quota allows (the clock stepped far back, or the
    /// quota was lowered) and the view has cut it off; see [`Tenancy::Own`]. Such a state must be written back even by
    /// a denial, or the key would stay locked out until the clock catches up.
    fn was_repaired(&self) -> bool;
}

/// Takes the cost from the view if it passes. The view has changed if and only if the decision allows.
#[inline]
pub fn take<V: View>(view: &mut V, cost: Cost) -> Decision {
    let wait = view.wait_for(cost);
    // Even charging nothing may move the last bit of a double.
    if wait == Wait::Ready && cost != Cost::PEEK {
        view.charge(cost);
    }
    describe(view, wait)
}

/// What [`take`] would decide, with what is left as it is.
#[inline]
pub fn look<V: View>(view: &V, cost: Cost) -> Decision {
    describe(view, view.wait_for(cost))
}

/// The decision that a wait amounts to, with what the view has left.
#[inline(always)]
pub(crate) fn describe<V: View>(view: &V, wait: Wait) -> Decision {
    let (limit, remaining, reset_after) = (view.limit(), view.remaining(), view.reset_after());
    match wait {
        Wait::Ready => Decision::allow(limit, remaining, reset_after),
        Wait::After(wait) => Decision::deny(limit, remaining, Some(wait), reset_after),
        Wait::Never => Decision::deny(limit, remaining, None, reset_after),
    }
}

/// Takes the cost if it passes: the decision, and the state to store if it changed. The state is the quota's
/// [own](Tenancy::Own).
///
/// ```
/// use ratekeeper::{algorithm, Cost, Quota, Timestamp};
/// let quota: Quota = "1/m".parse()?;
/// let now = Timestamp::from_secs(1_000);
/// let (first, state) = algorithm::try_acquire(&quota, None, Cost::ONE, now)?;
/// let (second, unchanged) = algorithm::try_acquire(&quota, state.as_ref(), Cost::ONE, now)?;
/// assert!(first.allowed && !second.allowed && unchanged.is_none());
/// assert_eq!(second.retry_after.unwrap().ceil_secs(), 60);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn try_acquire(
    quota: &Quota,
    state: Option<&State>,
    cost: Cost,
    now: Timestamp,
) -> Result<(Decision, Option<State>), Mismatch> {
    let mut view = Meter::at(quota, state, now, Tenancy::Own)?;
    let decision = take(&mut view, cost);
    let changed = cost != Cost::PEEK && (decision.allowed || view.was_repaired());
    Ok((decision, if changed { view.to_state() } else { None }))
}

/// Takes as much of `up_to` as passes now: how much was granted, the decision, and the state to store.
///
/// Nothing granted is a denial, and its times are those of a cost of 1.
pub fn try_acquire_up_to(
    quota: &Quota,
    state: Option<&State>,
    up_to: Cost,
    now: Timestamp,
) -> Result<(Cost, Decision, Option<State>), Mismatch> {
    let left = Meter::at(quota, state, now, Tenancy::Own)?.remaining();
    let grant = partial_grant(left, up_to);
    let (decision, state) = try_acquire(quota, state, grant, now)?;
    Ok((if decision.allowed { grant } else { Cost::PEEK }, decision, state))
}

/// The cost to ask for when `left` would pass and up to `up_to` is wanted: at least 1, so that a refusal has a
/// time, unless nothing is wanted.
pub(crate) fn partial_grant(left: u64, up_to: Cost) -> Cost {
    Cost::new(up_to.get().min(left.max(1)))
}

/// What [`try_acquire`] would decide; changes nothing.
pub fn peek(quota: &Quota, state: Option<&State>, cost: Cost, now: Timestamp) -> Result<Decision, Mismatch> {
    Ok(look(&Meter::at(quota, state, now, Tenancy::Own)?, cost))
}

/// Gives back what is left of a cost that was charged at `charged_at`, never above the capacity: what is left then,
/// and the state to store (`None`: the key is as good as fresh, forget it).
pub fn refund(
    quota: &Quota,
    state: Option<&State>,
    cost: Cost,
    charged_at: Timestamp,
    now: Timestamp,
) -> Result<(Decision, Option<State>), Mismatch> {
    let mut view = Meter::at(quota, state, now, Tenancy::Own)?;
    view.refund(cost, charged_at);
    Ok((look(&view, Cost::PEEK), view.to_state()))
}
