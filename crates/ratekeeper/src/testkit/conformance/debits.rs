//! What is charged without asking.

use super::bench::Bench;
use super::suite_model::SuiteModel;
use crate::port::Request;
use crate::{Cost, Key, Quota, Rules, StoreErrorKind};

/// A key that is refused all the time, which a store may remember, is told of a debt as soon as it has one, and of its end. A
/// store that has no debts says so.
pub(super) async fn a_debt_is_told_at_once(bench: &Bench<'_>, quota: &Quota, name: &str) {
    let key = Key::new(name).expect("a key of the suite");
    let rules = Rules::Quota(quota);
    let (mut model, request) = (SuiteModel::of(rules), |cost| Request::new(key, rules, Cost::new(cost)));
    for debited in [0, 1, quota.burst(), u64::MAX] {
        let debit = request(debited);
        let expected = model.debit(&debit, (bench.now)());
        match bench.store.debit(debit).await {
            Ok(standing) => {
                assert_eq!(standing.decision, expected.decision, "{name}, {debited} debited");
                assert_eq!(standing.forgiven, expected.forgiven, "{name}, {debited} debited");
            }
            Err(error) => return assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{name}: {error}"),
        }
        for _ in 0..bench.share_of(40) {
            let now = (bench.now)();
            let (one, all) = (request(1), request(quota.burst()));
            let expected = [model.charge(&one, now).decision, model.charge(&all, now).decision];
            let found = [bench.store.acquire(one).await, bench.store.acquire(all).await];
            assert_eq!(found.map(|decision| decision.expect(name)), expected, "{name}, {debited} debited");
        }
        (bench.advance)(bench.resolution);
    }
}
