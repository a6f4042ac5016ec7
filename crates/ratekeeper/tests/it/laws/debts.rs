//! What is charged without asking: bounded, exact, and given back as it was taken.

use proptest::prelude::*;
use ratekeeper::algorithm::{SLACK, Tenancy};
use ratekeeper::state::binary::{self, Decoded};
use ratekeeper::state::{Record, ascii};
use ratekeeper::{Algorithm, Cost, Decision, Nanos, Quota, State, Timestamp};

use super::support::draw::{Walk, debit, quota, quota_of, span, start, stumbled, takes};
use super::support::float::{on_the_edge, tolerance};
use super::support::{Key, TICK, before};

/// GCRA and both buckets: those whose debt is bounded by their capacity.
fn flowing() -> impl Strategy<Value = Quota> {
    let flowing = vec![Algorithm::Gcra, Algorithm::TokenBucket, Algorithm::LeakyBucket];
    prop::sample::select(flowing).prop_flat_map(quota_of)
}

fn is_float(quota: &Quota) -> bool {
    matches!(quota.algorithm(), Algorithm::TokenBucket | Algorithm::LeakyBucket)
}

/// The time, and what the last bits of a double may add to it.
fn about(time: Nanos) -> Nanos {
    Nanos::from_nanos(time.as_nanos() + (time.as_nanos() >> 50) + 1)
}

/// True of a state that holds a later instant: the clock has stepped back since, and a charge may be cut off by that.
fn lies_ahead(state: Option<&State>, now: Timestamp) -> bool {
    match state {
        Some(State::FixedWindow(state)) => state.start > now,
        Some(State::SlidingWindow(state)) => state.start > now,
        Some(State::SlidingLog(log)) => log.entries().any(|(at, _)| at > now),
        Some(State::TokenBucket(state)) => state.last > now,
        Some(State::LeakyBucket(state)) => state.last > now,
        _ => false,
    }
}

/// How much of a count or a capacity is used, whatever it is counted in: more than the limit in debt.
fn used(state: Option<&State>) -> u64 {
    match state {
        Some(State::FixedWindow(state)) => state.count,
        Some(State::SlidingWindow(state)) => state.current,
        Some(State::SlidingLog(log)) => log.entries().map(|(_, cost)| cost).sum(),
        _ => 0,
    }
}

/// What the codecs make of a state.
fn through_text(state: &State, quota: &Quota) -> Option<State> {
    let name = "rule".parse().unwrap();
    let record =
        Record::from_rules([(&name, quota, Some(state.clone()))], Timestamp::EPOCH).unwrap().unwrap();
    let read = ascii::decode(ascii::encode(&record)).unwrap();
    read.into_rules([(&name, quota)]).unwrap().remove(0)
}

fn through_bytes(state: &State) -> State {
    match binary::decode(&binary::encode(state)).unwrap() {
        Decoded::State(state) => state,
        Decoded::OtherVersion { found } => panic!("{found}"),
    }
}

/// The same walk, counted at a whole microsecond: what binary holds of a bucket.
fn on_a_microsecond(mut walk: Walk, cost: u64) -> Walk {
    let past = u64::try_from(walk.now.as_nanos().rem_euclid(1_000)).unwrap();
    walk.now = walk.now + Nanos::from_nanos(1_000 - past);
    walk.key.debit(cost, walk.now);
    walk
}

