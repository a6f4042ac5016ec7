//! The store in memory: bounded, flood-safe, exact under concurrency, and able to survive a restart.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use ratekeeper::port::{Request, Store};
use ratekeeper::store::{OnFull, SnapshotError};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{
    Charged, Cost, Decision, Key, MemoryStore, Nanos, Plan, Quota, Reason, Rules, StoreErrorKind, Timestamp,
};

const SECOND: Nanos = Nanos::from_secs(1);

fn clock() -> FakeClock {
    FakeClock::at(Timestamp::from_secs(1_761_884_055))
}

fn acquire(store: &MemoryStore, key: &str, quota: &Quota, cost: u64) -> Decision {
    let key = Key::new(key).unwrap();
    store.acquire(Request::new(key, Rules::Quota(quota), Cost::new(cost))).now().unwrap().unwrap()
}

fn quota(text: &str) -> Quota {
    text.parse().unwrap()
}

/// Under a flood of new keys the answers to those that are already limited do not change, the flood is refused, and
/// memory does not grow.
#[test]
fn a_flood_of_new_keys_changes_nothing_for_the_old_ones() {
    for text in ["5/h", "5/h bucket", "5/h leaky", "5/h fixed", "5/h sliding", "5/h log"] {
        let quota = quota(text);
        let store = MemoryStore::builder().max_keys(100).clock(clock()).build();
        for key in 0..100 {
            assert_eq!(acquire(&store, &format!("old:{key}"), &quota, 3).remaining, 2, "{text}");
        }
        let before = store.statistics();
        for key in 0..10_000 {
            let decision = acquire(&store, &format!("new:{key}"), &quota, 1);
            assert!(!decision.allowed && decision.reason == Reason::StoreFull, "{text}: {decision:?}");
        }
        let after = store.statistics();
        assert_eq!((after.keys, after.refused, after.bytes), (100, 10_000, before.bytes), "{text}");
        for key in 0..100 {
            assert_eq!(acquire(&store, &format!("old:{key}"), &quota, 1).remaining, 1, "{text}");
        }
    }
}

/// What has expired makes room, wherever it lies, and only what has expired.
#[test]
fn only_what_equals_a_fresh_key_is_evicted() {
    let clock = clock();
    let store = MemoryStore::builder().max_keys(50).clock(clock.clone()).build();
    let (short, long) = (quota("1/s"), quota("1/h"));
    for key in 0..49 {
        assert!(acquire(&store, &format!("long:{key}"), &long, 1).allowed);
    }
    assert!(acquire(&store, "short", &short, 1).allowed);
    clock.advance(Nanos::from_nanos(999_999_999));
    assert_eq!(acquire(&store, "new", &long, 1).reason, Reason::StoreFull);
    clock.advance(Nanos::from_nanos(1));
    assert!(acquire(&store, "new", &long, 1).allowed, "the short one has expired and makes room");
    assert_eq!(acquire(&store, "another", &long, 1).reason, Reason::StoreFull);
    for key in 0..49 {
        assert!(!acquire(&store, &format!("long:{key}"), &long, 1).allowed, "no live state was lost");
    }
    assert_eq!((store.len(), store.statistics().expired), (50, 1));
}

/// Those who find the store full share one state under the same quota.
#[test]
fn the_overflow_is_shared() {
    let store = MemoryStore::builder().max_keys(10).on_full(OnFull::Share).clock(clock()).build();
    let quota = quota("4/h");
    for key in 0..10 {
        assert!(acquire(&store, &format!("old:{key}"), &quota, 4).allowed);
    }
    let remaining: Vec<u64> =
        (0..4).map(|key| acquire(&store, &format!("new:{key}"), &quota, 1).remaining).collect();
    assert_eq!(remaining, [3, 2, 1, 0]);
    let denied = acquire(&store, "new:4", &quota, 1);
    assert_eq!((denied.allowed, denied.reason), (false, Reason::QuotaExceeded));
    assert!(!acquire(&store, "old:0", &quota, 1).allowed);
}

