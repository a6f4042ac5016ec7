//! What is examined, and in which order.

use std::sync::Arc;

use super::bench::Bench;
use super::changes::a_changed_quota_keeps_its_state;
use super::charges;
use super::debits::a_debt_is_told_at_once;
use super::grants;
use super::holds;
use super::keys::{keys_are_forgotten_by_how_they_start, keys_do_not_share};
use super::shares::{amounts_that_make_no_sense_are_refused, each_rule_counts_its_own_unit};
use super::waits::waiting_is_exact;
use super::walks::random_walk;
use crate::{Plan, Quota, Rules};

/// Every algorithm, small and large, fast and slow.
const QUOTAS: [&str; 14] = [
    "10/m burst 5",
    "100/s",
    "7/m burst 3",
    "5/s burst 12 bucket",
    "100/m bucket",
    "3/s leaky",
    "1000/m burst 40 leaky",
    "6 per 10s fixed",
    "4 per 7s fixed grid",
    "9/minute fixed calendar",
    "8 per 10s sliding",
    "50/m sliding",
    "5 per 3s log",
    "20/m log",
];

/// Plans of several rules, in which each rule is at times the one that binds.
const PLANS: [&str; 4] = [
    "a=5/s burst 9; b=20/m",
    "a=5/s bucket; b=30/m fixed; c=12 per 20s sliding",
    "a=4/s leaky; b=10 per 7s log; c=40/m burst 15",
    "a=6 per 5s fixed; b=20/m fixed grid; c=100/h fixed calendar",
];

/// Examines the store; panics with what was asked, what was answered and what would have been right.
///
/// The store must be there for this alone: if it [forgets by prefix](crate::port::Store::forget), it is emptied.
pub async fn check(bench: &Bench<'_>) {
    for (index, text) in QUOTAS.iter().enumerate() {
        let quota: Quota = text.parse().expect("a quota of the suite");
        random_walk(bench, Rules::Quota(&quota), &format!("quota {text}"), 40 + index as u64).await;
        waiting_is_exact(bench, &quota, &format!("wait {text}")).await;
        a_debt_is_told_at_once(bench, &quota, &format!("owe {text}")).await;
        grants::the_least_is_waited_for(bench, &quota, &format!("least {text}")).await;
    }
    let plans = PLANS.iter().enumerate().map(|(index, text)| {
        Arc::new(Plan::parse(&format!("plan{index}"), text).expect("a plan of the suite"))
    });
    let plans: Vec<Arc<Plan>> = plans.collect();
    for (index, plan) in plans.iter().enumerate() {
        random_walk(bench, Rules::Plan(plan), &format!("plan {plan}"), 90 + index as u64).await;
    }
    if bench.several_plans {
        random_walk(bench, Rules::Plans(&plans[..2]), "two plans", 190).await;
        random_walk(bench, Rules::Plans(&plans), "four plans", 191).await;
    }
    each_rule_counts_its_own_unit(bench).await;
    amounts_that_make_no_sense_are_refused(bench).await;
    grants::check(bench).await;
    keys_do_not_share(bench).await;
    keys_are_forgotten_by_how_they_start(bench).await;
    a_changed_quota_keeps_its_state(bench).await;
    check_holds(bench).await;
    check_charges(bench).await;
}

/// Examines the charges of several keys alone: a part of what [`check`] does. A store that charges one key at a time says so,
/// and that will do.
pub async fn check_charges(bench: &Bench<'_>) {
    charges::check(bench).await;
}

/// Examines the holds of a store alone: a part of what [`check`] does. A store without any says so, and that will do.
pub async fn check_holds(bench: &Bench<'_>) {
    holds::check(bench).await;
}
