//! What was used beyond what there was: it is paid before anybody else gets anything. Whatever its size, it is found
//! by arithmetic when it will have been paid, and what is there then.

use super::tank::{Contents, Outlook, Tank, meter};
use crate::algorithm::{View, exact, fixed_window, floor, gcra, leaky_bucket, sliding_window, token_bucket};
use crate::{Algorithm, Anchor, CalendarUnit, Cost, Nanos, Quota, State, Timestamp};

impl Tank {
    /// Takes a cost that was used already, whether it is there or not.
    pub(crate) fn owe(&mut self, cost: Cost, now: Timestamp) {
        if cost == Cost::PEEK {
            return;
        }
        let at = now.max(self.paid_at);
        if self.contents.outlook(cost, at) == Outlook::Ready {
            return self.contents.charge(cost, at);
        }
        self.paid_at = match &mut self.contents {
            Contents::Rate { quota, .. } if quota.algorithm() == Algorithm::SlidingLog => {
                let quota = *quota;
                self.contents.pay_by_log(&quota, cost.get(), at)
            }
            Contents::Rate { quota, state } => {
                let (paid_at, paid) = pay(quota, state.take(), cost.get(), at);
                *state = paid;
                paid_at
            }
            Contents::Ticks(bucket) => bucket.owe(cost.get(), at),
            // Nobody uses these before being let in.
            Contents::Permits { .. } | Contents::Line(_) => return self.contents.charge(cost, at),
        };
    }

    /// How much is owed, rounded up.
    pub(super) fn owed(&self, now: Timestamp) -> u64 {
        let Contents::Rate { quota, .. } = &self.contents else { return 0 };
        let time = u128::from(self.paid_at.since(now).as_nanos());
        let owed = (time * u128::from(quota.count())).div_ceil(u128::from(quota.period().as_nanos().max(1)));
        u64::try_from(owed).unwrap_or(u64::MAX)
    }
}

impl Contents {
    /// A log forgets after a window, so it never holds more than passes: what is left over is entered when it would
    /// pass.
    fn pay_by_log(&mut self, quota: &Quota, cost: u64, at: Timestamp) -> Timestamp {
        let Contents::Rate { state, .. } = self else { return at };
        let (limit, left) = (quota.burst(), meter(quota, state, at).remaining());
        let rest = cost.saturating_sub(left);
        self.charge(Cost::new(cost - rest), at);
        if rest <= limit {
            let wait = self.outlook(Cost::new(rest), at).wait();
            let paid_at = wait.map_or(Timestamp::MAX, |wait| at + wait);
            self.charge(Cost::new(rest), paid_at);
            return paid_at;
        }
        let Contents::Rate { state, .. } = self else { return at };
        let forgotten = at + meter(quota, state, at).reset_after();
        let (windows, count) = split(rest, limit);
        let paid_at = later(forgotten, times(quota.period().saturating_add(NANO), windows));
        *state = Some(State::SlidingLog([(paid_at, count)].into_iter().collect()));
        paid_at
    }

    /// How long what is left of a charge of this age takes to come in; none where charges are forgotten at a stroke.
    pub(super) fn time_left(&self, cost: Cost, age: Nanos) -> Option<Nanos> {
        let Contents::Rate { quota, .. } = self else { return None };
        let whole = match quota.algorithm() {
            Algorithm::Gcra => quota.emission_interval().as_nanos().saturating_mul(cost.get()),
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                // Rounded down: less is given back rather than more.
                floor(exact(cost.get()) * 1e9 / quota.rate())
            }
            _ => return None,
        };
        Some(Nanos::from_nanos(whole).saturating_sub(age))
    }

    /// Everything that was taken counts as taken so much earlier.
    pub(super) fn bring_forward(&mut self, by: Nanos) {
        match self {
            Contents::Rate { state: Some(State::Gcra(state)), .. } => {
                state.tat = state.tat.saturating_sub(by)
            }
            Contents::Rate { state: Some(State::TokenBucket(state)), .. } => {
                state.last = state.last.saturating_sub(by);
            }
            Contents::Rate { state: Some(State::LeakyBucket(state)), .. } => {
                state.last = state.last.saturating_sub(by);
            }
            _ => {}
        }
    }
}