proptest! {
    #![proptest_config(test_support::cases::config(3_000))]

    /// A debit is never refused: all of it is charged but for what is forgiven, which is whatever a bound cut. It answers what
    /// a peek for one more is told.
    #[test]
    fn a_debit_charges_all_but_what_is_forgiven(walk in stumbled(), cost in debit()) {
        let (mut key, now) = (walk.key, walk.now);
        let old = key.clone();
        let (told, forgiven) = key.debit(cost, now);
        prop_assert_eq!(told, key.peek(1, now));
        prop_assert_eq!(told.allowed, told.remaining > 0);
        prop_assert!(forgiven <= cost);
        let (before, after) = (old.peek(0, now), key.peek(0, now));
        prop_assert!(after.remaining <= before.remaining);
        if cost == 0 {
            prop_assert_eq!(key.state, old.state, "a debit of nothing wrote");
        } else if !on_the_edge(&Walk { key: old.clone(), now, promised: Nanos::ZERO }) {
            let charged = cost - forgiven;
            prop_assert!(after.remaining == before.remaining.saturating_sub(charged) || is_float(&key.quota));
            prop_assert!(after.remaining <= before.remaining.saturating_sub(charged.saturating_sub(1)));
        }
    }

    /// In debt nothing remains, and the promised wait is exact: after just that long it passes, a nanosecond earlier it does
    /// not. Asking costs nothing, and neither does a cost of nothing.
    #[test]
    fn in_debt_nothing_remains_and_the_wait_is_exact(walk in stumbled(), cost in 1_u64..=12, debited in 13_u64..=60) {
        let (mut key, now) = (walk.key, walk.now);
        let (told, _) = key.debit(debited, now);
        prop_assert_eq!((told.allowed, told.remaining), (false, 0), "13 and more of at most 12");
        let nothing = key.take(0, now);
        prop_assert_eq!((nothing.allowed, nothing.retry_after), (true, Some(Nanos::ZERO)));
        let cost = cost.min(key.quota.burst());
        let denied = key.take(cost, now);
        let wait = denied.retry_after.unwrap();
        prop_assert!(!denied.allowed && wait <= denied.reset_after);
        prop_assert!(!key.clone().take(cost, before(now + wait, TICK)).allowed, "{wait} is more than needed");
        prop_assert!(key.clone().take(cost, now + wait).allowed, "{wait} is not enough");
        prop_assert!(key.peek(0, now + denied.reset_after).remaining == key.quota.burst());
    }

    /// A debt is at most one capacity: however much is debited and however often, GCRA and both buckets are whole again within
    /// two refills, and a second more if the clock has stepped back.
    #[test]
    fn nobody_owes_more_than_one_capacity(quota in flowing(), start in start(), costs in prop::collection::vec(debit(), 1..8), back in span()) {
        let mut key = Key::fresh(quota);
        let debited: u128 = costs.iter().map(|cost| u128::from(*cost)).sum();
        let mut forgiven = 0_u128;
        for cost in &costs {
            forgiven += u128::from(key.debit(*cost, start).1);
        }
        let refills = quota.refill_time().saturating_add(quota.refill_time());
        prop_assert!(key.peek(0, start).reset_after <= about(refills));
        let whole = 2 * u128::from(quota.burst());
        prop_assert_eq!(forgiven, debited.saturating_sub(whole));
        let earlier = before(start, back.under(&quota));
        key.take(1, earlier);
        prop_assert!(key.peek(0, earlier).reset_after <= about(refills.saturating_add(SLACK)));
    }

    /// What a window or a log counts is counted to the last one, beyond every limit, and ends with the window.
    #[test]
    fn what_windows_count_beyond_the_limit_ends_with_them(walk in stumbled(), cost in debit()) {
        if matches!(walk.key.quota.algorithm().word(), "gcra" | "bucket" | "leaky") {
            return Ok(());
        }
        let (mut key, now) = (walk.key, walk.now);
        key.debit(1, now);
        let before = used(key.state.as_ref());
        let (_, forgiven) = key.debit(cost, now);
        prop_assert_eq!(u128::from(used(key.state.as_ref())), u128::from(before) + u128::from(cost - forgiven));
        prop_assert!(forgiven == 0 || used(key.state.as_ref()) == i64::MAX.cast_unsigned());
        let reset = key.peek(0, now).reset_after;
        prop_assert!(reset <= key.longest().saturating_add(SLACK));
        prop_assert_eq!(key.peek(0, now + reset).remaining, key.quota.burst());
    }

    /// Debited and given back at one instant, a key stands where it stood, unless a bound cut the debit off: exactly where
    /// integers count, and to the last bits of a double elsewhere.
    #[test]
    fn a_debit_given_back_at_once_was_never_there(walk in stumbled(), cost in debit(), wait in span()) {
        let (mut untouched, now) = (walk.key, walk.now);
        // What lies too far ahead is cut off before the two are compared.
        untouched.take(u64::MAX, now);
        // Nor one whose window has yet to begin: what is charged now is not known to be charged in that.
        prop_assume!(!lies_ahead(untouched.state.as_ref(), now));
        let entries = |key: &Key| match &key.state {
            Some(State::SlidingLog(log)) => log.len(),
            _ => 0,
        };
        // Nor a log with no room for one more entry: the last one has moved.
        prop_assume!(entries(&untouched) < untouched.quota.log_bound() as usize || untouched.quota.algorithm() != Algorithm::SlidingLog);
        let mut key = untouched.clone();
        let (_, forgiven) = key.debit(cost, now);
        // What is forgiven is told in whole ones: a part of one may have been, at the bound.
        let (refill, burst) = (key.quota.refill_time(), u32::try_from(key.quota.burst()).unwrap());
        let is_at_the_bound = match &key.state {
            Some(State::Gcra(state)) => state.tat >= now + refill.saturating_add(refill),
            Some(State::TokenBucket(state)) => state.tokens <= -f64::from(burst),
            Some(State::LeakyBucket(state)) => state.level >= 2.0 * f64::from(burst),
            _ => false,
        };
        if forgiven > 0 || is_at_the_bound {
            return Ok(());
        }
        let wanted = untouched.peek(0, now);
        let later = now + wait.under(&key.quota);
        let given = key.refund(cost, now);
        if is_float(&key.quota) {
            let stray = tolerance(&key.quota, 24) * num_rational::BigRational::new(key.quota.period().as_nanos().into(), key.quota.count().into());
            let stray = u64::try_from(stray.ceil().to_integer()).unwrap() + 1;
            prop_assert!(given.reset_after.as_nanos().abs_diff(wanted.reset_after.as_nanos()) <= stray, "{given:?} {wanted:?}");
        } else {
            prop_assert_eq!(given, wanted);
            prop_assert_eq!(key.peek(1, later), untouched.peek(1, later));
        }
    }

    /// Who only ever asks never owes: without a debit GCRA and both buckets are whole within one refill, and no count passes its
    /// limit.
    #[test]
    fn who_only_asks_never_owes(quota in quota(), start in start(), steps in takes(30)) {
        let mut walk = Walk::new(quota, start);
        walk.through(steps);
        let decision = walk.key.peek(0, walk.now);
        prop_assert!(used(walk.key.state.as_ref()) <= quota.burst());
        if matches!(quota.algorithm(), Algorithm::Gcra | Algorithm::TokenBucket | Algorithm::LeakyBucket) {
            prop_assert!(decision.reset_after <= about(quota.refill_time()));
        }
    }

    /// What is admitted and what is debited, in any span of time: together at most two capacities and what refills in it; and
    /// what is admitted alone at most one, as if nothing had ever been debited.
    #[test]
    fn debts_are_paid_before_anything_passes(
        quota in flowing(),
        start in start(),
        moves in prop::collection::vec((0_u8..8, 1_u64..=13, debit(), span()), 1..40),
    ) {
        let (mut key, mut now) = (Key::fresh(quota), start);
        let mut charges: Vec<(Timestamp, u64, u64)> = Vec::new();
        for (kind, cost, debited, span) in moves {
            match kind {
                0 | 1 => now = now + span.under(&quota),
                2 => {
                    let (_, forgiven) = key.debit(debited, now);
                    charges.push((now, 0, debited - forgiven));
                }
                _ if key.take(cost, now).allowed => charges.push((now, cost, 0)),
                _ => {}
            }
        }
        for (index, (first, ..)) in charges.iter().enumerate() {
            let (mut admitted, mut all) = (0_u128, 0_u128);
            for (at, taken, debited) in &charges[index..] {
                admitted += u128::from(*taken);
                all += u128::from(*taken) + u128::from(*debited);
                let (span, burst) = (u128::from(at.since(*first).as_nanos()), u128::from(quota.burst()));
                let refilled = match quota.algorithm() {
                    Algorithm::Gcra => span / u128::from(quota.emission_interval().as_nanos()),
                    // One more for ε, and one for the rounding of the bound.
                    _ => span * u128::from(quota.count()) / u128::from(quota.period().as_nanos()) + 2,
                };
                prop_assert!(admitted <= burst + refilled, "{admitted} admitted in {span} ns");
                // A part of one may have been forgiven each time.
                prop_assert!(all <= 2 * burst + refilled + charges.len() as u128, "{all} charged in {span} ns");
            }
        }
    }

    /// A log stays within its bound, however many debits come at however many instants, and still counts every one of them.
    #[test]
    fn a_log_of_debits_stays_within_its_bound(
        quota in quota_of(Algorithm::SlidingLog),
        start in start(),
        moves in prop::collection::vec((0_u8..6, 1_u64..=3, span()), 1..80),
    ) {
        let mut walk = Walk::new(quota, start);
        for (kind, cost, span) in moves {
            let old = used(walk.key.state.as_ref());
            match kind {
                0 => walk.now = walk.now + span.under(&quota),
                1 => walk.now = before(walk.now, span.under(&quota)),
                2 => _ = walk.key.take(cost, walk.now),
                _ => {
                    walk.now = walk.now + TICK;
                    let (told, _) = walk.key.debit(cost, walk.now);
                    prop_assert_eq!(told, walk.key.peek(1, walk.now), "what is told is what was written");
                    prop_assert!(used(walk.key.state.as_ref()) <= old + cost);
                    let left = walk.key.peek(0, walk.now);
                    prop_assert_eq!(left.remaining, quota.burst().saturating_sub(used(walk.key.state.as_ref())));
                }
            }
            if let Some(State::SlidingLog(log)) = &walk.key.state {
                prop_assert!(log.len() <= quota.log_bound() as usize, "{} of {}", log.len(), quota.log_bound());
            }
        }
    }

    /// A state in debt is the same after both codecs, and so decides the same: negative tokens, a level of up to two
    /// capacities, counts beyond the limit. Binary counts a bucket's time in microseconds, so there on a whole one.
    #[test]
    fn a_debt_survives_both_codecs(walk in stumbled(), cost in prop_oneof![1_u64..=60, any::<u64>()], wait in span()) {
        let walk = on_a_microsecond(walk, cost);
        let quota = walk.key.quota;
        let Some(state) = walk.key.state else { return Ok(()) };
        let later = walk.now + wait.under(&quota);
        let answers = |state: Option<State>| -> Vec<Decision> {
            let key = Key { quota, state };
            [0, 1, quota.burst()].iter().flat_map(|cost| [key.peek(*cost, walk.now), key.peek(*cost, later)]).collect()
        };
        let wanted = answers(Some(state.clone()));
        let text = through_text(&state, &quota);
        prop_assert_eq!(text.as_ref(), Some(&state));
        prop_assert_eq!(answers(text), wanted.clone());
        let bytes = through_bytes(&state);
        prop_assert!(bytes == state || lies_between_micros(&state), "{bytes:?} {state:?}");
        prop_assert!(lies_between_micros(&state) || answers(Some(bytes)) == wanted);
    }
}

