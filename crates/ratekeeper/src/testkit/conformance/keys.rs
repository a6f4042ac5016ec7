//! What one key takes, no other misses; and keys that are forgotten by how they start.

use super::bench::Bench;
use crate::port::{Request, Store};
use crate::{Charged, Cost, Key, Plan, Quota, Rules, StoreErrorKind};

/// What one key takes, no other key and no other plan misses.
pub(super) async fn keys_do_not_share(bench: &Bench<'_>) {
    let quota: Quota = "3/h".parse().expect("a quota of the suite");
    let gold = Plan::parse("gold", "3/h").expect("a plan of the suite");
    let silver = Plan::parse("silver", "3/h").expect("a plan of the suite");
    let long = vec![b'k'; Key::MAX_LEN];
    let keys: [&[u8]; 6] = [b"share", b"shar", b"share ", b"SHARE", &[0xff, 0x00], &long];
    for key in keys {
        for rules in [Rules::Quota(&quota), Rules::Plan(&gold), Rules::Plan(&silver)] {
            let request = Request::new(Key::new(key).expect("a key of the suite"), rules, Cost::new(3));
            let fresh = bench.store.acquire(request).await.expect("an answer");
            assert!(fresh.allowed, "{request:?}: another key's or plan's state: {fresh:?}");
            let again = bench.store.acquire(request).await.expect("an answer");
            assert!(!again.allowed, "{request:?}: its own state is lost: {again:?}");
        }
    }
}

/// What starts alike is forgotten, under plans and quotas of requests, and nothing else; what was charged before gets
/// nothing back. A store that cannot list its keys says so.
pub(super) async fn keys_are_forgotten_by_how_they_start(bench: &Bench<'_>) {
    let (store, quota) = (bench.store, "3/h fixed".parse::<Quota>().expect("a quota of the suite"));
    let plan = Plan::parse("gold", "3/h").expect("a plan of the suite");
    if let Err(error) = store.forget(b"forget").await {
        assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
        return;
    }
    let held_to = [Rules::Quota(&quota), Rules::Plan(&plan)];
    let take_all = |key| take_all(store, held_to, key);
    // Braces and the like mean something to some stores, and nothing here.
    let special: &[u8] = b"forget/{a}%*?[x-z]^\\\xff\0:";
    let (near, prefix): (&[u8], &[u8]) = (b"forget/{a}%anything", &special[..special.len() - 1]);
    let alike: [&[u8]; 3] = [special, prefix, &[special, b"more"].concat()];
    let others: [&[u8]; 4] = [near, b"forget/{a}", b"Forget/{a}%*", b"forgot"];
    for key in alike.iter().chain(&others) {
        take_all(key).await;
    }
    let before = Charged::at((bench.now)());
    assert_eq!(
        store.forget(prefix).await.expect("an answer"),
        6,
        "three keys, each under a quota and a plan"
    );
    assert_eq!(store.forget(prefix).await.expect("an answer"), 0, "they are gone");
    for key in others {
        for rules in held_to {
            let decision = store.peek(request(key, rules, 1)).await.expect("an answer");
            assert!(!decision.allowed, "{} was forgotten, too", key.escape_ascii());
        }
    }
    for key in alike {
        (bench.advance)(bench.resolution);
        take_all(key).await;
        for rules in held_to {
            // Whether a store remembers that this was charged before is its own affair.
            let late = store.refund(request(key, rules, 1), before).await.expect("an answer");
            assert!(late.remaining <= 1, "more than was charged before is given back: {rules:?}, {late:?}");
        }
    }
    assert_eq!(store.forget(b"forg").await.expect("an answer"), 12, "those, and all but the one in capitals");
    for key in [special, near, b"forgot"] {
        take_all(key).await;
    }
    assert!(store.forget(b"").await.expect("an answer") >= 8, "no bytes are the start of every key");
    take_all(b"Forget/{a}%*").await;
    assert_eq!(store.forget(b"").await.expect("an answer"), 2, "nothing else is left");
}

/// Takes all of three under each of these rules, which are fresh.
async fn take_all(store: &dyn Store, held_to: [Rules<'_>; 2], key: &[u8]) {
    for rules in held_to {
        let decision = store.acquire(request(key, rules, 3)).await.expect("an answer");
        assert!(decision.allowed, "{} is not fresh: {decision:?}", key.escape_ascii());
    }
}

fn request<'a>(key: &'a [u8], rules: Rules<'a>, cost: u64) -> Request<'a> {
    Request::new(Key::new(key).expect("a key of the suite"), rules, Cost::new(cost))
}
