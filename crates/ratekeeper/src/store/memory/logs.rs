//! The logs of a shard: states that take memory of their own, counted as it comes and goes.

use super::budget::Footprint;
use super::slot::Logged;
use super::table::StateTable;
use super::tag::Tag;
use crate::Timestamp;
use crate::algorithm::sliding_log::{LogEdit, SlidingLogState};

/// A table of logs, and the bytes that their entries take.
#[derive(Debug, Default)]
pub(super) struct Logs {
    table: StateTable<Logged>,
    entries: LogBytes,
}

/// Bytes of all logs, and of those that requests brought.
#[derive(Debug, Default)]
struct LogBytes {
    bytes: usize,
    brought: usize,
}

impl LogBytes {
    fn add(&mut self, tag: Tag, bytes: usize) {
        self.bytes += bytes;
        self.brought += if tag.is_brought() { bytes } else { 0 };
    }

    fn remove(&mut self, tag: Tag, bytes: usize) {
        self.bytes -= bytes;
        self.brought -= if tag.is_brought() { bytes } else { 0 };
    }
}

impl Logs {
    /// Returns the table of the logs.
    pub(super) fn table(&self) -> &StateTable<Logged> {
        &self.table
    }

    /// Returns the log of this tag.
    pub(super) fn find(&self, tag: Tag) -> Option<&SlidingLogState> {
        self.table.find(tag).map(|index| &self.table.get(index).log)
    }

    /// Returns the states and bytes of all logs, their entries included.
    pub(super) fn held(&self) -> Footprint {
        let LogBytes { bytes, brought: brought_bytes } = self.entries;
        self.table.held() + Footprint { bytes, brought_bytes, ..Footprint::default() }
    }

    /// Gives the table so many slots, which were claimed from the budget.
    pub(super) fn resize(&mut self, size: usize) {
        self.table.resize(size);
    }

    /// Edits the log of this tag, and adds it if there is none. Returns whether an expired one made way for it.
    pub(super) fn edit(&mut self, tag: Tag, edit: &LogEdit, expires: Timestamp, now: Timestamp) -> bool {
        let known = self.table.find(tag);
        let mut log =
            known.map(|index| std::mem::take(&mut self.table.get_mut(index).log)).unwrap_or_default();
        let before = log.heap_size();
        edit.apply(&mut log);
        log.shrink();
        self.entries.add(tag, log.heap_size());
        self.entries.remove(tag, before);
        let logged = Logged { expires, log };
        match known {
            Some(index) => {
                self.table.set(index, logged);
                false
            }
            None => self.insert_counted(tag, logged, now),
        }
    }

    /// Adds a log of a snapshot, unless one of this tag is there.
    pub(super) fn restore(&mut self, tag: Tag, logged: Logged) {
        if self.table.make_room_for(tag) {
            self.entries.add(tag, logged.log.heap_size());
            // At the beginning of time nothing has expired: nothing makes way.
            self.insert_counted(tag, logged, Timestamp::MIN);
        }
    }

    fn insert_counted(&mut self, tag: Tag, logged: Logged, now: Timestamp) -> bool {
        let made_way = self.table.insert(tag, logged, now);
        if let Some((tag, dead)) = &made_way {
            self.entries.remove(*tag, dead.log.heap_size());
        }
        made_way.is_some()
    }

    /// Drops the log of this tag.
    pub(super) fn remove(&mut self, tag: Tag) {
        if let Some(index) = self.table.find(tag) {
            self.entries.remove(tag, self.table.remove(index).log.heap_size());
        }
    }

    /// Drops every log that has expired.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        self.table.sweep(now, |tag, logged| self.entries.remove(tag, logged.log.heap_size()));
    }

    /// Takes every log out of which this is true.
    pub(super) fn take_out(&mut self, which: impl Fn(Tag) -> bool, mut out: impl FnMut(Tag, Timestamp)) {
        let entries = &mut self.entries;
        self.table.take_out(
            |tag, _| which(tag),
            |tag, logged| {
                entries.remove(tag, logged.log.heap_size());
                out(tag, logged.expires);
            },
        );
    }
}
