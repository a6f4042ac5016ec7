//! Never more than the quota allows, in any interval whatever.

use proptest::prelude::*;
use ratekeeper::{Algorithm, Anchor, Calendar, CalendarUnit, Quota, State, Timestamp, Zone};

use super::support::draw::{Walk, quota_of, start, takes};

/// What was taken, and when, by somebody who asks at every turn.
fn admitted(quota: Quota, start: Timestamp, steps: Vec<super::support::draw::Step>) -> Vec<(i128, u128)> {
    let mut walk = Walk::new(quota, start);
    let mut admitted = Vec::new();
    for step in steps {
        let (now, taken) = (walk.now, walk.step(step));
        if taken > 0 {
            admitted.push((i128::from(now.as_nanos()), u128::from(taken)));
        }
    }
    admitted
}

/// Every interval that begins and ends with an admission: its length, and what was admitted in it.
fn intervals(admitted: &[(i128, u128)]) -> impl Iterator<Item = (u128, u128)> + '_ {
    (0..admitted.len()).flat_map(move |first| {
        admitted[first..].iter().scan(0, move |sum, (at, cost)| {
            *sum += cost;
            Some(((at - admitted[first].0).unsigned_abs(), *sum))
        })
    })
}

proptest! {
    #![proptest_config(test_support::cases::config(1_000))]

    /// GCRA: over any interval of length d at most the burst and what is emitted in d, one every `e`.
    #[test]
    fn gcra_admits_at_most_the_burst_and_what_is_emitted(
        quota in quota_of(Algorithm::Gcra), start in start(), steps in takes(40),
    ) {
        for (length, sum) in intervals(&admitted(quota, start, steps)) {
            let emission = u128::from(quota.emission_interval().as_nanos());
            prop_assert!(sum * emission <= u128::from(quota.burst()) * emission + length, "{sum} in {length}");
        }
    }

    /// Token and leaky bucket: over any interval of length d at most the capacity and d times the rate. To the last
    /// bit of that sum, ε is forgiven once for each admission: a billionth of a token.
    #[test]
    fn buckets_admit_at_most_the_capacity_and_what_flows(
        quota in prop::sample::select(vec![Algorithm::TokenBucket, Algorithm::LeakyBucket]).prop_flat_map(quota_of),
        start in start(),
        steps in takes(40),
    ) {
        for (length, sum) in intervals(&admitted(quota, start, steps)) {
            // In billionths, with one more for the rounding of the bound itself and one for that of the doubles.
            let flown = length * u128::from(quota.count()) * 1_000_000_000 / u128::from(quota.period().as_nanos());
            let bound = u128::from(quota.burst()) * 1_000_000_000 + flown + 40 + 2;
            prop_assert!(sum * 1_000_000_000 <= bound, "{sum} in {length}");
        }
    }

    /// Fixed window: at most the limit from a window's first instant to its last, and at most twice the limit in any
    /// interval as long as a window.
    #[test]
    fn a_fixed_window_admits_at_most_the_limit(
        quota in prop::sample::select(vec![Algorithm::FIXED, Algorithm::FixedWindow(Anchor::Grid)])
            .prop_flat_map(quota_of),
        start in start(),
        steps in takes(40),
    ) {
        let mut walk = Walk::new(quota, start);
        let (mut windows, mut taken) = (std::collections::BTreeMap::new(), Vec::new());
        for step in steps {
            let (now, cost) = (walk.now, walk.step(step));
            if cost > 0 {
                let Some(State::FixedWindow(state)) = walk.key.state else { unreachable!("just written") };
                prop_assert!(state.start <= now && now.since(state.start) < quota.period());
                *windows.entry(state.start).or_insert(0) += cost;
                taken.push((i128::from(now.as_nanos()), u128::from(cost)));
            }
        }
        prop_assert!(windows.values().all(|sum| *sum <= quota.burst()), "{windows:?}");
        let starts: Vec<Timestamp> = windows.into_keys().collect();
        prop_assert!(starts.windows(2).all(|pair| pair[1].since(pair[0]) >= quota.period()), "{starts:?}");
        for (length, sum) in intervals(&taken) {
            let within = length < u128::from(quota.period().as_nanos());
            prop_assert!(!within || sum <= 2 * u128::from(quota.burst()), "{sum} in {length}");
        }
    }

    /// Calendar window: at most the limit in each month as the calendar has it.
    #[test]
    fn a_calendar_month_admits_at_most_the_limit(
        quota in quota_of(Algorithm::FixedWindow(Anchor::Calendar(Calendar::new(CalendarUnit::Month, Zone::UTC)))),
        start in start(),
        steps in takes(40),
    ) {
        let month = Calendar::new(CalendarUnit::Month, Zone::UTC);
        let mut months = std::collections::BTreeMap::new();
        for (at, cost) in admitted(quota, start, steps) {
            let at = Timestamp::from_nanos(i64::try_from(at).unwrap());
            *months.entry(month.window(at)).or_insert(0) += cost;
        }
        prop_assert!(months.values().all(|sum| *sum <= u128::from(quota.burst())), "{months:?}");
    }

    /// Sliding log: at most the limit in any interval [t, t + window], both ends included.
    #[test]
    fn a_sliding_log_admits_at_most_the_limit_in_any_window(
        quota in quota_of(Algorithm::SlidingLog), start in start(), steps in takes(40),
    ) {
        for (length, sum) in intervals(&admitted(quota, start, steps)) {
            let within = length <= u128::from(quota.period().as_nanos());
            prop_assert!(!within || sum <= u128::from(quota.burst()), "{sum} in {length}");
        }
    }

    /// Sliding counter: what its slot has taken and the part of the previous one that the window still overlaps come
    /// to less than the limit plus one, always; and so at most the limit in any slot, and twice that in any window.
    #[test]
    fn a_sliding_counter_admits_at_most_its_estimate(
        quota in quota_of(Algorithm::SlidingWindow), start in start(), steps in takes(40),
    ) {
        let mut walk = Walk::new(quota, start);
        let (window, limit) = (u128::from(quota.period().as_nanos()), u128::from(quota.burst()));
        let mut taken = Vec::new();
        for step in steps {
            let (now, cost) = (walk.now, walk.step(step));
            if cost == 0 {
                continue;
            }
            taken.push((i128::from(now.as_nanos()), u128::from(cost)));
            let Some(State::SlidingWindow(state)) = walk.key.state else { unreachable!("just written") };
            // Counted from what was really admitted, not from the counts that the state holds.
            let slot = i128::from(state.start.as_nanos());
            let since = |from: i128, to: i128| -> u128 {
                taken.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, cost)| cost).sum()
            };
            let length = i128::try_from(window).unwrap();
            let overlap = window - u128::from(now.since(state.start).as_nanos());
            let scaled = since(slot - length, slot) * overlap + since(slot, slot + length) * window;
            prop_assert!(scaled < (limit + 1) * window, "{state:?}");
        }
        for (length, sum) in intervals(&taken) {
            prop_assert!(length >= window || sum <= 2 * limit, "{sum} in {length}");
        }
    }
}
