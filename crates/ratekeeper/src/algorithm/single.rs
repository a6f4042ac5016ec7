//! Decisions of one quota on its state.

use super::any_view::{AnyView, Mismatch};
use super::state::State;
use super::tenancy::Tenancy;
use super::view::{View, look, partial_grant, take};
use crate::{Cost, Decision, Quota, Timestamp};

/// Takes the cost if it passes. Returns the decision, and the state to store if it changed. The state is the quota's
/// [own](Tenancy::Own).
///
/// # Errors
///
/// If the state is that of another algorithm, or the quota limits concurrency.
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
    let mut view = AnyView::at(quota, state, now, Tenancy::Own)?;
    let decision = take(&mut view, cost);
    let changed = cost != Cost::ZERO && (decision.allowed || view.was_repaired());
    Ok((decision, if changed { view.to_state() } else { None }))
}

/// Takes as much of `up_to` as passes now. Returns how much was granted, the decision, and the state to store.
///
/// If nothing is granted the decision denies, and its times are those of a cost of 1.
///
/// # Errors
///
/// As [`try_acquire`].
pub fn try_acquire_up_to(
    quota: &Quota,
    state: Option<&State>,
    up_to: Cost,
    now: Timestamp,
) -> Result<(Cost, Decision, Option<State>), Mismatch> {
    let left = AnyView::at(quota, state, now, Tenancy::Own)?.remaining();
    let grant = partial_grant(left, up_to);
    let (decision, state) = try_acquire(quota, state, grant, now)?;
    Ok((if decision.allowed { grant } else { Cost::ZERO }, decision, state))
}

/// Returns what [`try_acquire`] would decide.
///
/// # Errors
///
/// As [`try_acquire`].
pub fn peek(quota: &Quota, state: Option<&State>, cost: Cost, now: Timestamp) -> Result<Decision, Mismatch> {
    Ok(look(&AnyView::at(quota, state, now, Tenancy::Own)?, cost))
}

/// Gives back what is left of a cost that was charged at `charged_at`, never above the capacity. Returns what is left
/// then, and the state to store (`None`: it equals a fresh key's, forget it).
///
/// # Errors
///
/// As [`try_acquire`].
pub fn refund(
    quota: &Quota,
    state: Option<&State>,
    cost: Cost,
    charged_at: Timestamp,
    now: Timestamp,
) -> Result<(Decision, Option<State>), Mismatch> {
    let mut view = AnyView::at(quota, state, now, Tenancy::Own)?;
    view.refund(cost, charged_at);
    Ok((look(&view, Cost::ZERO), view.to_state()))
}
