//! A store that is full of live keys: what is known keeps its answers, whatever floods in.

use ratekeeper::port::{Request, Store};
use ratekeeper::store::{OnFull, SnapshotError};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Cost, Decision, Key, MemoryStore, Nanos, Plan, Quota, Reason, Rules, Timestamp};

pub(crate) const POLICIES: [OnFull; 2] = [OnFull::Refuse, OnFull::Share];

pub(crate) fn clock() -> FakeClock {
    FakeClock::at(Timestamp::from_secs(1_761_884_055))
}

pub(crate) fn acquire(store: &MemoryStore, key: &str, rules: Rules<'_>) -> Decision {
    store.acquire(Request::new(Key::new(key).unwrap(), rules, Cost::ONE)).now().unwrap().unwrap()
}

pub(crate) fn quota(text: &str) -> Quota {
    text.parse().unwrap()
}

/// A key with any live state is a known key. (Once the state of its short rule was fresh and evicted, it counted as
/// new although its daily state lived: it was refused, or sent to the shared state, which admitted beyond the daily
/// quota: 43,760 of 30,000.)
#[test]
fn a_flood_changes_no_answer_of_a_known_key_under_several_rules() {
    for policy in POLICIES {
        for rules in [
            "5/s; daily=30/day",
            "5/s fixed; daily=30/day log",
            "5/s log; 10 per 2s bucket; daily=30/day sliding",
        ] {
            let plan = Plan::parse("plan", rules).unwrap();
            let held_to = Rules::Plan(&plan);
            let clock = clock();
            let keys: Vec<String> = (0..100).map(|key| format!("known:{key}")).collect();
            let room = keys.len() * plan.rules().len();
            let flooded = MemoryStore::builder().max_keys(room).on_full(policy).clock(clock.clone()).build();
            let quiet = MemoryStore::builder().clock(clock.clone()).build();
            let mut admitted = 0;
            for round in 0..50 {
                for key in &keys {
                    let expected = acquire(&quiet, key, held_to);
                    let found = acquire(&flooded, key, held_to);
                    assert_eq!(found, expected, "{policy:?}, {plan}: {key} in round {round}");
                    admitted += u64::from(found.allowed);
                    // What a peek tells is no other.
                    let request = Request::new(Key::new(key).unwrap(), held_to, Cost::ONE);
                    let peek = |store: &MemoryStore| store.peek(request).now().unwrap().unwrap();
                    assert_eq!(peek(&flooded), peek(&quiet), "{policy:?}, {plan}: {key} in round {round}");
                }
                // The short rules' states are fresh again, and others take their places.
                clock.advance(Nanos::from_secs(3));
                let others = quota("1/h");
                for other in 0..500 {
                    let decision =
                        acquire(&flooded, &format!("other:{round}:{other}"), Rules::Quota(&others));
                    let reason = match (decision.allowed, policy) {
                        (true, _) => Reason::WithinQuota,
                        (false, OnFull::Refuse) => Reason::StoreFull,
                        (false, _) => Reason::QuotaExceeded,
                    };
                    assert_eq!(decision.reason, reason, "{policy:?}, {plan}: {decision:?}");
                }
            }
            assert_eq!(admitted, 30 * keys.len() as u64, "{policy:?}, {plan}");
            // Known keys may have a place more than there are, for each of their rules; nobody else may, and what they
            // leave goes to nobody.
            let most = 2 * room + 2;
            assert!(flooded.len() <= most, "{policy:?}, {plan}: {} of {most}", flooded.len());
        }
    }
}

/// The same with real time: the day's quota is admitted, and nothing beyond it, while the store is flooded from all
/// sides.
#[test]
fn a_flood_admits_nothing_beyond_the_daily_rule() {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    /// The place of the daily rule in the plan.
    const DAILY: u16 = 1;
    for policy in POLICIES {
        let plan = Plan::parse("plan", "5 per 1ms; daily=50/day").unwrap();
        let keys: Vec<String> = (0..200).map(|key| format!("known:{key}")).collect();
        let store = MemoryStore::builder().max_keys(2 * keys.len()).on_full(policy).build();
        for key in &keys {
            assert!(acquire(&store, key, Rules::Plan(&plan)).allowed);
        }
        let (done, admitted) = (AtomicBool::new(false), AtomicU64::new(keys.len() as u64));
        let others = quota("1/h");
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (store, done, others) = (&store, &done, &others);
                scope.spawn(move || {
                    for other in 0.. {
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                        acquire(store, &format!("other:{thread}:{other}"), Rules::Quota(others));
                    }
                });
            }
            let askers: Vec<_> = keys
                .chunks(50)
                .map(|keys| {
                    let (store, plan, admitted) = (&store, &plan, &admitted);
                    scope.spawn(move || {
                        for round in 0..100_000 {
                            let mut used_up = true;
                            for key in keys {
                                let decision = acquire(store, key, Rules::Plan(plan));
                                assert_ne!(decision.reason, Reason::StoreFull, "{policy:?}: {key} is known");
                                admitted.fetch_add(u64::from(decision.allowed), Ordering::Relaxed);
                                used_up &= !decision.allowed && decision.rule == DAILY;
                            }
                            if used_up && round >= 400 {
                                break;
                            }
                        }
                    })
                })
                .collect();
            let outcomes: Vec<_> = askers.into_iter().map(|asker| asker.join()).collect();
            done.store(true, Ordering::Relaxed);
            outcomes.into_iter().for_each(|outcome| outcome.unwrap());
        });
        let admitted = admitted.into_inner();
        assert_eq!(admitted, 50 * keys.len() as u64, "{policy:?}");
    }
}

