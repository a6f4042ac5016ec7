//! The sliding window log: everything that passed within the window is remembered, so the answer is exact.
//!
//! The state is the instant and cost of each request, oldest first. A request is allowed if the costs within the window and
//! its own are at most the limit; otherwise it waits until enough of the oldest have left the window.
//!
//! Each entry carries the running total of all costs up to it, so that what lies in the window, and when enough of it will
//! have left, are found by bisection. Totals wrap, differences of totals do not: what lies within one window is at most the
//! limit.
//!
//! A debit is remembered in any case, as one entry with its cost. Only debits can come to more entries than the bound: then
//! one becomes one with the last entry, which from now on counts as of its instant.
//!
//! A log takes 16 bytes for each instant at which something passed, and a decision `O(log n)`; entries of one instant are one.
//! A quota's [bound](crate::quota::QuotaBuilder::log_bound) keeps it from being built larger than intended.
//!
//! ```
//! use ratekeeper::{Cost, Nanos, Quota, Timestamp, algorithm};
//!
//! let quota: Quota = "2 per 10s log".parse()?;
//! let at = |seconds| Timestamp::from_secs(seconds);
//! let (_, state) = algorithm::try_acquire(&quota, None, Cost::ONE, at(0))?;
//! let (_, state) = algorithm::try_acquire(&quota, state.as_ref(), Cost::ONE, at(9))?;
//! let denied = algorithm::peek(&quota, state.as_ref(), Cost::ONE, at(10))?;
//! assert_eq!(denied.retry_after, Some(Nanos::from_nanos(1)), "an entry of exactly one window ago still counts");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::VecDeque;

use super::tenancy::Tenancy;
use super::view::{View, counted_of};
use super::wait::Wait;
use crate::{Cost, Nanos, Quota, Timestamp};

/// The state of a sliding log: everything that passed, oldest first, instants ascending.
#[derive(Clone, Debug, Default)]
pub struct SlidingLogState {
    /// The running total before the first entry.
    base: u64,
    entries: VecDeque<LogEntry>,
}

/// One instant at which something passed.
#[derive(Clone, Copy, Debug)]
struct LogEntry {
    at: Timestamp,
    /// The costs of this entry and all before it, modulo 2^64.
    total: u64,
}

impl SlidingLogState {
    /// Adds an entry. An instant before the last one counts as that one: order is what everything here rests on.
    /// What costs nothing is not remembered. The costs of a log sum up to 2^64 − 1 at most: more stays at that, or a
    /// corrupt log would wrap around to one that counts for nothing.
    pub fn push(&mut self, at: Timestamp, cost: u64) {
        let before = self.total_before(self.entries.len());
        let cost = cost.min(u64::MAX - before.wrapping_sub(self.base));
        if cost == 0 {
            return;
        }
        let total = before.wrapping_add(cost);
        match self.entries.back_mut() {
            Some(last) if last.at >= at => last.total = total,
            _ => self.entries.push_back(LogEntry { at, total }),
        }
    }

    /// Returns the entries, oldest first: instants and costs.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (Timestamp, u64)> + '_ {
        self.entries_from(0)
    }

    /// Returns the entries later than an instant, or all, oldest first: for who reads a log in several steps.
    pub(crate) fn entries_after(
        &self,
        instant: Option<Timestamp>,
    ) -> impl ExactSizeIterator<Item = (Timestamp, u64)> + '_ {
        let is_read = |entry: &LogEntry| instant.is_some_and(|instant| entry.at <= instant);
        self.entries_from(self.entries.partition_point(is_read))
    }

    /// Returns the entries from a position on. Steps over none: a log may have millions.
    fn entries_from(&self, from: usize) -> impl ExactSizeIterator<Item = (Timestamp, u64)> + '_ {
        let cost = move |(i, entry): (usize, &LogEntry)| {
            (entry.at, entry.total.wrapping_sub(self.total_before(from + i)))
        };
        self.entries.range(from..).enumerate().map(cost)
    }

    /// Returns how many instants are remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the bytes on the heap.
    pub(crate) fn heap_size(&self) -> usize {
        self.entries.capacity() * size_of::<LogEntry>()
    }

    /// Returns the bytes on the heap after this edit, if it makes the log grow beyond its memory; none otherwise. A deque that
    /// is full doubles.
    pub(crate) fn grows_to(&self, edit: &LogEdit) -> Option<usize> {
        let len = self.entries.len() - edit.expired.min(self.entries.len()) + 1;
        (len > self.entries.capacity()).then(|| self.heap_size().max(Self::FIRST_HEAP / 2) * 2)
    }

    /// Bytes on the heap of a log with one entry: a deque begins with four places.
    pub(crate) const FIRST_HEAP: usize = 4 * size_of::<LogEntry>();

    /// Gives memory back if most of it is unused.
    pub(crate) fn shrink(&mut self) {
        if self.entries.capacity() > 16 && self.entries.len() * 4 <= self.entries.capacity() {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    fn total_before(&self, index: usize) -> u64 {
        match index.checked_sub(1) {
            Some(previous) => self.entries[previous].total,
            None => self.base,
        }
    }
}

impl PartialEq for SlidingLogState {
    fn eq(&self, other: &Self) -> bool {
        self.entries().eq(other.entries())
    }
}

impl Eq for SlidingLogState {}

impl FromIterator<(Timestamp, u64)> for SlidingLogState {
    fn from_iter<I: IntoIterator<Item = (Timestamp, u64)>>(entries: I) -> Self {
        let mut state = SlidingLogState::default();
        entries.into_iter().for_each(|(at, cost)| state.push(at, cost));
        state
    }
}

/// The log as seen from now. Changes are noted here, and made by [`write_to`](SlidingLogView::write_to).
#[derive(Clone, Copy, Debug)]
pub struct SlidingLogView<'a> {
    limit: u64,
    window: Nanos,
    now: Timestamp,
    log: Option<&'a SlidingLogState>,
    /// The most entries.
    bound: usize,
    edit: LogEdit,
}

