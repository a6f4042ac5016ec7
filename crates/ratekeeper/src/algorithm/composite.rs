//! Decisions of several quotas together: all must allow, or none is charged.
//!
//! First every view is asked whether the cost would pass. Only if all say yes is it taken from each, so that a denial by one
//! never uses up another. The decision is [joined](crate::Decision::join): the least that is left, the longest wait, and the
//! rule that binds.
//!
//! ```
//! use ratekeeper::algorithm::{Tenancy, composite};
//! use ratekeeper::{Cost, Timestamp};
//!
//! let rules = [("10/s".parse()?, None), ("5/h fixed".parse()?, None)];
//! let (decision, states) = composite::try_acquire(&rules, Cost::ONE, Timestamp::EPOCH, Tenancy::Own)?;
//! assert_eq!((decision.allowed, decision.remaining, decision.rule), (true, 4, 1));
//! assert!(states.iter().all(Option::is_some));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::any_view::{AnyView, Mismatch, StateWrite};
use super::state::State;
use super::tenancy::Tenancy;
use super::view::{View, look, take};
use super::wait::Wait;
use crate::{Cost, Decision, Nanos, Quota, Timestamp};

/// What one rule is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// How much of what it counts.
    pub cost: Cost,
    /// If the rule is in shadow, the position of its plan: it never binds, and is charged with the others of that plan if
    /// all of them would pass.
    pub shadow_of: Option<u8>,
}

impl From<Cost> for Asked {
    fn from(cost: Cost) -> Self {
        Asked { cost, shadow_of: None }
    }
}

/// Which rules of a request are charged: all that bind or none, and those in shadow plan by plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passing {
    binding: bool,
    /// A bit for each plan whose rules in shadow would deny.
    shadows_deny: u64,
}

impl Passing {
    /// No rule is charged.
    pub(crate) const DENIED: Passing = Passing { binding: false, shadows_deny: 0 };

    /// Returns which rules are charged, of what each must wait for.
    pub fn of(waits: impl Iterator<Item = (Option<u8>, bool)>) -> Self {
        let mut passing = Passing { binding: true, shadows_deny: 0 };
        for (shadow_of, is_ready) in waits {
            match shadow_of {
                _ if is_ready => {}
                Some(plan) => passing.shadows_deny |= 1 << (plan & 63),
                // Nobody is charged: the others need not be asked.
                None => return Passing { binding: false, ..passing },
            }
        }
        passing
    }

    /// Returns true if the request is allowed.
    #[inline]
    pub fn allows(self) -> bool {
        self.binding
    }

    /// Returns true if no rule denies, in shadow neither.
    #[inline]
    pub(crate) fn is_unanimous(self) -> bool {
        self.binding && self.shadows_deny == 0
    }

    /// Returns true if such a rule is charged.
    #[inline]
    pub fn charges(self, shadow_of: Option<u8>) -> bool {
        self.binding && shadow_of.is_none_or(|plan| self.shadows_deny >> (plan & 63) & 1 == 0)
    }

    /// Returns true if the state of a rule that was asked for this is to be written.
    fn writes(self, Asked { cost, shadow_of }: Asked, view: &AnyView<'_>) -> bool {
        cost != Cost::ZERO && (self.charges(shadow_of) || view.was_repaired())
    }
}

/// Takes from every view what it is asked for, or from none. On a denial the views that would have allowed are left as they
/// were. Returns what each view says, and which were charged.
pub fn take_each<V: View>(views: &mut [V], asked: impl Fn(usize) -> Asked) -> (Vec<Decision>, Passing) {
    let waits = views.iter().enumerate().map(|(rule, view)| {
        let Asked { cost, shadow_of } = asked(rule);
        (shadow_of, view.wait_for(cost) == Wait::Ready)
    });
    let passing = Passing::of(waits);
    let decide = |(rule, view): (usize, &mut V)| {
        let Asked { cost, shadow_of } = asked(rule);
        if passing.charges(shadow_of) { take(view, cost) } else { look(view, cost) }
    };
    (views.iter_mut().enumerate().map(decide).collect(), passing)
}