/// Takes more than there is: when that will have been paid, and the state at that instant.
fn pay(quota: &Quota, state: Option<State>, cost: u64, at: Timestamp) -> (Timestamp, Option<State>) {
    let (limit, window) = (quota.burst(), quota.period());
    let state = meter(quota, &state, at).to_state();
    match (quota.algorithm(), state) {
        (Algorithm::Gcra, state) => {
            let used = match state {
                Some(State::Gcra(state)) => state.tat.since(at).as_nanos(),
                _ => 0,
            };
            let tolerance = quota.refill_time();
            let needed = u128::from(used) + times(quota.emission_interval(), cost);
            let paid_at = later(at, needed.saturating_sub(u128::from(tolerance.as_nanos())));
            (paid_at, Some(State::Gcra(gcra::GcraState { tat: paid_at + tolerance })))
        }
        (Algorithm::TokenBucket, state) => {
            let (tokens, last) = match state {
                Some(State::TokenBucket(state)) => (state.tokens, state.last),
                _ => (exact(limit), at),
            };
            let missing = nanos_for(quota, exact(cost) - tokens);
            let last = later(last.max(at), u128::from(missing));
            (last, Some(State::TokenBucket(token_bucket::TokenBucketState { tokens: 0.0, last })))
        }
        (Algorithm::LeakyBucket, state) => {
            let (level, last) = match state {
                Some(State::LeakyBucket(state)) => (state.level, state.last),
                _ => (0.0, at),
            };
            let surplus = nanos_for(quota, level + exact(cost) - exact(limit));
            let last = later(last.max(at), u128::from(surplus));
            (last, Some(State::LeakyBucket(leaky_bucket::LeakyBucketState { level: exact(limit), last })))
        }
        (Algorithm::FixedWindow(anchor), state) => {
            // The rest of this window, then all of each that follows, then a part of the last.
            let mut this = meter(quota, &state, at);
            let rest = cost.saturating_sub(this.remaining());
            this.charge(Cost::new(cost - rest));
            let (windows, count) = split(rest, limit);
            let start = after_windows(anchor, window, at + this.reset_after(), windows);
            (start, Some(State::FixedWindow(fixed_window::FixedWindowState { count, start })))
        }
        (Algorithm::SlidingWindow, state) => {
            let mut paid = match state {
                Some(State::SlidingWindow(state)) => state,
                _ => sliding_window::SlidingWindowState { previous: 0, current: 0, start: at },
            };
            // This slot may be filled to the brim: the estimate says by itself when the next may pass.
            let rest = cost.saturating_sub(limit.saturating_sub(paid.current));
            paid.current += cost - rest;
            if rest == 0 {
                return (at, Some(State::SlidingWindow(paid)));
            }
            let (slots, current) = split(rest, limit);
            let start = later(paid.start, times(window, slots) + u128::from(window.as_nanos()));
            (
                start,
                Some(State::SlidingWindow(sliding_window::SlidingWindowState {
                    previous: limit,
                    current,
                    start,
                })),
            )
        }
        // A log is paid where it is.
        (Algorithm::SlidingLog | Algorithm::Concurrency, state) => (at, state),
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

/// So long after, or the end of time.
pub(super) fn later(at: Timestamp, nanos: u128) -> Timestamp {
    u64::try_from(nanos).map_or(Timestamp::MAX, |nanos| at + Nanos::from_nanos(nanos))
}

/// How long so much takes to come in, rounded up.
pub(super) fn nanos_for(quota: &Quota, amount: f64) -> u64 {
    floor((amount * 1e9 / quota.rate()).ceil())
}