/// A partial grant from the shared state ends, however little is left of it. (It used to look at the key's own
/// state, which was whole, and try for ever.)
#[test]
fn a_partial_grant_from_the_overflow_takes_what_is_left_of_it() {
    let store = MemoryStore::builder().max_keys(10).on_full(OnFull::Share).clock(clock()).build();
    let quota = quota("4/h");
    for key in 0..10 {
        assert!(acquire(&store, &format!("old:{key}"), &quota, 4).allowed);
    }
    let up_to = |key| {
        let request = Request::new(Key::new(key).unwrap(), Rules::Quota(&quota), Cost::ONE);
        store.acquire_up_to(request, Cost::new(3)).now().unwrap().unwrap()
    };
    assert_eq!(up_to("new:0").granted, Cost::new(3));
    assert_eq!(up_to("new:1").granted, Cost::ONE);
    let nothing = up_to("new:2");
    assert_eq!((nothing.granted, nothing.decision.reason), (Cost::ZERO, Reason::QuotaExceeded));
}

/// A peek tells what an acquire would, also when there is no room.
#[test]
fn a_peek_at_a_full_store_is_honest() {
    for policy in [OnFull::Refuse, OnFull::Share] {
        let clock = clock();
        let store = MemoryStore::builder().max_keys(10).on_full(policy).clock(clock.clone()).build();
        let quota = quota("4/h");
        for key in 0..10 {
            acquire(&store, &format!("old:{key}"), &quota, 4);
        }
        let request = Request::new(Key::new("new").unwrap(), Rules::Quota(&quota), Cost::new(3));
        let peek = || store.peek(request).now().unwrap().unwrap();
        assert_eq!(peek().allowed, policy == OnFull::Share, "{policy:?}");
        assert_eq!(
            store.acquire(request).now().unwrap().unwrap().allowed,
            policy == OnFull::Share,
            "{policy:?}"
        );
        assert!(!peek().allowed, "{policy:?}: {:?}", peek());
        clock.advance(Nanos::from_secs(3_600));
        assert_eq!(peek().remaining, 4, "{policy:?}: all have expired");
        assert!(store.acquire(request).now().unwrap().unwrap().allowed);
    }
}

/// A plan of several rules finds room for all of them, wherever expired states lie.
#[test]
fn a_plan_evicts_as_many_as_it_needs() {
    let clock = clock();
    let store = MemoryStore::builder().max_keys(6).clock(clock.clone()).build();
    let (short, long) = (quota("1/s"), quota("1/h"));
    for key in 0..3 {
        acquire(&store, &format!("short:{key}"), &short, 1);
        acquire(&store, &format!("long:{key}"), &long, 1);
    }
    clock.advance(SECOND);
    let plan = Plan::parse("gold", "a=10/h; b=10/h bucket; c=10/h log").unwrap();
    let request = |key| Request::new(Key::new(key).unwrap(), Rules::Plan(&plan), Cost::ONE);
    assert!(store.acquire(request("new")).now().unwrap().unwrap().allowed);
    assert_eq!(store.acquire(request("another")).now().unwrap().unwrap().reason, Reason::StoreFull);
    assert_eq!(store.len(), 6);
    for key in 0..3 {
        assert!(!acquire(&store, &format!("long:{key}"), &long, 1).allowed, "no live state was lost");
    }
}

/// A state that was cut off because the clock stepped far back can be evicted when its new time comes.
#[test]
fn a_repaired_state_expires_when_it_says() {
    let clock = clock();
    let builder = || MemoryStore::builder().max_keys(1).clock(clock.clone());
    let plan = Plan::parse("gold", "1/m").unwrap();
    let ask = |store: &MemoryStore, key: &str| {
        let request = Request::new(Key::new(key).unwrap(), Rules::Plan(&plan), Cost::ONE);
        store.acquire(request).now().unwrap().unwrap()
    };
    let store = builder().build();
    assert!(ask(&store, "old").allowed);
    // The process ends, and its successor begins a day earlier. In one process time does not go back.
    clock.set(Timestamp::from_secs(1_761_884_055 - 86_400));
    assert_eq!(ask(&store, "old").retry_after, Some(Nanos::from_secs(60)));
    let store = builder().restore(&store.snapshot()).unwrap();
    assert_eq!(ask(&store, "new").reason, Reason::StoreFull);
    assert_eq!(ask(&store, "old").retry_after, Some(Nanos::from_secs(60)), "repaired");
    clock.advance(Nanos::from_secs(60));
    assert!(ask(&store, "new").allowed, "the old one has expired");
}