/// Takes the cost from every view, or from none. On a denial the views that would have allowed are left as they
/// were, and the decision tells what is left of them.
///
/// No views at all allow everything: there is nothing to exceed.
pub fn take_all<V: View>(views: &mut [V], cost: Cost) -> Decision {
    let passes = views.iter().all(|view| matches!(view.wait_for(cost), Wait::Ready));
    join(views.iter_mut().map(|view| if passes { take(view, cost) } else { look(view, cost) }))
}

/// Returns what [`take_all`] would decide. Changes nothing.
pub fn look_all<V: View>(views: &[V], cost: Cost) -> Decision {
    join(views.iter().map(|view| look(view, cost)))
}

/// Returns what comes after a decision, of the views as it left them and whether each binds: the time until the first of their
/// windows ends, if those that bind have any that end, and what a request of cost 1 would be told at this instant.
pub fn outlook<V: View>(views: impl Iterator<Item = (V, bool)>) -> (Option<Nanos>, Decision) {
    let mut ends = None;
    let next = join_binding(views.map(|(view, binds)| {
        if binds {
            ends = ends.into_iter().chain(view.window_left()).min();
        }
        (look(&view, Cost::ONE), binds)
    }));
    (ends, next)
}

/// Joins decisions into one, each bound to the position of its rule.
pub fn join(decisions: impl Iterator<Item = Decision>) -> Decision {
    join_numbered(decisions.enumerate())
}

/// Joins the decisions of those rules that bind into one, each bound to the position of its rule.
pub fn join_binding(decisions: impl Iterator<Item = (Decision, bool)>) -> Decision {
    let binding = decisions.enumerate().filter(|(_, (_, binds))| *binds);
    join_numbered(binding.map(|(rule, (decision, _))| (rule, decision)))
}

#[inline]
fn join_numbered(decisions: impl Iterator<Item = (usize, Decision)>) -> Decision {
    // No plan has that many rules, but nothing here may overflow: the rest share the last position.
    let position = |rule: usize| u16::try_from(rule).unwrap_or(u16::MAX);
    let numbered = decisions.map(|(rule, decision)| decision.of_rule(position(rule)));
    numbered.reduce(Decision::join).unwrap_or(Decision::allow(u64::MAX, u64::MAX, Nanos::ZERO))
}

/// What each rule says, and for each the state to store, if that changed.
pub type Changes = (Vec<Decision>, Vec<Option<State>>);

/// Takes the cost from several quotas or from none. Returns the decision, and for each rule the state to store if it
/// changed.
///
/// # Errors
///
/// If a state is that of another algorithm than its quota's, or a quota limits concurrency.
pub fn try_acquire(
    rules: &[(Quota, Option<State>)],
    cost: Cost,
    now: Timestamp,
    tenancy: Tenancy,
) -> Result<(Decision, Vec<Option<State>>), Mismatch> {
    let (each, states) = try_acquire_each(rules, |_| cost.into(), now, tenancy)?;
    Ok((join(each.into_iter()), states))
}

/// Takes from several quotas what each is asked for, or from none. Returns what each says, and for each the state to store
/// if it changed.
///
/// # Errors
///
/// As [`try_acquire`].
pub fn try_acquire_each(
    rules: &[(Quota, Option<State>)],
    asked: impl Fn(usize) -> Asked,
    now: Timestamp,
    tenancy: Tenancy,
) -> Result<Changes, Mismatch> {
    let mut views = views(rules, now, tenancy)?;
    let (each, passing) = take_each(&mut views, &asked);
    let states = views.iter().enumerate();
    let states = states.map(|(rule, view)| match passing.writes(asked(rule), view) {
        true => view.to_state(),
        false => None,
    });
    Ok((each, states.collect()))
}