/// What is to become of a log: a prefix has left the window, something may be given back, a cost may be added.
///
/// Positions count cost units from the oldest entry that has not left the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogEdit {
    /// The later of now and the last entry; now, if the clock stepped far back. No instant is believed that lies further
    /// ahead.
    effective_now: Timestamp,
    /// How many of the oldest entries have left the window.
    expired: usize,
    /// The running total before the first that has not.
    base: u64,
    /// The cost of the entries that have not left the window.
    counted: u64,
    /// What is given back of it: the units from the first position to the one before the second.
    gap: (u64, u64),
    /// The cost to be added at the effective now.
    added: u64,
    /// There is no room for one more entry: the last one moves to the effective now, and what is added becomes a part of it.
    merges: bool,
    repaired: bool,
}

impl<'a> SlidingLogView<'a> {
    /// Returns the state as it stands at `now`.
    pub fn at(quota: &Quota, log: Option<&'a SlidingLogState>, now: Timestamp, tenancy: Tenancy) -> Self {
        let (limit, window) = (quota.burst(), quota.period());
        let last = log.and_then(|log| log.entries.back()).copied();
        let repaired = last.is_some_and(|last| tenancy.cuts_off(last.at, now));
        let effective_now = last.filter(|_| !repaired).map_or(now, |last| last.at.max(now));
        let (mut expired, mut base) = (0, 0);
        if let Some(log) = log {
            // An entry exactly one window old still counts.
            expired = log.entries.partition_point(|entry| effective_now.since(entry.at) > window);
            base = log.total_before(expired);
        }
        let counted = last.map_or(0, |last| last.total.wrapping_sub(base));
        let edit =
            LogEdit { effective_now, expired, base, counted, gap: (0, 0), added: 0, merges: false, repaired };
        let bound = quota.log_bound() as usize;
        SlidingLogView { limit, window, now, log, bound, edit }
    }

    /// Returns the state to store; none when nothing counts. Copies the log.
    pub fn state(&self) -> Option<SlidingLogState> {
        let mut log = self.log.cloned().unwrap_or_default();
        self.write_to(&mut log);
        (!log.is_empty()).then_some(log)
    }

    /// Makes the noted changes. `log` must be the one that this is a view of.
    pub fn write_to(&self, log: &mut SlidingLogState) {
        self.edit.apply(log);
    }

    /// Returns the noted changes, detached from the log so that it can be borrowed mutably to make them.
    pub(crate) fn edit(&self) -> LogEdit {
        self.edit
    }

    fn used(&self) -> u64 {
        self.edit.kept().saturating_add(self.edit.added)
    }

    /// Returns the position at which the entries that are later than `instant` begin.
    fn position_after(&self, instant: Timestamp) -> u64 {
        let Some(log) = self.log else { return 0 };
        let before = log.entries.partition_point(|entry| entry.at.min(self.edit.effective_now) <= instant);
        log.total_before(before.max(self.edit.expired)).wrapping_sub(self.edit.base)
    }