/// A plan whose second rule finds no room charges its first nothing.
#[test]
fn a_plan_gets_all_of_its_states_or_none() {
    let clock = clock();
    let store = MemoryStore::builder().max_keys(3).clock(clock.clone()).build();
    let plan = Plan::parse("gold", "a=10/h; b=10/h bucket").unwrap();
    let request = |key| Request::new(Key::new(key).unwrap(), Rules::Plan(&plan), Cost::ONE);
    assert!(store.acquire(request("first")).now().unwrap().unwrap().allowed);
    assert_eq!(store.len(), 2);
    let full = store.acquire(request("second")).now().unwrap().unwrap();
    assert_eq!((full.reason, store.len()), (Reason::StoreFull, 2));
    let peek =
        |cost| store.peek(Request { cost: Cost::new(cost), ..request("second") }).now().unwrap().unwrap();
    assert_eq!(peek(0).remaining, 10, "nothing was charged");
    assert_eq!(peek(1).reason, Reason::StoreFull, "one place is not enough");
}

/// Peeking, refunding and resetting what is unknown creates nothing.
#[test]
fn reading_creates_nothing() {
    let store = MemoryStore::builder().clock(clock()).build();
    for text in ["5/h", "5/h bucket", "5/h leaky", "5/h fixed", "5/h sliding", "5/h log"] {
        let quota = quota(text);
        for cost in [0, 1, 9] {
            let request = Request::new(Key::new("nobody").unwrap(), Rules::Quota(&quota), Cost::new(cost));
            store.peek(request).now().unwrap().unwrap();
            store.refund(request, Charged::NOW).now().unwrap().unwrap();
            assert_eq!(store.reset(request).now().unwrap().unwrap(), 0);
        }
        acquire(&store, "nobody", &quota, 0);
        acquire(&store, "nobody", &quota, 6);
        assert!(store.is_empty(), "{text}");
    }
}

/// However many threads ask, exactly the quota is admitted.
#[test]
fn exact_under_concurrency() {
    for text in ["1000/h", "1000/h bucket", "1000/h leaky", "1000/h fixed", "1000/h sliding", "1000/h log"] {
        let store = MemoryStore::builder().max_keys(64).clock(clock()).build();
        let quota = quota(text);
        let admitted: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (store, quota, admitted) = (&store, &quota, &admitted);
                scope.spawn(move || {
                    for turn in 0..6_000usize {
                        let key = (turn * 7 + thread) % admitted.len();
                        if acquire(store, &format!("key:{key}"), quota, 1).allowed {
                            admitted[key].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let admitted: Vec<u64> = admitted.into_iter().map(AtomicU64::into_inner).collect();
        assert_eq!(admitted, [1_000; 8], "{text}");
    }
}

/// Threads that insert, expire and evict at once never lose count of the places.
#[test]
fn the_places_add_up_under_concurrency() {
    let clock = clock();
    let store = MemoryStore::builder().max_keys(500).clock(clock.clone()).build();
    let quota = quota("1/s");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, quota, clock) = (&store, &quota, &clock);
            scope.spawn(move || {
                for turn in 0..20_000 {
                    acquire(store, &format!("{thread}:{turn}"), quota, 1);
                    if turn % 400 == 0 {
                        clock.advance(SECOND);
                    }
                }
            });
        }
    });
    assert!(store.len() <= 500);
    clock.advance(SECOND);
    store.sweep();
    assert_eq!(store.len(), 0, "every state has expired, and every place is free again");
    assert!(store.statistics().bytes < 64 * 1024, "and the memory is given back");
}

/// A batch is decided as one after another would be, also if a key comes twice.
#[test]
fn a_batch_decides_as_one_after_another() {
    let (one, many) = (clock(), clock());
    let (one, many) = (MemoryStore::builder().clock(one).build(), MemoryStore::builder().clock(many).build());
    let (gcra, log) = (quota("3/h"), quota("2/h log"));
    let names: Vec<String> = (0..50).map(|index| format!("key:{}", index * 7 % 11)).collect();
    let requests: Vec<Request<'_>> = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let rules = Rules::Quota(if index % 3 == 0 { &log } else { &gcra });
            Request::new(Key::new(name).unwrap(), rules, Cost::new(index as u64 % 3))
        })
        .collect();
    let expected: Vec<Decision> =
        requests.iter().map(|request| one.acquire(*request).now().unwrap().unwrap()).collect();
    let mut found = Vec::new();
    many.acquire_many(&requests, &mut found).now().unwrap().unwrap();
    assert_eq!(found.into_iter().collect::<Result<Vec<_>, _>>().unwrap(), expected);
}

