//! The bound through the keeper: plans of one rule and of several, several plans, and quotas that come with requests.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use ratekeeper::keeper::HeldTo;
use ratekeeper::{Cost, Keeper, Key, MemoryStore, Plan, Quota, Registry};

use crate::hostile::threads::{CALLS, REFILLS, share_of};
use test_support::bound::{ALGORITHMS, Bound};
use test_support::crowd::{Findings, SIZES, crowd};

/// Returns the answer of a store in memory, which is never pending.
fn ready<T>(answer: impl Future<Output = T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the store in memory answers at once"),
    }
}

fn bounds(plans: &[&Plan]) -> Vec<Bound> {
    plans.iter().flat_map(|plan| plan.rules()).map(|rule| Bound::of(rule.quota())).collect()
}

/// Attacks by awaiting the verb and by asking it `now`, by turns.
fn attack(findings: &mut Findings, name: &str, keeper: &Keeper, held_to: HeldTo<'_>, bounds: &[Bound]) {
    static CROWDS: AtomicUsize = AtomicUsize::new(0);
    let turn = CROWDS.fetch_add(1, Ordering::Relaxed);
    let threads = SIZES[turn % SIZES.len()];
    let key = Key::new("everybody's").unwrap();
    let admitted = crowd(threads, share_of(CALLS), |_, random| {
        let ruling = if random.once_in(2) {
            ready(keeper.acquire(key, held_to, Cost::ONE).into_future()).unwrap()
        } else {
            keeper.acquire(key, held_to, Cost::ONE).now().unwrap().unwrap()
        };
        u64::from(ruling.allowed)
    });
    findings.check(&format!("{name}, {threads} threads"), bounds, &admitted);
}

#[test]
fn plans_of_one_rule() {
    let mut findings = Findings::default();
    for refill in REFILLS {
        for algorithm in ALGORITHMS {
            let plan = Plan::parse("plan", &format!("{refill} {algorithm}")).unwrap();
            let bounds = bounds(&[&plan]);
            let keeper = Keeper::new(MemoryStore::default(), Registry::new([plan.clone()]));
            attack(&mut findings, &format!("plan {plan}"), &keeper, HeldTo::Plan("plan"), &bounds);
        }
    }
    findings.none();
}

/// All rules bind at once: whatever is minted in one of them is seen where that one binds.
#[test]
fn plans_of_several_rules() {
    let mut findings = Findings::default();
    for rules in [
        "a=5 per 1ms; b=600/m",
        "a=20 per 10ms leaky; b=100 per 100ms sliding",
        "a=5 per 1ms log; b=300/s bucket; c=600/m fixed",
        "a=5 per 1ms fixed; b=20 per 10ms fixed grid; c=100 per 100ms",
        "a=5 per 1ms; b=5 per 1ms bucket; c=5 per 1ms leaky; d=5 per 1ms sliding; e=5 per 1ms log",
    ] {
        let plan = Plan::parse("plan", rules).unwrap();
        let bounds = bounds(&[&plan]);
        let keeper = Keeper::new(MemoryStore::default(), Registry::new([plan.clone()]));
        attack(&mut findings, &format!("plan {plan}"), &keeper, HeldTo::Plan("plan"), &bounds);
    }
    findings.none();
}

#[test]
fn several_plans() {
    let mut findings = Findings::default();
    for (one, other) in [("5 per 1ms", "100 per 100ms log"), ("300/s sliding", "20 per 10ms bucket; 600/m")] {
        let plans = [Plan::parse("one", one).unwrap(), Plan::parse("other", other).unwrap()];
        let bounds = bounds(&[&plans[0], &plans[1]]);
        let keeper = Keeper::new(MemoryStore::default(), Registry::new(plans));
        let held_to = HeldTo::Plans(&["one", "other"]);
        attack(&mut findings, &format!("plans {one} and {other}"), &keeper, held_to, &bounds);
    }
    findings.none();
}

#[test]
fn quotas_of_requests() {
    let mut findings = Findings::default();
    for refill in REFILLS {
        for algorithm in ALGORITHMS {
            let quota: Quota = format!("{refill} {algorithm}").parse().unwrap();
            let keeper = Keeper::new(MemoryStore::default(), Registry::default());
            let bounds = [Bound::of(&quota)];
            attack(&mut findings, &format!("quota {quota}"), &keeper, HeldTo::Quota(&quota), &bounds);
        }
    }
    findings.none();
}
