//! Versioned binary: the state of one rule as the fields of a hash.
//!
//! Every hash has the field `v`, the schema version as text, currently `1`. The other fields tell by their names
//! which algorithm wrote them; numbers are 8 bytes, big-endian.
//!
//! | algorithm | field | content |
//! |---|---|---|
//! | GCRA | `tat` | signed integer, **nano**seconds since the epoch |
//! | token bucket | `t` | tokens, IEEE-754 double |
//! | | `ts` | signed integer, **micro**seconds since the epoch |
//! | leaky bucket | `l` | level, IEEE-754 double |
//! | | `ts` | as above |
//! | fixed window | `c` | count, signed integer, 0 or more |
//! | | `s` | start, signed integer, nanoseconds since the epoch |
//! | sliding window counter | `p`, `c` | counts of the previous and the current slot |
//! | | `s` | start of the current slot, nanoseconds |
//! | sliding window log | `n` | how many entries |
//! | | `e` | n times 16 bytes: instant (nanoseconds), cost (1 or more) |
//!
//! `ts` is in microseconds because that is what the server that keeps such hashes has for a clock. An instant
//! between two of them is rounded **up**: the bucket has then had a little less time to refill, so nothing is
//! minted. GCRA keeps nanoseconds because its instant is a sum of emission intervals, and windows because their
//! edges must not move.

use super::error::StateError;
use super::part_text::MAX_LEN;
use super::storable::{self, BadEntry, LogReader};
use crate::algorithm::fixed_window::FixedWindowState;
use crate::algorithm::gcra::GcraState;
use crate::algorithm::leaky_bucket::LeakyBucketState;
use crate::algorithm::sliding_log::SlidingLogState;
use crate::algorithm::sliding_window::SlidingWindowState;
use crate::algorithm::token_bucket::TokenBucketState;
use crate::quote::quote;
use crate::{State, Timestamp};

/// The content of the field `v`.
pub const VERSION: &[u8] = b"1";

/// A field: its name and its content.
pub type Field = (&'static str, Vec<u8>);

/// What was found in a hash.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Decoded {
    /// The state of one rule.
    State(State),
    /// A schema of another version: to be discarded, counted and logged. The key starts fresh.
    OtherVersion {
        /// The version, quoted and shortened.
        found: String,
    },
}

/// Returns the state as fields, `v` first.
///
/// ```
/// use ratekeeper::state::binary::{self, Decoded};
/// use ratekeeper::{Cost, Quota, Timestamp, algorithm};
/// let quota: Quota = "10/s bucket".parse()?;
/// let (_, state) = algorithm::try_acquire(&quota, None, Cost::new(3), Timestamp::from_secs(1))?;
/// let fields = binary::encode(state.as_ref().unwrap());
/// assert_eq!(fields[0], ("v", b"1".to_vec()));
/// assert_eq!(fields[1], ("t", 7.0f64.to_be_bytes().to_vec()));
/// assert_eq!(fields[2], ("ts", 1_000_000i64.to_be_bytes().to_vec()));
/// assert_eq!(binary::decode(&fields)?, Decoded::State(state.unwrap()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn encode(state: &State) -> Vec<Field> {
    let mut fields = vec![("v", VERSION.to_vec())];
    let mut put = |name, bytes: [u8; 8]| fields.push((name, bytes.to_vec()));
    let nanos = |at: Timestamp| at.as_nanos().to_be_bytes();
    let count = |count| storable::count(count).to_be_bytes();
    match state {
        State::Gcra(GcraState { tat }) => put("tat", nanos(*tat)),
        State::TokenBucket(TokenBucketState { tokens, last }) => {
            put("t", storable::tokens(*tokens).to_be_bytes());
            put("ts", micros_rounded_up(*last).to_be_bytes());
        }
        State::LeakyBucket(LeakyBucketState { level, last }) => {
            put("l", storable::level(*level).to_be_bytes());
            put("ts", micros_rounded_up(*last).to_be_bytes());
        }
        State::FixedWindow(state) => {
            put("c", count(state.count));
            put("s", nanos(state.start));
        }
        State::SlidingWindow(SlidingWindowState { previous, current, start }) => {
            put("p", count(*previous));
            put("c", count(*current));
            put("s", nanos(*start));
        }
        State::SlidingLog(log) => {
            let entries = storable::entries(log).flat_map(|(at, cost)| [nanos(at), count(cost)]);
            let packed = entries.collect::<Vec<_>>().concat();
            put("n", ((packed.len() / ENTRY) as u64).to_be_bytes());
            fields.push(("e", packed));
        }
    }
    fields
}

