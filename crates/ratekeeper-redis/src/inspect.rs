//! Explains what is under a key of the server.

use std::time::Duration;

use ratekeeper::state::{NamedWindow, NamedWindows, Record, RecordPart, StateError, ascii, binary};
use ratekeeper::{Name, State, StoreError, StoreErrorKind, Timestamp};
use redis::Value;

use crate::encoding::Encoding;
use crate::error::RedisError;
use crate::exchange::{SharedFields, fields_by_state, hash_fields, state_name};

/// What lies under a key of a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Inspection {
    /// The encoding, as the type of the key shows it.
    pub encoding: Encoding,
    /// The content, read as states.
    pub found: InspectedContent,
    /// The states themselves, if they can be read. A window that is a hash of its own is called `default`.
    pub record: Option<Record>,
    /// The time until the server deletes the key; none if it never will.
    pub expires_in: Option<Duration>,
    /// The server's time, to compare instants with.
    pub now: Timestamp,
}

/// The content of a key.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum InspectedContent {
    /// The states of a plan's rules, each with its strategy and fields.
    States(Vec<Explained>),
    /// A hash of another schema version, which is quoted.
    OtherVersion(String),
    /// Something that is not a state, and why not.
    Unreadable(StateError),
}

/// One state in words and numbers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explained {
    /// The rule that it belongs to, where the encoding says so.
    pub rule: Option<Name>,
    /// The algorithm's word, as in the text form of a quota.
    pub strategy: &'static str,
    /// The version of its format.
    pub version: &'static str,
    /// The fields, by their names.
    pub fields: Vec<(String, FieldValue)>,
}

/// The content of one field of a state.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldValue {
    /// A whole number, such as the requests of a window.
    Count(u64),
    /// A fraction of a number, such as tokens in a bucket.
    Amount(f64),
    /// A point in time, such as a window's start.
    Instant(Timestamp),
}

/// Reads the answer of `scripts/inspect.lua`; none if there is nothing under the key.
pub(crate) fn read(value: Value) -> Result<Option<Inspection>, StoreError> {
    let Value::Array(items) = value else { return Err(unparsed().into()) };
    let [kind, content, Value::Int(left), Value::Int(micros)] = items.as_slice() else {
        return Err(unparsed().into());
    };
    let Value::BulkString(kind) = kind else { return Err(unparsed().into()) };
    let (encoding, found, record) = match (kind.as_slice(), content) {
        (b"none", _) => return Ok(None),
        (b"string", Value::BulkString(text)) => {
            let (found, record) = match ascii::decode(text) {
                Ok(record) => (explain(&record), Some(record)),
                Err(error) => (InspectedContent::Unreadable(error), None),
            };
            (Encoding::Ascii, found, record)
        }
        (b"hash", Value::Array(fields)) => {
            let (found, record) = explain_hash(fields)?;
            (Encoding::Binary, found, record)
        }
        (kind, _) => {
            let kind = kind.escape_ascii();
            let message = format!("key: holds a {kind}; a state is a string or a hash: inspect another key");
            return Err(StoreError::new(StoreErrorKind::Unreadable, message));
        }
    };
    let expires_in = u64::try_from(*left).ok().map(Duration::from_millis);
    let now = Timestamp::from_nanos(micros.saturating_mul(1_000));
    Ok(Some(Inspection { encoding, found, record, expires_in, now }))
}

fn unparsed() -> RedisError {
    RedisError::unparsed("the script", "a type, a content, a time to live and the time")
}

fn explain(record: &Record) -> InspectedContent {
    let named = record.parts().iter().enumerate().flat_map(|(index, part)| {
        let rule = record.names().get(index);
        explain_part(part).into_iter().map(move |explained| Explained { rule: rule.cloned(), ..explained })
    });
    InspectedContent::States(named.collect())
}

fn explain_hash(fields: &[Value]) -> Result<(InspectedContent, Option<Record>), StoreError> {
    let shared = fields_by_state(fields)?;
    if !shared.is_empty() {
        return Ok(explain_shared(shared));
    }
    Ok(match binary::decode(&hash_fields(fields)?) {
        Ok(binary::Decoded::State(state)) => {
            (InspectedContent::States(vec![explain_state(&state)]), record(state))
        }
        Ok(binary::Decoded::OtherVersion { found }) => (InspectedContent::OtherVersion(found), None),
        Err(error) => (InspectedContent::Unreadable(error), None),
    })
}

