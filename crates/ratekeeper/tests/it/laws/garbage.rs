//! States that no engine has written: torn, corrupt, hostile, or of a future version.

use proptest::prelude::*;
use ratekeeper::algorithm::{
    self, fixed_window, gcra, leaky_bucket, sliding_log, sliding_window, token_bucket,
};
use ratekeeper::testkit::model::Model;
use ratekeeper::{Algorithm, Cost, Quota, State, Timestamp};

use super::extremes::{extreme_quota, instant, sane};
use super::support::draw::{quota, span};
use super::support::float::{tolerance, undecided};
use super::support::{Key, NOON, before, same};

fn double() -> impl Strategy<Value = f64> {
    let odd = vec![
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        -f64::MIN_POSITIVE,
        0.0,
        -0.0,
        -1.0,
        1e-9,
        -1e-9,
        1e300,
        -1e300,
        9_007_199_254_740_992.0,
        9_007_199_254_740_993.5,
    ];
    prop_oneof![2 => prop::sample::select(odd), 1 => any::<f64>(), 2 => -2.0..14.0]
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), Just(1 << 63), any::<u64>(), 0_u64..14]
}

/// Any state whatever of this algorithm, with instants as drawn.
fn state(
    algorithm: Algorithm,
    at: impl Strategy<Value = Timestamp> + Clone + 'static,
) -> BoxedStrategy<State> {
    match algorithm {
        Algorithm::Gcra => at.prop_map(|tat| State::Gcra(gcra::GcraState { tat })).boxed(),
        Algorithm::TokenBucket => (double(), at)
            .prop_map(|(tokens, last)| State::TokenBucket(token_bucket::TokenBucketState { tokens, last }))
            .boxed(),
        Algorithm::LeakyBucket => (double(), at)
            .prop_map(|(level, last)| State::LeakyBucket(leaky_bucket::LeakyBucketState { level, last }))
            .boxed(),
        Algorithm::FixedWindow(_) => (count(), at)
            .prop_map(|(count, start)| State::FixedWindow(fixed_window::FixedWindowState { count, start }))
            .boxed(),
        Algorithm::SlidingWindow => (count(), count(), at)
            .prop_map(|(previous, current, start)| {
                State::SlidingWindow(sliding_window::SlidingWindowState { previous, current, start })
            })
            .boxed(),
        _ => prop::collection::vec((at, count()), 0..8)
            .prop_map(|entries| State::SlidingLog(sliding_log::SlidingLogState::from_iter(entries)))
            .boxed(),
    }
}

/// A quota, and a state about an instant.
fn near() -> impl Strategy<Value = (Quota, State)> {
    quota().prop_flat_map(|quota| {
        let about = (span(), any::<bool>()).prop_map(move |(span, back)| {
            if back { before(NOON, span.under(&quota)) } else { NOON + span.under(&quota) }
        });
        (Just(quota), state(quota.algorithm(), about.boxed()))
    })
}

/// An extreme quota, and an extreme state.
fn far() -> impl Strategy<Value = (Quota, State)> {
    extreme_quota().prop_flat_map(|quota| (Just(quota), state(quota.algorithm(), instant().boxed())))
}

proptest! {
    #![proptest_config(test_support::cases::config(2_500))]

    /// Whatever was stored is read without a panic, clamped into what the quota allows, never as more than the
    /// capacity, and never locks out: the answer keeps its own promises.
    #[test]
    fn any_state_is_answered_with_sense((quota, state) in prop_oneof![near(), far()], now in prop_oneof![Just(NOON), instant()], cost in count()) {
        let key = Key { quota, state: Some(state) };
        for cost in [0, 1, cost, cost % (quota.burst() + 1), quota.burst()] {
            sane(&key, cost, now)?;
        }
        let mut refunded = key.clone();
        let after = refunded.refund(cost, now);
        prop_assert!(after.remaining >= key.peek(0, now).remaining && after.remaining <= quota.burst());
    }

    /// It is read as the model reads it: exactly where integers decide, to the last bits of a double elsewhere.
    #[test]
    fn any_state_is_read_as_the_law_is_worded((quota, state) in prop_oneof![near(), far()], now in prop_oneof![Just(NOON), instant()], cost in 0_u64..14) {
        let (key, model) = (Key { quota, state: Some(state.clone()) }, Model::resume(quota, Some(&state)));
        let (given, wanted) = (key.peek(cost, now), model.peek(Cost::new(cost), now));
        if let Some(amount) = model.amount(now) {
            if !undecided(&amount, &tolerance(&quota, 1)) && quota.burst() < 1 << 20 {
                prop_assert_eq!((given.allowed, given.remaining), (wanted.allowed, wanted.remaining));
            }
        } else {
            same(given, wanted, now).map_err(TestCaseError::fail)?;
        }
    }

    /// A state of another algorithm is an error that names both, and no guess.
    #[test]
    fn a_state_of_another_algorithm_is_an_error((quota, _) in near(), (other, state) in near(), cost in count()) {
        let answer = algorithm::try_acquire(&quota, Some(&state), Cost::new(cost), NOON);
        let (wanted, found) = (quota.algorithm().word(), other.algorithm().word());
        match answer {
            Ok(_) => prop_assert_eq!(wanted, found),
            Err(error) => {
                prop_assert!(wanted != found);
                prop_assert!(error.to_string().contains(wanted) && error.to_string().contains(found));
            }
        }
    }
}