/// The bytes of one entry of a log.
const ENTRY: usize = 16;

/// Reads the fields of one hash, in any order. Never panics. A hash without fields is no key at all, and nothing to
/// be decoded.
pub fn decode<N: AsRef<[u8]>, V: AsRef<[u8]>>(fields: &[(N, V)]) -> Result<Decoded, StateError> {
    let fields = || fields.iter().map(|(name, content)| (name.as_ref(), content.as_ref()));
    let mut versions = fields().filter(|(name, _)| *name == b"v");
    let (_, version) = versions.next().ok_or_else(|| StateError::missing("v", "the schema version"))?;
    if version != VERSION {
        return Ok(Decoded::OtherVersion { found: quote(version) });
    }
    if versions.next().is_some() {
        return Err(StateError::wrong("v", version, "one version, not two"));
    }
    // One more than any algorithm has is enough to see that there are too many.
    let mut found: Vec<_> = fields().filter(|(name, _)| *name != b"v").take(4).collect();
    found.sort_unstable();
    Ok(Decoded::State(match found.as_slice() {
        [(b"tat", tat)] => State::Gcra(GcraState { tat: instant("tat", tat)? }),
        [(b"t", tokens), (b"ts", last)] => State::TokenBucket(TokenBucketState {
            tokens: double("t", tokens)?,
            last: instant_from_micros("ts", last)?,
        }),
        [(b"l", level), (b"ts", last)] => State::LeakyBucket(LeakyBucketState {
            level: double("l", level)?,
            last: instant_from_micros("ts", last)?,
        }),
        [(b"c", c), (b"s", s)] => {
            State::FixedWindow(FixedWindowState { count: count("c", c)?, start: instant("s", s)? })
        }
        [(b"c", c), (b"p", p), (b"s", s)] => State::SlidingWindow(SlidingWindowState {
            previous: count("p", p)?,
            current: count("c", c)?,
            start: instant("s", s)?,
        }),
        [(b"e", entries), (b"n", n)] => State::SlidingLog(log(count("n", n)?, entries)?),
        _ => {
            let names: Vec<_> = found.iter().map(|(name, _)| *name).collect();
            let remedy = "besides v: tat, or t ts, or l ts, or c s, or p c s, or n e";
            return Err(StateError::wrong("fields", &names.join(&b' '), remedy));
        }
    }))
}

fn integer(field: &'static str, bytes: &[u8]) -> Result<i64, StateError> {
    let array = bytes.try_into().map_err(|_| StateError::wrong(field, bytes, "8 bytes, a signed integer"))?;
    Ok(i64::from_be_bytes(array))
}

fn count(field: &'static str, bytes: &[u8]) -> Result<u64, StateError> {
    let count = integer(field, bytes)?;
    u64::try_from(count).map_err(|_| StateError::wrong(field, count.to_string().as_bytes(), "0 or more"))
}

fn double(field: &'static str, bytes: &[u8]) -> Result<f64, StateError> {
    let remedy = "8 bytes, a finite double";
    let x = bytes.try_into().map(f64::from_be_bytes).ok().filter(|x| x.is_finite());
    x.ok_or_else(|| StateError::wrong(field, bytes, remedy))
}

fn instant(field: &'static str, bytes: &[u8]) -> Result<Timestamp, StateError> {
    integer(field, bytes).map(Timestamp::from_nanos)
}

fn instant_from_micros(field: &'static str, bytes: &[u8]) -> Result<Timestamp, StateError> {
    let micros = integer(field, bytes)?;
    match micros.checked_mul(1_000) {
        Some(nanos) => Ok(Timestamp::from_nanos(nanos)),
        // The last instant is no whole microsecond; rounded up, it lies beyond itself.
        None if micros == micros_rounded_up(Timestamp::MAX) => Ok(Timestamp::MAX),
        None => {
            let remedy = "microseconds since the epoch, between the years 1677 and 2262";
            Err(StateError::wrong(field, micros.to_string().as_bytes(), remedy))
        }
    }
}

fn micros_rounded_up(at: Timestamp) -> i64 {
    let (whole, part) = (at.as_nanos().div_euclid(1_000), at.as_nanos().rem_euclid(1_000));
    whole + i64::from(part > 0)
}

