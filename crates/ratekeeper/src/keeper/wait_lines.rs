//! Who waits for a key, in turn.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::limiter::{AcquireError, Concurrency, OwnedPermit};
use crate::port::Request;
use crate::{Cost, Name, Quota, Rules};

/// The most callers who wait at one keeper, for all keys together. What a caller who waits costs is mostly its own task;
/// the bound keeps a flood of keys from growing the table without end.
const MOST_WAITING: usize = 1 << 18;

/// Keys are counted in so many groups, so that those who ask for other keys than the ones waited for take no lock.
const GROUPS: usize = 256;

/// The lines of callers who wait, one for each key and what it is held to. A line exists for as long as somebody stands in
/// it.
pub(super) struct WaitLines {
    lines: Mutex<HashMap<LineId, WaitLine>>,
    /// How many stand in all lines together. Everybody who does not wait looks at it, and needs no lock while it is zero.
    waiting: AtomicUsize,
    /// How many stand in the lines of each group of keys.
    groups: [AtomicUsize; GROUPS],
    hasher: RandomState,
}

impl Default for WaitLines {
    fn default() -> Self {
        WaitLines {
            lines: Mutex::default(),
            waiting: AtomicUsize::new(0),
            groups: [const { AtomicUsize::new(0) }; GROUPS],
            hasher: RandomState::new(),
        }
    }
}

/// What a line waits for.
#[derive(Clone, PartialEq, Eq, Hash)]
struct LineId {
    key: Box<[u8]>,
    held_to: LineRules,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum LineRules {
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
    /// How often something was given back that may let the first pass earlier than the store has said.
    given_back: u64,
    /// Closed to wake the first, who sleeps until the store is worth asking again.
    alarm: Option<Concurrency>,
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
        let is_free = || self.group(request.key.as_bytes()).load(Ordering::Relaxed) == 0;
        if !self.are_used() || is_free() {
            return None;
        }
        self.lines.lock().get(&LineId::of(request)).map(|line| u64::try_from(line.cost).unwrap_or(u64::MAX))
    }

    fn group(&self, key: &[u8]) -> &AtomicUsize {
        #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
        let hash = self.hasher.hash_one(key) as usize;
        &self.groups[hash % GROUPS]
    }

    /// Returns what those want together whom this request would overtake; none if there is nobody, or nothing is wanted:
    /// a cost of zero is a question, which takes nothing from anybody.
    #[inline]
    pub(super) fn ahead_of(&self, request: &Request<'_>) -> Option<u64> {
        if request.cost == Cost::ZERO { None } else { self.wanted(request) }
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
        self.group(&id.key).fetch_add(1, Ordering::Relaxed);
        let turns = line.turns.clone();
        Some(InLine { lines: Arc::clone(self), id, cost, turns, is_first: waiters == 0 })
    }

    /// Has the first in the request's line ask again: something was given back. One atomic load while nobody waits.
    pub(super) fn gave_back(&self, request: &Request<'_>) {
        if self.are_used() {
            let alarm = self.lines.lock().get_mut(&LineId::of(request)).and_then(WaitLine::gave_back);
            alarm.iter().for_each(Concurrency::close);
        }
    }

    /// Has the first of every line ask again of which this is true, by key and by what it is held to: they were reset.
    /// Looks at all lines.
    pub(super) fn were_reset(&self, is_reset: impl Fn(&[u8], &LineRules) -> bool) {
        if self.are_used() {
            let mut lines = self.lines.lock();
            let reset = lines.iter_mut().filter(|(id, _)| is_reset(&id.key, &id.held_to));
            let alarms: Vec<_> = reset.filter_map(|(_, line)| line.gave_back()).collect();
            drop(lines);
            alarms.iter().for_each(Concurrency::close);
        }
    }
}

impl LineRules {
    /// Returns true if a reset under these rules may let those in the line pass: a quota stands for all quotas of its key.
    pub(super) fn share_state_with(&self, rules: Rules<'_>) -> bool {
        match (self, rules) {
            (LineRules::Quota(_), Rules::Quota(_)) => true,
            (LineRules::Plans(names), Rules::Plan(plan)) => names.contains(plan.name()),
            (LineRules::Plans(names), Rules::Plans(plans)) => {
                plans.iter().any(|plan| names.contains(plan.name()))
            }
            _ => false,
        }
    }
}

impl WaitLine {
    fn new() -> Self {
        WaitLine { turns: one_permit(), waiters: 0, cost: 0, given_back: 0, alarm: None }
    }

    /// Notes that something was given back; returns what the first has to be woken by, without the lock.
    fn gave_back(&mut self) -> Option<Concurrency> {
        self.given_back = self.given_back.wrapping_add(1);
        self.alarm.take()
    }
}

#[expect(clippy::expect_used, reason = "a limit of one is within its bounds")]
fn one_permit() -> Concurrency {
    Concurrency::new(1).expect("one permit")
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
    place: InLine,
}

impl InLine {
    /// Waits until everybody ahead has left.
    pub(super) async fn turn(self, within: Duration) -> Result<FirstInLine, AcquireError> {
        let permit = self.turns.acquire_owned().within(within).await?;
        Ok(FirstInLine { _permit: permit, place: self })
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let mut lines = self.lines.lines.lock();
        self.lines.waiting.fetch_sub(1, Ordering::Relaxed);
        self.lines.group(&self.id.key).fetch_sub(1, Ordering::Relaxed);
        if let Some(line) = lines.get_mut(&self.id) {
            line.waiters -= 1;
            line.cost -= u128::from(self.cost);
            if line.waiters == 0 {
                lines.remove(&self.id);
            }
        }
    }
}

impl FirstInLine {
    /// Returns how often something was given back so far: to be read before the store is asked, so that nothing which is
    /// given back while the answer is on its way is missed.
    pub(super) fn given_back(&self) -> u64 {
        self.place.lines.lines.lock().get(&self.place.id).map_or(0, |line| line.given_back)
    }

    /// Sleeps for so long, or until something is given back that was not `seen`. By the timer of all limiters: within any
    /// runtime, outside of one, and in paused time.
    pub(super) async fn sleep(&self, time: Duration, seen: u64) {
        let alarm = one_permit();
        let _held = alarm.try_acquire_owned();
        match self.place.lines.lines.lock().get_mut(&self.place.id) {
            Some(line) if line.given_back == seen => line.alarm = Some(alarm.clone()),
            _ => return,
        }
        // The only permit is held here, so this ends with the deadline, or when the alarm is closed.
        let _ = alarm.acquire_owned().within(time).await;
    }
}
