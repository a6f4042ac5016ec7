//! The algorithms that count in floating point, against a model that does not.
//!
//! The tolerance is derived in `support/float.rs`.

use std::time::Duration;

use num_rational::BigRational;
use proptest::prelude::*;
use ratekeeper::testkit::model::Model;
use ratekeeper::{Algorithm, Cost, Nanos, Quota, Timestamp};

use super::support::draw::{Step, Walk, any_step, cost, quota_of, start};
use super::support::float::{tolerance, undecided};
use super::support::{Key, NOON, same};

fn buckets() -> impl Strategy<Value = Algorithm> {
    prop::sample::select(vec![Algorithm::TokenBucket, Algorithm::LeakyBucket])
}

/// How long it takes for the tolerance to flow, rounded up, and one more.
fn slack(quota: &Quota, within: &BigRational) -> u64 {
    let nanos = within * BigRational::new(quota.period().as_nanos().into(), quota.count().into());
    u64::try_from(nanos.ceil().to_integer()).unwrap() + 1
}

fn close(given: Nanos, wanted: Nanos, slack: u64) -> bool {
    given.as_nanos().abs_diff(wanted.as_nanos()) <= slack
}

proptest! {
    #![proptest_config(test_support::cases::config(600))]

    /// On any history the engine's amounts stay within the rounding error that doubles are bound to make, and its
    /// answers differ from the exact ones only where that error decides.
    #[test]
    fn doubles_stray_no_further_than_their_last_bits(
        quota in buckets().prop_flat_map(quota_of),
        start in start(),
        steps in prop::collection::vec(any_step(), 1..24),
    ) {
        let (mut walk, mut model) = (Walk::new(quota, start), Model::new(quota));
        for (writes, step) in (0..).zip(steps) {
            let within = tolerance(&quota, writes);
            let slack = slack(&quota, &within);
            let now = walk.now;
            if undecided(&model.amount(now).unwrap(), &within) {
                // Either answer is right, and the two part ways here: but for a whole number to the last bit,
                // which is no such case as long as ε is wider than the tolerance.
                break;
            }
            let (given, wanted) = match step {
                Step::Take(cost) => {
                    let given = walk.key.take(cost, now);
                    walk.promised = given.retry_after.unwrap_or(Nanos::ZERO);
                    (given, model.try_acquire(Cost::new(cost), now))
                }
                Step::Debit(cost) => {
                    let ((given, forgiven), (wanted, beyond)) =
                        (walk.key.debit(cost, now), model.debit(Cost::new(cost), now));
                    // To the last bit of what was there, which may be that of a whole one.
                    prop_assert!(forgiven.abs_diff(beyond) <= 1, "{forgiven} {beyond}");
                    walk.promised = given.retry_after.unwrap_or(Nanos::ZERO);
                    (given, wanted)
                }
                Step::Peek(cost) => (walk.key.peek(cost, now), model.peek(Cost::new(cost), now)),
                Step::Refund(cost, age) => {
                    let charged_at = super::support::before(now, age.under(&quota));
                    let wanted = model.refund(Cost::new(cost), charged_at, now);
                    (walk.key.refund_of(cost, charged_at, now), wanted)
                }
                Step::TakeUpTo(..) => continue,
                Step::Reset => {
                    walk.step(step);
                    model.reset();
                    continue;
                }
                _ => {
                    walk.step(step);
                    continue;
                }
            };
            // A refund of what has flowed in part may end where either answer is right.
            if undecided(&model.amount(now).unwrap(), &within) {
                break;
            }
            // A refund to within the tolerance of the whole: one of the two may be whole to the last bit, and so a fresh
            // key's, whose instant holds nobody back however far ahead, while the other waits for the clock to catch up.
            let missing = |model: &Model| BigRational::from_integer(quota.burst().into()) - model.amount(now).unwrap();
            let kept = Model::resume(quota, walk.key.state.as_ref());
            if matches!(step, Step::Refund(..))
                && given.reset_after.is_zero() != wanted.reset_after.is_zero()
                && missing(&model) <= within
                && missing(&kept) <= within
            {
                break;
            }
            prop_assert_eq!((given.allowed, given.limit), (wanted.allowed, wanted.limit));
            prop_assert_eq!(given.remaining, wanted.remaining, "{:?}", step);
            prop_assert_eq!(given.retry_after.is_some(), wanted.retry_after.is_some());
            let (retry, wanted_retry) = (given.retry_after.unwrap_or_default(), wanted.retry_after.unwrap_or_default());
            prop_assert!(close(retry, wanted_retry, slack), "{retry:?} {wanted_retry:?} ± {slack}");
            prop_assert!(
                close(given.reset_after, wanted.reset_after, slack),
                "{:?} {:?} ± {}", given.reset_after, wanted.reset_after, slack
            );
        }
    }

    /// Where doubles are exact, so is the engine: at a rate of a million a second divided by a power of two, and at
    /// instants on whole microseconds, every amount is a multiple of 1/64, and every field of every answer is equal,
    /// with no tolerance at all.
    #[test]
    fn doubles_that_are_exact_answer_exactly(
        algorithm in buckets(),
        halvings in 0_u32..=6,
        burst in 1_u64..1_000_000,
        moves in prop::collection::vec((0_u8..8, cost(), 0_u64..2_000_000, any::<bool>()), 1..24),
    ) {
        let quota = Quota::per_second(1_000_000_u64 >> halvings).burst(burst).algorithm(algorithm).build().unwrap();
        let mut walk = Walk::new(quota, Timestamp::from_secs(NOON.as_nanos() / 1_000_000_000));
        let mut model = Model::new(quota);
        for (kind, cost, micros, large) in moves {
            let cost = if large { cost * burst / 13 } else { cost };
            let now = walk.now;
            let (given, wanted) = match kind {
                0 => {
                    let charged_at = super::support::before(now, Nanos::from_nanos(micros / 2 * 1_000));
                    let wanted = model.refund(Cost::new(cost), charged_at, now);
                    (walk.key.refund_of(cost, charged_at, now), wanted)
                }
                1 if large => {
                    let (debited, wanted) = (walk.key.debit(cost * 3, now), model.debit(Cost::new(cost * 3), now));
                    prop_assert_eq!(debited.1, wanted.1);
                    (debited.0, wanted.0)
                }
                1 => (walk.key.peek(cost, now), model.peek(Cost::new(cost), now)),
                2 if large => {
                    walk.now = super::support::before(now, Nanos::from_nanos(micros * 1_000));
                    continue;
                }
                2 | 3 => {
                    walk.now = now + Nanos::from_nanos(micros * 1_000);
                    continue;
                }
                _ => (walk.key.take(cost, now), model.try_acquire(Cost::new(cost), now)),
            };
            same(given, wanted, now).map_err(TestCaseError::fail)?;
        }
    }
}