/// True of a bucket whose instant lies between two microseconds: the clock had stepped back, and it was kept.
fn lies_between_micros(state: &State) -> bool {
    match state {
        State::TokenBucket(state) => state.last.as_nanos().rem_euclid(1_000) != 0,
        State::LeakyBucket(state) => state.last.as_nanos().rem_euclid(1_000) != 0,
        _ => false,
    }
}

/// The same in every algorithm, in numbers: 20 owed of `10/s`, and where they stand.
#[test]
fn a_debt_in_numbers() {
    let millis = |millis| Some(Nanos::from_millis(millis));
    for (quota, forgiven, retry, reset) in [
        ("10/s", 10, millis(1_100), 2_000),
        ("10/s bucket", 10, millis(1_100), 2_000),
        ("10/s leaky", 10, millis(1_100), 2_000),
        ("10/s fixed", 0, millis(1_000), 1_000),
        ("10/s sliding", 0, Some(Nanos::from_nanos(1_666_666_667)), 2_000),
        ("10/s log", 0, Some(Nanos::from_nanos(1_000_000_001)), 1_000),
    ] {
        let mut key = Key::fresh(quota.parse().unwrap());
        let (told, beyond) = key.debit(30, super::support::NOON);
        assert_eq!((told.allowed, told.remaining, beyond), (false, 0, forgiven), "{quota}");
        assert_eq!(told.retry_after, retry, "{quota}");
        let log = u64::from(quota.ends_with("log"));
        assert_eq!(told.reset_after, Nanos::from_nanos(reset * 1_000_000 + log), "{quota}");
    }
}

