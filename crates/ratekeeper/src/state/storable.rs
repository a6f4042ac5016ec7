//! What can be stored: finite doubles, and whole numbers that fit a signed 64-bit integer.
//!
//! The algorithms produce nothing else, but their states have public fields. What does not fit is replaced by what
//! the algorithms would take it for, so that encoding never fails and never gives anything away.

use crate::Timestamp;
use crate::algorithm::MOST_COUNTED;
use crate::algorithm::sliding_log::SlidingLogState;

/// The largest whole number that is written.
pub(super) const MOST: u64 = MOST_COUNTED;

/// Returns the tokens to write: zero for what is no number.
pub(super) fn tokens(tokens: f64) -> f64 {
    if tokens.is_finite() { tokens } else { 0.0 }
}

/// Returns the level to write: above every capacity for what is no number.
pub(super) fn level(level: f64) -> f64 {
    if level.is_finite() { level } else { f64::MAX }
}

/// Returns the count to write: beyond every limit if it was.
pub(super) fn count(count: u64) -> u64 {
    count.min(MOST)
}

/// Returns the entries of a log that count, costs summing up to [`MOST`] at the most. Should they exceed it, the oldest
/// give way: what is left still fills every limit, and for no shorter time.
pub(super) fn entries(log: &SlidingLogState) -> impl Iterator<Item = (Timestamp, u64)> + '_ {
    let total: u128 = log.entries().map(|(_, cost)| u128::from(cost)).sum();
    let mut excess = total.saturating_sub(MOST.into());
    let kept = log.entries().map(move |(at, cost)| {
        let cut = excess.min(cost.into());
        excess -= cut;
        (at, cost - u64::try_from(cut).unwrap_or(cost))
    });
    kept.filter(|(_, cost)| *cost > 0)
}

/// Builds a log from what was read, and refuses what no log can be.
#[derive(Debug, Default)]
pub(super) struct LogReader {
    log: SlidingLogState,
    last: Option<Timestamp>,
    total: u64,
}

/// What is wrong with an entry.
pub(super) enum BadEntry {
    /// It is earlier than the one before it.
    Descends,
    /// Its cost is 0, or makes the sum of all costs too large.
    Cost,
}

impl LogReader {
    /// Adds an entry.
    pub(super) fn push(&mut self, at: Timestamp, cost: u64) -> Result<(), BadEntry> {
        if self.last.is_some_and(|last| at < last) {
            return Err(BadEntry::Descends);
        }
        // A log's running totals wrap: a sum that did would turn a limit off.
        let total = self.total.checked_add(cost).filter(|total| cost > 0 && *total <= MOST);
        self.total = total.ok_or(BadEntry::Cost)?;
        self.last = Some(at);
        self.log.push(at, cost);
        Ok(())
    }

    /// Returns the log.
    pub(super) fn finish(self) -> SlidingLogState {
        self.log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_gives_nothing_away() {
        for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!((tokens(x), level(x)), (0.0, f64::MAX));
        }
        assert_eq!((tokens(-0.5), level(2.5), count(u64::MAX)), (-0.5, 2.5, MOST));
    }

    #[test]
    fn the_oldest_entries_give_way_when_a_log_is_too_full() {
        let at = Timestamp::from_secs;
        let log: SlidingLogState = [(at(1), 7), (at(2), 5), (at(3), MOST - 2)].into_iter().collect();
        assert_eq!(entries(&log).collect::<Vec<_>>(), [(at(2), 2), (at(3), MOST - 2)]);
        let log: SlidingLogState = [(at(1), 0), (at(2), 5)].into_iter().collect();
        assert_eq!(entries(&log).collect::<Vec<_>>(), [(at(2), 5)], "an entry that cost nothing is none");
    }
}