/// Charges several quotas whether or not it passes. Returns what each says then of one more, how much was forgiven over
/// all of them, and for each the state to store if it changed.
///
/// # Errors
///
/// As [`try_acquire`].
pub fn debit_each(
    rules: &[(Quota, Option<State>)],
    asked: impl Fn(usize) -> Asked,
    now: Timestamp,
    tenancy: Tenancy,
) -> Result<(Changes, u64), Mismatch> {
    let (mut views, mut forgiven) = (views(rules, now, tenancy)?, 0_u64);
    let mut states = Vec::with_capacity(views.len());
    for (rule, view) in views.iter_mut().enumerate() {
        let cost = asked(rule).cost;
        states.push((cost != Cost::ZERO).then(|| {
            forgiven = forgiven.saturating_add(view.debit(cost));
            view.to_state()
        }));
    }
    let each = views.iter().map(|view| look(view, Cost::ONE)).collect();
    Ok(((each, states.into_iter().map(Option::flatten).collect()), forgiven))
}

/// Like [`try_acquire`] on states that are held in place, one for each quota and its own: a log is edited, not copied.
///
/// Rules that have no state to go with them are not looked at, nor states without a rule.
///
/// # Errors
///
/// As [`try_acquire`].
pub fn acquire_in_place(
    quotas: &[Quota],
    states: &mut [Option<State>],
    cost: Cost,
    now: Timestamp,
) -> Result<Decision, Mismatch> {
    let held = quotas.iter().zip(&*states);
    let mut views: Vec<AnyView<'_>> = held
        .map(|(quota, state)| AnyView::at(quota, state.as_ref(), now, Tenancy::Own))
        .collect::<Result<_, _>>()?;
    let decision = take_all(&mut views, cost);
    let wrote = |view: &AnyView<'_>| cost != Cost::ZERO && (decision.allowed || view.was_repaired());
    let writes: Vec<Option<StateWrite>> =
        views.iter().map(|view| wrote(view).then(|| view.write())).collect();
    write(states, writes);
    Ok(decision)
}

/// Like [`acquire_in_place`], of what each rule is asked for. Returns what each says.
///
/// # Errors
///
/// As [`try_acquire`].
pub fn acquire_each_in_place<'q>(
    quotas: impl Iterator<Item = &'q Quota>,
    states: &mut [Option<State>],
    asked: impl Fn(usize) -> Asked,
    now: Timestamp,
) -> Result<Vec<Decision>, Mismatch> {
    let held = quotas.zip(&*states);
    let mut views: Vec<AnyView<'_>> = held
        .map(|(quota, state)| AnyView::at(quota, state.as_ref(), now, Tenancy::Own))
        .collect::<Result<_, _>>()?;
    let (each, passing) = take_each(&mut views, &asked);
    let views = views.iter().enumerate();
    let writes: Vec<Option<StateWrite>> =
        views.map(|(rule, view)| passing.writes(asked(rule), view).then(|| view.write())).collect();
    write(states, writes);
    Ok(each)
}

/// Writes what has changed.
fn write(states: &mut [Option<State>], writes: Vec<Option<StateWrite>>) {
    for (state, write) in states.iter_mut().zip(writes) {
        if let Some(write) = write {
            write.apply(state);
        }
    }
}

/// Returns what [`try_acquire`] would decide.
///
/// # Errors
///
/// As [`try_acquire`].
pub fn peek(
    rules: &[(Quota, Option<State>)],
    cost: Cost,
    now: Timestamp,
    tenancy: Tenancy,
) -> Result<Decision, Mismatch> {
    Ok(look_all(&views(rules, now, tenancy)?, cost))
}

/// Returns what each rule would say to what it is asked for.
///
/// # Errors
///
/// As [`try_acquire`].
pub fn peek_each(
    rules: &[(Quota, Option<State>)],
    asked: impl Fn(usize) -> Asked,
    now: Timestamp,
    tenancy: Tenancy,
) -> Result<Vec<Decision>, Mismatch> {
    let views = views(rules, now, tenancy)?;
    Ok(views.iter().enumerate().map(|(rule, view)| look(view, asked(rule).cost)).collect())
}