#[test]
fn what_a_store_cannot_hold_is_refused() {
    let store = MemoryStore::default();
    let quota = Quota::concurrent(3).build().unwrap();
    let request = Request::new(Key::new("key").unwrap(), Rules::Quota(&quota), Cost::ONE);
    assert_eq!(store.acquire(request).now().unwrap().unwrap_err().kind(), StoreErrorKind::Unsupported);
    let plan = std::sync::Arc::new(Plan::parse("gold", "1/s").unwrap());
    let twice = [plan.clone(), plan];
    let request = Request { rules: Rules::Plans(&twice), ..request };
    assert_eq!(
        store.acquire(request).now().unwrap().unwrap_err().to_string(),
        "plans: `gold` twice; a request names each plan once"
    );
}

/// A restored store answers as the one that was saved, but for what has expired since.
#[test]
fn a_snapshot_remembers() {
    let clock = clock();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let texts = ["5/h", "5/h bucket", "5/h leaky", "5/h fixed", "5/h sliding", "5/h log"];
    let plan = Plan::parse("gold", "a=5/h; b=7/h log").unwrap();
    let request = Request::new(Key::new("planned").unwrap(), Rules::Plan(&plan), Cost::new(2));
    assert!(store.acquire(request).now().unwrap().unwrap().allowed);
    for text in texts {
        acquire(&store, "kept", &quota(text), 3);
    }
    acquire(&store, "short", &quota("1/s"), 1);
    clock.advance(SECOND);
    let snapshot = store.snapshot();
    let restored = MemoryStore::builder().clock(clock.clone()).restore(&snapshot).unwrap();
    assert_eq!(restored.len(), store.len() - 1, "all but the one that has expired");
    for text in texts {
        let expected = acquire(&store, "kept", &quota(text), 1);
        assert_eq!(acquire(&restored, "kept", &quota(text), 1), expected, "{text}");
    }
    assert_eq!(
        restored.acquire(request).now().unwrap().unwrap(),
        store.acquire(request).now().unwrap().unwrap()
    );
}

/// Logs that are more than is written under one lock: one that is, and many that are together.
#[test]
fn a_snapshot_remembers_large_logs() {
    let clock = clock();
    let builder = || MemoryStore::builder().clock(clock.clone());
    let store = builder().build();
    let (large, small) = (quota("60000 per 1000000s log"), quota("2000 per 1000000s log"));
    let mut expected = Vec::new();
    for _ in 0..50_000 {
        clock.advance(Nanos::from_nanos(7));
        assert!(acquire(&store, "large", &large, 1).allowed);
    }
    for number in 0..200 {
        let key = format!("small:{number}");
        for _ in 0..500 {
            clock.advance(Nanos::from_nanos(1));
            assert!(acquire(&store, &key, &small, 1).allowed);
        }
    }
    let restored = builder().restore(&store.snapshot()).unwrap();
    assert_eq!(restored.len(), store.len());
    for store in [&store, &restored] {
        let mut answers = vec![acquire(store, "large", &large, 1)];
        answers.extend((0..200).map(|number| acquire(store, &format!("small:{number}"), &small, 1)));
        expected.push(answers);
    }
    assert_eq!(expected[0][0].remaining, 9_999);
    assert_eq!(expected[0], expected[1]);
}

