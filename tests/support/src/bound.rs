//! What an algorithm admits to one caller in any span of time, and whether what was counted keeps to it.
//!
//! Every admission is stamped by the wall clock before the call and after it. Whatever instant the store decided at
//! lies between the two. So the admissions whose *whole call* lies within a span were decided within it, and there
//! may be at most as many as the algorithm admits in a span of that length. Calls that only overlap the span are not
//! counted: the check raises no false alarm, however busy the machine is.
//!
//! What was admitted within a span and given back within it does not count. What was admitted before the span and is
//! given back within it makes no room in it: that is what a late refund must not do.

use std::fmt;
use std::time::Duration;

use ratekeeper::{Algorithm, Quota};

/// The store's clock and the wall clock are different counters: a thousandth of the span is far more than they
/// differ, and far less than what the faults admit that this looks for.
const DRIFT: u64 = 1_000;

/// Reading two clocks takes some time too, in nanoseconds.
const READING: u64 = 20_000;

/// Every algorithm that stored state decides, by its word in a quota's text.
pub const ALGORITHMS: [&str; 7] = ["gcra", "bucket", "leaky", "fixed", "fixed grid", "sliding", "log"];

/// One admission as seen from outside. Instants are nanoseconds since the crowd set out.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    /// Read before the call.
    pub before: u64,
    /// Read after the call.
    pub after: u64,
    /// What was admitted.
    pub cost: u64,
    /// Read before the call that gave it back, if it was.
    pub refunded: Option<u64>,
}

/// The most that one caller is admitted in a span, whatever it does.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// `burst + span · rate`. GCRA, token bucket and leaky bucket: what was full at first, and what has refilled.
    Refill { burst: u64, count: u64, period: u64 },
    /// `limit` in every window that the span touches. A span touches one more window than fits into it, and if it
    /// begins within one, one more again: windows of the first request, of the grid and of the calendar alike.
    Windows { limit: u64, period: u64 },
    /// `limit + span · limit / window`, rounded up. The sliding counter is no exact window. Let the span end `x` into
    /// a slot, whose predecessor admitted `p`: this slot's count `c` satisfies `p·(1 − x/w) + (c − 1) < limit`, so
    /// `p + c < limit + p·x/w + 1`, and `p ≤ limit`. Every slot that lies wholly within the span adds `limit` and
    /// takes a window `w` of it. So: a caller who drains the end of one slot gets the next one's share as it fades in.
    Fading { limit: u64, period: u64 },
    /// `limit` in every window's length: a span is covered by as many of them as it is long, and one for the rest.
    Log { limit: u64, period: u64 },
}

impl Bound {
    pub fn of(quota: &Quota) -> Self {
        let (limit, count, period) = (quota.burst(), quota.count(), quota.period().as_nanos());
        match quota.algorithm() {
            Algorithm::FixedWindow(_) => Bound::Windows { limit, period },
            Algorithm::SlidingWindow => Bound::Fading { limit, period },
            Algorithm::SlidingLog => Bound::Log { limit, period },
            _ => Bound::Refill { burst: limit, count, period },
        }
    }

    /// The most in so many nanoseconds of wall time.
    pub fn within(&self, span: u64) -> u64 {
        self.exactly(at_most(span))
    }

    /// The most in so many nanoseconds of the clock that decides: both ends belong to the span, and an entry of a log
    /// that is as old as its window still counts.
    pub fn exactly(&self, span: u64) -> u64 {
        match *self {
            Bound::Refill { burst, count, period } => burst + share(count, span, period),
            Bound::Windows { limit, period } => limit * (span / period + 2),
            Bound::Fading { limit, period } => limit + share(limit, span, period) + 1,
            Bound::Log { limit, period } => limit * (span / (period + 1) + 1),
        }
    }

    /// The least that a crowd is admitted that asks without a pause.
    pub fn at_least(&self) -> u64 {
        match *self {
            Bound::Refill { burst: limit, .. }
            | Bound::Windows { limit, .. }
            | Bound::Fading { limit, .. }
            | Bound::Log { limit, .. } => limit,
        }
    }
}

/// How much time may pass by the clock that decides while so much passes on the wall.
pub fn at_most(span: u64) -> u64 {
    span + span / DRIFT + READING
}

/// `count` in every period, over a span, rounded down: what refills in parts is there when it is whole.
fn share(count: u64, span: u64, period: u64) -> u64 {
    let share = u128::from(count) * u128::from(span) / u128::from(period);
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// More was admitted in a span than one caller would have been.
#[derive(Clone, Copy, Debug)]
pub struct Breach {
    admitted: u64,
    allowed: u64,
    span: Duration,
    /// Over the whole run.
    total: u64,
    allowed_in_total: u64,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Breach { admitted, allowed, span, total, allowed_in_total } = self;
        write!(
            f,
            "{admitted} admitted within {span:?} instead of {allowed}; {total} of {allowed_in_total} in all"
        )
    }
}

