//! What was done so far.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::groups::Group;

/// What a [`PostgresStore`](crate::PostgresStore) has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresCounts {
    /// Decisions that were put into statements; those that were decided again count again.
    pub decisions: u64,
    /// Statements that compared and wrote rows: fewer than decisions where requests were gathered.
    pub statements: u64,
    /// How many of them were preceded by a lock, because others were faster twice.
    pub locked: u64,
    /// Rows that were not as they had been seen, because another process has written them or they were new to this one.
    pub missed: u64,
    /// Statements that were refused because the decision did not fall into the server's present.
    pub dated_anew: u64,
    /// Statements that undid themselves because they took until after the time of one of their calls: the server is slow.
    pub undone: u64,
    /// Expired rows that were deleted by this process.
    pub swept: u64,
}

/// The counters behind.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    decisions: AtomicU64,
    statements: AtomicU64,
    locked: AtomicU64,
    missed: AtomicU64,
    dated_anew: AtomicU64,
    undone: AtomicU64,
    swept: AtomicU64,
}

impl Counters {
    pub(crate) fn exchanged(&self, groups: &[Group], is_locked: bool) {
        let calls: usize = groups.iter().map(|group| group.calls.len()).sum();
        self.decisions.fetch_add(calls as u64, Ordering::Relaxed);
        self.statements.fetch_add(1, Ordering::Relaxed);
        self.locked.fetch_add(is_locked.into(), Ordering::Relaxed);
    }

    pub(crate) fn missed(&self, rows: usize) {
        self.missed.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub(crate) fn dated_anew(&self) {
        self.dated_anew.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn undone(&self) {
        self.undone.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn swept(&self, rows: u64) {
        self.swept.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> PostgresCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PostgresCounts {
            decisions: read(&self.decisions),
            statements: read(&self.statements),
            locked: read(&self.locked),
            missed: read(&self.missed),
            dated_anew: read(&self.dated_anew),
            undone: read(&self.undone),
            swept: read(&self.swept),
        }
    }
}
