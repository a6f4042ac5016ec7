//! Partial grants: stores against the reference model, on random plans with shadow rules.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use ratekeeper::port::{Answer, Clock, Request, Store};
use ratekeeper::testkit::model::{ModelAnswer, PlanAnswer, PlanModel};
use ratekeeper::testkit::{FakeClock, MemoryValues};
use ratekeeper::{
    Algorithm, Amounts, Anchor, Calendar, CalendarUnit, CasStore, Charged, Cost, Decision, Keeper, Key,
    MemoryStore, Name, Nanos, Plan, Quota, Reason, Registry, Rule, Rules, Timestamp, Zone,
};

const START: Timestamp = Timestamp::from_nanos(1_761_912_000_123_456_789);

/// What happens to the key.
#[derive(Clone, Debug)]
enum Step {
    /// At least, and at most.
    UpTo(u64, u64),
    Take(u64),
    Debit(u64),
    /// So much of an earlier grant comes back.
    GiveBack(prop::sample::Index, u64),
    Wait(u64),
}

/// Quotas on integers, which can be asked exactly.
fn quota() -> impl Strategy<Value = Quota> {
    let calendar = |unit| Algorithm::FixedWindow(Anchor::Calendar(Calendar::new(unit, Zone::UTC)));
    let algorithms = vec![
        Algorithm::Gcra,
        Algorithm::FIXED,
        Algorithm::FixedWindow(Anchor::Grid),
        calendar(CalendarUnit::Minute),
        calendar(CalendarUnit::Month),
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
    ];
    let period = prop_oneof![Just(60_000_000_000), 50_u64..5_000_000_000];
    (prop::sample::select(algorithms), 1_u64..=40, 1_u64..=40, period).prop_map(
        |(algorithm, count, burst, period)| {
            let (burst, period) = match algorithm {
                Algorithm::Gcra => (burst, Duration::from_nanos(period)),
                Algorithm::FixedWindow(Anchor::Calendar(calendar)) => {
                    (count, Duration::from(calendar.unit().nominal()))
                }
                _ => (count, Duration::from_nanos(period)),
            };
            Quota::per(count, period).burst(burst).algorithm(algorithm).build().unwrap()
        },
    )
}

fn rules() -> impl Strategy<Value = Vec<(Quota, bool)>> {
    let is_shadow = prop_oneof![4 => Just(false), 1 => Just(true)];
    prop::collection::vec((quota(), is_shadow), 1..=4)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cost = || prop_oneof![4 => 0_u64..=9, 3 => 0_u64..=45, 1 => any::<u64>()];
    let span = prop_oneof![0_u64..100, 0_u64..3_000_000_000, 0_u64..90_000_000_000];
    let step = prop_oneof![
        8 => (cost(), cost()).prop_map(|(least, most)| Step::UpTo(least, most)),
        2 => cost().prop_map(Step::Take),
        1 => (0_u64..=60).prop_map(Step::Debit),
        4 => (any::<prop::sample::Index>(), 1_u64..=40).prop_map(|(which, part)| Step::GiveBack(which, part)),
        5 => span.prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..40)
}

/// Returns the answer of a store that has nobody to wait for.
fn now<T>(answer: Answer<'_, T>) -> T {
    let mut answer = std::pin::pin!(answer);
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer.unwrap(),
        Poll::Pending => panic!("it waits for nobody"),
    }
}

fn same(found: Decision, expected: &PlanAnswer) -> Result<(), TestCaseError> {
    prop_assert_eq!(ModelAnswer::from(found), expected.all);
    prop_assert_eq!(usize::from(found.rule), expected.rule);
    Ok(())
}