/// Gives back to every rule what is left of a cost that was charged at `charged_at`. Returns what is left then, and for
/// each rule the state to store (`None`: it equals a fresh key's).
///
/// # Errors
///
/// As [`try_acquire`].
pub fn refund(
    rules: &[(Quota, Option<State>)],
    cost: Cost,
    charged_at: Timestamp,
    now: Timestamp,
    tenancy: Tenancy,
) -> Result<(Decision, Vec<Option<State>>), Mismatch> {
    let (each, states) = refund_each(rules, |_| cost.into(), charged_at, now, tenancy)?;
    Ok((join(each.into_iter()), states))
}

/// Gives back to every rule what is left of what it was asked for at `charged_at`. Returns what each says then, and for
/// each the state to store (`None`: it equals a fresh key's).
///
/// # Errors
///
/// As [`try_acquire`].
pub fn refund_each(
    rules: &[(Quota, Option<State>)],
    asked: impl Fn(usize) -> Asked,
    charged_at: Timestamp,
    now: Timestamp,
    tenancy: Tenancy,
) -> Result<Changes, Mismatch> {
    let mut views = views(rules, now, tenancy)?;
    for (rule, view) in views.iter_mut().enumerate() {
        let cost = asked(rule).cost;
        if cost != Cost::ZERO {
            view.refund(cost, charged_at);
        }
    }
    let each = views.iter().map(|view| look(view, Cost::ZERO)).collect();
    Ok((each, views.iter().map(AnyView::to_state).collect()))
}

/// Returns what [comes after](outlook) a decision that has left these states.
///
/// # Errors
///
/// As [`try_acquire`].
pub fn outlook_of(
    rules: &[(Quota, Option<State>)],
    asked: impl Fn(usize) -> Asked,
    now: Timestamp,
    tenancy: Tenancy,
) -> Result<(Option<Nanos>, Decision), Mismatch> {
    let views = views(rules, now, tenancy)?;
    Ok(outlook(views.into_iter().enumerate().map(|(rule, view)| (view, asked(rule).shadow_of.is_none()))))
}

fn views<'a>(
    rules: &'a [(Quota, Option<State>)],
    now: Timestamp,
    tenancy: Tenancy,
) -> Result<Vec<AnyView<'a>>, Mismatch> {
    rules.iter().map(|(quota, state)| AnyView::at(quota, state.as_ref(), now, tenancy)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_place_is_the_same() {
        let quotas: Vec<Quota> =
            ["3/s log", "4/m bucket", "9/h fixed"].iter().map(|quota| quota.parse().unwrap()).collect();
        let mut states = vec![None; 3];
        let mut rules: Vec<_> = quotas.iter().map(|quota| (*quota, None)).collect();
        for tick in 0..40 {
            let (cost, now) = (Cost::new(tick % 3), Timestamp::from_nanos(tick.cast_signed() * 400_000_000));
            let (decision, changed) = try_acquire(&rules, cost, now, Tenancy::Own).unwrap();
            for (rule, state) in rules.iter_mut().zip(changed) {
                rule.1 = state.or_else(|| rule.1.take());
            }
            assert_eq!(acquire_in_place(&quotas, &mut states, cost, now).unwrap(), decision);
            assert!(rules.iter().map(|rule| &rule.1).eq(&states));
        }
    }

    #[test]
    fn a_denial_by_the_second_rule_never_burns_the_first() {
        let now = Timestamp::from_secs(1);
        let mut rules = [("10/s".parse().unwrap(), None), ("1/h fixed".parse().unwrap(), None)];
        let (first, states) = try_acquire(&rules, Cost::ONE, now, Tenancy::Own).unwrap();
        assert!(first.allowed);
        assert_eq!((first.remaining, first.limit, first.rule), (0, 1, 1));
        for (rule, state) in rules.iter_mut().zip(states) {
            rule.1 = state;
        }
        let (second, states) = try_acquire(&rules, Cost::ONE, now, Tenancy::Own).unwrap();
        assert!(!second.allowed && states.iter().all(Option::is_none));
        assert_eq!((second.rule, second.retry_after.unwrap().ceil_secs()), (1, 3_600));
        assert_eq!(peek(&rules[..1], Cost::new(9), now, Tenancy::Own).unwrap().remaining, 9);
    }
}