/// Explains the states in a hash that the quotas of requests share.
fn explain_shared(states: SharedFields<'_>) -> (InspectedContent, Option<Record>) {
    let mut named = Vec::with_capacity(states.len());
    for (name, fields) in states {
        match binary::decode(&fields) {
            Ok(binary::Decoded::State(state)) => {
                named.extend(state_name(name).zip(Some(state)));
            }
            Ok(binary::Decoded::OtherVersion { found }) => {
                return (InspectedContent::OtherVersion(found), None);
            }
            Err(error) => return (InspectedContent::Unreadable(error), None),
        }
    }
    let explained =
        named.iter().map(|(name, state)| Explained { rule: Some(name.clone()), ..explain_state(state) });
    (InspectedContent::States(explained.collect()), Record::by_name(named).ok())
}

fn record(state: State) -> Option<Record> {
    let part = match state {
        State::Gcra(state) => RecordPart::Gcra(state),
        State::TokenBucket(state) => RecordPart::TokenBucket(state),
        State::LeakyBucket(state) => RecordPart::LeakyBucket(state),
        State::SlidingWindow(state) => RecordPart::SlidingWindow(state),
        State::SlidingLog(log) => RecordPart::SlidingLog(log),
        State::FixedWindow(state) => {
            let name = Name::new("default").ok()?;
            let window = NamedWindow { name, count: state.count, start: state.start };
            RecordPart::FixedWindows(NamedWindows::new(vec![window]).ok()?)
        }
        _ => return None,
    };
    Some(part.into())
}

fn explain_state(state: &State) -> Explained {
    let mut explained = match state {
        State::Gcra(state) => one("", "tat", FieldValue::Instant(state.tat)),
        State::TokenBucket(state) => level("tokens", state.tokens, state.last),
        State::LeakyBucket(state) => level("level", state.level, state.last),
        State::FixedWindow(state) => window("", state.count, state.start),
        State::SlidingWindow(state) => vec![
            ("previous".into(), FieldValue::Count(state.previous)),
            ("current".into(), FieldValue::Count(state.current)),
            ("start".into(), FieldValue::Instant(state.start)),
        ],
        State::SlidingLog(log) => entries(log.entries()),
        _ => Vec::new(),
    };
    explained.shrink_to_fit();
    Explained { rule: None, strategy: state.algorithm().word(), version: "1", fields: explained }
}

fn explain_part(part: &RecordPart) -> Vec<Explained> {
    let state = match part {
        RecordPart::Gcra(state) => State::Gcra(*state),
        RecordPart::TokenBucket(state) => State::TokenBucket(*state),
        RecordPart::LeakyBucket(state) => State::LeakyBucket(*state),
        RecordPart::SlidingWindow(state) => State::SlidingWindow(*state),
        RecordPart::SlidingLog(log) => State::SlidingLog(log.clone()),
        RecordPart::FixedWindows(windows) => {
            let fields = windows.as_slice().iter();
            let fields = fields.flat_map(|of| window(&format!("{} ", of.name), of.count, of.start)).collect();
            return vec![Explained { rule: None, strategy: part.algorithm().word(), version: "3", fields }];
        }
        _ => return Vec::new(),
    };
    let version = match part {
        RecordPart::Gcra(_) | RecordPart::TokenBucket(_) | RecordPart::LeakyBucket(_) => "2",
        _ => "1",
    };
    vec![Explained { version, ..explain_state(&state) }]
}

fn one(prefix: &str, name: &str, value: FieldValue) -> Vec<(String, FieldValue)> {
    vec![(format!("{prefix}{name}"), value)]
}

fn level(name: &str, amount: f64, last: Timestamp) -> Vec<(String, FieldValue)> {
    vec![(name.into(), FieldValue::Amount(amount)), ("last".into(), FieldValue::Instant(last))]
}

fn window(prefix: &str, count: u64, start: Timestamp) -> Vec<(String, FieldValue)> {
    let mut fields = one(prefix, "count", FieldValue::Count(count));
    fields.extend(one(prefix, "start", FieldValue::Instant(start)));
    fields
}

fn entries(entries: impl Iterator<Item = (Timestamp, u64)>) -> Vec<(String, FieldValue)> {
    let fields = entries.enumerate().flat_map(|(index, (at, cost))| {
        let number = index + 1;
        [
            (format!("entry {number}"), FieldValue::Instant(at)),
            (format!("cost {number}"), FieldValue::Count(cost)),
        ]
    });
    fields.collect()
}
