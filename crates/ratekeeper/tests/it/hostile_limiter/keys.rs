//! Keys that are forgotten, and keys that there is no room for.

use ratekeeper::limiter::{Inherit, Keyed};
use ratekeeper::port::Clock;
use ratekeeper::store::OnFull;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Charged, Nanos};

use crate::hostile_limiter::support::clock;

fn keyed(quota: &str, max_keys: usize, clock: &FakeClock) -> Keyed<String> {
    Keyed::builder(quota.parse().unwrap()).max_keys(max_keys).clock(clock.clone()).build().unwrap()
}

#[test]
fn a_reset_was_forgotten_with_its_key() {
    for quota in ["10/h", "10/h bucket", "10/h leaky", "10/h fixed", "10/h sliding", "10/h log"] {
        let clock = clock();
        let keys = keyed(quota, 100_000, &clock);
        let charged = keys.try_acquire("a", 10).charged_at().unwrap();
        keys.reset("a");
        // Every new key forgets some that are as good as fresh.
        for number in 0..200 {
            assert!(keys.try_acquire(&format!("other {number}"), 1).allowed);
        }
        clock.advance(Nanos::from_secs(1));
        assert!(keys.try_acquire("a", 10).allowed);
        keys.refund_charged("a", 10, Charged::at(charged));
        assert_eq!(keys.peek("a", 1).remaining, 0, "{quota}");
    }
}

#[test]
fn what_a_key_took_from_a_shared_limit_went_back_to_its_own() {
    let clock = clock();
    let builder = Keyed::<String>::builder("10/m".parse().unwrap()).max_keys(1).on_full(OnFull::Share);
    let keys = builder.clock(clock.clone()).build().unwrap();
    assert!(keys.try_acquire("a", 1).allowed);
    let shared = keys.try_acquire("b", 10).charged_at().unwrap();
    clock.advance(Nanos::from_secs(6));
    assert!(keys.try_acquire("b", 10).allowed, "it has a limit of its own by now");
    keys.refund_charged("b", 10, Charged::at(shared));
    assert_eq!(keys.peek("b", 1).remaining, 0);
    keys.refund_charged("b", 4, Charged::at(clock.now()));
    assert_eq!(keys.peek("b", 1).remaining, 4, "what was taken at the instant of its making is its own");
}

#[test]
fn a_new_key_was_told_to_come_back_too_early() {
    for max_keys in [1, 2, 40] {
        let clock = clock();
        let keys = keyed("10/m", max_keys, &clock);
        for number in 0..max_keys {
            assert!(keys.try_acquire(&format!("{number}"), 1).allowed);
        }
        assert_eq!(keys.limiter("b").unwrap_err().retry_after(), Some(Nanos::from_secs(6)));
        for number in 0..max_keys {
            assert!(keys.try_acquire(&format!("{number}"), 9).allowed);
        }
        let wait = keys.limiter("b").unwrap_err().retry_after().unwrap();
        clock.advance(wait);
        assert!(keys.limiter("b").is_ok(), "of {max_keys}, waited {wait}");
    }
}

#[test]
fn a_new_key_was_told_when_a_key_that_stays_would_go() {
    let clock = clock();
    let keys = keyed("10/m", 1, &clock);
    keys.set_quota("a", "10/m".parse().unwrap(), Inherit::Keep).unwrap();
    for _ in 0..3 {
        assert_eq!(keys.limiter("b").unwrap_err().retry_after(), None, "it has a quota of its own");
        clock.advance(Nanos::from_secs(2));
    }
    let keys = keyed("10/m", 1, &clock);
    let held = keys.limiter("a").unwrap();
    assert_eq!(keys.limiter("b").unwrap_err().retry_after(), None, "it is in somebody's hands");
    drop(held);
}
