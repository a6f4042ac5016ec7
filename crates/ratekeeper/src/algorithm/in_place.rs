//! A decision on a state that is changed where it is.

use super::any_view::StateWrite;
use super::fixed_window::FixedWindowView;
use super::gcra::GcraView;
use super::leaky_bucket::LeakyBucketView;
use super::sliding_log::SlidingLogView;
use super::sliding_window::SlidingWindowView;
use super::state::State;
use super::tenancy::Tenancy;
use super::token_bucket::TokenBucketView;
use super::view::{View, take};
use crate::{Algorithm, Cost, Decision, Quota, Timestamp};

/// Takes the cost if it passes, from a state that is the quota's [own](Tenancy::Own); one of another algorithm counts as a
/// fresh key's.
///
/// Decides what an [`AnyView`](super::AnyView) does, but asks for the algorithm once: the view of one algorithm stays in registers, where
/// one of any has to be written and read again for every question.
///
/// # Panics
///
/// If the quota limits concurrency, which no state decides.
pub(crate) fn take_in_place(
    quota: &Quota,
    state: &mut Option<State>,
    cost: Cost,
    now: Timestamp,
) -> Decision {
    macro_rules! take_from {
        ($variant:ident, $view:ident) => {{
            let known = match state {
                Some(State::$variant(known)) => Some(*known),
                _ => None,
            };
            let mut view = $view::at(quota, known, now, Tenancy::Own);
            let decision = take(&mut view, cost);
            if is_written(&view, &decision, cost) {
                *state = view.state().map(State::$variant);
            }
            decision
        }};
    }
    match quota.algorithm() {
        Algorithm::Gcra => take_from!(Gcra, GcraView),
        Algorithm::TokenBucket => take_from!(TokenBucket, TokenBucketView),
        Algorithm::LeakyBucket => take_from!(LeakyBucket, LeakyBucketView),
        Algorithm::FixedWindow(_) => take_from!(FixedWindow, FixedWindowView),
        Algorithm::SlidingWindow => take_from!(SlidingWindow, SlidingWindowView),
        Algorithm::SlidingLog => take_from_log(quota, state, cost, now),
        Algorithm::Concurrency => unreachable!("no state decides a quota of permits"),
    }
}

fn take_from_log(quota: &Quota, state: &mut Option<State>, cost: Cost, now: Timestamp) -> Decision {
    let log = match state {
        Some(State::SlidingLog(log)) => Some(&*log),
        _ => None,
    };
    let mut view = SlidingLogView::at(quota, log, now, Tenancy::Own);
    let decision = take(&mut view, cost);
    if is_written(&view, &decision, cost) {
        // Edited, because copying it would cost as much as it is long.
        StateWrite::Log(view.edit()).apply(state);
    }
    decision
}

#[inline]
fn is_written(view: &impl View, decision: &Decision, cost: Cost) -> bool {
    cost != Cost::ZERO && (decision.allowed || view.was_repaired())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::any_view::AnyView;
    use super::*;

    const QUOTAS: [&str; 8] = [
        "5/s burst 3",
        "5/s burst 3 bucket",
        "5/s burst 3 leaky",
        "5/s fixed",
        "5/s fixed grid",
        "5/m fixed calendar",
        "5/s sliding",
        "5/s log",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever the clock does, the decisions and the states are those of any view.
        #[test]
        fn it_decides_what_any_view_does(
            text in prop::sample::select(QUOTAS.as_slice()),
            steps in prop::collection::vec((0_u64..7, -400_000_000_i64..900_000_000), 1..60),
            step_back in prop_oneof![Just(0), 0_i64..40_000_000_000],
        ) {
            let quota: Quota = text.parse().unwrap();
            let (mut state, mut expected) = (None, None);
            let mut now = 1_761_884_055_000_000_000_i64;
            let last = steps.len() - 1;
            for (index, (cost, step)) in steps.into_iter().enumerate() {
                now += if index == last { step - step_back } else { step };
                let (cost, at) = (Cost::new(cost), Timestamp::from_nanos(now));
                let mut view = AnyView::at(&quota, expected.as_ref(), at, Tenancy::Own).unwrap();
                let decision = take(&mut view, cost);
                if cost != Cost::ZERO && (decision.allowed || view.was_repaired()) {
                    expected = view.to_state();
                }
                prop_assert_eq!(take_in_place(&quota, &mut state, cost, at), decision);
                prop_assert_eq!(&state, &expected);
            }
        }
    }
}
