//! Random histories, asked of the engine and of the reference model: equal answers, field by field.

use proptest::prelude::*;
use ratekeeper::testkit::model::Model;
use ratekeeper::{Cost, Nanos, Quota};

use super::support::draw::{Step, Walk, any_step, quota_of_integers, start};
use super::support::{before, same};

/// One step of both, and whether they answer the same.
fn compare(walk: &mut Walk, model: &mut Model, step: Step) -> Result<(), TestCaseError> {
    let (now, key) = (walk.now, &mut walk.key);
    let check = |given, wanted| {
        same(given, wanted, now).map_err(|error| TestCaseError::fail(format!("{step:?}\n{error}")))
    };
    match step {
        Step::Take(cost) => {
            let decision = key.take(cost, now);
            walk.promised = decision.retry_after.unwrap_or(Nanos::ZERO);
            check(decision, model.try_acquire(Cost::new(cost), now))
        }
        Step::TakeUpTo(least, most) => {
            let (granted, decision) = key.take_up_to(least, most, now);
            let (wanted, answer) = model.try_acquire_up_to(Cost::new(least), Cost::new(most), now);
            prop_assert_eq!(granted, wanted.get());
            check(decision, answer)
        }
        Step::Debit(cost) => {
            let (decision, forgiven) = key.debit(cost, now);
            walk.promised = decision.retry_after.unwrap_or(Nanos::ZERO);
            let (wanted, beyond) = model.debit(Cost::new(cost), now);
            prop_assert_eq!(forgiven, beyond);
            check(decision, wanted)
        }
        Step::Peek(cost) => check(key.peek(cost, now), model.peek(Cost::new(cost), now)),
        Step::Refund(cost, age) => {
            let charged_at = before(now, age.under(&key.quota));
            let wanted = model.refund(Cost::new(cost), charged_at, now);
            check(key.refund_of(cost, charged_at, now), wanted)
        }
        Step::Reset => {
            model.reset();
            walk.step(step);
            Ok(())
        }
        _ => {
            walk.step(step);
            Ok(())
        }
    }
}

proptest! {
    #![proptest_config(test_support::cases::config(1_000))]

    /// Whatever happens to a key, in whatever order and with a clock that moves both ways, the engine answers what
    /// the law's own words come to.
    #[test]
    fn the_engine_answers_as_the_law_is_worded(
        quota in quota_of_integers(),
        start in start(),
        steps in prop::collection::vec(any_step(), 1..24),
    ) {
        let (mut walk, mut model) = (Walk::new(quota, start), Model::new(quota));
        for step in steps {
            compare(&mut walk, &mut model, step)?;
        }
    }

    /// So it does when the quota changes on the way, to more or to less, faster or slower.
    #[test]
    fn the_engine_answers_as_the_law_is_worded_across_reloads(
        quotas in quota_of_integers().prop_flat_map(|quota| {
            let again = move || super::support::draw::quota_of(quota.algorithm());
            (Just(quota), again(), again())
        }),
        start in start(),
        steps in prop::collection::vec((any_step(), 0..8_u8), 1..24),
    ) {
        let quotas: [Quota; 3] = quotas.into();
        let (mut walk, mut model) = (Walk::new(quotas[0], start), Model::new(quotas[0]));
        for (step, reload) in steps {
            if let Some(quota) = quotas.get(usize::from(reload)) {
                walk.key.quota = *quota;
                model.set_quota(*quota);
            }
            compare(&mut walk, &mut model, step)?;
        }
    }

    /// So it does at both ends of time, where sums do not fit.
    #[test]
    fn the_engine_answers_as_the_law_is_worded_at_the_ends_of_time(
        quota in quota_of_integers(),
        first in any::<bool>(),
        margin in 0_u64..4_000_000_000,
        steps in prop::collection::vec(any_step(), 1..16),
    ) {
        let margin = Nanos::from_nanos(margin);
        let start = if first {
            ratekeeper::Timestamp::MIN + margin
        } else {
            before(ratekeeper::Timestamp::MAX, margin)
        };
        let (mut walk, mut model) = (Walk::new(quota, start), Model::new(quota));
        for step in steps {
            compare(&mut walk, &mut model, step)?;
        }
    }
}
