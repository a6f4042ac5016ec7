//! A request as a script call.

use ratekeeper::algorithm::Tenancy;
use ratekeeper::port::Request;
use ratekeeper::{Algorithm, Anchor, Cost, Nanos, Quota, Timestamp, When};

use crate::call::Call;
use crate::encoding::Encoding;
use crate::library::{Kind, Parts};
use crate::place::{Place, Rule};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Acquire,
    AcquireUpTo,
    Peek,
    /// What was charged then.
    Refund(When),
    Forget,
}

impl Verb {
    fn letter(self) -> &'static [u8] {
        match self {
            Verb::Acquire => b"a",
            Verb::AcquireUpTo => b"u",
            Verb::Peek => b"p",
            Verb::Refund(_) => b"r",
            Verb::Forget => b"d",
        }
    }

    /// True if it matters, or is to be noted, when the places were last reset.
    fn concerns_resets(self) -> bool {
        matches!(self, Verb::Refund(_) | Verb::Forget)
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
    for place in places.iter().filter(|_| verb.concerns_resets()) {
        place.write_reset_key(prefix, request.key, call.buffer());
        call.end_key();
    }
    call.arg(verb.letter());
    call.number(request.cost.get());
    match verb {
        Verb::Refund(When::At(instant)) => {
            call.buffer().push(b'@');
            call.number(instant.as_nanos());
        }
        Verb::Refund(When::Ago(age)) => call.number(age.as_nanos()),
        _ => {}
    }
    for place in places {
        match (place.encoding, place.tenancy()) {
            (Encoding::Ascii, Tenancy::Own) => {
                call.arg(b"a");
                call.number(place.rules.len());
            }
            (Encoding::Ascii, Tenancy::Shared) => call.arg(b"A"),
            (Encoding::Binary, Tenancy::Own) => call.arg(b"b"),
            (Encoding::Binary, Tenancy::Shared) => call.arg(b"B"),
        }
        for rule in &place.rules {
            parts.need(rule.kind, place.encoding, place.tenancy());
            call.arg(&[rule.kind.letter()]);
            // A hash of its own is found by the key's name.
            if (place.encoding, place.tenancy()) != (Encoding::Binary, Tenancy::Own) {
                call.arg(rule.name.as_str().as_bytes());
            }
            limits(&mut call, rule.quota, rule.kind, &guess);
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
    let all_usual = place.rules.iter().all(|rule| is_usual(rule.quota, rule.kind));
    if cost == 0 || place.encoding != Encoding::Ascii || !all_usual {
        return None;
    }
    let mut call = Call::with_capacity(4 + 2 * place.rules.len(), 96 + 128 * place.rules.len());
    place.write_key(prefix, request.key, call.buffer());
    call.end_key();
    for Rule { quota, .. } in &place.rules {
        // At most the refill: the cost is at most the burst.
        call.number(cost * quota.emission_interval().as_nanos());
        call.number(quota.refill_time().as_nanos());
    }
    write_pattern(place, call.buffer());
    call.end_arg();
    write_format(place, call.buffer());
    call.end_arg();
    if let Some(given) = given {
        call.number(given.as_nanos());
    }
    Some(call)
}

/// The text of a place whose rules are all GCRA, as a pattern of Lua that captures the seconds and the nanoseconds of
/// each. An instant of these years has 19 digits, of which 10 are seconds.
fn write_pattern(place: &Place<'_>, into: &mut Vec<u8>) {
    const INSTANT: &[u8] = b"42|(%d%d%d%d%d%d%d%d%d%d)(%d%d%d%d%d%d%d%d%d)";
    into.push(b'^');
    write_states(place, into, b"%$", INSTANT, |byte, into| {
        if !byte.is_ascii_alphanumeric() {
            into.push(b'%');
        }
        into.push(byte);
    });
    into.push(b'$');
}

/// The same text as a format of Lua. No name has a `%`.
fn write_format(place: &Place<'_>, into: &mut Vec<u8>) {
    write_states(place, into, b"$", b"42|%d%09d", |byte, into| into.push(byte));
}

fn write_states(
    place: &Place<'_>,
    into: &mut Vec<u8>,
    separator: &[u8],
    state: &[u8],
    write: impl Fn(u8, &mut Vec<u8>),
) {
    // What requests bring, alone, is written without its name.
    if place.tenancy() == Tenancy::Shared {
        return into.extend_from_slice(state);
    }
    into.extend_from_slice(b"81|");
    for (index, rule) in place.rules.iter().enumerate() {
        if index > 0 {
            into.extend_from_slice(separator);
        }
        rule.name.as_str().bytes().for_each(|byte| write(byte, into));
        into.push(b'=');
        into.extend_from_slice(state);
    }
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