/// What was kept of the keys is in the snapshot, and who brought which state.
#[tokio::test]
async fn a_restored_store_knows_its_keys() {
    let clock = clock();
    let builder = |keep| MemoryStore::builder().keep_keys(keep).clock(clock.clone());
    let store = builder(true).build();
    let plan = Plan::parse("gold", "a=5/h; b=7/h log").unwrap();
    for key in 0..100 {
        let name = format!("user:{key}");
        acquire(&store, &name, &quota("5/h"), 1);
        acquire(&store, &name, &quota("5/h log"), 1);
        let request = Request::new(Key::new(&name).unwrap(), Rules::Plan(&plan), Cost::ONE);
        assert!(store.acquire(request).now().unwrap().unwrap().allowed);
    }
    let restored = builder(true).restore(&store.snapshot()).unwrap();
    let (before, after) = (store.statistics(), restored.statistics());
    assert_eq!((after.keys, after.keys_of_requests), (400, 200));
    // Keys that were there twice are there once.
    assert!((1..=before.bytes_of_requests).contains(&after.bytes_of_requests), "{before:?}, {after:?}");
    let again = builder(true).restore(&restored.snapshot()).unwrap();
    assert_eq!(again.statistics().bytes_of_requests, after.bytes_of_requests);
    assert_eq!(again.forget(b"user:1").await.unwrap(), 11 * 4, "1, and 10 to 19");
    assert_eq!(again.forget(b"user:").await.unwrap(), 89 * 4);
    assert_eq!((again.len(), again.statistics().bytes_of_requests), (0, 0));
    // Whoever does not keep keys reads past them; and what was not kept is found by the empty prefix alone.
    let keyless = builder(false).restore(&store.snapshot()).unwrap();
    assert_eq!(keyless.len(), 400);
    let unknown = builder(true).restore(&keyless.snapshot()).unwrap();
    assert_eq!(unknown.forget(b"user:").await.unwrap(), 0);
    assert_eq!((unknown.forget(b"").await.unwrap(), unknown.len()), (400, 0));
}

/// As after a reset.
#[tokio::test]
async fn what_was_charged_before_it_was_forgotten_is_not_given_back() {
    let clock = FakeClock::at(Timestamp::from_secs(1_000));
    let store = MemoryStore::builder().keep_keys(true).clock(clock.clone()).build();
    let plan = Plan::parse("p", "3/h").unwrap();
    let quota = quota("3/h fixed");
    for rules in [Rules::Plan(&plan), Rules::Quota(&quota)] {
        let ask = Request::new(Key::new("user:1").unwrap(), rules, Cost::new(3));
        let before = store.acquire(ask).now().unwrap().unwrap().charged_at().unwrap();
        clock.advance(Nanos::from_millis(1));
        assert_eq!(store.forget(b"user:").await.unwrap(), 1);
        clock.advance(Nanos::from_millis(1));
        assert!(store.acquire(ask).now().unwrap().unwrap().allowed);
        assert_eq!(store.refund(ask, Charged::at(before)).await.unwrap().remaining, 0, "{rules:?}");
        assert_eq!(store.forget(b"").await.unwrap(), 1);
    }
}

/// Who was forgotten, or has not come for long, used to be in the snapshot by name.
#[test]
fn a_snapshot_holds_no_key_without_a_state() {
    let clock = clock();
    let builder = || MemoryStore::builder().keep_keys(true).clock(clock.clone());
    let store = builder().build();
    let plan = Plan::parse("gold", "a=5/h; b=7/h log").unwrap();
    for rules in [Rules::Plan(&plan), Rules::Quota(&quota("5/h"))] {
        for name in ["mail:live", "mail:reset"] {
            let request = Request::new(Key::new(name).unwrap(), rules, Cost::ONE);
            assert!(store.acquire(request).now().unwrap().unwrap().allowed);
            if name == "mail:reset" {
                assert!(store.reset(request).now().unwrap().unwrap() > 0);
            }
        }
    }
    acquire(&store, "mail:expired", &quota("1/s"), 1);
    clock.advance(SECOND);
    let keys = |store: &MemoryStore| {
        let snapshot = store.snapshot();
        snapshot.windows(5).enumerate().filter(|(_, text)| text == b"mail:").count()
    };
    assert_eq!(keys(&store), 1, "the live one, once");
    assert_eq!(keys(&builder().restore(&store.snapshot()).unwrap()), 1);
}

/// A restored store used to keep nothing for plans until the first new customer came.
#[test]
fn a_restored_store_keeps_room_for_plans() {
    let builder = || MemoryStore::builder().max_keys(1_000).clock(clock());
    let (store, plan) = (builder().build(), Plan::parse("gold", "5/h").unwrap());
    acquire(&store, "j", &quota("1/h"), 1);
    assert_eq!(builder().restore(&store.snapshot()).unwrap().statistics().kept_for_plans, 0);
    let request = Request::new(Key::new("known").unwrap(), Rules::Plan(&plan), Cost::ONE);
    assert!(store.acquire(request).now().unwrap().unwrap().allowed);
    let restored = builder().restore(&store.snapshot()).unwrap();
    assert_eq!(restored.statistics().kept_for_plans, 50);
    let said = builder().kept_for_plans(10).restore(&store.snapshot()).unwrap();
    assert_eq!(said.statistics().kept_for_plans, 10);
}

