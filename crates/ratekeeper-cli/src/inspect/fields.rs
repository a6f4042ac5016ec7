//! What the parts of a state are called, and which fields they have.

use ratekeeper::Timestamp;
use ratekeeper::algorithm::{gcra, leaky_bucket, sliding_log, sliding_window, token_bucket};
use ratekeeper::state::{NamedWindow, RecordPart};

/// What a state is called, and the version of its format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strategy {
    /// For programs.
    pub(super) word: &'static str,
    /// For people.
    pub(super) words: &'static str,
    pub(super) version: u8,
}

impl Strategy {
    pub(super) fn of(part: &RecordPart) -> Self {
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
pub(super) enum StateField<'a> {
    Amount(&'static str, f64),
    Count(&'static str, u64),
    Name(&'a str),
    /// A name, the instant, and what it means.
    Instant(&'static str, Timestamp, &'static str),
}

/// Returns the fields of a part in the order in which they are written; a log's entries are not among them.
pub(super) fn fields(part: &RecordPart) -> Vec<StateField<'_>> {
    match part {
        RecordPart::TokenBucket(token_bucket::TokenBucketState { tokens, last }) => {
            let owed = (*tokens < 0.0).then(|| StateField::Amount("owed", -*tokens));
            let fields =
                [StateField::Amount("tokens", *tokens), StateField::Instant("last", *last, "last refilled")];
            fields.into_iter().chain(owed).collect()
        }
        RecordPart::LeakyBucket(leaky_bucket::LeakyBucketState { level, last }) => {
            vec![StateField::Amount("level", *level), StateField::Instant("last", *last, "last drained")]
        }
        RecordPart::Gcra(gcra::GcraState { tat }) => vec![StateField::Instant("tat", *tat, "full again")],
        RecordPart::SlidingWindow(sliding_window::SlidingWindowState { previous, current, start }) => vec![
            StateField::Count("previous", *previous),
            StateField::Count("current", *current),
            StateField::Instant("start", *start, "the slot's start"),
        ],
        RecordPart::FixedWindows(windows) => windows.as_slice().iter().flat_map(window_fields).collect(),
        RecordPart::SlidingLog(log) => log_fields(log),
        _ => Vec::new(),
    }
}

pub(super) fn window_fields(window: &NamedWindow) -> [StateField<'_>; 3] {
    [
        StateField::Name(window.name.as_str()),
        StateField::Count("count", window.count),
        StateField::Instant("start", window.start, "the window's start"),
    ]
}

fn log_fields(log: &sliding_log::SlidingLogState) -> Vec<StateField<'static>> {
    let mut fields = vec![
        StateField::Count("entries", log.len() as u64),
        StateField::Count("cost", log.entries().fold(0, |sum, (_, cost)| sum.saturating_add(cost))),
    ];
    let mut entries = log.entries();
    let first = entries.next();
    let last = entries.last().or(first);
    if let (Some((first, _)), Some((last, _))) = (first, last) {
        fields.push(StateField::Instant("oldest", first, "the oldest entry"));
        fields.push(StateField::Instant("newest", last, "the newest entry"));
    }
    fields
}