    /// Returns the time until the entry at which the costs that stay sum up to `amount` or more leaves the window.
    fn leaves(&self, amount: u64) -> Nanos {
        let LogEdit { effective_now, expired, base, gap, merges, .. } = self.edit;
        let entries = self.log.map(|log| &log.entries).filter(|_| amount <= self.edit.kept());
        let amount = if amount <= gap.0 { amount } else { amount.saturating_add(gap.1 - gap.0) };
        let at = entries.and_then(|entries| {
            let sums_up = |entry: &LogEntry| entry.total.wrapping_sub(base) >= amount;
            let first = expired + entries.range(expired..).position_by_bisection(sums_up);
            entries.get(first).filter(|_| !merges || first + 1 < entries.len())
        });
        let at = at.map_or(effective_now, |entry| entry.at.min(effective_now));
        // Not the difference of two instants: the later one may lie beyond the last that there is.
        let left = self.window.saturating_add(Nanos::from_nanos(1)).saturating_add(at.since(self.now));
        left.saturating_sub(self.now.since(at))
    }
}

impl LogEdit {
    /// Makes the changes on the log that they were noted for.
    pub(crate) fn apply(&self, log: &mut SlidingLogState) {
        log.entries.drain(..self.expired.min(log.entries.len()));
        log.base = self.base;
        self.close_gap(log);
        if self.repaired {
            // What lies ahead becomes one entry at the effective now, the last of them, which carries the total.
            let ahead = log.entries.partition_point(|entry| entry.at < self.effective_now);
            if let Some(last) = log.entries.back().copied().filter(|_| ahead < log.entries.len()) {
                log.entries.truncate(ahead);
                log.entries.push_back(LogEntry { at: self.effective_now, ..last });
            }
        }
        if let Some(last) = log.entries.back_mut().filter(|_| self.merges) {
            last.at = self.effective_now;
        }
        if self.added > 0 {
            log.push(self.effective_now, self.added);
        }
    }

    /// Returns the cost of the entries that stay.
    fn kept(&self) -> u64 {
        self.counted - (self.gap.1 - self.gap.0)
    }

    /// Takes out of the log what was given back. Looks at every entry, and only a refund does.
    fn close_gap(&self, log: &mut SlidingLogState) {
        let (start, end) = self.gap;
        if start == end {
            return;
        }
        let mut before = 0;
        log.entries.retain_mut(|entry| {
            let total = entry.total.wrapping_sub(self.base);
            let total = total.min(start).max(total.saturating_sub(end - start));
            entry.total = self.base.wrapping_add(total);
            std::mem::replace(&mut before, total) < total
        });
    }
}

impl View for SlidingLogView<'_> {
    fn wait_for(&self, cost: Cost) -> Wait {
        if cost.get() > self.limit {
            return Wait::Never;
        }
        if cost.get() <= self.remaining() {
            return Wait::Ready;
        }
        // The cost is at most the limit, so what is too much is at most what is used.
        let too_much = self.used() - (self.limit - cost.get());
        Wait::after(self.now, Some(self.leaves(too_much)))
    }

    fn charge(&mut self, cost: Cost) {
        self.edit.added = self.edit.added.saturating_add(cost.get());
    }

    fn debit(&mut self, cost: Cost) -> u64 {
        let (counted, forgiven) = counted_of(cost, self.used());
        self.edit.added += counted;
        let entries = self.log.map_or(0, SlidingLogState::len) - self.edit.expired;
        self.edit.merges |= counted > 0 && entries >= self.bound;
        forgiven
    }

    /// Takes out the entry of that instant: units up to it, the newest first, so that an instant that is told a little
    /// too late (an age is short by the time that it was under way) takes no entry that is later still. If there are
    /// too few, those after it, the oldest first: what is given back is one piece. An entry that has left the window is
    /// gone already. A view gives back once, and nothing that it charged itself.
    fn refund(&mut self, cost: Cost, charged_at: Timestamp) {
        if self.edit.effective_now.since(charged_at) > self.window {
            return;
        }
        let position = self.position_after(charged_at);
        let before = cost.get().min(position);
        let after = (cost.get() - before).min(self.edit.counted - position);
        self.edit.gap = (position - before, position + after);
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.used())
    }

    fn wait_until_paid(&self) -> Wait {
        match self.used().saturating_sub(self.limit) {
            0 => Wait::Ready,
            owed => Wait::after(self.now, Some(self.leaves(owed))),
        }
    }

    fn reset_after(&self) -> Nanos {
        match self.used() {
            0 => Nanos::ZERO,
            used => self.leaves(used),
        }
    }

    fn was_repaired(&self) -> bool {
        self.edit.repaired
    }
}

