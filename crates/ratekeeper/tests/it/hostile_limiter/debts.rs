//! Debts: what was used beyond the quota is paid before anything is allowed, and its end is computed in one step, whatever
//! its size.

use ratekeeper::limiter::{Inherit, Limiter, Ticks};
use ratekeeper::port::Clock;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Cost, Nanos, Timestamp};

use test_support::cases::is_thorough;

use crate::hostile_limiter::support::{QUOTAS, at, clock, in_time, ms};

const ONE: Cost = Cost::ONE;

#[test]
fn settling_for_a_huge_amount_stalled_every_caller() {
    for quota in ["1/s", "1/s bucket", "1/s leaky", "1 per 1s fixed", "1 per 1s sliding", "1 per 1s log"] {
        for actual in [100_000_000, u64::MAX] {
            in_time(&format!("{quota}, settled for {actual}"), move || {
                let limiter = at(&clock(), quota);
                limiter.reserve(ONE).unwrap().settle(Cost::new(actual));
                for _ in 0..1_000 {
                    let refused = limiter.try_acquire(ONE);
                    assert!(!refused.allowed, "{quota}");
                    if actual < u64::MAX {
                        let seconds = refused.retry_after.unwrap().ceil_secs();
                        assert!((99_999_990..=100_000_001).contains(&seconds), "{quota}: {seconds}");
                    }
                }
                assert!(limiter.acquire(ONE).within(ms(1)).wait().is_err());
                limiter.reset();
                assert!(limiter.try_acquire(ONE).allowed, "{quota}: a reset forgets what is owed");
            });
        }
    }
}

#[test]
fn settling_for_a_huge_amount_of_ticks_stalled_too() {
    in_time("ticks", || {
        for ticks in [Ticks::bucket(2, 1, ms(1_000)), Ticks::window(1, ms(1_000))] {
            let limiter = Limiter::ticking_builder(ticks).clock(clock()).build().unwrap();
            limiter.reserve(ONE).unwrap().settle(Cost::new(100_000_000));
            let seconds = limiter.try_acquire(ONE).retry_after.unwrap().ceil_secs();
            assert!((99_999_990..=100_000_001).contains(&seconds), "{seconds}");
            limiter.reserve(Cost::ZERO).unwrap().settle(Cost::new(u64::MAX));
            assert_eq!(limiter.try_acquire(ONE).retry_after, None);
            limiter.reset();
            assert!(limiter.try_acquire(ONE).allowed);
        }
    });
}

/// Waiting as long as was told succeeds, and a nanosecond less does not, whatever is owed and whoever asks how much.
#[test]
fn a_debt_is_paid_when_it_was_told() {
    for quota in QUOTAS {
        for used in [0, 3, 10] {
            for owed in [1, 2, 9, 10, 11, 25, 57] {
                for later in [0, 700, 4_000] {
                    for cost in [1, 4, 10] {
                        pays(quota, used, owed, later, Cost::new(cost));
                    }
                }
            }
        }
    }
}

fn pays(quota: &str, used: u64, owed: u64, later: u64, cost: Cost) {
    let case = format!("{quota}: {used} used, {owed} owed {later} ms later, then {cost}");
    let clock = clock();
    let limiter = at(&clock, quota);
    assert!(limiter.try_acquire(Cost::new(used)).allowed, "{case}");
    clock.advance(Nanos::from_millis(later));
    limiter.reserve(Cost::ZERO).unwrap().settle(Cost::new(owed));
    let told = limiter.peek(cost);
    if told.allowed {
        assert!(used + owed < 20, "{case}");
        return;
    }
    let wait = told.retry_after.expect("it will be paid");
    // Ten in ten seconds: it takes at least as long as what is missing takes to come in.
    let missing = (used + owed + cost.get()).saturating_sub(10 + 10 + later / 1_000);
    assert!(wait >= Nanos::from_secs(missing), "{case}: {wait}");
    // And never longer than whole windows would.
    assert!(
        wait <= Nanos::from_millis(20_001 + 10_000 * (used + owed + cost.get()).div_ceil(10)),
        "{case}: {wait}"
    );
    clock.advance(wait.saturating_sub(Nanos::from_nanos(1)));
    assert!(!limiter.try_acquire(cost).allowed, "{case}: a nanosecond early");
    clock.advance(Nanos::from_nanos(1));
    assert!(limiter.try_acquire(cost).allowed, "{case}: after {wait}");
}