/// A quota that is lowered while a key owes more than the new one's debt: it owes just that, from now on, and is not refilled.
#[test]
fn a_lowered_quota_forgives_a_debt_beyond_its_own_and_refills_nothing() {
    let now = super::support::NOON;
    for algorithm in ["bucket", "leaky"] {
        let mut key = Key::fresh(format!("10/s burst 100 {algorithm}").parse().unwrap());
        key.debit(200, now);
        key.quota = format!("10/s burst 20 {algorithm}").parse().unwrap();
        let late = now + Nanos::from_millis(9_900);
        assert_eq!(key.peek(0, late).remaining, 0, "{algorithm}: 100 were owed, and 99 came");
        let denied = key.take(1, now);
        assert_eq!(denied.retry_after, Some(Nanos::from_millis(2_100)), "{algorithm}: 20 owed");
        assert!(key.take(1, now + Nanos::from_millis(2_100)).allowed, "{algorithm}");
    }
}

/// What several quotas share may be deeper in debt than this one would go: it is neither cut off nor charged any further.
#[test]
fn a_shared_debt_is_another_quotas() {
    use ratekeeper::algorithm::composite;
    let now = super::support::NOON;
    for algorithm in ["", "bucket", "leaky"] {
        let large: Quota = format!("10/s burst 100 {algorithm}").parse().unwrap();
        let small: Quota = format!("10/s burst 5 {algorithm}").parse().unwrap();
        let ((_, states), _) =
            composite::debit_each(&[(large, None)], |_| Cost::new(200).into(), now, Tenancy::Shared).unwrap();
        let rule = [(small, states[0].clone())];
        let ((each, after), forgiven) =
            composite::debit_each(&rule, |_| Cost::new(7).into(), now, Tenancy::Shared).unwrap();
        assert_eq!((forgiven, each[0].remaining), (7, 0), "{algorithm}");
        assert_eq!(after, states, "{algorithm}");
    }
}
