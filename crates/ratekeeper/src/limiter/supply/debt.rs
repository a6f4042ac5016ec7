//! What was used beyond what there was: it is paid before anybody else gets anything. Whatever its size, arithmetic finds
//! when it will have been paid, and what is there then.

use super::rate::{RateState, later, nanos_for};
use crate::algorithm::fixed_window::FixedWindowState;
use crate::algorithm::gcra::GcraState;
use crate::algorithm::leaky_bucket::LeakyBucketState;
use crate::algorithm::sliding_window::SlidingWindowState;
use crate::algorithm::token_bucket::TokenBucketState;
use crate::algorithm::{View, Wait, exact};
use crate::{Algorithm, Anchor, CalendarUnit, Cost, Nanos, State, Timestamp};

/// Takes more than there is: returns when that will have been paid. The state is that of then.
pub(super) fn owe(rate: &mut RateState, cost: u64, at: Timestamp) -> Timestamp {
    if rate.quota().algorithm() == Algorithm::SlidingLog {
        return owe_log(rate, cost, at);
    }
    rate.state = rate.view(at).to_state();
    let (paid_at, paid) = pay(rate, cost, at);
    rate.state = paid;
    paid_at
}

/// A log forgets after a window, so it never holds more than passes: what is left over is entered when it would pass.
fn owe_log(rate: &mut RateState, cost: u64, at: Timestamp) -> Timestamp {
    let (limit, left) = (rate.quota().burst(), rate.view(at).remaining());
    let rest = cost.saturating_sub(left);
    rate.charge(Cost::new(cost - rest), at);
    if rest <= limit {
        let paid_at = match rate.view(at).wait_for(Cost::new(rest)) {
            Wait::Ready => at,
            Wait::After(wait) => at + wait,
            Wait::Never => Timestamp::MAX,
        };
        rate.charge(Cost::new(rest), paid_at);
        return paid_at;
    }
    let forgotten = at + rate.view(at).reset_after();
    let (windows, count) = split(rest, limit);
    let paid_at = later(forgotten, times(rate.quota().period().saturating_add(NANO), windows));
    rate.state = Some(State::SlidingLog([(paid_at, count)].into_iter().collect()));
    paid_at
}

/// When this cost will have been paid, on top of what is remembered, and the state at that instant.
fn pay(rate: &RateState, cost: u64, at: Timestamp) -> (Timestamp, Option<State>) {
    let quota = rate.quota();
    let (limit, window) = (quota.burst(), quota.period());
    match (quota.algorithm(), &rate.state) {
        (Algorithm::Gcra, state) => {
            let used = match state {
                Some(State::Gcra(state)) => state.tat.since(at).as_nanos(),
                _ => 0,
            };
            let tolerance = quota.refill_time();
            let needed = u128::from(used) + times(quota.emission_interval(), cost);
            let paid_at = later(at, needed.saturating_sub(u128::from(tolerance.as_nanos())));
            (paid_at, Some(State::Gcra(GcraState { tat: paid_at + tolerance })))
        }
        (Algorithm::TokenBucket, state) => {
            let (tokens, last) = match state {
                Some(State::TokenBucket(state)) => (state.tokens, state.last),
                _ => (exact(limit), at),
            };
            let missing = nanos_for(quota, exact(cost) - tokens);
            let last = later(last.max(at), u128::from(missing));
            (last, Some(State::TokenBucket(TokenBucketState { tokens: 0.0, last })))
        }
        (Algorithm::LeakyBucket, state) => {
            let (level, last) = match state {
                Some(State::LeakyBucket(state)) => (state.level, state.last),
                _ => (0.0, at),
            };
            let surplus = nanos_for(quota, level + exact(cost) - exact(limit));
            let last = later(last.max(at), u128::from(surplus));
            (last, Some(State::LeakyBucket(LeakyBucketState { level: exact(limit), last })))
        }
        (Algorithm::FixedWindow(anchor), _) => {
            // The rest of this window, then all of each that follows, then a part of the last.
            let mut this = rate.view(at);
            let rest = cost.saturating_sub(this.remaining());
            this.charge(Cost::new(cost - rest));
            let (windows, count) = split(rest, limit);
            let start = after_windows(anchor, window, at + this.reset_after(), windows);
            (start, Some(State::FixedWindow(FixedWindowState { count, start })))
        }
        (Algorithm::SlidingWindow, state) => {
            let mut paid = match state {
                Some(State::SlidingWindow(state)) => *state,
                _ => SlidingWindowState { previous: 0, current: 0, start: at },
            };
            // This slot may be filled to the brim: the estimate says by itself when the next may pass.
            let rest = cost.saturating_sub(limit.saturating_sub(paid.current));
            paid.current += cost - rest;
            if rest == 0 {
                return (at, Some(State::SlidingWindow(paid)));
            }
            let (slots, current) = split(rest, limit);
            let start = later(paid.start, times(window, slots) + u128::from(window.as_nanos()));
            (start, Some(State::SlidingWindow(SlidingWindowState { previous: limit, current, start })))
        }
        // A log is paid where it is, and permits have no state.
        (Algorithm::SlidingLog | Algorithm::Concurrency, state) => (at, state.clone()),
    }
}

/// An entry of a log counts for a window and a nanosecond.
const NANO: Nanos = Nanos::from_nanos(1);

/// How many whole limits, and what is left for one more: at least 1, unless nothing is owed.
fn split(owed: u64, limit: u64) -> (u64, u64) {
    let whole = owed.saturating_sub(1) / limit.max(1);
    (whole, owed - whole * limit)
}

/// The start of the window so many after the one that starts here.
fn after_windows(anchor: Anchor, window: Nanos, start: Timestamp, windows: u64) -> Timestamp {
    const DAY: u64 = 86_400 * 1_000_000_000;
    let Anchor::Calendar(calendar) = anchor else { return later(start, times(window, windows)) };
    // Months and years differ, and days where clocks change, but never by as much as half of one from the average: the
    // window that is half of one later is it. Four hundred years have 146,097 days, always.
    let (time, half) = match calendar.unit() {
        CalendarUnit::Month => (u128::from(windows) * u128::from(DAY) * 146_097 / 4_800, DAY * 15),
        CalendarUnit::Year => (u128::from(windows) * u128::from(DAY) * 146_097 / 400, DAY * 182),
        _ => (times(window, windows), window.as_nanos() / 2),
    };
    match later(start, time.saturating_add(u128::from(half))) {
        Timestamp::MAX => Timestamp::MAX,
        within => calendar.window(within).0.max(start),
    }
}

fn times(span: Nanos, count: u64) -> u128 {
    u128::from(span.as_nanos()) * u128::from(count)
}
