//! What a stored state says: strategy, version, fields, times, and what the next request would get.
//!
//! - [`State`]: a state that was read, whichever encoding it was in
//! - `words`, `json`: the same for people and for programs

mod json;
mod next;
mod words;

pub use next::Next;

use std::time::Duration;

use ratekeeper::algorithm::{gcra, leaky_bucket, sliding_log, sliding_window, token_bucket};
use ratekeeper::state::{NamedWindow, Record, RecordPart, StateError, ascii};
use ratekeeper::{PlanError, Quota, Timestamp};
use ratekeeper_redis::{Found, Inspection};

/// A state that was read.
#[derive(Clone, Debug)]
pub struct State {
    record: Record,
    encoding: Encoding,
    /// How long it has to live, where somebody knows; none within if it stays.
    expires_in: Option<Option<Duration>>,
    next: Option<Next>,
    now: Timestamp,
}

/// How a state is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Ascii,
    Binary,
}

impl Encoding {
    const fn word(self) -> &'static str {
        match self {
            Encoding::Ascii => "ascii",
            Encoding::Binary => "binary",
        }
    }
}

impl State {
    /// Reads the ASCII encoding, strictly.
    pub fn from_ascii(text: &str, now: Timestamp) -> Result<Self, StateError> {
        let (record, encoding) = (ascii::decode(text)?, Encoding::Ascii);
        Ok(State { record, encoding, expires_in: None, next: None, now })
    }

    /// What lies under a key of a Redis server, in either encoding. Times are compared with `now`, or with the
    /// server's clock.
    pub fn from_redis(found: Inspection, now: Option<Timestamp>) -> Result<Self, Unreadable> {
        let Inspection { encoding, found, record, expires_in, now: server, .. } = found;
        let encoding =
            if encoding == ratekeeper_redis::Encoding::Ascii { Encoding::Ascii } else { Encoding::Binary };
        let record = record.ok_or_else(|| match found {
            Found::OtherVersion(version) => Unreadable(format!(
                "version: {version}; a hash of schema version 1 is read, and any other starts fresh"
            )),
            Found::Unreadable(error) => Unreadable(error.to_string()),
            _ => Unreadable("a state that this build does not know".to_owned()),
        })?;
        let now = now.unwrap_or(server);
        Ok(State { record, encoding, expires_in: Some(expires_in), next: None, now })
    }

    /// The same, with what a request of cost 1 would get at once under this quota (or several, separated by `;`).
    pub fn under(mut self, quota: &str) -> Result<Self, NextError> {
        self.next = Some(Next::of(&self.record, quota, self.now)?);
        Ok(self)
    }

    /// What it is called: one strategy, `composite`, or `rules` if the states have the names of their rules.
    fn strategy(&self) -> Strategy {
        match self.record.parts() {
            _ if !self.record.names().is_empty() => {
                Strategy { word: "rules", words: "states by rule", version: 1 }
            }
            [part] => Strategy::of(part),
            _ => Strategy { word: "composite", words: "composite", version: 1 },
        }
    }

    /// The version of a part's format, which is that of the schema where it is a hash.
    fn version(&self, part: &RecordPart) -> u8 {
        match self.encoding {
            Encoding::Ascii => Strategy::of(part).version,
            Encoding::Binary => 1,
        }
    }
}

/// What lies there is no state that can be read, and this is why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(String);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

/// Why nothing can be said about the next request.
#[derive(Debug)]
#[non_exhaustive]
pub enum NextError {
    /// The quota is none.
    Quota(PlanError),
    /// The state is that of other rules.
    State(StateError),
    /// The state is that of another algorithm.
    Mismatch(ratekeeper::algorithm::Mismatch),
}

impl std::fmt::Display for NextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("--quota: ")?;
        match self {
            NextError::Quota(error) => error.fmt(f),
            NextError::State(error) => error.fmt(f),
            NextError::Mismatch(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NextError {}

/// A strategy as its header tells it.
#[derive(Clone, Copy, Debug)]
struct Strategy {
    /// For programs.
    word: &'static str,
    /// For people.
    words: &'static str,
    version: u8,
}

impl Strategy {
    fn of(part: &RecordPart) -> Self {
        let (word, words, version) = match part {
            RecordPart::TokenBucket(_) => ("token_bucket", "token bucket", 2),
            RecordPart::FixedWindows(_) => ("fixed_window", "fixed window", 3),
            RecordPart::LeakyBucket(_) => ("leaky_bucket", "leaky bucket", 2),
            RecordPart::Gcra(_) => ("gcra", "GCRA", 2),
            RecordPart::SlidingWindow(_) => ("sliding_window", "sliding window counter", 1),
            RecordPart::SlidingLog(_) => ("sliding_log", "sliding window log", 1),
            _ => ("unknown", "unknown", 0),
        };
        Strategy { word, words, version }
    }
}

/// A field of a state.
#[derive(Clone, Copy, Debug)]
enum Field<'a> {
    Amount(&'static str, f64),
    Count(&'static str, u64),
    Name(&'a str),
    /// A name, the instant, and what it means.
    Instant(&'static str, Timestamp, &'static str),
}

/// The fields of a part in the order in which they are written; a log's entries are not among them.
fn fields(part: &RecordPart) -> Vec<Field<'_>> {
    match part {
        RecordPart::TokenBucket(token_bucket::TokenBucketState { tokens, last }) => {
            vec![Field::Amount("tokens", *tokens), Field::Instant("last", *last, "last refilled")]
        }
        RecordPart::LeakyBucket(leaky_bucket::LeakyBucketState { level, last }) => {
            vec![Field::Amount("level", *level), Field::Instant("last", *last, "last drained")]
        }
        RecordPart::Gcra(gcra::GcraState { tat }) => vec![Field::Instant("tat", *tat, "whole again")],
        RecordPart::SlidingWindow(sliding_window::SlidingWindowState { previous, current, start }) => vec![
            Field::Count("previous", *previous),
            Field::Count("current", *current),
            Field::Instant("start", *start, "the slot's start"),
        ],
        RecordPart::FixedWindows(windows) => windows.as_slice().iter().flat_map(window_fields).collect(),
        RecordPart::SlidingLog(log) => log_fields(log),
        _ => Vec::new(),
    }
}

fn window_fields(window: &NamedWindow) -> [Field<'_>; 3] {
    [
        Field::Name(window.name.as_str()),
        Field::Count("count", window.count),
        Field::Instant("start", window.start, "the window's start"),
    ]
}

fn log_fields(log: &sliding_log::SlidingLogState) -> Vec<Field<'static>> {
    let mut fields = vec![
        Field::Count("entries", log.len() as u64),
        Field::Count("cost", log.entries().fold(0, |sum, (_, cost)| sum.saturating_add(cost))),
    ];
    let mut entries = log.entries();
    let first = entries.next();
    let last = entries.last().or(first);
    if let (Some((first, _)), Some((last, _))) = (first, last) {
        fields.push(Field::Instant("oldest", first, "the oldest entry"));
        fields.push(Field::Instant("newest", last, "the newest entry"));
    }
    fields
}

/// The rules that a text names, for one key.
fn rules(quota: &str) -> Result<Vec<(ratekeeper::Name, Quota)>, PlanError> {
    let plan = ratekeeper::Plan::parse("inspect", quota)?;
    Ok(plan.rules().iter().map(|rule| (rule.name().clone(), *rule.quota())).collect())
}
