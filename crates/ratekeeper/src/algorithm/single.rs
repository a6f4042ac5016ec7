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

/// Takes as much as passes now, between `least` and `most`, or nothing. Returns how much was granted, the decision, and the
/// state to store. A `most` below the least counts as the least.
///
/// If not even the least passes, nothing is granted: the decision is that on the least, and so are its times.
///
/// # Errors
///
/// As [`try_acquire`].
///
/// ```
/// use ratekeeper::{algorithm, Cost, Quota, Timestamp};
/// let quota: Quota = "10/m".parse()?;
/// let now = Timestamp::from_secs(1_000);
/// let (granted, _, state) = algorithm::try_acquire_up_to(&quota, None, Cost::ONE, Cost::new(7), now)?;
/// assert_eq!(granted, Cost::new(7));
/// let (granted, refused, _) =
///     algorithm::try_acquire_up_to(&quota, state.as_ref(), Cost::new(5), Cost::new(9), now)?;
/// assert_eq!((granted, refused.remaining), (Cost::ZERO, 3), "three are left, and five are the least");
/// assert_eq!(refused.retry_after.unwrap().ceil_secs(), 12, "until there are five");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn try_acquire_up_to(
    quota: &Quota,
    state: Option<&State>,
    least: Cost,
    most: Cost,
    now: Timestamp,
) -> Result<(Cost, Decision, Option<State>), Mismatch> {
    let left = AnyView::at(quota, state, now, Tenancy::Own)?.remaining();
    let grant = partial_grant(left, least, most);
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