/// Bisection over a part of a deque.
trait Bisect<T> {
    /// Returns how many at the front do not satisfy a predicate that stays true once it is.
    fn position_by_bisection(self, holds: impl Fn(&T) -> bool) -> usize;
}

impl<T> Bisect<T> for std::collections::vec_deque::Iter<'_, T> {
    fn position_by_bisection(self, holds: impl Fn(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            // `nth` on a deque's iterator is constant time.
            if self.clone().nth(middle).is_some_and(&holds) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::take;
    use super::*;

    fn quota() -> Quota {
        "3 per 10s log".parse().unwrap()
    }

    #[test]
    fn an_entry_exactly_one_window_old_still_counts() {
        let start = Timestamp::from_secs(100);
        let mut view = SlidingLogView::at(&quota(), None, start, Tenancy::Own);
        take(&mut view, Cost::new(3));
        let log = view.state();
        let at = |later| SlidingLogView::at(&quota(), log.as_ref(), start + later, Tenancy::Own);
        assert_eq!(at(Nanos::from_secs(10)).remaining(), 0);
        assert_eq!(at(Nanos::from_nanos(10_000_000_001)).remaining(), 3);
        assert_eq!(
            take(&mut at(Nanos::ZERO), Cost::ONE).retry_after,
            Some(Nanos::from_nanos(10_000_000_001))
        );
    }

    #[test]
    fn a_refund_of_now_takes_the_newest_first() {
        let log: SlidingLogState =
            [(Timestamp::from_secs(1), 1), (Timestamp::from_secs(2), 2)].into_iter().collect();
        let mut view = SlidingLogView::at(&quota(), Some(&log), Timestamp::from_secs(3), Tenancy::Own);
        view.refund(Cost::ONE, Timestamp::from_secs(3));
        let left: Vec<_> = view.state().unwrap().entries().collect();
        assert_eq!(left, [(Timestamp::from_secs(1), 1), (Timestamp::from_secs(2), 1)]);
        view.refund(Cost::new(u64::MAX), Timestamp::from_secs(3));
        assert_eq!(view.state(), None);
    }

    /// The newest used to go whatever was given back: what stayed left the window too early.
    #[test]
    fn a_late_refund_takes_the_very_entry() {
        let entries =
            [(Timestamp::from_secs(1), 1), (Timestamp::from_secs(2), 1), (Timestamp::from_secs(4), 1)];
        let log: SlidingLogState = entries.into_iter().collect();
        for given_back in 0..3 {
            let mut view = SlidingLogView::at(&quota(), Some(&log), Timestamp::from_secs(5), Tenancy::Own);
            view.refund(Cost::ONE, entries[given_back].0);
            let mut expected = entries.to_vec();
            expected.remove(given_back);
            assert_eq!(view.state().unwrap().entries().collect::<Vec<_>>(), expected);
            let last = expected[1].0 + Nanos::from_nanos(10_000_000_001);
            assert_eq!((view.remaining(), view.reset_after()), (1, last.since(Timestamp::from_secs(5))));
            let first = expected[0].0 + Nanos::from_nanos(10_000_000_001);
            assert_eq!(view.wait_for(Cost::new(2)), Wait::After(first.since(Timestamp::from_secs(5))));
        }
    }

    #[test]
    fn a_debit_does_not_count_entries_that_left_the_window() {
        let log: SlidingLogState =
            [1, 2, 6].map(|second| (Timestamp::from_secs(second), 1)).into_iter().collect();
        let quota: Quota = "3 per 10s log bound 3".parse().unwrap();
        let mut view = SlidingLogView::at(&quota, Some(&log), Timestamp::from_secs(15), Tenancy::Own);
        view.debit(Cost::ONE);
        let left: Vec<_> = view.state().unwrap().entries().collect();
        assert_eq!(left, [6, 15].map(|second| (Timestamp::from_secs(second), 1)));
    }

    #[test]
    fn running_totals_may_wrap() {
        let mut log = SlidingLogState { base: u64::MAX - 1, entries: VecDeque::new() };
        log.push(Timestamp::from_secs(1), 2);
        log.push(Timestamp::from_secs(2), 1);
        let view = SlidingLogView::at(&quota(), Some(&log), Timestamp::from_secs(3), Tenancy::Own);
        assert_eq!(view.remaining(), 0);
        assert_eq!(view.wait_for(Cost::new(2)), Wait::After(Nanos::from_nanos(8_000_000_001)));
        assert_eq!(log.entries().map(|(_, cost)| cost).collect::<Vec<_>>(), [2, 1]);
    }
}
