//! What a replay remembers of the trace itself.

use ratekeeper::{Nanos, Timestamp};

use super::keys::TraceKeys;
use super::peak::Peak;
use super::trace::{LineError, TraceEntry};

/// What a replay remembers of the trace itself.
#[derive(Debug, Default)]
pub struct TraceOverview {
    /// How many requests there were.
    pub requests: u64,
    /// Every key, and how often it asked.
    pub keys: TraceKeys,
    /// The times of the earliest and of the latest request.
    pub span: Option<(Timestamp, Timestamp)>,
    /// Lines that could not be read.
    pub skipped: Option<SkippedLines>,
    /// How many lines were earlier than one before them, and the number of the first such line.
    pub out_of_order: Option<(u64, u64)>,
    /// The furthest that such a line went back in time.
    pub furthest_back: Nanos,
    /// The number of the first line that is later than the present.
    pub in_future: Option<u64>,
    /// What a server has answered, if the trace tells.
    pub recorded: Option<RecordedAnswers>,
    pub(super) peak: Peak,
}

/// What a server has answered to the requests that it has recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedAnswers {
    /// How many it has allowed.
    pub allowed: u64,
    /// How many it has denied.
    pub denied: u64,
    /// How many have named several plans.
    pub of_several_plans: u64,
}

/// Lines that could not be read.
#[derive(Clone, Copy, Debug)]
pub struct SkippedLines {
    /// How many lines.
    pub lines: u64,
    /// The number of the first of them.
    pub first: u64,
    /// What is wrong with that line.
    pub error: LineError,
}

impl TraceOverview {
    /// Returns the most requests in one second, and that second.
    pub fn peak(&self) -> (u64, Timestamp) {
        (self.peak.most, self.peak.at)
    }

    /// Takes note of what a server has answered.
    #[inline]
    pub(super) fn note_record(&mut self, entry: &TraceEntry<'_>) {
        let Some(was_allowed) = entry.was_allowed else { return };
        let recorded = self.recorded.get_or_insert_default();
        *(if was_allowed { &mut recorded.allowed } else { &mut recorded.denied }) += 1;
        recorded.of_several_plans += u64::from(entry.plans.are_several());
    }

    /// Takes note of when a request was made. With `strict`, a line that is out of order is an error: its number.
    #[inline]
    pub(super) fn note_time(
        &mut self,
        at: Timestamp,
        line: u64,
        strict: bool,
        now: Timestamp,
    ) -> Result<(), u64> {
        match &mut self.span {
            Some((_, last)) if at >= *last => *last = at,
            Some((first, last)) => {
                if strict {
                    return Err(line);
                }
                self.furthest_back = self.furthest_back.max(last.since(at));
                *first = (*first).min(at);
                self.out_of_order.get_or_insert((0, line)).0 += 1;
            }
            None => self.span = Some((at, at)),
        }
        if at > now && self.in_future.is_none() {
            self.in_future = Some(line);
        }
        Ok(())
    }
}