/// A snapshot of logs that a smaller store cannot hold.
#[test]
fn a_snapshot_of_too_many_bytes_is_refused() {
    let clock = clock();
    let builder = |max_bytes| MemoryStore::builder().max_bytes(max_bytes).clock(clock.clone());
    let store = builder(8 << 20).build();
    let log = quota("20000/day log");
    for key in 0..8 {
        for _ in 0..20_000 {
            clock.advance(Nanos::from_nanos(1));
            acquire(&store, &format!("log:{key}"), &log, 1);
        }
    }
    let snapshot = store.snapshot();
    assert_eq!(builder(8 << 20).restore(&snapshot).unwrap().len(), 8);
    let error = builder(1 << 20).restore(&snapshot).unwrap_err();
    assert!(matches!(error, SnapshotError::TooManyBytes { found, max_bytes: 1_048_576 } if found > 2 << 20));
    let message = error.to_string();
    assert!(
        message.ends_with("bytes of live states; the store may take 1048576: raise max_bytes"),
        "{message}"
    );
}

/// Keys come and go, under rules of every length: what is kept of them is what lives, or will soon be looked through.
#[tokio::test]
async fn kept_keys_are_no_burden() {
    let clock = clock();
    let store = MemoryStore::builder().keep_keys(true).clock(clock.clone()).build();
    let (short, long) = (quota("1/s"), quota("1/h"));
    for key in 0..1_000 {
        assert!(acquire(&store, &format!("long:{key}"), &long, 1).allowed);
    }
    let settled = store.statistics().bytes;
    for round in 0..200 {
        for key in 0..1_000 {
            acquire(&store, &format!("short:{round}:{key}"), &short, 1);
        }
        clock.advance(SECOND);
    }
    let after = store.statistics().bytes;
    assert!(after < 4 * settled, "{settled} bytes became {after}");
    store.sweep();
    let swept = store.statistics();
    assert!(swept.bytes < settled * 3 / 2 && swept.keys == 1_000, "{settled} bytes became {swept:?}");
    assert_eq!(store.forget(b"long:").await.unwrap(), 1_000);
    assert_eq!(store.forget(b"").await.unwrap(), 0);
}

#[test]
fn a_snapshot_that_is_not_whole_is_refused() {
    let store = MemoryStore::builder().keep_keys(true).clock(clock()).build();
    for key in 0..20 {
        acquire(&store, &format!("key:{key}"), &quota("5/h"), 1);
        acquire(&store, &format!("key:{key}"), &quota("5/h log"), 1);
    }
    let snapshot = store.snapshot();
    let restore = |bytes: &[u8]| MemoryStore::builder().clock(clock()).restore(bytes).map(drop);
    assert_eq!(restore(&snapshot), Ok(()));
    assert_eq!(restore(b""), Err(SnapshotError::Truncated));
    assert_eq!(restore(b"something else entirely"), Err(SnapshotError::Foreign));
    for cut in 1..snapshot.len() {
        assert!(restore(&snapshot[..cut]).is_err(), "cut to {cut} bytes");
    }
    for at in 0..snapshot.len() {
        let mut damaged = snapshot.clone();
        damaged[at] ^= 0x10;
        assert!(restore(&damaged).is_err(), "byte {at} damaged");
    }
    let few = MemoryStore::builder().max_keys(10).clock(clock()).restore(&snapshot).map(drop);
    assert_eq!(few, Err(SnapshotError::TooManyKeys { found: 40, max_keys: 10 }));
}

proptest! {
    #![proptest_config(test_support::cases::config(2_000))]

    /// Restoring arbitrary bytes never panics and never allocates without bound.
    #[test]
    fn restoring_anything_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut framed = b"RKMEM\0\0\x01".to_vec();
        framed.extend(&bytes);
        prop_assert!(MemoryStore::builder().restore(&bytes).is_err());
        prop_assert!(MemoryStore::builder().restore(&framed).is_err());
    }
}