fn log(n: u64, packed: &[u8]) -> Result<SlidingLogState, StateError> {
    if packed.len() > MAX_LEN {
        let found = format!("{} bytes", packed.len());
        return Err(StateError::new(super::StateErrorKind::TooLong, "e", found, "at most 16 MiB are read"));
    }
    let (entries, rest) = packed.as_chunks::<ENTRY>();
    if !rest.is_empty() || entries.len() as u64 != n {
        let found = format!("{} bytes for {n} entries", packed.len());
        return Err(StateError::wrong("e", found.as_bytes(), "16 bytes for each of the n entries"));
    }
    let mut log = LogReader::default();
    for entry in entries {
        let (at, cost) = entry.split_at(8);
        log.push(instant("e", at)?, count("e", cost)?).map_err(|bad| match bad {
            BadEntry::Descends => StateError::wrong("e", at, "instants do not descend"),
            BadEntry::Cost => {
                StateError::wrong("e", cost, "a cost is at least 1, and all together at most 2^63 - 1")
            }
        })?;
    }
    Ok(log.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(fields: &[(&str, &[u8])]) -> String {
        match decode(fields) {
            Ok(decoded) => format!("{decoded:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_token_bucket_is_laid_out_to_the_byte() {
        let last = Timestamp::from_nanos(1_761_884_055_342_794_000);
        let fields = encode(&State::TokenBucket(TokenBucketState { tokens: 8.5, last }));
        assert_eq!(
            fields,
            [
                ("v", vec![b'1']),
                ("t", vec![0x40, 0x21, 0, 0, 0, 0, 0, 0]),
                ("ts", vec![0x00, 0x06, 0x42, 0x6c, 0x99, 0x41, 0x0e, 0xca]),
            ]
        );
    }

    #[test]
    fn instants_between_microseconds_round_up() {
        for (nanos, micros) in [(0, 0), (1, 1), (999, 1), (1_000, 1), (1_001, 2), (-1, 0), (-1_000, -1)] {
            assert_eq!(micros_rounded_up(Timestamp::from_nanos(nanos)), micros, "{nanos} ns");
        }
        for last in [Timestamp::MIN, Timestamp::MAX] {
            let fields = encode(&State::LeakyBucket(LeakyBucketState { level: 1.0, last }));
            let Ok(Decoded::State(State::LeakyBucket(state))) = decode(&fields) else { panic!("{fields:?}") };
            assert!(state.last >= last);
        }
    }

    #[test]
    fn another_version_is_an_outcome_of_its_own() {
        let found = |version: &[u8]| match decode(&[(b"v", version)]) {
            Ok(Decoded::OtherVersion { found }) => found,
            other => panic!("{other:?}"),
        };
        assert_eq!(found(b"2"), "`2`");
        assert_eq!(found(b""), "``");
        assert_eq!(found(b"01"), "`01`");
    }

    #[test]
    fn what_is_no_state_is_refused_in_words() {
        let one = 1i64.to_be_bytes();
        let minus_one = (-1i64).to_be_bytes();
        assert_eq!(text(&[]), "v: missing; the schema version");
        let besides = "besides v: tat, or t ts, or l ts, or c s, or p c s, or n e";
        assert_eq!(text(&[("v", b"1")]), format!("fields: ``; {besides}"));
        assert_eq!(text(&[("v", b"1"), ("ts", &one), ("x", &one)]), format!("fields: `ts x`; {besides}"));
        assert_eq!(
            text(&[("v", b"1"), ("tat", &one), ("tat", &one)]),
            format!("fields: `tat tat`; {besides}")
        );
        assert_eq!(text(&[("v", b"1"), ("v", b"1"), ("tat", &one)]), "v: `1`; one version, not two");
        assert_eq!(text(&[("v", b"1"), ("tat", b"12")]), "tat: `12`; 8 bytes, a signed integer");
        assert_eq!(text(&[("v", b"1"), ("c", &minus_one), ("s", &one)]), "c: `-1`; 0 or more");
        assert_eq!(
            text(&[("v", b"1"), ("ts", &one), ("t", &f64::NAN.to_be_bytes())]),
            r"t: `\x7f\xf8\x00\x00\x00\x00\x00\x00`; 8 bytes, a finite double"
        );
        assert_eq!(
            text(&[("v", b"1"), ("ts", &i64::MAX.to_be_bytes()), ("t", &1f64.to_be_bytes())]),
            "ts: `9223372036854775807`; microseconds since the epoch, between the years 1677 and 2262"
        );
        assert_eq!(
            text(&[("v", b"1"), ("n", &one), ("e", &one)]),
            "e: `8 bytes for 1 entries`; 16 bytes for each of the n entries"
        );
        let free = [1i64.to_be_bytes(), 0i64.to_be_bytes()].concat();
        assert!(text(&[("v", b"1"), ("n", &one), ("e", &free)]).contains("a cost is at least 1"));
    }
}