/// Walks a store and the model through the same steps.
fn walk(
    store: &dyn Store,
    clock: &FakeClock,
    rules: &[(Quota, bool)],
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let mut model = PlanModel::new(rules.iter().map(|(quota, is_shadow)| (*quota, is_shadow.then_some(0))));
    let rule = |(index, (quota, is_shadow)): (usize, &(Quota, bool))| {
        let rule = Rule::new(Name::new(&format!("rule{index}")).unwrap(), *quota);
        if *is_shadow { rule.shadow() } else { rule }
    };
    let plan = Plan::new(Name::new("plan").unwrap(), rules.iter().enumerate().map(rule)).unwrap();
    let ask = |cost| Request::new(Key::new("key").unwrap(), Rules::Plan(&plan), Cost::new(cost));
    let each = |cost| vec![Cost::new(cost); rules.len()];
    let mut outstanding: Vec<(Timestamp, u64)> = Vec::new();
    for step in steps {
        let at = clock.now();
        match step {
            Step::UpTo(least, most) => {
                let expected = model.try_acquire_up_to(Cost::new(*least), Cost::new(*most), at);
                let found = now(store.acquire_up_to(ask(*least), Cost::new(*most)));
                prop_assert_eq!((found.granted, found.at), (expected.granted, at));
                prop_assert_eq!(found.ends, expected.ends);
                same(found.decision, &expected.answer)?;
                same(found.next, &expected.next)?;
                prop_assert_eq!(found.next, now(store.peek(ask(1))), "what comes next is a peek");
                outstanding.push((at, found.granted.get()));
            }
            Step::Take(cost) => same(now(store.acquire(ask(*cost))), &model.try_acquire(&each(*cost), at))?,
            Step::Debit(cost) => {
                same(now(store.debit(ask(*cost))).decision, &model.debit(&each(*cost), at).0)?;
            }
            Step::GiveBack(which, part) => {
                if outstanding.is_empty() {
                    continue;
                }
                let which = which.index(outstanding.len());
                let (granted_at, left) = &mut outstanding[which];
                let part = (*left).min(*part);
                *left -= part;
                let expected = model.refund(&each(part), *granted_at, at);
                same(now(store.refund(ask(part), Charged::at(*granted_at))), &expected)?;
            }
            Step::Wait(nanos) => clock.advance(Nanos::from_nanos(*nanos)),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(test_support::cases::config(1_500))]

    /// The store in memory grants as much as the law says, and tells what comes next.
    #[test]
    fn in_memory_it_is_as_the_law_words_it(rules in rules(), steps in steps()) {
        let clock = FakeClock::at(START);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        walk(&store, &clock, &rules, &steps)?;
    }

    /// So does the store that compares and sets.
    #[test]
    fn by_compare_and_set_it_is_as_the_law_words_it(rules in rules(), steps in steps()) {
        let clock = FakeClock::at(START);
        let store = CasStore::new(MemoryValues::new(clock.clone())).clock(clock.clone());
        walk(&store, &clock, &rules, &steps)?;
    }
}

/// One more of a key that is new finds no room in a full store, and is told so.
#[test]
fn what_comes_next_may_find_no_room() {
    let clock = FakeClock::at(START);
    let store = MemoryStore::builder().max_keys(1).clock(clock.clone()).build();
    let quota: Quota = "5/h".parse().unwrap();
    let ask = |key, cost| Request::new(Key::new(key).unwrap(), Rules::Quota(&quota), Cost::new(cost));
    assert!(now(store.acquire(ask("old", 1))).allowed);
    let full = now(store.acquire_up_to(ask("new", 1), Cost::new(3)));
    assert_eq!((full.granted, full.decision.reason, full.at), (Cost::ZERO, Reason::StoreFull, START));
    assert_eq!(full.next, now(store.peek(ask("new", 1))));
    let never = now(store.acquire_up_to(ask("new", 6), Cost::new(9)));
    assert_eq!((never.granted, never.decision.reason), (Cost::ZERO, Reason::NeverFits));
    assert_eq!((never.next.allowed, never.next.reason), (false, Reason::StoreFull));
    let known = now(store.acquire_up_to(ask("old", 6), Cost::new(9)));
    assert_eq!((known.granted, known.next.allowed, known.next.remaining), (Cost::ZERO, true, 4));
}

/// The keeper asks for at least one, as it always did, however the number of requests is named.
#[tokio::test]
async fn the_keepers_verb_is_partial_from_one() {
    let clock = FakeClock::at(START);
    let plans =
        Registry::new([Plan::parse("free", "5/h").unwrap(), Plan::parse("llm", "9 tokens/h").unwrap()]);
    let keeper = Keeper::new(MemoryStore::builder().clock(clock).build(), plans);
    let granted = async |amounts: Amounts<'_>| {
        keeper
            .acquire_up_to("user", "free", amounts)
            .await
            .map(|ruling| (ruling.granted().get(), ruling.remaining))
    };
    assert_eq!(granted(Amounts::from(0)).await.unwrap(), (0, 5));
    assert_eq!(granted(Amounts::of(&[("requests", 3)])).await.unwrap(), (3, 2));
    assert_eq!(granted(Amounts::from(9)).await.unwrap(), (2, 0));
    let refused = keeper.acquire_up_to("user", "free", 9).await.unwrap();
    let hour = Nanos::from_secs(3_600 / 5);
    assert_eq!((refused.allowed, refused.retry_after), (false, Some(hour)), "the wait of one");
    let message = |error: ratekeeper::keeper::KeeperError| error.to_string();
    let uncounted = granted(Amounts::of(&[("tokens", 1)])).await.map_err(message).unwrap_err();
    assert!(uncounted.contains("tokens: counted by no rule"), "{uncounted}");
    let tokens = Amounts::of(&[("tokens", 1)]);
    let in_part = keeper.acquire_up_to("user", "llm", tokens).await.map_err(message).unwrap_err();
    assert!(in_part.contains("tokens"), "{in_part}");
}