#[test]
fn who_waits_behind_a_debt_is_granted_when_it_was_told() {
    for quota in QUOTAS {
        let clock = clock();
        let limiter = at(&clock, quota);
        limiter.reserve(Cost::new(10)).unwrap().settle(Cost::new(33));
        let waiting = [1, 10, 4, 7].map(|cost| (Cost::new(cost), limiter.reserve(Cost::new(cost)).unwrap()));
        for (cost, reservation) in waiting {
            let wait = reservation.ready_in().unwrap();
            clock.advance(wait.saturating_sub(Nanos::from_nanos(1)));
            assert_ne!(reservation.ready_in(), Some(Nanos::ZERO), "{quota}");
            // A double may be a nanosecond off.
            clock.advance(Nanos::from_nanos(2));
            assert_eq!(reservation.ready_in(), Some(Nanos::ZERO), "{quota}");
            reservation.settle(cost);
        }
        assert_eq!(limiter.statistics().queue_depth, 0, "{quota}");
    }
}

#[test]
fn what_is_given_back_shortens_a_debt() {
    for quota in &QUOTAS[..3] {
        let clock = clock();
        let limiter = at(&clock, quota);
        let cancelled = limiter.reserve(Cost::new(5)).unwrap();
        limiter.reserve(Cost::new(5)).unwrap().settle(Cost::new(25));
        assert_eq!(limiter.try_acquire(ONE).retry_after.unwrap().ceil_secs(), 21, "{quota}");
        clock.advance(Nanos::from_secs(2));
        drop(cancelled);
        // Two of the five have come in again meanwhile.
        assert_eq!(limiter.try_acquire(ONE).retry_after.unwrap().ceil_secs(), 16, "{quota}");
    }
}

#[test]
fn a_new_quota_takes_over_what_is_owed() {
    for (old, new) in QUOTAS.into_iter().zip(["10/s", "10/s bucket", "10/s leaky", "10/s", "10/s", "10/s"]) {
        let clock = clock();
        let limiter = at(&clock, old);
        limiter.reserve(Cost::new(10)).unwrap().settle(Cost::new(110));
        limiter.set_quota(new.parse().unwrap(), Inherit::Keep).unwrap();
        let wait = limiter.try_acquire(ONE).retry_after.unwrap();
        // A hundred are owed; at ten a second they are paid in ten seconds.
        assert!((9..=11).contains(&wait.ceil_secs()), "{old} to {new}: {wait}");
    }
}

#[test]
fn a_drained_limiter_was_refilled_by_a_slower_quota() {
    let clock = clock();
    let change = |from: &str, used: u64, to: &str| {
        let limiter = at(&clock, from);
        assert!(limiter.try_acquire(Cost::new(used)).allowed);
        limiter.set_quota(to.parse().unwrap(), Inherit::Keep).unwrap();
        (limiter.peek(ONE).remaining, limiter.peek(ONE).retry_after.unwrap().ceil_secs())
    };
    assert_eq!(change("10/s", 10, "10/h"), (0, 360));
    assert_eq!(change("10/s", 4, "10/h"), (6, 0));
    assert_eq!(change("10/h", 10, "10/s"), (0, 1));
    assert_eq!(change("10/s", 10, "5/m"), (0, 12));
    // A part of one counts: half of one is left over from the rate before, and that is half of one under the new.
    let limiter = at(&clock, "10/s");
    assert!(limiter.try_acquire(Cost::new(10)).allowed);
    clock.advance(Nanos::from_millis(150));
    limiter.set_quota("10/h".parse().unwrap(), Inherit::Keep).unwrap();
    assert_eq!(
        (limiter.peek(ONE).remaining, limiter.peek(Cost::new(2)).retry_after.unwrap().ceil_secs()),
        (1, 180)
    );
}