/// The state of the short rule had expired and made room for others: then the key counted as new although its daily state
/// lived, and was refused, or sent to the state that all new keys share, which admitted it once more.
#[test]
fn a_key_is_known_as_long_as_any_of_its_states_lives() {
    for policy in [OnFull::Refuse, OnFull::Share] {
        let clock = clock();
        let store = MemoryStore::builder().max_keys(20).on_full(policy).clock(clock.clone()).build();
        let plan = Plan::parse("gold", "5/s; 12/day fixed").unwrap();
        let ask = |key: &str| {
            let request = Request::new(Key::new(key).unwrap(), Rules::Plan(&plan), Cost::ONE);
            store.acquire(request).now().unwrap().unwrap()
        };
        let known: Vec<String> = (0..10).map(|key| format!("known:{key}")).collect();
        let mut admitted = 0;
        for second in 0..6 {
            for key in &known {
                let answers: Vec<_> = (0..3).map(|_| ask(key)).collect();
                assert!(answers.iter().all(|answer| answer.reason != Reason::StoreFull), "{policy:?}");
                admitted += answers.iter().filter(|answer| answer.allowed).count();
            }
            clock.advance(SECOND);
            for key in 0..100 {
                ask(&format!("flood:{second}:{key}"));
            }
        }
        assert_eq!(admitted, 10 * 12, "{policy:?}: as if nobody else had come");
    }
}

/// Another algorithm, and another length of window, has a state of its own; no numbers make a fresh start.
#[test]
fn quotas_of_requests_share_by_algorithm_and_length() {
    let clock = clock();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    for (drained, refused) in [
        ("5/h", "9/h burst 7"),
        ("5/h bucket", "5/h burst 4 bucket"),
        ("5/h leaky", "4/h leaky"),
        ("5/h fixed", "3/h fixed"),
        ("5/h sliding", "4/h sliding"),
        ("5/h log", "5/h log bound 10"),
    ] {
        assert!(acquire(&store, "alice", &quota(drained), 5).allowed, "{drained}");
        assert!(!acquire(&store, "alice", &quota(refused), 1).allowed, "{refused}");
    }
    assert!(acquire(&store, "alice", &quota("5/m fixed"), 5).allowed, "another length");
    // What a short quota allowed used to shorten the life of what it shares with a long one.
    clock.advance(Nanos::from_secs(60));
    assert!(acquire(&store, "alice", &quota("100/s leaky"), 1).allowed);
    clock.advance(Nanos::from_secs(5));
    store.sweep();
    assert!(!acquire(&store, "alice", &quota("5/h leaky"), 5).allowed, "one was taken five seconds ago");
    let request = |quota| Request::new(Key::new("alice").unwrap(), Rules::Quota(quota), Cost::ONE);
    assert_eq!(
        store.reset(request(&quota("1/s"))).now().unwrap().unwrap(),
        6,
        "all of them but the minute's"
    );
    for text in ["5/h", "5/h bucket", "5/h leaky", "5/h fixed", "5/h sliding", "5/h log"] {
        assert!(acquire(&store, "alice", &quota(text), 5).allowed, "{text}");
    }
}

/// A quota that counts in windows of this length.
fn window(millis: u64) -> Quota {
    quota(&format!("1 per {millis}ms fixed"))
}

/// When the windows that one client has brought are over, their shard takes new ones again; it used to refuse them for as
/// long as something expired was found in other shards first.
#[test]
fn windows_that_are_over_crowd_nobody_out() {
    let clock = clock();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    // As many, between one second and eighteen, as a shard takes of those that requests bring.
    assert!((1_001..=17_384).all(|millis| acquire(&store, "alice", &window(millis), 1).allowed));
    for key in 0..10_000 {
        acquire(&store, &format!("other:{key}"), &quota("1/s"), 1);
    }
    assert_eq!(acquire(&store, "alice", &window(20_000), 1).reason, Reason::StoreFull);
    assert_eq!(acquire(&store, "alice", &window(1_001), 1).reason, Reason::QuotaExceeded, "a known one");
    clock.advance(Nanos::from_secs(30));
    for millis in 40_000..40_010 {
        let decision = acquire(&store, "alice", &window(millis), 1);
        assert!(decision.allowed, "{decision:?}");
    }
    store.sweep();
    assert_eq!(store.len(), 10, "every place that was left was given back");
}
