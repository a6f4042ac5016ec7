//! One limit for each key.

use ratekeeper::limiter::{AcquireErrorKind, Inherit, Keyed, Limiter, Repository};
use ratekeeper::store::OnFull;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Cost, Nanos, Quota, Reason, Timestamp};
use tokio::time::Instant;

use crate::limiter::support::{ONE, failure, ms, poll, settle, since};

fn quota(text: &str) -> Quota {
    text.parse().unwrap()
}

fn bounded(max_keys: usize, on_full: OnFull) -> (Keyed<u32>, FakeClock) {
    let clock = FakeClock::at(Timestamp::from_secs(1_000));
    let builder = Keyed::builder(quota("2/m")).max_keys(max_keys).on_full(on_full).clock(clock.clone());
    (builder.build().unwrap(), clock)
}

#[test]
fn a_flood_changes_nothing_for_those_who_are_limited() {
    let (keyed, clock) = bounded(100, OnFull::Refuse);
    for key in 0..100 {
        assert!(keyed.try_acquire(&key, Cost::new(2)).allowed);
    }
    for key in 100..100_000 {
        assert_eq!(keyed.try_acquire(&key, ONE).reason, Reason::StoreFull);
    }
    for key in 0..100 {
        assert!(!keyed.try_acquire(&key, ONE).allowed, "{key} is still limited");
    }
    assert_eq!(keyed.len(), 100);
    // As good as fresh now: every one of them makes room, and one that is used does not.
    clock.advance(Nanos::from_secs(60));
    assert!(keyed.try_acquire(&7, Cost::new(2)).allowed);
    for key in 100..199 {
        assert!(keyed.try_acquire(&key, Cost::new(2)).allowed, "{key} finds room");
    }
    assert_eq!(keyed.try_acquire(&1_000, ONE).reason, Reason::StoreFull);
    assert!(!keyed.try_acquire(&7, ONE).allowed);
}

#[test]
fn who_comes_too_late_may_share() {
    let (keyed, _) = bounded(1, OnFull::Share);
    assert!(keyed.try_acquire(&1, ONE).allowed);
    assert!(keyed.try_acquire(&2, ONE).allowed && keyed.try_acquire(&3, ONE).allowed);
    assert_eq!(keyed.try_acquire(&4, ONE).reason, Reason::QuotaExceeded);
    assert!(keyed.try_acquire(&1, ONE).allowed);
    assert_eq!(keyed.len(), 1);
}

#[test]
fn what_is_given_back_makes_room_again() {
    let (keyed, _) = bounded(1, OnFull::Refuse);
    assert!(keyed.try_acquire(&1, ONE).allowed);
    assert!(!keyed.try_acquire(&2, ONE).allowed);
    keyed.refund(&1, ONE);
    assert!(keyed.try_acquire(&2, ONE).allowed);
    keyed.reset(&2);
    assert!(keyed.try_acquire(&3, ONE).allowed);
    for _ in 0..100_000 {
        keyed.refund(&3, ONE);
    }
    assert_eq!(keyed.len(), 1);
}

#[test]
fn reading_makes_no_entry() {
    let (keyed, _) = bounded(10, OnFull::Refuse);
    assert_eq!(keyed.peek(&1, ONE).remaining, 2);
    assert!(keyed.statistics(&1).is_none());
    keyed.refund(&1, ONE);
    keyed.reset(&1);
    assert!(keyed.is_empty());
}

#[test]
fn a_key_in_somebodys_hands_is_not_forgotten() {
    let (keyed, clock) = bounded(1, OnFull::Refuse);
    let handle = keyed.limiter(&1).unwrap();
    assert!(!keyed.try_acquire(&2, ONE).allowed);
    drop(handle);
    clock.advance(Nanos::from_millis(1));
    assert!(keyed.try_acquire(&2, ONE).allowed);
}

#[test]
fn keys_have_quotas_of_their_own() {
    let keyed = Keyed::builder(quota("2/m"))
        .quota_of(|key: &String| quota(if key == "big" { "100/m" } else { "2/m" }))
        .build()
        .unwrap();
    assert_eq!((keyed.peek("big", ONE).limit, keyed.try_acquire("big", ONE).limit), (100, 100));
    keyed.set_quota("ann", quota("5/m"), Inherit::Keep).unwrap();
    assert_eq!((keyed.peek("ann", ONE).limit, keyed.peek("bob", ONE).limit), (5, 2));
    assert!(keyed.set_quota("ann", quota("5 concurrent"), Inherit::Keep).is_err());
}

#[tokio::test(start_paused = true)]
async fn each_key_has_its_own_queue_and_close_ends_all() {
    let keyed: Keyed<String> = Keyed::new(quota("10/s burst 1")).unwrap();
    let start = Instant::now();
    for key in ["a", "b"] {
        keyed.acquire(key, ONE).await.unwrap();
    }
    assert_eq!(since(start), 0);
    keyed.acquire("a", ONE).within(ms(100)).await.unwrap();
    assert_eq!(since(start), 100);
    let waiter = tokio::spawn(keyed.acquire("a", ONE));
    settle().await;
    assert_eq!(keyed.statistics("a").unwrap().queue_depth, 1);
    keyed.close();
    assert_eq!(failure(waiter.await.unwrap()), AcquireErrorKind::Closed);
    assert_eq!(failure(keyed.acquire("new", ONE).await), AcquireErrorKind::Closed);
    assert_eq!(keyed.try_acquire("new", ONE).reason, Reason::Closed);
    assert_eq!(keyed.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_repository_owns_what_it_holds() {
    let repository = Repository::new(|_: &String| Limiter::new("1/m".parse().unwrap()).unwrap());
    let ann = repository.get_or_create("ann").unwrap();
    assert!(ann.try_acquire(ONE).allowed);
    assert!(!repository.get_or_create("ann").unwrap().try_acquire(ONE).allowed, "the same one");
    let mut waiter = ann.acquire(ONE);
    assert!(poll(&mut waiter).is_pending());
    assert!(repository.get("bob").is_none());
    assert!(repository.remove("ann") && !repository.remove("ann"));
    assert_eq!(failure(waiter.await), AcquireErrorKind::Closed);
    let bob = repository.get_or_create("bob").unwrap();
    repository.get_or_create("eve").unwrap();
    assert_eq!(repository.remove_where(|key, _| key == "eve"), 1);
    drop(repository);
    assert!(bob.is_closed(), "with the last handle go those that it holds");
}
