//! Who waits for a key, in turn.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::limiter::{AcquireError, Concurrency, OwnedPermit};
use crate::port::Request;
use crate::{Name, Quota, Rules};

/// The most callers who wait at one keeper, for all keys together. What a caller who waits costs is mostly its own task;
/// the bound keeps a flood of keys from growing the table without end.
const MOST_WAITING: usize = 1 << 18;

/// The lines of callers who wait, one for each key and what it is held to. A line exists for as long as somebody stands in
/// it.
#[derive(Default)]
pub(super) struct WaitLines {
    lines: Mutex<HashMap<LineId, WaitLine>>,
    /// How many stand in all lines together. Everybody who does not wait looks at it, and needs no lock while it is zero.
    waiting: AtomicUsize,
}

/// What a line waits for.
#[derive(Clone, PartialEq, Eq, Hash)]
struct LineId {
    key: Box<[u8]>,
    held_to: LineRules,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum LineRules {
    Quota(Quota),
    /// By name: a reload changes the quotas of a plan and not the line.
    Plans(Box<[Name]>),
}

struct WaitLine {
    /// One permit: whoever has it is the first, who asks the store for all.
    turns: Concurrency,
    waiters: usize,
    /// What all of them want together. Wide enough that no sum of theirs overflows.
    cost: u128,
}

impl LineId {
    fn of(request: &Request<'_>) -> Self {
        let held_to = match request.rules {
            Rules::Quota(quota) => LineRules::Quota(*quota),
            Rules::Plan(plan) => LineRules::Plans([plan.name().clone()].into()),
            Rules::Plans(plans) => LineRules::Plans(plans.iter().map(|plan| plan.name().clone()).collect()),
        };
        LineId { key: request.key.as_bytes().into(), held_to }
    }
}

impl WaitLines {
    /// Returns true if somebody waits, for whatever key. One atomic load.
    #[inline]
    pub(super) fn are_used(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Returns what those in the request's line want together; none if nobody stands there.
    #[inline]
    pub(super) fn wanted(&self, request: &Request<'_>) -> Option<u64> {
        if !self.are_used() {
            return None;
        }
        self.lines.lock().get(&LineId::of(request)).map(|line| u64::try_from(line.cost).unwrap_or(u64::MAX))
    }

    /// Returns how many stand in the request's line.
    pub(super) fn depth(&self, request: &Request<'_>) -> usize {
        self.lines.lock().get(&LineId::of(request)).map_or(0, |line| line.waiters)
    }

    /// Joins the end of the request's line, unless so many stand there already.
    pub(super) fn join(self: &Arc<Self>, request: &Request<'_>, places: usize) -> Option<InLine> {
        let (id, cost) = (LineId::of(request), request.cost.get());
        let mut lines = self.lines.lock();
        let waiters = lines.get(&id).map_or(0, |line| line.waiters);
        if waiters >= places || self.waiting.load(Ordering::Relaxed) >= MOST_WAITING {
            return None;
        }
        let line = lines.entry(id.clone()).or_insert_with(WaitLine::new);
        line.waiters += 1;
        line.cost += u128::from(cost);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let turns = line.turns.clone();
        Some(InLine { lines: Arc::clone(self), id, cost, turns, is_first: waiters == 0 })
    }
}

impl WaitLine {
    #[expect(clippy::expect_used, reason = "a limit of one is within its bounds")]
    fn new() -> Self {
        WaitLine { turns: Concurrency::new(1).expect("one permit"), waiters: 0, cost: 0 }
    }
}

impl fmt::Debug for WaitLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Counts, never keys: those are somebody's.
        write!(f, "WaitLines({} waiting)", self.waiting.load(Ordering::Relaxed))
    }
}

/// A place in a line. Dropping it leaves the line, wherever in it that is.
pub(super) struct InLine {
    lines: Arc<WaitLines>,
    id: LineId,
    cost: u64,
    turns: Concurrency,
    /// True if nobody stood in this line before.
    pub(super) is_first: bool,
}

/// It is somebody's turn. Dropping it gives the turn to the next: the permit goes before the place.
pub(super) struct FirstInLine {
    _permit: OwnedPermit,
    _place: InLine,
}

impl InLine {
    /// Waits until everybody ahead has left.
    pub(super) async fn turn(self, within: Duration) -> Result<FirstInLine, AcquireError> {
        let permit = self.turns.acquire_owned().within(within).await?;
        Ok(FirstInLine { _permit: permit, _place: self })
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let mut lines = self.lines.lines.lock();
        self.lines.waiting.fetch_sub(1, Ordering::Relaxed);
        if let Some(line) = lines.get_mut(&self.id) {
            line.waiters -= 1;
            line.cost -= u128::from(self.cost);
            if line.waiters == 0 {
                lines.remove(&self.id);
            }
        }
    }
}

/// Sleeps for so long by the timer of all limiters: within any runtime, outside of one, and in paused time.
pub(super) async fn sleep(time: Duration) {
    let nobody = WaitLine::new().turns;
    let _held = nobody.try_acquire_owned();
    // The only permit is held here, so this always ends with the deadline.
    let _ = nobody.acquire_owned().within(time).await;
}
