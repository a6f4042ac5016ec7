//! Plans whose rules count different units, and rules in shadow.

use std::sync::Arc;

use super::bench::Bench;
use super::walks::random_walk;
use crate::port::Request;
use crate::{Cost, Key, Plan, Rules, StoreErrorKind};

/// Every algorithm counts something else than requests in one of them, and is in shadow in one.
fn plans() -> Vec<Arc<Plan>> {
    let units = |name: &str, text: &str| Plan::parse(name, text);
    let shadow = |name: &str, texts: [&'static str; 2], shadow: [&'static str; 2]| {
        Plan::with_shadow(name, texts, shadow)
    };
    let plans = [
        units("units0", "a=20/m; b=100 tokens/m burst 60; c=40 bytes per 10s fixed"),
        shadow(
            "units1",
            ["a=6/s burst 9 bucket", "b=50 tokens/m leaky"],
            ["c=3/s", "d=30 tokens per 20s sliding"],
        ),
        shadow(
            "units2",
            ["a=12 per 10s log", "b=90 tokens/m sliding"],
            ["c=40 tokens per 7s log", "d=9/m bucket"],
        )
        .and_then(|plan| plan.assume("tokens", 3)),
        units("units3", "a=4/s leaky; b=15/m fixed; c=60 bytes/m fixed grid; d=80 bytes/m bucket")
            .map(Plan::shadow),
    ];
    plans.into_iter().map(|plan| Arc::new(plan.expect("a plan of the suite"))).collect()
}

/// Each rule is charged what it counts, all that bind or none; rules in shadow are charged on their own and change no answer.
pub(super) async fn each_rule_counts_its_own_unit(bench: &Bench<'_>) {
    let plans = plans();
    for (index, plan) in plans.iter().enumerate() {
        random_walk(bench, Rules::Plan(plan), &format!("units {plan}"), 290 + index as u64).await;
    }
    if bench.several_plans {
        random_walk(bench, Rules::Plans(&plans[..2]), "units of two plans", 390).await;
        random_walk(bench, Rules::Plans(&plans), "units of four plans", 391).await;
    }
}

/// Amounts that the rules cannot be asked for are refused, whatever is asked, and nothing is taken.
pub(super) async fn amounts_that_make_no_sense_are_refused(bench: &Bench<'_>) {
    let plan = Plan::parse("refused", "a=20/m; b=100 tokens/m").expect("a plan of the suite");
    let key = Key::new("units that are wrong").expect("a key of the suite");
    let request = |units| Request { key, rules: Rules::Plan(&plan), cost: Cost::ONE, units };
    let wrong: [&[(&str, u64)]; 5] = [
        &[],
        &[("bytes", 1)],
        &[("tokens", 1), ("bytes", 1)],
        &[("tokens", 1), ("tokens", 1)],
        &[("tokens", 1 << 63)],
    ];
    for units in wrong {
        let (request, store) = (request(units), bench.store);
        let answers = [
            store.acquire(request).await.err(),
            store.acquire_up_to(request, Cost::ONE).await.err(),
            store.acquire_each(request).await.err(),
            store.peek(request).await.err(),
            store.debit(request).await.err(),
            store.refund(request, crate::Charged::NOW).await.err(),
        ];
        for error in answers {
            let error = error.unwrap_or_else(|| panic!("{units:?}: answered as if it made sense"));
            assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{units:?}: {error}");
        }
    }
    let untouched = bench.store.peek(request(&[("tokens", 0)])).await.expect("an answer");
    assert_eq!(untouched.remaining, 20, "something was taken: {untouched:?}");
}