/// A denied request writes nothing, so it cannot wipe what another quota of the same key has used. (Drained `5 per
/// hour`, denied under `100 per second`, and 1.1 seconds later 5 of 5 passed again.)
#[test]
fn a_denial_wipes_no_other_quota_of_the_key() {
    const BUCKETS: [&str; 5] = ["100/s", "7/s burst 1", "1 per 1ms", "1/m", "1000/day burst 1"];
    const WINDOWS: [&str; 5] = ["100/s", "1 per 1ms", "1/m", "1/h", "1000/day"];
    for algorithm in ["gcra", "bucket", "leaky", "fixed", "sliding", "log"] {
        let counts_in_windows = quota(&format!("1/s {algorithm}")).algorithm().counts_in_windows();
        for other in if counts_in_windows { WINDOWS } else { BUCKETS } {
            let hourly = quota(&format!("5/h {algorithm}"));
            let other = quota(&format!("{other} {algorithm}"));
            let clock = clock();
            let asked = MemoryStore::builder().clock(clock.clone()).build();
            let left_alone = MemoryStore::builder().clock(clock.clone()).build();
            for store in [&asked, &left_alone] {
                assert!((0..5).all(|_| acquire(store, "ip:1", Rules::Quota(&hourly)).allowed));
            }
            // Whatever passes is no denial and changes what is left: of a length of its own, it drains first.
            let peek = |store: &MemoryStore, quota| {
                let request = Request::new(Key::new("ip:1").unwrap(), Rules::Quota(quota), Cost::ONE);
                store.peek(request).now().unwrap().unwrap()
            };
            for step in [0, 1, 10, 1_100, 60_000, 600_000] {
                clock.advance(Nanos::from_millis(step));
                for _ in 0..3 {
                    if !peek(&asked, &other).allowed {
                        assert!(!acquire(&asked, "ip:1", Rules::Quota(&other)).allowed);
                    }
                }
                let (found, expected) = (peek(&asked, &hourly), peek(&left_alone, &hourly));
                assert_eq!(found, expected, "{hourly} after a denial under {other}, {step} ms later");
            }
        }
    }
}

/// The same over the verb that takes what it can.
#[test]
fn a_partial_grant_of_nothing_wipes_no_other_quota_of_the_key() {
    let (hourly, other) = (quota("5/h"), quota("100/s"));
    let clock = clock();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    assert!((0..5).all(|_| acquire(&store, "ip:1", Rules::Quota(&hourly)).allowed));
    let request = Request::new(Key::new("ip:1").unwrap(), Rules::Quota(&other), Cost::ONE);
    let grant = store.acquire_up_to(request, Cost::new(3)).now().unwrap().unwrap();
    assert_eq!(grant.granted, Cost::ZERO);
    let wait = grant.decision.retry_after;
    assert!(wait > Some(Nanos::from_secs(3_598)), "up to the hour: {:?}", grant.decision);
    clock.advance(Nanos::from_millis(1_100));
    let denied = acquire(&store, "ip:1", Rules::Quota(&hourly));
    assert_eq!(denied.retry_after, Some(Nanos::from_millis(720_000 - 1_100)));
}

/// A full store is restored from its own snapshot, whatever overflowed. (`found: 101, max_keys: 100`.)
#[test]
fn a_full_store_is_restored_from_its_own_snapshot() {
    for policy in POLICIES {
        let clock = clock();
        let builder = || MemoryStore::builder().max_keys(100).on_full(policy).clock(clock.clone());
        let store = builder().build();
        let quotas: Vec<Quota> =
            ["3/h", "3/h bucket", "3/h log", "3/h fixed"].into_iter().map(quota).collect();
        let plan = Plan::parse("plan", "5/s; daily=30/day").unwrap();
        // Known keys that lost the place of a short rule come back to it beyond the bound.
        for key in 0..50 {
            acquire(&store, &format!("known:{key}"), Rules::Plan(&plan));
        }
        clock.advance(Nanos::from_secs(2));
        for key in 0..300 {
            for quota in &quotas {
                acquire(&store, &format!("key:{key}"), Rules::Quota(quota));
            }
        }
        for key in 0..50 {
            acquire(&store, &format!("known:{key}"), Rules::Plan(&plan));
        }
        let snapshot = store.snapshot();
        let smaller = MemoryStore::builder().max_keys(50).clock(clock.clone()).restore(&snapshot);
        let too_many = SnapshotError::TooManyKeys { found: store.len() as u64, max_keys: 50 };
        assert_eq!(smaller.unwrap_err(), too_many, "{policy:?}: what overflowed counts");
        let restored = builder().restore(&snapshot);
        let restored = restored.unwrap_or_else(|error| panic!("{policy:?}: {error}"));
        assert_eq!(restored.len(), store.len(), "{policy:?}");
        for key in 0..301 {
            for quota in &quotas {
                let key = format!("key:{key}");
                let expected = acquire(&store, &key, Rules::Quota(quota));
                assert_eq!(acquire(&restored, &key, Rules::Quota(quota)), expected, "{policy:?}: {key}");
            }
        }
        for key in 0..50 {
            let key = format!("known:{key}");
            let expected = acquire(&store, &key, Rules::Plan(&plan));
            assert_eq!(acquire(&restored, &key, Rules::Plan(&plan)), expected, "{policy:?}: {key}");
        }
    }
}
