//! What has happened so far, and what the guides say that it can do to limits and clients.
//!
//! Instants are nanoseconds since the turn began.

use std::time::Duration;

use crate::schedule::{Fault, Lane};

/// An instant, or a length of time.
pub(crate) type Nanos = u64;

pub(crate) const SECOND: Nanos = 1_000_000_000;

/// As seconds, for people.
pub(crate) fn seconds(nanos: Nanos) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

/// How long after the end of a fault clients may still notice it: service is back within three seconds
/// (docs/guide/distributed.md), and a second more for the machine.
pub(crate) const TAIL: Nanos = 4 * SECOND;

/// How long after the beginning of a turn they may: servers have been started, and make their first connections.
const START: Nanos = 3 * SECOND;

/// How long after the machine itself stood still they may.
const STALL_TAIL: Nanos = 2 * SECOND;

/// What a fault may do to what was counted: the whole of what may be admitted beside the quota, and no fault has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing is admitted that would not have been.
    Nothing,
    /// Every key starts fresh: a server that was flushed, or restarts without persistence
    /// (docs/guide/distributed.md, "What is not promised").
    Forgets,
    /// What was charged in so long a time before is forgotten: a server in memory is killed whose file of state is so old
    /// (docs/guide/operate.md, "What a crash can admit").
    ForgetsSince(Nanos),
    /// Writes that no replica has are lost: one more quota, and what refills until the last instance has left the old
    /// master (docs/guide/distributed.md, "When another master takes over").
    LosesWrites,
    /// The clock that decides went ahead by so much: that time has passed for the limits. A step back adds nothing
    /// (docs/guide/distributed.md, "When the server's clock steps back").
    Ahead(Nanos),
    /// Both: a server in memory that was killed, and whose clock went ahead meanwhile.
    ForgetsSinceAndAhead(Nanos, Nanos),
}

/// One fault that has happened.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    pub(crate) fault: Fault,
    /// The instance that it happened to; none if it was the store, or clients.
    pub(crate) instance: Option<usize>,
    pub(crate) began: Nanos,
    /// None while it lasts.
    pub(crate) ended: Option<Nanos>,
    pub(crate) effect: Effect,
}

impl Happened {
    /// Whether any of it lies in this span.
    fn is_within(&self, begin: Nanos, end: Nanos) -> bool {
        self.began <= end && self.ended.is_none_or(|ended| ended >= begin)
    }

    /// Whether good clients of an instance may get errors, or wait: not because of other clients, of files that were
    /// exchanged, of clocks, or of a store that was emptied.
    fn disturbs(&self, instance: usize) -> bool {
        match self.fault {
            Fault::InstanceKilled | Fault::InstanceFrozen | Fault::InstanceClock => {
                self.instance == Some(instance)
            }
            Fault::NodeKilled | Fault::NodeFrozen | Fault::FailoverPlanned | Fault::SlotMoved => true,
            _ => false,
        }
    }
}

/// Everything that has happened in a turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) happened: Vec<Happened>,
    /// When the machine stood still, and this process with it.
    pub(crate) stalls: Vec<(Nanos, Nanos)>,
}

impl Timeline {
    /// Notes a fault before it is inflicted. Returns its number.
    pub(crate) fn begin(
        &mut self,
        fault: Fault,
        instance: Option<usize>,
        now: Nanos,
        effect: Effect,
    ) -> usize {
        self.happened.push(Happened { fault, instance, began: now, ended: None, effect });
        self.happened.len() - 1
    }

    /// The faults that have to do with a span, and may admit something.
    pub(crate) fn effects(&self, begin: Nanos, end: Nanos) -> impl Iterator<Item = &Happened> {
        self.happened.iter().filter(move |one| one.effect != Effect::Nothing && one.is_within(begin, end))
    }

    /// Whether clients of an instance may have noticed anything in this span.
    pub(crate) fn is_disturbed(&self, instance: usize, begin: Nanos, end: Nanos) -> bool {
        let by_fault =
            |one: &Happened| one.disturbs(instance) && one.is_within(begin.saturating_sub(TAIL), end);
        let by_stall = |(from, to): &(Nanos, Nanos)| *from <= end && *to + STALL_TAIL >= begin;
        begin < START || self.happened.iter().any(by_fault) || self.stalls.iter().any(by_stall)
    }

    /// Whether the store may have failed in this span, so that failure modes answered: how much of it.
    pub(crate) fn without_store(&self, begin: Nanos, end: Nanos) -> Vec<Nanos> {
        let faults = self.happened.iter().filter(|one| one.fault.lane() == Lane::Nodes);
        let faults = faults.map(|one| (one.began, one.ended.unwrap_or(end) + TAIL));
        let stalls = self.stalls.iter().map(|(from, to)| (*from, to + STALL_TAIL));
        let all = faults.chain(stalls).chain([(0, START)]);
        all.filter(|(from, to)| *from <= end && *to >= begin)
            .map(|(from, to)| to.min(end) - from.max(begin).min(to.min(end)))
            .collect()
    }

    /// When clients of an instance could last have been disturbed, the tail not counted; `now` while they are.
    pub(crate) fn last_disturbance(&self, instance: usize, now: Nanos) -> Nanos {
        let faults = self.happened.iter().filter(|one| one.disturbs(instance));
        let faults = faults.map(|one| one.ended.unwrap_or(now));
        faults.chain(self.stalls.iter().map(|(_, to)| *to)).max().unwrap_or(0)
    }

    /// Whether something has happened in this span that may keep a limit from refilling: the store was away, a server in
    /// memory was, or a clock stepped back, and keys wait until it has caught up.
    pub(crate) fn is_held_up(&self, begin: Nanos, end: Nanos) -> bool {
        let by_fault = |one: &Happened| {
            let is_one = one.fault.lane() == Lane::Nodes || one.disturbs(one.instance.unwrap_or(0));
            is_one && one.is_within(begin, end)
        };
        self.happened.iter().any(by_fault)
            || self.stalls.iter().any(|(from, to)| *from <= end && *to >= begin)
    }

    /// The history as lines, for who has to find out what went wrong.
    pub(crate) fn lines(&self) -> Vec<String> {
        let of = |one: &Happened| {
            let ended =
                one.ended.map_or_else(|| "lasts".to_owned(), |ended| format!("to {:.2} s", seconds(ended)));
            let on = one.instance.map(|instance| format!(" of instance {instance}")).unwrap_or_default();
            format!("{:7.2} s {ended}: {}{on}, {:?}", seconds(one.began), one.fault.name(), one.effect)
        };
        let stall = |(from, to): &(Nanos, Nanos)| {
            format!("{:7.2} s to {:.2} s: the machine stood still", seconds(*from), seconds(*to))
        };
        self.happened.iter().map(of).chain(self.stalls.iter().map(stall)).collect()
    }
}
