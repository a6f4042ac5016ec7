//! A quota that changes: nothing is refilled by it, and nothing is given back that is not there.

use ratekeeper::limiter::Inherit;
use ratekeeper::{Limiter, Nanos};

use crate::hostile_limiter::support::{at, clock};

fn keep(limiter: &Limiter, quota: &str) {
    limiter.set_quota(quota.parse().unwrap(), Inherit::Keep).unwrap();
}

#[test]
fn another_quota_refilled_what_was_used() {
    for algorithm in ["", " bucket", " leaky", " fixed", " sliding", " log"] {
        for (from, to) in
            [("10/h", "10/s"), ("10/s", "10/h"), ("10/h", "10/m"), ("10/h", "5/s"), ("5/s", "5/s")]
        {
            for after in [0, 1, 400, 60_000, 3_000_000] {
                let clock = clock();
                let limiter = at(&clock, &format!("{from}{algorithm}"));
                assert!(limiter.try_acquire(limiter.statistics().max).allowed);
                clock.advance(Nanos::from_millis(after));
                let before = limiter.peek(1).remaining;
                keep(&limiter, &format!("{to}{algorithm}"));
                let kept = limiter.peek(1).remaining;
                assert!(kept <= before, "{from} to {to}{algorithm} after {after} ms: {before}, then {kept}");
            }
        }
    }
}

#[test]
fn another_anchor_began_a_new_window() {
    for (from, to) in [
        ("10/h fixed", "10/h fixed grid"),
        ("10/h fixed", "10/hour fixed calendar"),
        ("10/h fixed grid", "10/h fixed"),
        ("10/h fixed grid", "10/m fixed grid"),
    ] {
        let clock = clock();
        let limiter = at(&clock, from);
        assert!(limiter.try_acquire(10).allowed);
        clock.advance(Nanos::from_secs(300));
        let before = limiter.peek(1).remaining;
        keep(&limiter, to);
        assert!(limiter.peek(1).remaining <= before, "{from} to {to}");
    }
    let clock = clock();
    clock.advance(Nanos::from_secs(1_700));
    let limiter = at(&clock, "10/h fixed");
    assert!(limiter.try_acquire(10).allowed);
    clock.advance(Nanos::from_secs(3_000));
    keep(&limiter, "10/h fixed grid");
    assert_eq!(limiter.peek(1).remaining, 0, "the window of the grid had begun later");
}

#[test]
fn a_slower_quota_took_away_what_had_come_in() {
    for algorithm in ["bucket", "leaky"] {
        let clock = clock();
        let limiter = at(&clock, &format!("10/s {algorithm}"));
        assert!(limiter.try_acquire(10).allowed);
        clock.advance(Nanos::from_millis(900));
        assert_eq!(limiter.peek(1).remaining, 9);
        keep(&limiter, &format!("10/h {algorithm}"));
        assert_eq!(limiter.peek(1).remaining, 9, "{algorithm}");
    }
}

#[test]
fn what_was_used_is_used_of_a_smaller_bucket_too() {
    for algorithm in ["", " bucket", " leaky", " fixed", " sliding", " log"] {
        let limiter = at(&clock(), &format!("10/s{algorithm}"));
        assert!(limiter.try_acquire(2).allowed);
        keep(&limiter, &format!("5/s{algorithm}"));
        assert_eq!(limiter.peek(1).remaining, 3, "{algorithm}");
    }
}

#[test]
fn a_charge_of_another_quota_was_given_back_by_the_new_rate() {
    for algorithm in ["", " bucket", " leaky", " fixed", " sliding", " log"] {
        let clock = clock();
        let limiter = at(&clock, &format!("10/s{algorithm}"));
        let reservation = limiter.reserve(10).unwrap();
        clock.advance(Nanos::from_millis(900));
        let mut admitted = 0;
        while limiter.try_acquire(1).allowed {
            admitted += 1;
        }
        keep(&limiter, &format!("10/h{algorithm}"));
        drop(reservation);
        while limiter.try_acquire(1).allowed {
            admitted += 1;
        }
        assert!(admitted <= 10, "{algorithm}: {admitted} at one instant");
    }
}
