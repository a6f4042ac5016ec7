//! A request as a script call.

use ratekeeper::port::Request;
use ratekeeper::{Algorithm, Anchor, Cost, Nanos, Quota, Timestamp};

use crate::call::Call;
use crate::encoding::Encoding;
use crate::library::{Kind, Parts};
use crate::place::Place;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Acquire,
    AcquireUpTo,
    Peek,
    Refund,
    Forget,
}

impl Verb {
    fn letter(self) -> &'static [u8] {
        match self {
            Verb::Acquire => b"a",
            Verb::AcquireUpTo => b"u",
            Verb::Peek => b"p",
            Verb::Refund => b"r",
            Verb::Forget => b"d",
        }
    }
}

/// The call that puts a request to the script: what it needs, and its keys and arguments as `scripts/decide.lua`
/// wants them. `guess` is about the server's time, for the edges of windows; `given` is the time of a test.
pub(crate) fn call(
    verb: Verb,
    request: &Request<'_>,
    places: &[Place<'_>],
    prefix: &str,
    guess: impl Fn() -> Timestamp,
    given: Option<Timestamp>,
) -> (Parts, Call) {
    let mut parts = Parts::default();
    let rules: usize = places.iter().map(|place| place.rules.len()).sum();
    let mut call = Call::with_capacity(4 + places.len() * 3 + rules * 6, 64 * (1 + places.len() + rules));
    for place in places {
        place.write_key(prefix, request.key, call.buffer());
        call.end_key();
    }
    call.arg(verb.letter());
    call.number(request.cost.get());
    for place in places {
        match place.encoding {
            Encoding::Ascii => {
                call.arg(b"a");
                call.number(place.rules.len());
            }
            Encoding::Binary => call.arg(b"b"),
        }
        for (name, quota, kind) in &place.rules {
            parts.need(*kind, place.encoding);
            call.arg(&[kind.letter()]);
            if place.encoding == Encoding::Ascii && kind.is_window() {
                call.arg(name.as_str().as_bytes());
            }
            limits(&mut call, quota, *kind, &guess);
        }
    }
    if let Some(given) = given {
        call.number(given.as_nanos());
    }
    (parts, call)
}

/// The call that puts a usual request to `scripts/express.lua`; none if the request is not one.
pub(crate) fn express(
    request: &Request<'_>,
    places: &[Place<'_>],
    prefix: &str,
    given: Option<Timestamp>,
) -> Option<Call> {
    /// In nanoseconds: sums of two such spans are exact in a double.
    const LONGEST_REFILL: u64 = 1 << 52;
    let [place] = places else { return None };
    let cost = request.cost.get();
    let is_usual = |quota: &Quota, kind: Kind| {
        kind == Kind::Gcra && cost <= quota.burst() && quota.refill_time().as_nanos() < LONGEST_REFILL
    };
    let all_usual = place.rules.iter().all(|(_, quota, kind)| is_usual(quota, *kind));
    if cost == 0 || place.encoding != Encoding::Ascii || !all_usual {
        return None;
    }
    let mut call = Call::with_capacity(2 + 2 * place.rules.len(), 64 + 24 * place.rules.len());
    place.write_key(prefix, request.key, call.buffer());
    call.end_key();
    for (_, quota, _) in &place.rules {
        // At most the refill: the cost is at most the burst.
        call.number(cost * quota.emission_interval().as_nanos());
        call.number(quota.refill_time().as_nanos());
    }
    if let Some(given) = given {
        call.number(given.as_nanos());
    }
    Some(call)
}

/// The arguments that a rule's algorithm has.
fn limits(call: &mut Call, quota: &Quota, kind: Kind, guess: impl Fn() -> Timestamp) {
    call.number(quota.burst());
    match kind {
        Kind::Gcra => {
            call.number(quota.emission_interval().as_nanos());
            call.number(quota.refill_time().as_nanos());
        }
        Kind::TokenBucket | Kind::LeakyBucket => {
            // The shortest digits that read back as the same double.
            call.arg(format!("{:e}", quota.rate()).as_bytes());
            call.number(quota.refill_time().as_nanos());
        }
        Kind::Window | Kind::Grid | Kind::SlidingWindow | Kind::SlidingLog => {
            call.number(quota.period().as_nanos());
        }
        Kind::Edges => {
            let (start, mut end) = window(quota, guess());
            call.number(start.as_nanos());
            call.number(end.as_nanos());
            for _ in 0..2 {
                end = window(quota, end).1;
                call.number(end.as_nanos());
            }
        }
    }
}

/// The window that an instant lies in.
fn window(quota: &Quota, at: Timestamp) -> (Timestamp, Timestamp) {
    if let Algorithm::FixedWindow(Anchor::Calendar(calendar)) = quota.algorithm() {
        return calendar.window(at);
    }
    let length = i128::from(quota.period().as_nanos()).max(1);
    let into = i128::from(at.as_nanos()).rem_euclid(length);
    let nanos = |nanos: i128| Nanos::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    (at.saturating_sub(nanos(into)), at + nanos(length - into))
}

/// The cost that a partial grant of `granted` is decided for.
pub(crate) fn partial(up_to: Cost, granted: u64) -> Cost {
    Cost::new(up_to.get().min(granted.max(1)))
}