/// The tolerance is no excuse for the case that ε is there to allow: whole numbers of tokens come on time at every
/// rate, also at those that no double can hold.
#[test]
fn whole_tokens_are_there_on_time_at_every_rate() {
    for (algorithm, seconds) in [
        (Algorithm::TokenBucket, 1),
        (Algorithm::LeakyBucket, 1),
        (Algorithm::TokenBucket, 60),
        (Algorithm::LeakyBucket, 60),
    ] {
        for count in 1..=200_u64 {
            let period = Duration::from_secs(seconds);
            let quota = Quota::per(count, period).burst(200).algorithm(algorithm).build().unwrap();
            let mut key = Key::fresh(quota);
            assert!(key.take(200, NOON).allowed);
            for cost in 1..=200_u64 {
                // The first whole nanosecond at which so many have come: rounded up, as every wait is.
                let nanos = seconds * 1_000_000_000;
                let wait = Nanos::from_nanos((cost * nanos).div_ceil(count));
                // That of the rounding, and the time in which two ε come.
                let early = wait.saturating_sub(Nanos::from_nanos(2 + (2 * seconds).div_ceil(count)));
                assert!(key.peek(cost, NOON + wait).allowed, "{quota}: {cost} after {wait}");
                assert!(!key.peek(cost, NOON + early).allowed, "{quota}: {cost} after {early}");
            }
        }
    }
}
