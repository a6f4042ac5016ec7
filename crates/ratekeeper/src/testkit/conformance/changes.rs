//! Quotas that change on live state.

use super::bench::Bench;
use crate::port::Request;
use crate::{Cost, Key, Plan, Rules};

/// A quota may change on live state: it is kept, read under the new quota, and never refilled.
pub(super) async fn a_changed_quota_keeps_its_state(bench: &Bench<'_>) {
    let changes = [
        ("10/h", "4/h"),
        ("10/h bucket", "4/h bucket"),
        ("10/h leaky", "4/h leaky"),
        ("10/h fixed", "4/h fixed"),
    ];
    for (before, after) in changes {
        let plan =
            |text: &str| Plan::parse("changing", &format!("rule={text}")).expect("a plan of the suite");
        let (old, new) = (plan(before), plan(after));
        let key = format!("changed {before}");
        let request = |plan, cost| {
            Request::new(Key::new(&key).expect("a key of the suite"), Rules::Plan(plan), Cost::new(cost))
        };
        assert!(bench.store.acquire(request(&old, 10)).await.expect("an answer").allowed, "{before}");
        let lowered = bench.store.acquire(request(&new, 1)).await.expect("an answer");
        assert!(!lowered.allowed, "{before} → {after}: refilled by the change: {lowered:?}");
        assert_eq!(lowered.remaining, 0, "{before} → {after}");
    }
}