/// The worst span of all, if any holds more than `most` allows in a span of its length.
///
/// A span that begins between two calls and ends between two others holds the same calls as one that begins with a
/// call and ends with one: so those are all that need to be looked at. Every pair is, in the order of their stamps.
pub fn breach(admissions: &[Admission], most: impl Fn(u64) -> u64) -> Option<Breach> {
    let first = admissions.iter().map(|admission| admission.before).min()?;
    let length = admissions.iter().map(|admission| admission.after).max()? - first;
    let total = admissions.iter().filter(|admission| admission.refunded.is_none());
    let (total, allowed_in_total) = (total.map(|admission| admission.cost).sum(), most(length));
    let mut begins: Vec<u64> = admissions.iter().map(|admission| admission.before).collect();
    begins.sort_unstable();
    begins.dedup();
    let events = events(admissions);
    let mut worst = None;
    let mut beyond = 0;
    for begin in begins {
        let (mut admitted, mut refunded) = (0, 0);
        for event in &events {
            match *event {
                // Whatever may lie in the span is taken off, whatever may lie outside is not counted.
                Event { kind: Kind::Refunded, admission, .. } if admission.after >= begin => {
                    refunded += admission.cost;
                }
                Event { kind: Kind::Admitted, at, admission } if admission.before >= begin => {
                    admitted += admission.cost;
                    let kept = admitted.saturating_sub(refunded);
                    // What is beyond the bound is less than what was admitted: most spans need no bound at all.
                    if kept > beyond {
                        let allowed = most(at - begin);
                        if kept.saturating_sub(allowed) > beyond {
                            beyond = kept - allowed;
                            let span = Duration::from_nanos(at - begin);
                            worst = Some(Breach { admitted: kept, allowed, span, total, allowed_in_total });
                        }
                    }
                }
                _ => {}
            }
        }
    }
    worst
}

/// A call for certain after its end, a refund perhaps as soon as it was asked for.
#[derive(Clone, Copy, Debug)]
struct Event {
    at: u64,
    kind: Kind,
    admission: Admission,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Refunded,
    Admitted,
}

/// Everything that happened, in order.
fn events(admissions: &[Admission]) -> Vec<Event> {
    let mut events = Vec::with_capacity(2 * admissions.len());
    for admission in admissions {
        events.push(Event { at: admission.after, kind: Kind::Admitted, admission: *admission });
        events.extend(admission.refunded.map(|at| Event { at, kind: Kind::Refunded, admission: *admission }));
    }
    events.sort_unstable_by_key(|event| (event.at, event.kind));
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn bound(text: &str) -> Bound {
        Bound::of(&text.parse().unwrap())
    }

    fn worst(admissions: &[Admission], bound: &Bound) -> Option<Breach> {
        breach(admissions, |span| bound.within(span))
    }

    fn call(before: u64, after: u64) -> Admission {
        Admission { before: before * MS, after: after * MS, cost: 1, refunded: None }
    }

    #[test]
    fn what_a_single_caller_is_admitted() {
        assert_eq!(bound("1000/s burst 100").within(0), 100);
        assert_eq!(bound("1000/s burst 100").within(2_000 * MS), 2_102, "with a thousandth for the clocks");
        assert_eq!(
            bound("10/s fixed").within(1_500 * MS),
            30,
            "the end of one, a whole one, the start of one"
        );
        assert_eq!(bound("10/s sliding").within(500 * MS), 16);
        assert_eq!(bound("10/s log").within(990 * MS), 10);
        assert_eq!(bound("10/s log").within(1_010 * MS), 20);
        assert_eq!(bound("10/s log").exactly(1_000 * MS), 10);
        assert_eq!(bound("10/s log").exactly(1_000 * MS + 1), 20);
    }

    #[test]
    fn the_worst_span_is_found() {
        let bound = bound("10/s burst 2");
        let calm = [call(0, 1), call(0, 1), call(100, 101), call(200, 202)];
        assert!(worst(&calm, &bound).is_none());
        let burst = [calm.as_slice(), &[call(201, 202), call(201, 202), call(201, 202)]].concat();
        let breach = worst(&burst, &bound).unwrap();
        assert_eq!((breach.admitted, breach.allowed, breach.span), (7, 4, Duration::from_millis(202)));
        assert_eq!((breach.total, breach.allowed_in_total), (7, 4));
    }

    #[test]
    fn a_call_that_only_overlaps_a_span_is_not_counted() {
        // Each of them may have been decided at the very end of its call.
        let late = [call(0, 400), call(0, 400), call(100, 101), call(200, 201)];
        assert!(worst(&late, &bound("10/s burst 2")).is_none());
    }

    #[test]
    fn a_refund_makes_room_only_where_it_was_charged() {
        let bound = bound("10/s burst 2");
        let refunded = |before, after, at| Admission { refunded: Some(at * MS), ..call(before, after) };
        let at_once = [refunded(0, 1, 2), refunded(0, 1, 2), call(3, 4), call(3, 4)];
        assert!(worst(&at_once, &bound).is_none());
        let late = [refunded(0, 1, 202), call(0, 1), call(200, 201), call(200, 201), call(203, 204)];
        assert_eq!(
            worst(&late, &bound).unwrap().admitted,
            3,
            "the first has refilled, and is given back again"
        );
    }
}
