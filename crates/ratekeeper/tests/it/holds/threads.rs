//! Many threads, few keys.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use ratekeeper::port::{HoldAction, HoldState};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Amounts, MemoryStore, Nanos, Timestamp};

use crate::holds::support::Holds;

const THREADS: u64 = 8;
const PLACES: u64 = 5;
const KEYS: [&str; 3] = ["a", "b", "c"];

/// More threads than cores hold, settle and cancel: at no instant were more in flight than the limit, afterwards every place is
/// back, and of the tokens exactly those are gone that were spent.
#[test]
fn places_and_tokens_add_up() {
    let tokens = 10_000_000;
    // It stands still: nothing refills, and no lease ends.
    let clock = FakeClock::at(Timestamp::from_secs(1_000));
    let limits = format!("{tokens} tokens per 30000000s; {PLACES} concurrent; 1000 tokens concurrent");
    let holds = Holds::new(MemoryStore::builder().clock(clock).build(), &limits);
    let (in_flight, spent) = ([const { AtomicU64::new(0) }; 3], [const { AtomicU64::new(0) }; 3]);
    let next = AtomicU64::new(1);
    let most = AtomicU64::new(0);
    let work = |thread: u64| {
        for turn in 0..3_000 {
            let at = ((turn + thread) % 3) as usize;
            let id = u128::from(next.fetch_add(1, Ordering::Relaxed));
            if !holds.hold(KEYS[at], id, Amounts::of(&[("tokens", 9)])).decision.allowed {
                continue;
            }
            let now = in_flight[at].fetch_add(1, Ordering::SeqCst) + 1;
            assert!(now <= PLACES, "{now} in flight");
            most.fetch_max(now, Ordering::Relaxed);
            if turn % 4 == 0 {
                thread::yield_now();
            }
            in_flight[at].fetch_sub(1, Ordering::SeqCst);
            let amount = turn % 13;
            let (state, took) = match turn % 3 {
                0 => (holds.change(KEYS[at], id, HoldAction::Cancel), 0),
                1 => {
                    let amounts = [("tokens", amount)];
                    (holds.change(KEYS[at], id, HoldAction::Settle(Amounts::of(&amounts))), amount)
                }
                _ => (holds.change(KEYS[at], id, HoldAction::Settle(Amounts::UNSAID)), 9),
            };
            assert!(matches!(state, HoldState::Cancelled | HoldState::Settled));
            spent[at].fetch_add(took, Ordering::Relaxed);
            // Somebody repeats it.
            assert_eq!(holds.change(KEYS[at], id, HoldAction::Cancel), state);
            assert_eq!(holds.change(KEYS[at], id, HoldAction::Extend(Nanos::from_secs(1))), HoldState::Gone);
        }
    };
    thread::scope(|scope| (0..THREADS).for_each(|thread| drop(scope.spawn(move || work(thread)))));
    for (at, key) in KEYS.iter().enumerate() {
        let left = holds.left(key, Amounts::of(&[("tokens", 1)]));
        let spent = spent[at].load(Ordering::Relaxed);
        assert_eq!(left, [tokens - spent, PLACES, 1_000], "{key}: spent {spent}");
    }
    assert!(most.load(Ordering::Relaxed) > 0);
}