#[test]
fn many_small_debts_were_forgotten_by_a_log() {
    for quota in QUOTAS {
        let wait = |pieces: &[u64]| {
            let limiter = at(&clock(), quota);
            for piece in pieces {
                limiter.reserve(Cost::ZERO).unwrap().settle(*piece);
            }
            limiter.peek(10).retry_after.unwrap()
        };
        let whole = wait(&[100]);
        for pieces in [[10; 10].as_slice(), &[1; 100], &[7, 3, 20, 11, 9, 50]] {
            assert!(wait(pieces) >= whole, "{quota}: {pieces:?}, {} after {whole}", wait(pieces));
        }
    }
}

#[test]
fn a_log_grew_with_what_was_owed() {
    let clock = clock();
    let limiter = at(&clock, "10/h log");
    for _ in 0..20_000 {
        clock.advance(Nanos::from_nanos(1));
        limiter.reserve(Cost::ZERO).unwrap().settle(ONE);
    }
    let wait = limiter.try_acquire(ONE).retry_after.unwrap();
    assert!(wait > Nanos::from_secs(3_600 * 1_999), "20,000 of 10 an hour are paid in {wait}");
    assert!(wait < Nanos::from_secs(3_600 * 2_001), "{wait}");
}

/// What a debt of so many whole windows is told to take, and what they take one after another.
fn told_and_took(quota: &str, start: Timestamp, windows: u64) -> (Nanos, Nanos) {
    let limiter = at(&FakeClock::at(start), quota);
    limiter.reserve(Cost::ZERO).unwrap().settle(10 * windows);
    let told = limiter.peek(ONE).retry_after.unwrap();
    let clock = FakeClock::at(start);
    let limiter = at(&clock, quota);
    for _ in 0..windows {
        assert!(limiter.try_acquire(10).allowed);
        clock.advance(limiter.peek(ONE).retry_after.unwrap());
    }
    (told, clock.now().since(start))
}

const NEW_YEAR_2026: i64 = 1_767_225_600;

#[test]
fn a_debt_was_paid_too_early_where_clocks_change() {
    for quota in [
        "10/day fixed calendar",
        "10/day fixed calendar Europe/Berlin",
        "10/day fixed calendar Australia/Lord_Howe",
        "10/week fixed calendar Europe/Berlin",
        "10/month fixed calendar",
        "10/month fixed calendar Europe/Berlin",
        "10/year fixed calendar",
        "10/year fixed calendar America/New_York",
    ] {
        for day in (0..365).step_by(if is_thorough() { 3 } else { 11 }) {
            let start = Timestamp::from_secs(NEW_YEAR_2026 + day * 86_400 + 43_000);
            for windows in [2, 3, 5, 9, 40] {
                let (told, took) = told_and_took(quota, start, windows);
                assert_eq!(told, took, "{quota}, from day {day}, {windows} windows");
            }
        }
    }
}

/// Where the clocks change by half an hour, an hour may take that much longer or less. An ordinary run tries every half-hour of
/// the days about the changes, and one in 37 of the others.
#[test]
fn a_debt_is_not_paid_too_early_where_hours_differ() {
    // With the days of 2026 on which clocks change, in UTC and counted from 0.
    for (zone, changes) in [
        ("Australia/Lord_Howe", [93, 275].as_slice()),
        ("Europe/Berlin", &[87, 297]),
        ("Asia/Kathmandu", &[]),
    ] {
        let quota = format!("10/hour fixed calendar {zone}");
        let is_tried = |half_hour: &i64| {
            is_thorough()
                || half_hour % 37 == 0
                || changes.iter().any(|day: &i64| (half_hour / 48 - day).abs() <= 1)
        };
        for half_hour in (0..365 * 48).filter(is_tried) {
            let start = Timestamp::from_secs(NEW_YEAR_2026 + half_hour * 1_800 + 600);
            for windows in [2, 7] {
                let (told, took) = told_and_took(&quota, start, windows);
                let case = format!("{quota}, from half-hour {half_hour}: told {told}, took {took}");
                assert!(told >= took, "{case}");
                assert!(told <= took.saturating_add(Nanos::from_secs(5_400)), "{case}");
            }
        }
    }
}
