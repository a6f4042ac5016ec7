//! The call that puts a request to a script.

use ratekeeper::algorithm::Tenancy;
use ratekeeper::port::Request;
use ratekeeper::{Algorithm, Anchor, Nanos, Quota, Timestamp, When};

use super::group::{GroupedRule, RuleGroup};
use crate::encoding::Encoding;
use crate::script::{RuleKind, ScriptCall, ScriptParts};

/// What a script is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptVerb {
    Acquire,
    AcquireUpTo,
    Peek,
    /// Gives back what was charged at this time.
    Refund(When),
    Forget,
}

impl ScriptVerb {
    fn letter(self) -> &'static [u8] {
        match self {
            ScriptVerb::Acquire => b"a",
            ScriptVerb::AcquireUpTo => b"u",
            ScriptVerb::Peek => b"p",
            ScriptVerb::Refund(_) => b"r",
            ScriptVerb::Forget => b"d",
        }
    }

    /// Returns true if it matters, or is to be noted, when the groups were last reset.
    fn concerns_resets(self) -> bool {
        matches!(self, ScriptVerb::Refund(_) | ScriptVerb::Forget)
    }
}

/// Returns the call that puts any request to the general script: the parts that this script needs, and its keys and
/// arguments as `scripts/decide.lua` takes them. `guess` is about the server's time, for the edges of windows; `given` is
/// the time of a test.
pub(crate) fn general_call(
    verb: ScriptVerb,
    request: &Request<'_>,
    groups: &[RuleGroup<'_>],
    prefix: &str,
    guess: impl Fn() -> Timestamp,
    given: Option<Timestamp>,
) -> (ScriptParts, ScriptCall) {
    let mut parts = ScriptParts::default();
    let rules: usize = groups.iter().map(|group| group.rules.len()).sum();
    let mut call =
        ScriptCall::with_capacity(4 + groups.len() * 3 + rules * 6, 64 * (1 + groups.len() + rules));
    for group in groups {
        group.storage_key(prefix, request.key).write_to(call.buffer());
        call.end_key();
    }
    for group in groups.iter().filter(|_| verb.concerns_resets()) {
        group.storage_key(prefix, request.key).reset().write_to(call.buffer());
        call.end_key();
    }
    call.arg(verb.letter());
    call.number(request.cost.get());
    match verb {
        ScriptVerb::Refund(When::At(instant)) => {
            call.buffer().push(b'@');
            call.number(instant.as_nanos());
        }
        ScriptVerb::Refund(When::Ago(age)) => call.number(age.as_nanos()),
        _ => {}
    }
    for group in groups {
        match (group.encoding, group.tenancy()) {
            (Encoding::Ascii, Tenancy::Own) => {
                call.arg(b"a");
                call.number(group.rules.len());
            }
            (Encoding::Ascii, Tenancy::Shared) => call.arg(b"A"),
            (Encoding::Binary, Tenancy::Own) => call.arg(b"b"),
            (Encoding::Binary, Tenancy::Shared) => call.arg(b"B"),
        }
        for rule in &group.rules {
            parts.need(rule.kind, group.encoding, group.tenancy());
            call.arg(&[rule.kind.letter()]);
            // A hash of its own is found by the key's name.
            if (group.encoding, group.tenancy()) != (Encoding::Binary, Tenancy::Own) {
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

/// Returns the call that puts a request of the common kind to `scripts/express.lua`: GCRA in ASCII under one key. None for
/// other requests, which need the general script.
pub(crate) fn express_call(
    request: &Request<'_>,
    groups: &[RuleGroup<'_>],
    prefix: &str,
    given: Option<Timestamp>,
) -> Option<ScriptCall> {
    /// In nanoseconds: sums of two such spans are exact in a double.
    const LONGEST_REFILL: u64 = 1 << 52;
    let [group] = groups else { return None };
    let cost = request.cost.get();
    let is_usual = |quota: &Quota, kind: RuleKind| {
        kind == RuleKind::Gcra && cost <= quota.burst() && quota.refill_time().as_nanos() < LONGEST_REFILL
    };
    let all_usual = group.rules.iter().all(|rule| is_usual(rule.quota, rule.kind));
    if cost == 0 || group.encoding != Encoding::Ascii || !all_usual {
        return None;
    }
    let mut call = ScriptCall::with_capacity(4 + 2 * group.rules.len(), 96 + 128 * group.rules.len());
    group.storage_key(prefix, request.key).write_to(call.buffer());
    call.end_key();
    for GroupedRule { quota, .. } in &group.rules {
        // At most the refill: the cost is at most the burst.
        call.number(cost * quota.emission_interval().as_nanos());
        call.number(quota.refill_time().as_nanos());
    }
    write_pattern(group, call.buffer());
    call.end_arg();
    write_format(group, call.buffer());
    call.end_arg();
    if let Some(given) = given {
        call.number(given.as_nanos());
    }
    Some(call)
}

/// Writes the text of a group whose rules are all GCRA as a pattern of Lua, which captures the seconds and the nanoseconds
/// of each state. An instant of these years has 19 digits, of which 10 are seconds.
fn write_pattern(group: &RuleGroup<'_>, into: &mut Vec<u8>) {
    const INSTANT: &[u8] = b"42|(%d%d%d%d%d%d%d%d%d%d)(%d%d%d%d%d%d%d%d%d)";
    into.push(b'^');
    write_states(group, into, b"%$", INSTANT, |byte, into| {
        if !byte.is_ascii_alphanumeric() {
            into.push(b'%');
        }
        into.push(byte);
    });
    into.push(b'$');
}

/// Like [`write_pattern`], but as a format of Lua. No name has a `%`, so no name needs an escape.
fn write_format(group: &RuleGroup<'_>, into: &mut Vec<u8>) {
    write_states(group, into, b"$", b"42|%d%09d", |byte, into| into.push(byte));
}

fn write_states(
    group: &RuleGroup<'_>,
    into: &mut Vec<u8>,
    separator: &[u8],
    state: &[u8],
    write: impl Fn(u8, &mut Vec<u8>),
) {
    // The only quota that requests bring for a key is written without its name.
    if group.tenancy() == Tenancy::Shared {
        return into.extend_from_slice(state);
    }
    into.extend_from_slice(b"81|");
    for (index, rule) in group.rules.iter().enumerate() {
        if index > 0 {
            into.extend_from_slice(separator);
        }
        rule.name.as_str().bytes().for_each(|byte| write(byte, into));
        into.push(b'=');
        into.extend_from_slice(state);
    }
}

/// Adds the numbers of a rule that its algorithm takes.
fn limits(call: &mut ScriptCall, quota: &Quota, kind: RuleKind, guess: impl Fn() -> Timestamp) {
    call.number(quota.burst());
    match kind {
        RuleKind::Gcra => {
            call.number(quota.emission_interval().as_nanos());
            call.number(quota.refill_time().as_nanos());
        }
        RuleKind::TokenBucket | RuleKind::LeakyBucket => {
            // The shortest digits that read back as the same double.
            call.arg(format!("{:e}", quota.rate()).as_bytes());
            call.number(quota.refill_time().as_nanos());
        }
        RuleKind::Window | RuleKind::Grid | RuleKind::SlidingWindow | RuleKind::SlidingLog => {
            call.number(quota.period().as_nanos());
        }
        RuleKind::Edges => {
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

/// Returns the start and the end of the window that an instant lies in.
fn window(quota: &Quota, at: Timestamp) -> (Timestamp, Timestamp) {
    if let Algorithm::FixedWindow(Anchor::Calendar(calendar)) = quota.algorithm() {
        return calendar.window(at);
    }
    let length = i128::from(quota.period().as_nanos()).max(1);
    let into = i128::from(at.as_nanos()).rem_euclid(length);
    let nanos = |nanos: i128| Nanos::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    (at.saturating_sub(nanos(into)), at + nanos(length - into))
}
